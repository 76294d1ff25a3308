//! The log of a stopped `aip dev` is deleted or swapped for an older copy: the commands say so, bring everything back,
//! and the next start serves it.

use std::path::{Path, PathBuf};

use aip_bus::{Bus, Settings};
use aip_names::{Identity, Service, Subject, TrustDomain, ledger_stream_name};
use aip_testkit::wait_for_some;
use serde_json::{Value, json};

use crate::harness::{Dev, SOON, id};

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

/// Permissions keep everybody else out; here it is the gateway's own user that writes what is no record.
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_message_in_the_ledger_is_named_by_the_doctor_with_what_to_do() {
    let mut dev = Dev::start().await;
    let action = search(&dev).await;
    let profile: toml::Table =
        toml::from_str(&std::fs::read_to_string(dev.file("client.toml")).unwrap()).unwrap();
    let settings = Settings {
        url: profile["nats"]["url"].as_str().unwrap().to_owned(),
        identity: Identity::Gateway,
        seed_file: dev.file("nats/keys/gateway.nk"),
        name: "foreign".to_owned(),
    };
    let bus = Bus::connect(settings).await.unwrap();
    bus.ready(SOON).await.unwrap();
    let domain = TrustDomain::new(profile["trust_domain"].as_str().unwrap()).unwrap();
    let subject = Subject::ledger(&domain, &Service::gateway(), 0).to_string();
    bus.client().publish(subject, "hello".into()).await.unwrap();
    bus.client().flush().await.unwrap();
    let found = wait_for_some("the doctor to see it", SOON, || async {
        let findings = dev.aip(&["doctor", "--json"]).await;
        let findings: Value = serde_json::from_slice(&findings.stdout).ok()?;
        let rows = findings["findings"].as_array()?;
        rows.iter().find(|row| row["part"] == "gateway" && row["good"] == false).cloned()
    })
    .await;
    assert!(found["what"].as_str().unwrap().contains("can't be applied"), "{found}");
    assert!(found["mend"].as_str().unwrap().contains("set the data of the ledger's stream"), "{found}");

    // as it says
    dev.stop().await;
    let (mended, _, why) = ledger(&dev, "recover").await;
    assert!(!mended && why.contains("is not ours"), "{why}");
    let stream = ledger_stream_name(&domain, &Service::gateway(), 0);
    let place = folder(&dev.file("nats/jetstream"), &stream).expect("the stream's data");
    std::fs::rename(place, dev.file("set aside")).unwrap();
    let (mended, lines, why) = ledger(&dev, "recover").await;
    assert!(mended, "{why}");
    assert_eq!(lines[0]["recovered"]["orphans"], 0, "{lines:?}");
    dev.start_again().await;
    let (status, reply) = dev.get(&format!("/aip/v1/actions/{action}/result")).await;
    assert_eq!((status, &reply["action_result"]["status"]), (200, &json!("completed")), "{reply}");
    search(&dev).await;
}

fn folder(within: &Path, name: &str) -> Option<PathBuf> {
    std::fs::read_dir(within).ok()?.flatten().filter(|entry| entry.path().is_dir()).find_map(|entry| {
        match entry.file_name() == name {
            true => Some(entry.path()),
            false => folder(&entry.path(), name),
        }
    })
}
