#!/usr/bin/env python3
"""Writes the test vectors of aip-crypto. See README.md; nothing here may be taken from the Rust code."""

import base64
import copy
import hashlib
import json
import sys
from decimal import Decimal
from pathlib import Path

import nacl.signing
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

HERE = Path(__file__).parent

# --- canonical JSON -------------------------------------------------------------------------------------------------


def read_integer(text):
    number = int(text)
    fits = -(2**63) <= number < 2**64 and text != "-0"
    return number if fits else float(text)


def parse(text):
    return json.loads(text, parse_int=read_integer)


def write_double(number):
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    digits = "".join(map(str, digits)).lstrip("0")
    stripped = digits.rstrip("0")
    exponent += len(digits) - len(stripped)
    digits = stripped or "0"
    if digits == "0":
        exponent = 0
    point = len(digits) + exponent
    minus = "-" if sign else ""
    if not -5 < point <= 16:
        fraction = "." + digits[1:] if len(digits) > 1 else ""
        return f"{minus}{digits[0]}{fraction}e{point - 1:+}"
    if point <= 0:
        return minus + "0." + "0" * -point + digits
    if point >= len(digits):
        return minus + digits + "0" * (point - len(digits)) + ".0"
    return minus + digits[:point] + "." + digits[point:]


def canonical(value):
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode())
        return "{" + ",".join(canonical(name) + ":" + canonical(value[name]) for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, float):
        return write_double(value)
    return json.dumps(value, ensure_ascii=False)


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


CANONICAL_TEXTS = {
    "scalars": '[null, true, false, "", {}, []]',
    "members are sorted at every level": '{"b": {"z": 1, "a": [{"y": 1, "x": 2}]}, "a": 0, "": 3, "B": 4, "aa": 5}',
    "names by code point, not by utf-16 unit": '{"\\ud83d\\ude00": 1, "\\uff5e": 2, "\\u00e9": 3, "e": 4, "e\\u0301": 5}',
    "escaped and plain spellings are one": '{"\\u0061": "\\u00e9\\/\\ud83d\\ude00", "b": "\\t\\u0009"}',
    "control characters": json.dumps("".join(map(chr, range(0x20))) + "\x7f\x80\u2028\u2029\ufeff\ufffd"),
    "quotes and backslashes": r'"\"quoted\" \\ back\\\\ / slash"',
    "integers": "[0, -1, 9007199254740993, 18446744073709551615, -9223372036854775808]",
    "integers beyond 64 bits are doubles": "[18446744073709551616, -9223372036854775809, 1000000000000000000000]",
    "zeros": "[0, 0.0, -0.0, -0, 0e10]",
    "doubles": "[0.1, 1.5, 100.0, 1.00, 1E2, 10e-1, 3.141592653589793, 4.35, 0.30000000000000004]",
    "plain and exponent notation": "[1e15, 1234567890123456.0, 1e16, 123456789012345678.0, 1e21, -1.5e300, 1e-5, -1.25e-5, 1e-6, 1.5e-7]",
    "limits of a double": "[1.7976931348623157e308, 5e-324, 2.2250738585072014e-308, 9007199254740993.0]",
    "white space goes": ' {\n\t"a" : [ 1 , 2 ] ,\r\n "b" : " kept  inside " } ',
    "only member names are sorted": '{"list": [3, 1, 2, "b", "a"], "text": "{\\"b\\":1,\\"a\\":2}"}',
}


def canonical_vectors():
    vectors = []
    for name, text in CANONICAL_TEXTS.items():
        form = canonical(parse(text))
        vectors.append({"name": name, "text": text, "canonical": form, "sha256": sha256(form)})
    return vectors


# --- did:key --------------------------------------------------------------------------------------------------------

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def base58(data):
    number = int.from_bytes(data, "big")
    digits = ""
    while number:
        number, digit = divmod(number, 58)
        digits = ALPHABET[digit] + digits
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + digits


def did(public, codec=b"\xed\x01"):
    return "did:key:z" + base58(codec + public)


def public_of(seed):
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
ORDER = 2**252 + 27742317777372353535851937790883648493


def recover_x(y):
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    return x if x * x % P == square else None


def add(a, b):
    (x1, y1), (x2, y2) = a, b
    k = D * x1 * x2 * y1 * y2
    return (x1 * y2 + x2 * y1) * pow(1 + k, -1, P) % P, (y1 * y2 + x1 * x2) * pow(1 - k, -1, P) % P


def multiply(scalar, point):
    result = (0, 1)
    while scalar:
        if scalar & 1:
            result = add(result, point)
        point = add(point, point)
        scalar >>= 1
    return result


def encode(point):
    x, y = point
    return (y | (x & 1) << 255).to_bytes(32, "little")


def small_order_points():
    y = 2
    while True:
        x = recover_x(y)
        if x is not None:
            torsion = multiply(ORDER, (x, y))
            if multiply(4, torsion) != (0, 1):
                return [multiply(k, torsion) for k in range(8)]
        y += 1


def did_vectors():
    seeds = {
        "rfc 8032 test 1": bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"),
        "rfc 8032 test 2": bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"),
        "zeros": bytes(32),
        "ones": b"\xff" * 32,
        "counting": bytes(range(32)),
    }
    valid = []
    for name, seed in seeds.items():
        public = public_of(seed)
        assert public == bytes(nacl.signing.SigningKey(seed).verify_key)
        valid.append({"name": name, "seed": seed.hex(), "public_key": public.hex(), "did": did(public)})

    good = public_of(bytes(range(32)))
    text = did(good)
    refused = [
        ("empty", "", "Scheme"),
        ("another method", "did:web:example.org", "Scheme"),
        ("another multibase", "did:key:f" + (b"\xed\x01" + good).hex(), "Scheme"),
        ("upper-case multibase", text.replace(":z", ":Z"), "Scheme"),
        ("upper-case scheme", text.replace("did", "DID"), "Scheme"),
        ("leading space", " " + text, "Scheme"),
        ("no key", "did:key:z", "Length"),
        ("with fragment", text + "#" + text[8:], "Length"),
        ("trailing new line", text + "\n", "Length"),
        ("leading zero byte", "did:key:z1" + text[9:], "Length"),
        ("one byte short", did(good[:31]), "Length"),
        ("one byte long", did(good + b"\0"), "Length"),
        ("very long", "did:key:z" + "6" * 10000, "Length"),
        ("ambiguous character", text[:-1] + "l", "Base58"),
        ("not ascii", text[:-2] + "é", "Base58"),
        ("x25519 codec", did(good, b"\xec\x01"), "Multicodec"),
        ("codec without second byte", did(b"\0" + good, b"\xed"), "Multicodec"),
        ("p-256 codec", did(good, b"\x80\x24"), "Multicodec"),
    ]
    y = next(y for y in range(2, 19) if recover_x(y) is not None)
    refused.append(("y above the prime", did((P + y).to_bytes(32, "little")), "Key"))
    y = next(y for y in range(2, P) if recover_x(y) is None)
    refused.append(("not on the curve", did(y.to_bytes(32, "little")), "Key"))
    refused.append(("x zero with sign", did((1 | 1 << 255).to_bytes(32, "little")), "Key"))
    for k, point in enumerate(small_order_points()):
        refused.append((f"small order {k}", did(encode(point)), "Weak"))
    refused = [{"name": name, "did": text, "error": error} for name, text, error in refused]
    return {"valid": valid, "refused": refused}


# --- signed envelopes -----------------------------------------------------------------------------------------------


def signing_text(envelope):
    bare = copy.deepcopy(envelope)
    bare["security"].pop("signature", None)
    return canonical(bare)


def sign(envelope, seed):
    signed = copy.deepcopy(envelope)
    signed["security"] = {**(signed.get("security") or {}), "did": did(public_of(seed))}
    message = signing_text(signed).encode()
    signature = Ed25519PrivateKey.from_private_bytes(seed).sign(message)
    nacl.signing.VerifyKey(public_of(seed)).verify(message, signature)
    signed["security"]["signature"] = base64.b64encode(signature).decode()
    return signed


def envelope(number, **members):
    return {
        "aip_version": "1.0",
        "message_type": "aip.core.v1.action",
        "message_id": f"msg_0197f3a0c0de7000800000000000000{number}",
        "sent_at": "2026-12-01T08:00:00Z",
        "from": {"id": "principal:tests", "kind": "agent"},
        "body": {
            "action": {
                "id": f"act_0197f3a0c0de7000800000000000000{number}",
                "capability_id": "cap:restaurant:book",
                "mode": "sync",
                "input": {"table": 4, "price": 12.5, "note": "zwölf \"Gäste\"\n\U0001f37d"},
            }
        },
        **members,
    }


def envelope_vectors():
    seed = bytes(range(32))
    other = bytes(range(1, 33))
    sources = {
        "plain": envelope(1),
        "security null": envelope(2, security=None),
        "other security members are signed": envelope(3, security={"nonce": "n-1", "a": [1, {"signature": "kept"}]}),
        "members named signature elsewhere": envelope(
            4,
            signature="top",
            extensions={"signature": "x", "security": {"signature": "y", "did": "z"}},
        ),
        "an earlier signature is replaced": envelope(5, security={"did": "did:key:zOld", "signature": "old"}),
        "numbers": envelope(6, extensions={"n": [0, -1, 1.0, 1e21, 1e-7, 2**64 - 1, -(2**63)]}),
    }
    signed = []
    for name, source in sources.items():
        result = sign(source, seed)
        signed.append(
            {"name": name, "seed": seed.hex(), "unsigned": source, "signing_text": signing_text(result), "signed": result}
        )

    refused = []

    def refuse(name, error, change):
        altered = sign(sources["plain"], seed)
        altered = change(altered) or altered
        refused.append({"name": name, "error": error, "envelope": altered})

    def security(**members):
        return lambda e: e["security"].update(members)

    signature = base64.b64decode(sign(sources["plain"], seed)["security"]["signature"])
    scalar = int.from_bytes(signature[32:], "little")
    b64 = lambda data: base64.b64encode(data).decode()
    refuse("not an object", "NotAnObject", lambda e: [e])
    refuse("no security", "SecurityMissing", lambda e: e.pop("security") and e)
    refuse("security null", "SecurityMissing", lambda e: e.update(security=None))
    refuse("security a string", "SecurityNotAnObject", lambda e: e.update(security="signed"))
    refuse("no did", "DidMissing", lambda e: e["security"].pop("did") and None)
    refuse("did a number", "DidMissing", security(did=1))
    refuse("did of another method", "Did", security(did="did:web:example.org"))
    refuse("no signature", "SignatureMissing", lambda e: e["security"].pop("signature") and None)
    refuse("signature a list", "SignatureMissing", security(signature=[]))
    refuse("signature in url-safe base64", "SignatureEncoding", security(signature="_-" + b64(signature)[2:]))
    refuse("signature without padding", "SignatureEncoding", security(signature=b64(signature).rstrip("=")))
    last = b64(signature)[85]
    loose = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    refuse(
        "signature with loose bits",
        "SignatureEncoding",
        security(signature=b64(signature)[:85] + loose[loose.index(last) + 1] + "=="),
    )
    refuse("signature in hexadecimal", "SignatureLength", security(signature=signature.hex()))
    refuse("signature empty", "SignatureLength", security(signature=""))
    refuse("signature short", "SignatureLength", security(signature=b64(signature[:63])))
    refuse("signature long", "SignatureLength", security(signature=b64(signature + b"\0")))
    refuse("signature of zeros", "Mismatch", security(signature=b64(bytes(64))))
    refuse(
        "signature with a scalar above the order",
        "Mismatch",
        security(signature=b64(signature[:32] + (scalar + ORDER).to_bytes(32, "little"))),
    )
    refuse("did of another key", "Mismatch", security(did=did(public_of(other))))
    refuse("security grew", "Mismatch", security(extra=1))
    refuse("body changed", "Mismatch", lambda e: e["body"]["action"]["input"].update(table=5))
    refuse("one for 1.0", "Mismatch", lambda e: e["body"]["action"]["input"].update(table=4.0))
    refuse("member added", "Mismatch", lambda e: e.update(extensions=None))
    refuse("member removed", "Mismatch", lambda e: e.pop("from") and None)
    refuse("named signature elsewhere", "Mismatch", lambda e: e["body"].update(signature=1))
    return {"signed": signed, "refused": refused}


# --- receipts -------------------------------------------------------------------------------------------------------


def receipt_hash(receipt):
    return sha256(canonical({name: value for name, value in receipt.items() if name != "hash"}))


def link(receipts):
    previous = None
    for receipt in receipts:
        receipt.pop("previous_hash", None)
        if previous:
            receipt["previous_hash"] = previous
        previous = receipt["hash"] = receipt_hash(receipt)
    return receipts


def root(receipts):
    return sha256("".join(receipt["hash"] for receipt in receipts))


def receipts(count):
    types = ["request_received", "policy_decision", "action_accepted", "tool_executed", "result_returned"]
    return link(
        [
            {
                "id": f"rcpt_0197f3a0c0de70008000{number:012x}",
                "receipt_type": types[number % 5],
                "actor": {"id": "gateway", "kind": "service"},
                "occurred_at": f"2026-12-01T08:00:0{number % 10}.{number:03}Z",
                "correlation_id": None if number % 2 else "corr_0197f3a0c0de70008000000000000001",
                "data": {"hash": "kept", "previous_hash": None, "cost": number / 4, "ö": [number, {"b": 1, "a": 2}]},
            }
            for number in range(count)
        ]
    )


def chain(items, **members):
    return {"chain_id": "act_0197f3a0c0de70008000000000000001", "receipts": items, "root_hash": root(items), **members}


def receipt_vectors():
    good = [{"name": f"{count} receipts", "chain": chain(receipts(count))} for count in (1, 2, 5)]
    good.append({"name": "empty", "chain": {"chain_id": "c", "receipts": []}})
    good.append({"name": "empty with root", "chain": {"chain_id": "c", "receipts": [], "root_hash": sha256("")}})
    tampered = []

    def tamper(name, index, fault, change, root_too=True):
        items = receipts(5)
        items = change(items) or items
        result = chain(items) if root_too else {**chain(items), "root_hash": root(receipts(5))}
        tampered.append({"name": name, "index": index, "fault": fault, "chain": result})

    def rewrite(number, **members):
        def change(items):
            items[number].update(members)
            items[number]["hash"] = receipt_hash(items[number])

        return change

    for number in range(5):
        tamper(f"data of {number}", number, "HashMismatch", lambda r: r[number]["data"].update(cost=99))
        tamper(f"hash of {number}", number, "HashMismatch", lambda r: r[number].update(hash="0" * 64))
    tamper("upper-case hash", 2, "HashMismatch", lambda r: r[2].update(hash=r[2]["hash"].upper()))
    tamper("null member dropped", 1, "HashMismatch", lambda r: r[1].pop("correlation_id", 0) and None)
    tamper("link changed", 3, "HashMismatch", lambda r: r[3].update(previous_hash=r[1]["hash"]))
    tamper("link changed and hashed again", 3, "LinkMismatch", lambda r: rewrite(3, previous_hash=r[1]["hash"])(r))
    tamper("link null", 3, "PreviousMissing", rewrite(3, previous_hash=None))
    tamper("link a number", 3, "LinkMismatch", rewrite(3, previous_hash=7))
    tamper("first has a link", 0, "FirstHasPrevious", rewrite(0, previous_hash="0" * 64))
    tamper("replaced by another", 3, "LinkMismatch", rewrite(2, data="another"))
    tamper("first removed", 0, "FirstHasPrevious", lambda r: r[1:])
    tamper("one removed", 2, "LinkMismatch", lambda r: r[:2] + r[3:])
    tamper("two swapped", 2, "LinkMismatch", lambda r: r[:2] + [r[3], r[2]] + r[4:])
    tamper("one twice", 3, "LinkMismatch", lambda r: r[:3] + r[2:])
    tamper("id twice", 4, "DuplicateId", lambda r: (r[4].update(id=r[0]["id"]), link(r))[1])
    tamper("no id", 2, "IdMissing", lambda r: (r[2].pop("id"), link(r))[1])
    tamper("last replaced", None, "RootMismatch", rewrite(4, data="another"), root_too=False)
    tamper("last removed", None, "RootMismatch", lambda r: r[:4], root_too=False)
    tamper("all removed", None, "RootMismatch", lambda r: [r.pop() for _ in range(5)] and [], root_too=False)

    def bare(name, fault, index=None, **members):
        result = {**chain(receipts(2)), **members}
        tampered.append({"name": name, "index": index, "fault": fault, "chain": result})

    bare("no root", "RootMissing", root_hash=None)
    bare("root a number", "RootMismatch", root_hash=1)
    bare("upper-case root", "RootMismatch", root_hash=root(receipts(2)).upper())
    bare("receipts not a list", "NotAChain", receipts={})
    bare("receipt not an object", "NotAnObject", 0, receipts=["rcpt"])
    bare("no hash", "HashMissing", 0, receipts=[{"id": "rcpt_1"}])
    return {"good": good, "tampered": tampered}


# --- session encryption ---------------------------------------------------------------------------------------------


def session_vectors():
    session_id = "sess_0197f3a0c0de70008000000000000001"
    epochs = []
    for epoch in range(2):
        initiator = X25519PrivateKey.from_private_bytes(hashlib.sha256(b"initiator %d" % epoch).digest())
        responder = X25519PrivateKey.from_private_bytes(hashlib.sha256(b"responder %d" % epoch).digest())
        shared = initiator.exchange(responder.public_key())
        assert shared == responder.exchange(initiator.public_key())
        key = HKDF(hashes.SHA256(), 32, session_id.encode(), b"aip-session-v1").derive(shared)
        messages = []
        for sender, texts in enumerate((["", "first", "zweite \U0001f510"], ["answer", "x" * 100])):
            for sequence, text in enumerate(texts):
                nonce = bytes([sender]) + epoch.to_bytes(3, "big") + sequence.to_bytes(8, "big")
                data = bytes([sender]) + epoch.to_bytes(4, "big") + sequence.to_bytes(8, "big") + session_id.encode()
                messages.append(
                    {
                        "sender": ["initiator", "responder"][sender],
                        "sequence": sequence,
                        "plaintext": text,
                        "nonce": nonce.hex(),
                        "associated_data": data.hex(),
                        "ciphertext": AESGCM(key).encrypt(nonce, text.encode(), data).hex(),
                    }
                )
        raw = (Encoding.Raw, PublicFormat.Raw)
        epochs.append(
            {
                "epoch": epoch,
                "initiator_secret": initiator.private_bytes_raw().hex(),
                "initiator_public": initiator.public_key().public_bytes(*raw).hex(),
                "responder_secret": responder.private_bytes_raw().hex(),
                "responder_public": responder.public_key().public_bytes(*raw).hex(),
                "shared_secret": shared.hex(),
                "key": key.hex(),
                "messages": messages,
            }
        )
    weak = []
    for number in (0, 1, 325606250916557431795983626356110631294008115727848805560023387167927233504):
        public = number.to_bytes(32, "little")
        try:
            X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(public))
            raise AssertionError("openssl takes a weak key")
        except ValueError:
            weak.append(public.hex())
    return {"session_id": session_id, "epochs": epochs, "weak_public_keys": weak}


def lines(vectors):
    """One vector a line, so that a change shows as the vectors it touches."""
    if isinstance(vectors, list):
        return "[\n" + ",\n".join(json.dumps(vector) for vector in vectors) + "\n]"
    if not isinstance(vectors, dict):
        return json.dumps(vectors)
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {lines(value)}" for name, value in vectors.items()) + "\n}"


def main():
    files = {
        "canonical.json": canonical_vectors(),
        "did.json": did_vectors(),
        "envelopes.json": envelope_vectors(),
        "receipts.json": receipt_vectors(),
        "session.json": session_vectors(),
    }
    stale = []
    for name, vectors in files.items():
        text = lines(vectors) + "\n"
        if "--check" in sys.argv:
            if (HERE / name).read_text() != text:
                stale.append(name)
        else:
            (HERE / name).write_text(text)
    sys.exit(f"differ: {stale}" if stale else 0)


if __name__ == "__main__":
    main()
