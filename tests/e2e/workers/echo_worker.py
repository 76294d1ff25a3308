"""A worker that knows nothing of our code: only NATS, JSON and what AIP 1.0 says.

It registers a signed manifest with the gateway, serves `cap:python:echo` in its queue group, and answers. It shows what
a worker in any language has to do, and it must not use anything but the wire.
"""

import argparse
import asyncio
import base64
import json
import os
import signal
import time
from datetime import datetime, timezone

import nats
from nacl.signing import SigningKey

CAPABILITY = "cap:python:echo"
REGISTER_EVERY_S = 60
RETRY_EVERY_S = 1


def token(name):
    """A name as it stands in a subject (20.4)."""
    return "".join("_" if c in "./\\ " else c for c in name)


def now():
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def message_id():
    """A UUIDv7 with the prefix of its kind (5.3)."""
    raw = bytearray(int(time.time() * 1000).to_bytes(6, "big") + os.urandom(10))
    raw[6] = raw[6] & 0x0F | 0x70
    raw[8] = raw[8] & 0x3F | 0x80
    return "msg_" + raw.hex()


def did_key(public_key):
    """An Ed25519 public key as did:key: multicodec 0xed01, base58btc."""
    alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    number, text = int.from_bytes(b"\xed\x01" + public_key, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = alphabet[digit] + text
    return "did:key:z" + text


def canonical(value):
    """What is signed: members in order, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def envelope(message_type, key, body, sender, request=None):
    message = {
        "aip_version": "1.0",
        "message_type": message_type,
        "message_id": message_id(),
        "sent_at": now(),
        "from": sender,
        "body": {key: body},
    }
    if request:
        message["in_response_to"] = request["message_id"]
        if "correlation_id" in request:
            message["correlation_id"] = request["correlation_id"]
    return message


def sign(message, key):
    message["security"] = {"did": did_key(bytes(key.verify_key))}
    signature = key.sign(canonical(message)).signature
    message["security"]["signature"] = base64.b64encode(signature).decode()


def framed(message):
    """The TransportMessage and its headers (20.4)."""
    headers = {
        "AIP-Version": message["aip_version"],
        "AIP-Message-Type": message["message_type"],
        "AIP-Message-Id": message["message_id"],
    }
    if "correlation_id" in message:
        headers["AIP-Correlation-Id"] = message["correlation_id"]
    return json.dumps({"envelope": message}).encode(), headers


def manifest(agent, service):
    echo = {
        "id": CAPABILITY,
        "name": "Echo",
        "kind": "tool",
        "description": "Says what it was told, from Python.",
        "risk": "low",
        "input_schema": {
            "type": "object",
            "properties": {"text": {"type": "string", "maxLength": 1000}},
            "required": ["text"],
            "additionalProperties": False,
        },
        "output_schema": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "caller": {"type": "string"}, "attempt": {"type": "integer"}},
            "required": ["text", "caller", "attempt"],
        },
        "contract": {
            "side_effects": ["read"],
            "idempotency": {
                "requirement": "optional",
                "collision_behavior": "return_original_result",
                "key_scope": "principal",
            },
            "execution": {
                "supports_sync": True,
                "supports_async": False,
                "supports_streaming": False,
                "supports_cancel": False,
                "supports_retry": True,
                "expected_completion": "sync",
                "retry_safety": "safe",
            },
            "data": {"sensitivity": "public", "contains_pii": False, "redaction_required": False},
        },
    }
    handlers = [{"capability_id": CAPABILITY, "modes": ["sync"]}]
    return {
        "manifest_version": "aip-manifest/v1",
        "agent": agent,
        "capabilities": [echo],
        "profiles": ["aip.native.nats.v1"],
        "extensions": {"aip.worker": {"service": service, "version": "v1", "handlers": handlers}},
    }


def perform(request, metadata, agent):
    """Runs one action. Authority and deadline come from the trusted context, never from the input (11.2)."""
    action, context = request["body"]["action"], metadata["aip.trusted_context"]
    if action["capability_id"] != CAPABILITY or context["action_id"] != action["id"]:
        error = {
            "code": "aip.worker.unavailable",
            "message": "this worker does not offer the capability",
            "category": "connector",
            "retryable": True,
        }
        return envelope("aip.core.v1.error", "error", {"error": error}, agent, request)
    output = {
        "text": action["input"]["text"],
        "caller": context["principal"]["id"],
        "attempt": context["attempt"],
    }
    result = {"action_id": action["id"], "status": "completed", "output": output}
    return envelope("aip.core.v1.action_result", "action_result", result, agent, request)


async def keep_registered(nc, subject, agent, service, key):
    """Tells the gateway what is offered, until it is taken, and again now and then."""
    registered = False
    while True:
        message = envelope("aip.discovery.v1.manifest_response", "manifest", manifest(agent, service), agent)
        sign(message, key)
        payload, headers = framed(message)
        try:
            answer = json.loads((await nc.request(subject, payload, timeout=5, headers=headers)).data)["envelope"]
        except (nats.errors.Error, ValueError) as error:
            print(f"not registered yet: {error!r}", flush=True)
            await asyncio.sleep(RETRY_EVERY_S)
            continue
        error = answer["body"].get("error", {}).get("error")
        if error and not error.get("retryable"):
            raise SystemExit(f"the gateway refused the manifest: {error['code']}: {error['message']}")
        if error:
            print(f"not registered yet: {error['code']}", flush=True)
            await asyncio.sleep(RETRY_EVERY_S)
            continue
        if not registered:
            print("registered", flush=True)
        registered = True
        await asyncio.sleep(REGISTER_EVERY_S)


async def run(options):
    with open(options.key) as file:
        key = SigningKey(bytes.fromhex(file.read().strip()))
    with open(options.seed) as file:
        seed = file.read().strip()
    agent = {"id": options.principal, "kind": "agent"}
    nc = await nats.connect(
        options.url,
        nkeys_seed_str=seed,
        inbox_prefix=f"_INBOX.{options.identity}".encode(),
        name=options.identity,
        max_reconnect_attempts=-1,
    )

    async def serve(message):
        received = json.loads(message.data)
        answer = perform(received["envelope"], received.get("metadata", {}), agent)
        payload, headers = framed(answer)
        await nc.publish(message.reply, payload, headers=headers)

    domain = token(options.trust_domain)
    action = token("aip.core.v1.action")
    await nc.subscribe(f"aip.v1.{domain}.{options.service}.v1.{action}", queue=options.service, cb=serve)
    gateway = f"aip.v1.{domain}.gateway.v1." + token("aip.discovery.v1.manifest_response")
    registering = asyncio.create_task(keep_registered(nc, gateway, agent, options.service, key))

    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    stopping = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait({registering, stopping}, return_when=asyncio.FIRST_COMPLETED)
    registering.cancel()
    await nc.drain()
    if registering in done:
        registering.result()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", required=True, help="nats://host:port")
    parser.add_argument("--seed", required=True, help="file with the nkey seed of the identity")
    parser.add_argument("--key", required=True, help="file with the Ed25519 seed that signs the manifest, in hexadecimal")
    parser.add_argument("--identity", default="worker-python")
    parser.add_argument("--principal", default="agent:python")
    parser.add_argument("--service", default="python")
    parser.add_argument("--trust-domain", default="aip.local")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
