use std::time::Duration;

use aip_testkit::wait_for;
use aip_wire::{MessageType, codes};
use serde_json::{Value, json};

use super::world::*;

fn status(id: &Value) -> Value {
    json!({"action_id": id, "include_result": true})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mutation_without_a_good_answer_ends_uncertain_and_is_sent_once() {
    let world = World::new().await;
    let (worker, _serving) = world.serve().await;
    for told in ["be silent", "answer nonsense", "answer too much", "answer for another"] {
        let action = action(json!({"input": {"do": told}, "timeout_ms": 700}));
        let reply = world.call(&action).await;
        assert_eq!(result_code(&reply), codes::ACTION_UNCERTAIN.name, "{told}: {}", reply.envelope);
        assert_eq!(reply.envelope["body"]["action_result"]["error"]["details"]["uncertain_outcome"], true);
        assert_eq!(worker.dispatches(action["id"].as_str().unwrap()).len(), 1, "{told}");
        let now = world.ask(MessageType::ActionStatusRequest, status(&action["id"])).await.unwrap();
        assert_eq!(now["action_status"]["state"], "failed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_refuses_for_now_is_asked_again_and_one_that_refuses_is_not() {
    let world = World::new().await;
    let (worker, _serving) = world.serve().await;
    let later = action(json!({"input": {"do": "refuse first"}}));
    let reply = world.call(&later).await;
    assert_eq!(reply.envelope["body"]["action_result"]["status"], "completed", "{}", reply.envelope);
    let attempts: Vec<_> =
        worker.dispatches(later["id"].as_str().unwrap()).iter().map(|context| context.attempt).collect();
    assert_eq!(attempts, [1, 2]);
    let never = action(json!({"input": {"do": "refuse"}}));
    assert_eq!(result_code(&world.call(&never).await), codes::CAPABILITY_UNKNOWN.name);
    assert_eq!(worker.dispatches(never["id"].as_str().unwrap()).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_told_without_what_its_schema_marks() {
    let world = World::new().await;
    let (_worker, _serving) = world.serve().await;
    let failing = action(json!({"input": {"do": "fail", "card": "4111"}}));
    let reply = world.call(&failing).await;
    let error = &reply.envelope["body"]["action_result"]["error"];
    assert_eq!((reply.status, &error["code"]), (200, &json!(codes::WORKER_FAILED.name)));
    assert_eq!(error["details"], json!({"card": "[redacted]", "seat": 4, "uncertain_outcome": false}));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_is_not_as_promised_is_no_completion() {
    let world = World::new().await;
    let (_worker, _serving) = world.serve().await;
    let reply = world.call(&action(json!({"input": {"do": "break its promise"}}))).await;
    assert_eq!(result_code(&reply), codes::ACTION_OUTPUT.name);
    assert!(reply.envelope["body"]["action_result"].get("output").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_be_repeated_is_sent_again_when_its_answer_is_lost() {
    let world = World::empty().await;
    world.registered(&[say("cap:test:say", safe())]).await;
    let (worker, _serving) = world.serve().await;
    let action = action(json!({"input": {"do": "be silent first"}}));
    let reply = world.call(&action).await;
    assert_eq!(reply.envelope["body"]["action_result"]["status"], "completed", "{}", reply.envelope);
    assert_eq!(worker.dispatches(action["id"].as_str().unwrap()).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_waits_for_a_worker_and_expires_without_one() {
    let world = World::new().await;
    let nobody = action(json!({"timeout_ms": 500}));
    let reply = world.call(&nobody).await;
    let error = result_code(&reply);
    assert!([codes::WORKER_UNAVAILABLE.name, codes::ACTION_DEADLINE.name].contains(&error), "{error}");
    // a worker that comes later gets what waits
    let patient = action(json!({}));
    let (reply, worker) = tokio::join!(world.call(&patient), async {
        let asked = || world.ask(MessageType::ActionStatusRequest, status(&patient["id"]));
        wait_for("the first attempt to fail", Duration::from_secs(5), || async {
            asked().await.is_ok_and(|now| now["action_status"]["state"] == "queued")
        })
        .await;
        world.serve().await
    });
    assert_eq!(reply.envelope["body"]["action_result"]["status"], "completed", "{}", reply.envelope);
    assert_eq!(worker.0.dispatches(patient["id"].as_str().unwrap()).len(), 1);
}
