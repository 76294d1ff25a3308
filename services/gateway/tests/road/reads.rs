use std::time::{Duration, Instant};

use aip_crypto::receipt::verify_chain;
use aip_wire::{MessageType, codes};
use serde_json::json;

use super::world::*;

#[tokio::test(flavor = "multi_thread")]
async fn status_result_and_receipts_are_told_to_the_owner() {
    let world = World::new().await;
    let (_worker, _serving) = world.serve().await;
    let done = action(json!({}));
    let reply = world.call(&done).await;
    let id = &done["id"];
    let request = json!({"action_id": id, "include_result": true, "include_receipts": true});
    let status = world.ask(MessageType::ActionStatusRequest, request).await.unwrap();
    let status = &status["action_status"];
    assert_eq!((&status["state"], &status["result_status"]), (&json!("completed"), &json!("completed")));
    assert_eq!(status["result"], reply.envelope["body"]["action_result"]);
    let kinds: Vec<_> = status["receipt_chain"]["receipts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["receipt_type"].clone())
        .collect();
    let expected =
        ["request_received", "policy_decision", "action_accepted", "tool_executed", "result_returned"];
    assert_eq!(kinds, expected);
    let request = json!({"action_id": id});
    let result = world.ask(MessageType::ActionResultRequest, request).await.unwrap();
    assert_eq!(result["action_result"]["output"], json!({"said": "it"}));
    assert!(result["action_result"].get("receipt").is_none());
    // by chain, and by any receipt of it
    let chain_id = format!("action:{}", id.as_str().unwrap());
    let chain = world.ask(MessageType::ReceiptQueryRequest, json!({"chain_id": chain_id})).await.unwrap();
    let chain = &chain["receipt_chain"];
    assert_eq!(verify_chain(chain).unwrap().receipts, 5);
    assert_eq!(chain, &status["receipt_chain"]);
    for receipt in chain["receipts"].as_array().unwrap() {
        let request = json!({"receipt_id": receipt["id"]});
        let found = world.ask(MessageType::ReceiptQueryRequest, request).await.unwrap();
        assert_eq!(&found["receipt_chain"], chain);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_hidden_is_not_found_like_what_is_absent() {
    let world = World::new().await;
    let (_worker, _serving) = world.serve().await;
    let done = action(json!({}));
    world.call(&done).await;
    let id = done["id"].as_str().unwrap();
    for (message_type, hidden, absent, expected) in [
        (
            MessageType::ActionStatusRequest,
            json!({"action_id": id}),
            json!({"action_id": "act_none"}),
            codes::ACTION_NOT_FOUND,
        ),
        (
            MessageType::ActionResultRequest,
            json!({"action_id": id, "wait_ms": 30_000}),
            json!({"action_id": "act_none", "wait_ms": 30_000}),
            codes::ACTION_NOT_FOUND,
        ),
        (
            MessageType::ReceiptQueryRequest,
            json!({"chain_id": format!("action:{id}")}),
            json!({"chain_id": "action:act_none"}),
            codes::RECEIPT_NOT_FOUND,
        ),
    ] {
        let mut told = Vec::new();
        for request in [hidden, absent] {
            let begun = Instant::now();
            let refused = world.ask_as(OTHER_TOKEN, message_type, request).await.unwrap_err();
            assert!(begun.elapsed() < Duration::from_secs(5), "a reader waits for what it may not see");
            assert_eq!((code(&refused), refused.status), (expected.name, 404));
            told.push(refused.envelope["body"].clone());
        }
        assert_eq!(told[0], told[1]);
    }
    let foreign = json!({"action_id": id, "tenant_id": "beta"});
    let refused = world.ask(MessageType::ActionStatusRequest, foreign).await.unwrap_err();
    assert_eq!(code(&refused), codes::TENANT_MISMATCH.name);
    for receipt_id in ["rcpt_00000000000070008000000000000001", "rcpt_", "x"] {
        let request = json!({"receipt_id": receipt_id});
        let refused = world.ask(MessageType::ReceiptQueryRequest, request).await.unwrap_err();
        assert_eq!(code(&refused), codes::RECEIPT_NOT_FOUND.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_waits_for_the_end_and_no_longer() {
    let world = World::new().await;
    let (_worker, _serving) = world.serve().await;
    let slow = action(json!({"input": {"do": "be silent"}, "timeout_ms": 1_000}));
    let id = slow["id"].clone();
    let (reply, ()) = tokio::join!(world.call(&slow), async {
        let early = || world.ask(MessageType::ActionResultRequest, json!({"action_id": id, "wait_ms": 20}));
        aip_testkit::wait_for("the action to be known", Duration::from_secs(5), || async {
            early().await.is_err_and(|refused| code(&refused) == codes::ACTION_NOT_READY.name)
        })
        .await;
        let begun = Instant::now();
        let waiting = json!({"action_id": id, "wait_ms": 20_000});
        let result = world.ask(MessageType::ActionResultRequest, waiting).await.unwrap();
        assert_eq!(result["action_result"]["error"]["code"], codes::ACTION_UNCERTAIN.name);
        assert!(begun.elapsed() < Duration::from_secs(10));
    });
    assert_eq!(result_code(&reply), codes::ACTION_UNCERTAIN.name);
}
