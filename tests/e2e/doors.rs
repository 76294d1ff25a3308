//! Bad input at every door of the running system: each gets its code and status, and nothing is lost by it.

use aip_crypto::{SigningKey, sign_envelope};
use serde_json::{Value, json};

use crate::harness::{Dev, id};

const SEARCH: &str = "cap:restaurant:table:search";

fn action() -> Value {
    json!({"id": id("act_"), "capability_id": SEARCH, "input": {"date": "2027-03-14", "time": "19:00", "party": 2}})
}

fn envelope(body: Value) -> Value {
    json!({"aip_version": "1.0", "message_type": "aip.core.v1.action", "message_id": id("msg_"),
           "sent_at": now(0), "from": {"id": "service:dev-client", "kind": "service"}, "body": {"action": body}})
}

fn now(offset_s: i64) -> String {
    let at = time::OffsetDateTime::now_utc() + time::Duration::seconds(offset_s);
    at.format(&time::format_description::well_known::Rfc3339).unwrap()
}

/// A door and every answer of it that was not the expected one: told together.
struct Door<'a> {
    dev: &'a Dev,
    wrong: std::cell::RefCell<Vec<String>>,
}

impl Door<'_> {
    fn of(dev: &Dev) -> Door<'_> {
        Door { dev, wrong: std::cell::RefCell::default() }
    }

    fn all_as_expected(self) {
        let wrong = self.wrong.into_inner();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// POSTs bytes with the API key; the answer must be an error with this status and code.
    async fn refuses(&self, what: &str, bytes: impl Into<Vec<u8>>, status: u16, code: &str) {
        let request = self.dev.http.post(format!("{}/aip/v1/messages", self.dev.url));
        let request = request.bearer_auth(self.dev.api_key()).header("Content-Type", "application/aip+json");
        self.check(what, request.body(bytes.into()), status, code).await;
    }

    /// The same without a token: what counts is the signature in it.
    async fn refuses_signed(&self, what: &str, message: &Value, status: u16, code: &str) {
        let request = self.dev.http.post(format!("{}/aip/v1/messages", self.dev.url));
        self.check(what, request.json(message), status, code).await;
    }

    async fn check(&self, what: &str, request: reqwest::RequestBuilder, status: u16, code: &str) {
        let response = request.send().await.unwrap_or_else(|error| panic!("{what}: {error:?}"));
        let got = response.status().as_u16();
        let reply: Value = response.json().await.unwrap_or_default();
        let error = &reply["body"]["error"]["error"];
        let told = error["message"].as_str().is_some_and(|message| !message.is_empty());
        if (got, error["code"].as_str()) != (status, Some(code)) || !told {
            self.wrong.borrow_mut().push(format!("{what}: wanted {status} {code}, got {got} {error}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_gets_its_code_over_http() {
    let dev = Dev::start().await;
    let door = Door::of(&dev);
    door.refuses("no JSON", "{", 400, "aip.json.malformed").await;
    door.refuses("not UTF-8", b"{\"a\":\"\xff\"}".to_vec(), 400, "aip.json.invalid_utf8").await;
    let twice = envelope(action()).to_string().replacen('{', "{\"aip_version\":\"1.0\",", 1);
    door.refuses("a member twice", twice, 400, "aip.json.duplicate_member").await;
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    door.refuses("deeply nested", deep, 400, "aip.limit.depth").await;
    let large = envelope(json!({"pad": "x".repeat(600_000)})).to_string();
    door.refuses("oversized", large, 413, "aip.http.payload_too_large").await;
    let mut message = envelope(action());
    message["aip_version"] = json!("2.0");
    door.refuses("a version to come", message.to_string(), 400, "aip.envelope.version_unsupported").await;
    let mut message = envelope(action());
    message["message_type"] = json!("aip.core.v9.action");
    door.refuses("an unknown type", message.to_string(), 400, "aip.envelope.message_type_unsupported").await;
    let mut message = envelope(action());
    message["message_type"] = json!("aip.core.v1.ack");
    door.refuses("another type", message.to_string(), 400, "aip.envelope.message_type_mismatch").await;
    let mut message = envelope(action());
    message["extra"] = json!(1);
    door.refuses("an unknown member", message.to_string(), 400, "aip.envelope.schema_invalid").await;
    let mut bad = action();
    bad["timeout_ms"] = json!(0);
    door.refuses("a timeout of nothing", envelope(bad).to_string(), 400, "aip.envelope.rule_violated").await;
    for (id, code) in [("", "aip.envelope.rule_violated"), (&*"a".repeat(300), "aip.limit.string_bytes")] {
        let mut bad = action();
        bad["id"] = json!(id);
        door.refuses("an id that nobody can ask for", envelope(bad).to_string(), 400, code).await;
    }
    let mut bad = action();
    bad["capability_id"] = json!("cap:nobody:offers:this");
    door.refuses("an unknown capability", envelope(bad).to_string(), 404, "aip.capability.unknown").await;
    let mut bad = action();
    bad["input"] = json!({"date": "tomorrow"});
    door.refuses(
        "an input that the schema forbids",
        envelope(bad).to_string(),
        400,
        "aip.action.invalid_input",
    )
    .await;
    let mut bad = action();
    bad["mode"] = json!("streaming");
    door.refuses(
        "a mode that the contract lacks",
        envelope(bad).to_string(),
        400,
        "aip.capability.mode_unsupported",
    )
    .await;
    let transfer = json!({"id": id("act_"), "capability_id": "cap:accounts:transfer:create",
                          "input": {"from": "checking", "to": "savings", "amount_minor": 1}});
    door.refuses(
        "no key where one is required",
        envelope(transfer.clone()).to_string(),
        400,
        "aip.idempotency.key_required",
    )
    .await;
    let (first, mut second) = (id("key-"), transfer.clone());
    second["idempotency_key"] = json!(first);
    let (status, reply) = dev.action(&second).await;
    assert_eq!((status, &reply["body"]["action_result"]["status"]), (200, &json!("completed")), "{reply}");
    second["id"] = json!(id("act_"));
    second["input"]["amount_minor"] = json!(2);
    door.refuses(
        "another input under the key",
        envelope(second).to_string(),
        409,
        "aip.idempotency.conflict",
    )
    .await;

    let unknown = format!("/aip/v1/actions/{}", id("act_"));
    let (status, reply) = dev.get(&unknown).await;
    assert_eq!((status, &reply["body"]["error"]["error"]["code"]), (404, &json!("aip.action.not_found")));
    let (status, reply) = dev.get(&format!("{unknown}?wait_ms=30001")).await;
    assert_eq!(status, 400, "{reply}");
    let url = format!("{}/aip/v1/actions", dev.url);
    door.check("no token", dev.http.post(&url).json(&action()), 401, "aip.auth.missing").await;
    door.check(
        "a wrong token",
        dev.http.post(&url).bearer_auth("aip_wrong").json(&action()),
        401,
        "aip.auth.token_invalid",
    )
    .await;
    door.check(
        "no media type",
        dev.http.post(&url).bearer_auth(dev.api_key()).body("{}"),
        415,
        "aip.http.media_type_unsupported",
    )
    .await;
    door.check(
        "another method",
        dev.http.delete(&url).bearer_auth(dev.api_key()),
        405,
        "aip.http.method_not_allowed",
    )
    .await;
    door.check("another path", dev.http.get(format!("{}/aip/v2", dev.url)), 404, "aip.http.route_not_found")
        .await;
    door.all_as_expected();
}

#[tokio::test(flavor = "multi_thread")]
async fn signatures_replays_and_clocks_are_judged() {
    let dev = Dev::start().await;
    let door = Door::of(&dev);
    let key = SigningKey::load(&dev.file("keys/client.key")).unwrap();
    let signed = |mut message: Value, key: &SigningKey| {
        sign_envelope(&mut message, key).unwrap();
        message
    };
    let good = signed(envelope(action()), &key);
    let reply: Value = dev
        .http
        .post(format!("{}/aip/v1/messages", dev.url))
        .json(&good)
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(reply["body"]["action_result"]["status"], "completed", "{reply}");
    let signer = aip_crypto::verify_envelope(&reply).unwrap();
    assert_eq!(reply["security"]["did"], signer.to_string(), "replies to signed requests are signed");
    assert_eq!(reply["in_response_to"], good["message_id"]);

    door.refuses_signed("the same message again", &good, 409, "aip.auth.replay").await;
    let mut tampered = signed(envelope(action()), &key);
    tampered["body"]["action"]["input"]["party"] = json!(3);
    door.refuses_signed("a tampered message", &tampered, 401, "aip.auth.signature_invalid").await;
    let stranger = SigningKey::generate().unwrap();
    let unknown = signed(envelope(action()), &stranger);
    door.refuses_signed("an unknown signer", &unknown, 401, "aip.auth.signer_unknown").await;
    let mut claims = envelope(action());
    claims["from"]["id"] = json!("service:sandbox");
    door.refuses_signed("another sender's name", &signed(claims, &key), 401, "aip.auth.claim_mismatch").await;
    for offset_s in [-3600, 3600] {
        let mut skewed = envelope(action());
        skewed["sent_at"] = json!(now(offset_s));
        door.refuses_signed("a clock far away", &signed(skewed, &key), 401, "aip.auth.skew").await;
    }
    door.all_as_expected();
}

#[tokio::test(flavor = "multi_thread")]
async fn misbehaving_workers_get_their_code_and_are_not_called_again() {
    let dev = Dev::start().await;
    for (mode, code) in [
        ("garbage", "aip.action.uncertain_outcome"),
        ("oversize", "aip.action.uncertain_outcome"),
        ("wrong_action", "aip.action.uncertain_outcome"),
        ("panic", "aip.action.uncertain_outcome"),
        ("crash", "aip.action.uncertain_outcome"),
        ("hang", "aip.action.uncertain_outcome"),
    ] {
        let action = json!({"id": id("act_"), "capability_id": "cap:chaos:misbehave", "timeout_ms": 3000,
                            "input": {"mode": mode}});
        let result = crate::kills::call_until_settled(&dev, &action).await;
        assert_eq!(result["status"], "failed", "{mode}: {result}");
        assert_eq!(result["error"]["code"], code, "{mode}: {result}");
    }
    let wrong =
        json!({"id": id("act_"), "capability_id": "cap:chaos:misbehave", "input": {"mode": "wrong_schema"}});
    let result = crate::kills::call_until_settled(&dev, &wrong).await;
    assert_eq!(result["error"]["code"], "aip.action.invalid_output", "{result}");
    let question = json!({"id": id("act_"), "capability_id": "cap:chaos:effects:read",
                          "input": {"capability_id": "cap:chaos:misbehave"}});
    let counted = crate::kills::call_until_settled(&dev, &question).await;
    assert_eq!(counted["output"]["effects"], 7, "each was done once: {counted}");
}
