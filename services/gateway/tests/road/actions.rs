use aip_gateway::ACK_EXTENSION;
use aip_wire::MessageType;
use aip_wire::codes;
use serde_json::{Value, json};

use super::world::*;

#[tokio::test(flavor = "multi_thread")]
async fn an_action_is_executed_once_and_its_duplicates_are_answered_from_it() {
    let world = World::new().await;
    let (worker, _serving) = world.serve().await;
    let mut first = action(json!({"idempotency_key": "k"}));
    let reply = world.call(&first).await;
    assert_eq!(reply.status, 200, "{}", reply.envelope);
    let result = &reply.envelope["body"]["action_result"];
    assert_eq!((&result["status"], &result["output"]), (&json!("completed"), &json!({"said": "it"})));
    assert!(result["receipt"]["hash"].is_string());
    assert_eq!(reply.envelope["to"]["id"], "service:client");
    // the worker got the frozen context
    let id = first["id"].as_str().unwrap().to_owned();
    let contexts = worker.dispatches(&id);
    assert_eq!(contexts.len(), 1);
    assert_eq!(contexts[0].principal.id, "service:client");
    assert_eq!((contexts[0].tenant.as_deref(), contexts[0].attempt), (Some("acme"), 1));
    // the same action again, and another under the same key
    let again = world.call(&first).await;
    assert_eq!(again.envelope["body"], reply.envelope["body"]);
    assert_eq!(again.envelope["extensions"][ACK_EXTENSION]["status"], "cached");
    first["id"] = json!("act_other");
    let other = world.call(&first).await;
    assert_eq!(other.envelope["body"], reply.envelope["body"]);
    assert!(worker.dispatches("act_other").is_empty());
    // another input under the key, or under the id
    first["input"] = json!({"do": "fail"});
    assert_eq!(code(&world.call(&first).await), codes::IDEMPOTENCY_CONFLICT.name);
    let conflict = action(json!({"id": id, "input": {"do": "fail"}}));
    let reply = world.call(&conflict).await;
    assert_eq!((code(&reply), reply.status), (codes::ACTION_ID_CONFLICT.name, 409));
    assert_eq!(worker.dispatches(&id).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envelopes_key_is_one_delivery() {
    let world = World::new().await;
    let (worker, _serving) = world.serve().await;
    let deliver = |action: Value| {
        let mut message = envelope(MessageType::Action, action);
        message["idempotency_key"] = json!("delivery-1");
        signed(message, &world.client_key)
    };
    let first = world.send(&deliver(action(json!({"id": "act_1"})))).await;
    let second = world.send(&deliver(action(json!({"id": "act_2"})))).await;
    assert_eq!(first.envelope["body"], second.envelope["body"], "{}", second.envelope);
    assert_eq!(worker.dispatches("act_1").len(), 1);
    assert!(worker.dispatches("act_2").is_empty());
    let other = world.send(&deliver(action(json!({"id": "act_3", "input": {"do": "fail"}})))).await;
    assert_eq!(code(&other), codes::IDEMPOTENCY_CONFLICT.name);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_may_leave_its_id_to_us_and_others_may_not_be_posted_there() {
    let world = World::new().await;
    let (_worker, _serving) = world.serve().await;
    let mut bare = action(json!({}));
    bare.as_object_mut().unwrap().remove("id");
    let reply = world.call(&bare).await;
    assert!(reply.envelope["body"]["action_result"]["action_id"].as_str().unwrap().starts_with("act_"));
    let read = envelope(MessageType::ManifestRequest, json!({}));
    assert_eq!(code(&world.call(&read).await), codes::ENVELOPE_NOT_SERVED.name);
    // a whole envelope is taken too
    let whole = envelope(MessageType::Action, action(json!({})));
    assert_eq!(world.call(&whole).await.envelope["body"]["action_result"]["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_wrong_has_its_code_and_is_not_executed() {
    let world = World::new().await;
    let (worker, _serving) = world.serve().await;
    for (wrong, expected, status) in [
        (json!({"capability_id": "cap:test:none"}), codes::CAPABILITY_UNKNOWN, 404),
        (json!({"input": {"do": 1}}), codes::ACTION_INPUT, 400),
        (json!({"input": {}}), codes::ACTION_INPUT, 400),
        (json!({"mode": "async"}), codes::CAPABILITY_MODE, 400),
        (json!({"timeout_ms": 0}), codes::ENVELOPE_RULE, 400),
        (json!({"timeout_ms": 999_999_999}), codes::LIMIT_TIMEOUT, 400),
        (json!({"memory_context": {}}), codes::UNSUPPORTED_MEMORY, 501),
        (json!({"transaction": {"mode": "dry_run"}}), codes::UNSUPPORTED_TRANSACTION, 501),
        (json!({"unknown": 1}), codes::ENVELOPE_SHAPE, 400),
        (json!({"identity": {"tenant": {"id": "beta"}}}), codes::TENANT_MISMATCH, 403),
    ] {
        let wrong = action(wrong);
        let reply = world.call(&wrong).await;
        assert_eq!((code(&reply), reply.status), (expected.name, status), "{wrong}");
        assert!(worker.dispatches(wrong["id"].as_str().unwrap()).is_empty());
    }
    let unknown = world.call_as("nobody's token", &action(json!({}))).await;
    assert_eq!((code(&unknown), unknown.status), (codes::AUTH_TOKEN.name, 401));
    // an input refusal tells where, never what
    let secret = world.call(&action(json!({"input": {"do": ["swordfish"]}}))).await;
    assert_eq!(secret.envelope["body"]["error"]["error"]["details"]["path"], "/body/action/input/do");
    assert!(!secret.envelope.to_string().contains("swordfish"));
}

#[tokio::test(flavor = "multi_thread")]
async fn message_types_of_later_releases_and_answers_are_refused() {
    let world = World::new().await;
    let cancel = envelope(MessageType::Cancel, json!({"target": {"session": "sess_1"}}));
    let reply = world.send(&signed(cancel, &world.client_key)).await;
    assert_eq!((code(&reply), reply.status), (codes::UNSUPPORTED_SESSION.name, 501));
    let answer = envelope(MessageType::Ack, json!({"action_id": "act_1", "status": "accepted"}));
    let reply = world.send(&signed(answer, &world.client_key)).await;
    assert_eq!(code(&reply), codes::ENVELOPE_NOT_SERVED.name);
    assert_eq!(reply.envelope["correlation_id"], "corr_1");
}
