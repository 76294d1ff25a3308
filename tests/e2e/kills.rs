//! SIGKILL to each process in the middle of a hundred actions: nothing acknowledged is lost, nothing is done twice.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Dev, id};

const ACTIONS: usize = 100;
const PATIENCE: Duration = Duration::from_secs(120);

/// Sends an action, under one id, until it has a result: what a careful client does when connections break.
pub async fn call_until_settled(dev: &Dev, action: &Value) -> Value {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < PATIENCE, "no result for {action}");
        let request =
            dev.http.post(format!("{}/aip/v1/actions", dev.url)).bearer_auth(dev.api_key()).json(action);
        let Ok(response) = request.send().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let reply: Value = response.json().await.unwrap_or_default();
        if let Some(result) = reply["body"].get("action_result") {
            return result.clone();
        }
        let error = &reply["body"]["error"]["error"];
        let temporary = matches!(error["category"].as_str(), Some("temporary" | "transport"));
        assert!(temporary, "refused for good: {reply}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Sends a hundred actions, kills `process` in their middle, and returns every result.
async fn storm(dev: &Arc<Dev>, process: &str, make: impl Fn(usize) -> Value) -> Vec<Value> {
    let mut calls = tokio::task::JoinSet::new();
    for i in 0..ACTIONS {
        let (dev, action) = (Arc::clone(dev), make(i));
        calls.spawn(async move {
            // Spread over a second, so that the kill finds some done, some under way and some not sent.
            tokio::time::sleep(Duration::from_millis(10 * i as u64)).await;
            call_until_settled(&dev, &action).await
        });
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    dev.kill(process);
    calls.join_all().await
}

fn count(results: &[Value], status: &str) -> u64 {
    results.iter().filter(|result| result["status"] == status).count() as u64
}

async fn balance(dev: &Dev, account: &str) -> u64 {
    let output = dev.output("cap:accounts:balance:read", json!({ "account": account })).await;
    output["balance_minor"].as_u64().unwrap()
}

/// Transfers are not retry-safe: each ends with its effect, or honestly uncertain; none has two.
async fn transfers(process: &str) {
    let dev = Arc::new(Dev::start().await);
    let (from, to) = (balance(&dev, "checking").await, balance(&dev, "savings").await);
    let results = storm(&dev, process, |i| {
        json!({"id": id("act_"), "capability_id": "cap:accounts:transfer:create",
               "idempotency_key": format!("transfer-{i}"),
               "input": {"from": "checking", "to": "savings", "amount_minor": 1}})
    })
    .await;
    let completed = count(&results, "completed");
    let uncertain =
        results.iter().filter(|result| result["error"]["code"] == "aip.action.uncertain_outcome").count()
            as u64;
    // What was surely never delivered may have failed as well, and has no effect.
    let unavailable =
        results.iter().filter(|result| result["error"]["code"] == "aip.worker.unavailable").count();
    assert_eq!(completed + uncertain + unavailable as u64, ACTIONS as u64, "{results:?}");
    assert!(completed > 0, "{results:?}");
    let moved = from - balance(&dev, "checking").await;
    assert_eq!(balance(&dev, "savings").await - to, moved, "money is neither made nor lost");
    assert!((completed..=completed + uncertain).contains(&moved), "{moved} of {completed}+{uncertain}");
    for result in &results {
        let again = dev.settled(result["action_id"].as_str().unwrap()).await;
        assert_eq!(&again["status"], &result["status"], "what was told stays so");
    }
}

/// Bookings are safe with their key: every one completes, exactly once.
async fn bookings(process: &str) {
    let dev = Arc::new(Dev::start().await);
    let results = storm(&dev, process, |i| {
        // A hundred slots that differ: a second effect of one of them would find its table taken.
        let (day, time) = (1 + i / 4, 18 + i % 4);
        json!({"id": id("act_"), "capability_id": "cap:restaurant:booking:create",
               "idempotency_key": format!("booking-{i}"),
               "input": {"restaurant": "sushi-kai", "table": "t1", "date": format!("2027-04-{day:02}"),
                         "time": format!("{time}:00"), "party": 2, "guest_name": "Jordan"}})
    })
    .await;
    assert_eq!(count(&results, "completed"), ACTIONS as u64, "{results:?}");
    let mut bookings: Vec<_> =
        results.iter().map(|result| result["output"]["booking_id"].to_string()).collect();
    bookings.sort();
    bookings.dedup();
    assert_eq!(bookings.len(), ACTIONS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_gateway_loses_and_doubles_nothing() {
    transfers("gateway-0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_loses_and_doubles_nothing() {
    transfers("sandbox").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_nats_server_loses_and_doubles_nothing() {
    transfers("nats/nats-server").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn safe_actions_all_complete_when_the_gateway_is_killed() {
    bookings("gateway-0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn safe_actions_all_complete_when_the_worker_is_killed() {
    bookings("sandbox").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn safe_actions_all_complete_when_nats_is_killed() {
    bookings("nats/nats-server").await;
}
