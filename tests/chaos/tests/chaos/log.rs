//! The log itself is lost, or swapped for an older copy, under three replicas: none of them serves beside it, each says
//! why, and the recovery from their stores brings everything back.

use std::path::Path;
use std::time::Duration;

use aip_chaos::client::Tenant;
use aip_chaos::fleet::{Fleet, SOON};
use aip_chaos::judge;
use aip_chaos::load::{GRACE, Load};
use aip_testkit::wait_for;
use aip_wire::codes;
use serde_json::{Value, json};

/// Of a log that is older than the stores, and of one that is gone.
const REASONS: [&str; 2] =
    ["or is an older copy", "can't be seen, and this store has learned from it before"];

fn copy(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

/// Everybody refuses, with the reason; nothing is decided.
async fn nobody_serves(fleet: &Fleet) {
    for i in 0..fleet.gateways.len() {
        wait_for("a gateway beside its log to say so", SOON, || async {
            let page = fleet.page(i, "/ready").await;
            page.is_some_and(|(status, text)| status == 503 && REASONS.iter().any(|why| text.contains(why)))
        })
        .await;
        let url = format!("{}/aip/v1/actions", fleet.url(i));
        let action = json!({"capability_id": "cap:bank:nap", "input": {"ms": 0}});
        let request = fleet.http.post(url).bearer_auth(aip_chaos::site::api_key("red")).json(&action);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 503);
        let answer: Value = answer.json().await.unwrap();
        assert_eq!(answer["body"]["error"]["error"]["code"], codes::SERVICE_NOT_READY.name, "{answer}");
    }
}

async fn recovered(fleet: &mut Fleet) {
    fleet.rest().await;
    let [first, second, third] = [0, 1, 2].map(|i| fleet.gateways[i].folder.join("gateway-0.redb"));
    let (config, second, third) = (
        fleet.gateways[0].config.display().to_string(),
        second.display().to_string(),
        third.display().to_string(),
    );
    let args = ["ledger", "recover", "--config", &config, "--store", &second, "--store", &third, "--json"];
    let output = fleet.aip(&args).await;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(report["recovered"]["orphans"], 0, "{report}");
    assert!(report["recovered"]["records"].as_u64().unwrap() > 0, "{report}");
    assert!(first.is_file());
    fleet.wake().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_serves_beside_a_lost_or_older_log_and_all_of_it_comes_back() {
    let mut fleet = Fleet::start().await;
    let tenants = Tenant::all(&fleet).await;
    let load = Load::start(&tenants, 3, 8.0);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (log, older) = (fleet.server.store_dir(), fleet.folder().join("older"));
    fleet.server.stop().await.unwrap();
    copy(&log, &older);
    fleet.server.restart().await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let journal = load.settle().await;
    let entries = journal.entries();
    for replacement in [Some(older.as_path()), None] {
        let before = judge::ended(&tenants, &entries, GRACE).await.unwrap();
        assert_eq!(judge::kept(&entries, &before), Vec::<String>::new());
        fleet.server.stop().await.unwrap();
        std::fs::remove_dir_all(&log).unwrap();
        if let Some(older) = replacement {
            copy(older, &log);
        }
        fleet.server.restart().await.unwrap();
        nobody_serves(&fleet).await;
        recovered(&mut fleet).await;
        let after = judge::stands(&tenants, &entries).await.unwrap();
        assert_eq!(judge::kept(&entries, &after), Vec::<String>::new());
        assert_eq!(before.len(), after.len());
    }
    assert_eq!(judge::replicas(&mut fleet).await, Vec::<String>::new());
}
