use std::sync::Arc;
use std::time::Duration;

use aip_testkit::{TestNats, wait_for};
use aip_wire::{MessageType, codes};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::world::*;

/// A gateway that goes with its runtime, in the middle of what it does.
fn life(nats: &Arc<TestNats>) -> (Runtime, World) {
    let runtime = Runtime::new().unwrap();
    let world = runtime.block_on(World::on(Arc::clone(nats)));
    (runtime, world)
}

#[test]
fn a_gateway_that_dies_loses_nothing_and_sends_no_mutation_twice() {
    let outside = Runtime::new().unwrap();
    let nats = Arc::new(outside.block_on(TestNats::start()));
    let (worker, _serving) = outside.block_on(async {
        let bus = connect(&nats, TestNats::worker("restaurant")).await;
        serve_on(&bus).await
    });
    let silent = action(json!({"id": "act_silent", "input": {"do": "be silent"}}));
    let repeated =
        json!({"id": "act_again", "capability_id": "cap:test:read", "input": {"do": "be silent first"}});
    let repeated = action(repeated);
    let done = action(json!({"id": "act_done"}));

    let (first, world) = life(&nats);
    let answered = first.block_on(async {
        world.registered(&[say("cap:test:say", contract(json!({}))), say("cap:test:read", safe())]).await;
        world.call(&done).await.envelope["body"].clone()
    });
    let world = Arc::new(world);
    for waiting in [silent, repeated] {
        let world = Arc::clone(&world);
        first.spawn(async move { world.call(&waiting).await });
    }
    outside.block_on(wait_for("both to be dispatched", Duration::from_secs(10), || async {
        ["act_silent", "act_again"].iter().all(|id| worker.dispatches(id).len() == 1)
    }));
    // whoever waited and whoever asked a worker is gone; only the store is put down in order, for its lock's sake
    first.shutdown_timeout(Duration::from_secs(10));
    outside.block_on(world.gateway.drain());
    drop(world);

    let (second, world) = life(&nats);
    let ended = |id: &'static str| {
        let request = json!({"action_id": id, "wait_ms": 20_000});
        let result = second.block_on(world.ask(MessageType::ActionResultRequest, request)).unwrap();
        result["action_result"].clone()
    };
    assert_eq!(ended("act_silent")["error"]["code"], codes::ACTION_UNCERTAIN.name);
    assert_eq!(worker.dispatches("act_silent").len(), 1);
    assert_eq!(ended("act_again")["status"], "completed");
    assert_eq!(worker.dispatches("act_again").len(), 2);
    let again: Value = second.block_on(world.call(&done)).envelope["body"].clone();
    assert_eq!(again, answered);
    assert_eq!(worker.dispatches("act_done").len(), 1);
    drop(world);
}
