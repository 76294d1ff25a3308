//! The log of a stopped `aip dev` is deleted or swapped for an older copy: the commands say so, bring everything back,
//! and the next start serves it.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Dev, id};

const RESTAURANT: &str = "cap:restaurant:table:search";

async fn search(dev: &Dev) -> String {
    let action = id("act_");
    let input = json!({"date": "2027-03-14", "time": "19:00", "party": 2});
    let (status, reply) =
        dev.action(&json!({"id": action, "capability_id": RESTAURANT, "input": input})).await;
    assert_eq!((status, &reply["body"]["action_result"]["status"]), (200, &json!("completed")), "{reply}");
    action
}

async fn ledger(dev: &Dev, verb: &str) -> (bool, Vec<Value>, String) {
    let output =
        dev.aip(&["ledger", verb, "--config", ".aip/gateway-0.toml", "--start-nats", "--json"]).await;
    let lines = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    (output.status.success(), lines, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn copy(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_or_older_log_is_recovered_by_command() {
    let mut dev = Dev::start().await;
    let mut actions = vec![search(&dev).await];
    let (refused, _, why) = ledger(&dev, "recover").await;
    assert!(!refused && why.contains("runs in"), "{why}");
    dev.stop().await;
    let (store, older) = (dev.file("nats/jetstream"), dev.file("older"));
    copy(&store, &older);
    dev.start_again().await;
    for _ in 0..5 {
        actions.push(search(&dev).await);
    }

    dev.stop().await;
    let (whole, lines, why) = ledger(&dev, "verify").await;
    assert!(whole, "{why}");
    let before = lines[0]["verified"]["records"].as_u64().unwrap();
    std::fs::remove_dir_all(&store).unwrap();
    std::fs::rename(&older, &store).unwrap();
    let (whole, _, why) = ledger(&dev, "verify").await;
    assert!(!whole && why.contains("the log ends at"), "{why}");
    let (mended, lines, why) = ledger(&dev, "recover").await;
    assert!(mended, "{why}");
    let report = &lines[0]["recovered"];
    assert_eq!((&report["orphans"], &report["whole"]), (&json!(0), &json!(false)), "{report}");
    assert!(report["records"].as_u64().unwrap() > 0);

    std::fs::remove_dir_all(&store).unwrap();
    let (mended, lines, why) = ledger(&dev, "recover").await;
    assert!(mended, "{why}");
    assert_eq!(lines[0]["recovered"]["records"], before, "{lines:?}");
    let (whole, lines, why) = ledger(&dev, "verify").await;
    assert!(whole, "{why}");
    assert_eq!(lines[0]["verified"]["records"], before);

    dev.start_again().await;
    for action in &actions {
        let (status, reply) = dev.get(&format!("/aip/v1/actions/{action}/result")).await;
        assert_eq!((status, &reply["action_result"]["status"]), (200, &json!("completed")), "{reply}");
    }
    search(&dev).await;
}
