//! A dead letter on the command line: a worker that can't begin what it is handed, a person who mends it, the same
//! action done at last under another id.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aip_bus::{Bus, Settings, Worked};
use aip_names::{Identity, Service, Version, queue_consumer_name, queue_stream_name};
use aip_sdk::{ActionError, CapabilitySpec, Context, Worker, WorkerConfig};
use aip_testkit::{TestNats, wait_for};
use aip_wire::{IdempotencyRequirement, Principal, PrincipalId, PrincipalKind, RetrySafety, SideEffect};
use serde_json::json;

use crate::harness::{Dev, SOON};

type Words = BTreeMap<String, String>;

const CAPABILITY: &str = "cap:python:work";
const SERVICE: &str = "python";

/// A connection of the worker.
async fn connect(dev: &Dev) -> Bus {
    let profile: toml::Table =
        toml::from_str(&std::fs::read_to_string(dev.file("client.toml")).unwrap()).unwrap();
    let settings = Settings {
        url: profile["nats"]["url"].as_str().unwrap().to_owned(),
        identity: Identity::Worker(Service::new(SERVICE).unwrap()),
        seed_file: dev.file("nats/keys/worker-python.nk"),
        name: "worker".to_owned(),
    };
    let bus = Bus::connect(settings).await.unwrap();
    bus.ready(SOON).await.unwrap();
    bus
}

async fn echo(_: Context, input: Words) -> Result<Words, ActionError> {
    Ok(input)
}

/// The worker as it should be.
async fn mended(dev: &Dev, bus: &Bus) -> Worker {
    let config = WorkerConfig::new(
        TestNats::trust_domain(),
        Service::new(SERVICE).unwrap(),
        Principal::new(PrincipalId::parse("agent:python").unwrap(), PrincipalKind::Agent),
        Arc::new(aip_crypto::SigningKey::load(&dev.file("keys/python.key")).unwrap()),
        dev.file("mended.redb"),
    );
    let spec = CapabilitySpec::write(CAPABILITY, "Work", "Works.", SideEffect::Write, RetrySafety::Safe)
        .key(IdempotencyRequirement::Optional)
        .queued();
    let worker = Worker::builder(config).capability(spec, echo).start(bus).await.unwrap();
    worker.registered().await.unwrap();
    worker
}

/// A release of the worker that finds nothing in itself for what the queue hands it.
async fn break_off(bus: &Bus) {
    let stream = queue_stream_name(&TestNats::trust_domain(), &Service::new(SERVICE).unwrap());
    let taker = bus.taker(&stream, &queue_consumer_name(Version::V1)).await.unwrap();
    while let Some(job) = taker.ask(1).await.unwrap().next().await {
        job.unwrap().end(Worked::GivenBack { after: Duration::ZERO }).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_redriven_from_the_command_line_when_its_worker_is_mended() {
    let dev = Dev::start().await;
    let bus = connect(&dev).await;
    // it was there once, so its capability is known
    mended(&dev, &bus).await.drain().await;
    let submitted = dev
        .aip_json(&["action", "call", CAPABILITY, r#"{"for": "Jordan"}"#, "--mode", "async", "--json"])
        .await;
    let letter = submitted["action_id"].as_str().unwrap().to_owned();
    wait_for("the action to be given up", Duration::from_secs(60), || async {
        break_off(&bus).await;
        let listed = dev.aip_json(&["action", "dead", "--json"]).await;
        listed.as_array().unwrap().iter().any(|dead| dead["action_id"] == json!(letter))
    })
    .await;

    let _worker = mended(&dev, &connect(&dev).await).await;
    let redriven =
        dev.aip_json(&["action", "redrive", &letter, "--reason", "the worker is mended", "--json"]).await;
    assert_eq!(redriven["redriven"], json!(letter));
    let new = redriven["action_id"].as_str().unwrap();
    let result = dev.aip_json(&["action", "result", new, "--wait-ms", "30000", "--json"]).await;
    assert_eq!(result["output"], json!({"for": "Jordan"}));
    // for people
    let status = dev.aip(&["action", "status", &letter]).await;
    let told = String::from_utf8(status.stdout).unwrap();
    assert!(told.contains("dead_lettered") && told.contains(&format!("redriven as {new}")), "{told}");
    // and not twice
    let again = dev.aip(&["action", "redrive", &letter]).await;
    let told = String::from_utf8(again.stderr).unwrap();
    assert!(!again.status.success() && told.contains("aip.action.already_redriven"), "{told}");
    assert!(told.contains(new), "{told}");
}
