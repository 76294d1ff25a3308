//! Workers that vanish for a while, or for good, with an action in their hands.

use std::time::{Duration, Instant};

use aip_chaos::client::Tenant;
use aip_chaos::fleet::{Fleet, SOON};
use aip_chaos::provider::What;
use aip_chaos::worker::{NOTE, PAY};
use aip_sdk::CallOptions;
use aip_testkit::{wait_for, wait_for_some};
use aip_wire::{
    ActionEventsRequest, ActionId, ActionLifecycleState, ActionResult, ActionResultStatus, codes,
};
use serde_json::json;

/// Who is to take over has to do so within this, whatever the action's own time is.
const TAKEN_OVER: Duration = Duration::from_secs(15);

async fn submit(tenant: &Tenant, capability: &str, key: &str, ms: u64) -> ActionId {
    let options = CallOptions {
        idempotency_key: Some(key.to_owned()),
        timeout_ms: Some(600_000),
        ..CallOptions::default()
    };
    tenant.nats.submit(capability, json!({ "ms": ms }), options).await.unwrap().action_id
}

/// The place of the replica of the bank that has begun the action.
async fn holder(fleet: &Fleet, id: &ActionId) -> usize {
    wait_for_some("the action to be begun", SOON, || async {
        let lines = fleet.provider().lines().unwrap();
        let pid = lines.iter().find(|line| line.action == id.as_str())?.pid;
        fleet.workers.iter().position(|worker| worker.is_running() && worker.proc().id() == pid as i32)
    })
    .await
}

async fn result(tenant: &Tenant, id: &ActionId) -> ActionResult {
    wait_for_some("a result", SOON, || async { tenant.reader[1].result(id, Some(5_000)).await.ok() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_slept_through_its_lease_changes_nothing_when_it_wakes() {
    let fleet = Fleet::start().await;
    let tenant = Tenant::new(&fleet, 0).await;
    let id = submit(&tenant, NOTE, "slept", 3_000).await;
    let sleeper = holder(&fleet, &id).await;
    fleet.workers[sleeper].pause();
    let first = result(&tenant, &id).await;
    assert_eq!(
        (first.status, &first.output.as_ref().unwrap()["attempt"]),
        (ActionResultStatus::Completed, &json!(2))
    );
    fleet.workers[sleeper].resume();
    wait_for("the sleeper to be told that it is too late", SOON, || async {
        let lines = fleet.workers[sleeper].proc().lines();
        let late = ["an end does not count", "an attempt is superseded"];
        lines.iter().any(|line| late.iter().any(|late| line.contains(late)))
    })
    .await;
    assert_eq!(result(&tenant, &id).await, first, "what was told stays so");
    assert_eq!(fleet.provider().counts(NOTE, What::Done).unwrap()[id.as_str()], 1);
    let request = ActionEventsRequest {
        action_id: id,
        tenant_id: None,
        cursor: None,
        limit: None,
        kinds: Vec::new(),
        include_chunks: false,
        follow: false,
    };
    let events = tenant.reader[2].action_events(request).await.unwrap().events;
    let ends = events.iter().filter(|event| event.kind.ends_with("completed")).count();
    assert_eq!(ends, 1, "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_workers_long_action_is_taken_over_and_one_that_may_not_be_is_not_known() {
    let mut fleet = Fleet::start().await;
    let tenant = Tenant::new(&fleet, 1).await;
    let repeatable = submit(&tenant, NOTE, "long", 4_000).await;
    let victim = holder(&fleet, &repeatable).await;
    // more payments than one replica is likely to get none of
    let mut held = Vec::new();
    for i in 0..8 {
        let id = submit(&tenant, PAY, &format!("pay-{i}"), 20_000).await;
        if holder(&fleet, &id).await == victim {
            held.push(id);
        }
    }
    fleet.workers[victim].kill().await;
    let killed = Instant::now();
    wait_for("the other replica to begin it", TAKEN_OVER, || async {
        fleet.provider().counts(NOTE, What::Begun).unwrap()[repeatable.as_str()] == 2
    })
    .await;
    assert!(killed.elapsed() <= TAKEN_OVER);
    assert_eq!(result(&tenant, &repeatable).await.status, ActionResultStatus::Completed);
    for id in &held {
        let lost = result(&tenant, id).await;
        assert_eq!(lost.error.unwrap().code, codes::ACTION_UNCERTAIN.name);
        assert_eq!(fleet.provider().counts(PAY, What::Begun).unwrap()[id.as_str()], 1, "never begun again");
        let status = tenant.reader[0].status(id, None).await.unwrap();
        assert_eq!(status.state, ActionLifecycleState::Failed);
    }
    assert!(!held.is_empty(), "eight payments, and none for {victim}");
}
