//! What the README promises to a newcomer: the first action over HTTP and over NATS, a booking, a restart.

use serde_json::{Value, json};

use crate::harness::{Dev, aip, id};

const SEARCH: &str = "cap:restaurant:table:search";

#[tokio::test(flavor = "multi_thread")]
async fn the_first_action_works_over_http_and_nats_and_survives_a_restart() {
    let mut dev = Dev::start().await;
    let input = json!({"date": "2027-03-14", "time": "19:00", "party": 2});

    let over_http = dev.output(SEARCH, input.clone()).await;
    assert_eq!(over_http["tables"].as_array().unwrap().len(), 12);
    for via in ["nats", "http"] {
        let args = ["action", "call", SEARCH, &input.to_string(), "--via", via, "--json"];
        assert_eq!(dev.aip_json(&args).await["output"], over_http, "over {via}");
    }
    let manifest = dev.aip(&["manifest"]).await;
    assert!(String::from_utf8_lossy(&manifest.stdout).contains(SEARCH));

    let booking = json!({"restaurant": "sushi-kai", "table": "t3", "date": "2027-03-14", "time": "19:00",
                         "party": 3, "guest_name": "Jordan"});
    let create = "cap:restaurant:booking:create";
    let args = ["action", "call", create, &booking.to_string(), "--key", "jordan-1", "--json"];
    let first = dev.aip_json(&args).await;
    let again = dev.aip_json(&args).await;
    assert_eq!(first["output"], again["output"], "the same key is the same booking");
    assert_eq!(first["action_id"], again["action_id"], "and the same action");
    assert_eq!(dev.output(SEARCH, input.clone()).await["tables"].as_array().unwrap().len(), 11);

    dev.restart().await;
    let action_id = first["action_id"].as_str().unwrap();
    assert_eq!(dev.settled(action_id).await["output"], first["output"]);
    assert_eq!(dev.aip_json(&args).await["output"], first["output"], "the key holds over a restart");
    assert_eq!(dev.output(SEARCH, input).await["tables"].as_array().unwrap().len(), 11);
    let verified = dev.aip_json(&["receipts", "verify", action_id, "--json"]).await;
    assert_eq!(verified, json!({"valid": true, "receipts": 5}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_aip_dev_in_the_folder_is_refused_and_what_ends_is_started_again() {
    let dev = Dev::start().await;
    let second = dev.aip(&["dev"]).await;
    assert!(!second.status.success());
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(told.contains("another `aip dev` runs"), "{told}");

    for process in ["sandbox", "gateway-0", "nats/nats-server"] {
        dev.kill(process);
        let action = json!({"id": id("act_"), "capability_id": SEARCH,
                            "input": {"date": "2027-03-15", "time": "20:00", "party": 1}});
        let result = crate::kills::call_until_settled(&dev, &action).await;
        assert_eq!(result["status"], "completed", "after {process} was killed: {result}");
    }
    assert!(dev.proc.lines().iter().any(|line| line.contains("nats-server ended; starting it again")));
}

#[tokio::test]
async fn validate_judges_lines() {
    let good = include_str!("../../schemas/examples/action/valid/minimal.json");
    let good: Value = serde_json::from_str(good).unwrap();
    let lines = format!("{good}\n{{\"aip_version\":\"1.0\"}}\nnot json\n");
    let mut child = std::process::Command::new(aip())
        .arg("validate")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let verdicts: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(verdicts.len(), 3);
    assert_eq!(verdicts[0], json!({"valid": true, "message_type": "aip.core.v1.action"}));
    for refused in &verdicts[1..] {
        assert_eq!(refused["valid"], false);
        assert!(refused["code"].as_str().unwrap().starts_with("aip."), "{refused}");
    }
}
