use aip_crypto::verify_envelope;
use aip_wire::{MessageType, Timestamp, codes};
use serde_json::json;

use super::world::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_request_gets_a_signed_reply_that_names_it() {
    let world = World::new().await;
    let (_worker, _serving) = world.serve().await;
    let request = signed(envelope(MessageType::Action, action(json!({}))), &world.client_key);
    let reply = world.send(&request).await;
    assert_eq!(reply.envelope["body"]["action_result"]["status"], "completed", "{}", reply.envelope);
    assert_eq!(reply.envelope["in_response_to"], request["message_id"]);
    assert_eq!(reply.envelope["correlation_id"], request["correlation_id"]);
    let did = verify_envelope(&reply.envelope).unwrap();
    assert_eq!(reply.envelope["from"]["did"], did.as_str());
    assert_eq!(reply.envelope["from"]["id"], aip_gateway::PRINCIPAL);
    // so is a refusal, but not one of somebody unknown
    let wrong = signed(envelope(MessageType::Action, action(json!({"input": {}}))), &world.client_key);
    let refused = world.send(&wrong).await;
    assert_eq!(code(&refused), codes::ACTION_INPUT.name);
    verify_envelope(&refused.envelope).unwrap();
    let stranger = signed(
        envelope(MessageType::Action, action(json!({}))),
        &aip_crypto::SigningKey::from_seed(&[7; 32]),
    );
    let refused = world.send(&stranger).await;
    assert_eq!((code(&refused), refused.status), (codes::AUTH_SIGNER.name, 401));
    assert!(refused.envelope.get("security").is_none());
    assert_eq!(refused.envelope["in_response_to"], stranger["message_id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_message_is_taken_once_whatever_it_is() {
    let world = World::new().await;
    let (worker, _serving) = world.serve().await;
    let acting = action(json!({}));
    for message in [
        envelope(MessageType::Action, acting.clone()),
        envelope(MessageType::Action, acting.clone()),
        envelope(MessageType::Action, action(json!({"input": {}}))),
        envelope(MessageType::ActionStatusRequest, json!({"action_id": acting["id"]})),
        envelope(MessageType::ActionStatusRequest, json!({"action_id": "act_none"})),
        envelope(MessageType::Cancel, json!({"target": {"action": "act_1"}})),
    ] {
        let message = signed(message, &world.client_key);
        let first = world.send(&message).await;
        assert_ne!(code(&first), codes::AUTH_REPLAY.name, "{message}");
        let again = world.send(&message).await;
        assert_eq!((code(&again), again.status), (codes::AUTH_REPLAY.name, 409), "{message}");
    }
    assert_eq!(worker.dispatches(acting["id"].as_str().unwrap()).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_changed_unsigned_or_sent_long_ago_is_refused() {
    let world = World::new().await;
    let mut changed = signed(envelope(MessageType::Action, action(json!({}))), &world.client_key);
    changed["body"]["action"]["input"]["do"] = json!("fail");
    assert_eq!(code(&world.send(&changed).await), codes::AUTH_SIGNATURE.name);
    let unsigned = envelope(MessageType::Action, action(json!({})));
    assert_eq!(code(&world.send(&unsigned).await), codes::AUTH_MISSING.name);
    let mut old = envelope(MessageType::Action, action(json!({})));
    old["sent_at"] = json!(Timestamp::from_ms(Timestamp::now().as_ms() - 3_600_000));
    assert_eq!(code(&world.send(&signed(old, &world.client_key)).await), codes::AUTH_SKEW.name);
    let mut claimed = envelope(MessageType::Action, action(json!({})));
    claimed["from"] = json!({"id": "service:other", "kind": "service"});
    assert_eq!(code(&world.send(&signed(claimed, &world.client_key)).await), codes::AUTH_CLAIM.name);
}
