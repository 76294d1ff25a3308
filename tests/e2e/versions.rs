//! A new worker version beside the old one: what was admitted for the old stays with it, what comes goes to the new, and
//! the old is withdrawn when it is done. Nothing is lost on the way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aip_bus::{Bus, Settings};
use aip_crypto::SigningKey;
use aip_names::{Service, TrustDomain, Version};
use aip_sdk::{ActionError, CapabilitySpec, Context, Worker, WorkerConfig};
use aip_testkit::wait_for;
use aip_wire::{Principal, PrincipalId, PrincipalKind, RetrySafety, SideEffect};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::harness::{Dev, SOON, id};

const CAPABILITY: &str = "cap:python:roll";

/// What the handlers of a version wait for, and how many have begun.
struct Gate {
    open: Semaphore,
    begun: AtomicUsize,
}

type Input = BTreeMap<String, Value>;
type Output = BTreeMap<String, String>;

/// A worker of this version, as the principal that `aip dev` has for workers of one's own.
async fn worker(dev: &Dev, version: &'static str, gate: &Arc<Gate>) -> Worker {
    let profile: toml::Table =
        toml::from_str(&std::fs::read_to_string(dev.file("client.toml")).unwrap()).unwrap();
    let settings = Settings {
        url: profile["nats"]["url"].as_str().unwrap().to_owned(),
        identity: "worker-python".parse().unwrap(),
        seed_file: dev.file("nats/keys/worker-python.nk"),
        name: format!("roll {version}"),
    };
    let bus = Bus::connect(settings).await.unwrap();
    bus.ready(SOON).await.unwrap();
    let config = WorkerConfig {
        version: Version::new(version).unwrap(),
        // so that a second action has to wait in the queue
        running_max: 1,
        ..WorkerConfig::new(
            TrustDomain::new(profile["trust_domain"].as_str().unwrap()).unwrap(),
            Service::new("python").unwrap(),
            Principal::new(PrincipalId::parse("agent:python").unwrap(), PrincipalKind::Agent),
            Arc::new(SigningKey::load(&dev.file("keys/python.key")).unwrap()),
            dev.file(&format!("roll-{version}.redb")),
        )
    };
    // the description is part of the contract: another one is another contract
    let spec = CapabilitySpec::write(CAPABILITY, "Roll", version, SideEffect::Write, RetrySafety::Safe)
        .key(aip_wire::IdempotencyRequirement::Optional)
        .queued();
    let gate = Arc::clone(gate);
    let handler = move |_: Context, _: Input| {
        let gate = Arc::clone(&gate);
        async move {
            gate.begun.fetch_add(1, Ordering::SeqCst);
            gate.open.acquire().await.map_err(|_| ActionError::permanent("test.closed", "closed"))?.forget();
            Ok(Output::from([("version".to_owned(), version.to_owned())]))
        }
    };
    let worker = Worker::builder(config).capability(spec, handler).start(&bus).await.unwrap();
    worker.registered().await.unwrap();
    worker
}

fn gate(open: usize) -> Arc<Gate> {
    Arc::new(Gate { open: Semaphore::new(open), begun: AtomicUsize::new(0) })
}

/// Has an action queued; gives its id.
async fn queue(dev: &Dev) -> String {
    let action = json!({"id": id("act_"), "capability_id": CAPABILITY, "mode": "async", "input": {}});
    let (status, reply) = dev.action(&action).await;
    assert_eq!(reply["body"]["ack"]["status"], "queued", "{status} {reply}");
    action["id"].as_str().unwrap().to_owned()
}

async fn version_of(dev: &Dev, action: &str) -> String {
    let result = dev.settled(action).await;
    assert_eq!(result["status"], "completed", "{result}");
    result["output"]["version"].as_str().unwrap().to_owned()
}

/// Has the directory know the new version, too; a gateway reads it when it starts.
async fn allow(dev: &Dev, version: &str) {
    let row = format!(
        "\n[[worker]]\nprincipal = \"agent:python\"\nservice = \"python\"\nversion = \"{version}\"\n\
         capabilities = [\"cap:python:*\"]\n"
    );
    let directory = dev.file("directory.toml");
    std::fs::write(&directory, std::fs::read_to_string(&directory).unwrap() + &row).unwrap();
    dev.kill("gateway-0");
    wait_for("the next gateway", SOON, || async {
        let asked = dev.http.get(format!("{}/ready", dev.url)).send().await;
        asked.is_ok_and(|answer| answer.status().is_success())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_worker_version_takes_over_and_the_old_one_is_withdrawn() {
    let dev = Dev::start().await;
    allow(&dev, "v2").await;
    let (old_gate, new_gate) = (gate(0), gate(Semaphore::MAX_PERMITS));
    let old = worker(&dev, "v1", &old_gate).await;
    let (running, waiting) = (queue(&dev).await, queue(&dev).await);
    wait_for("the old version's work", SOON, || async { old_gate.begun.load(Ordering::SeqCst) == 1 }).await;

    let new = worker(&dev, "v2", &new_gate).await;
    let fresh = queue(&dev).await;
    assert_eq!(version_of(&dev, &fresh).await, "v2", "new actions go to the new version");
    let now = dev.output(CAPABILITY, json!({})).await;
    assert_eq!(now["version"], "v2", "also those that wait for their answer");
    assert_eq!(old_gate.begun.load(Ordering::SeqCst), 1);

    // what was admitted for the old version is done by it, also what had only waited
    old_gate.open.add_permits(2);
    for action in [&running, &waiting] {
        assert_eq!(version_of(&dev, action).await, "v1");
    }
    assert!(old.drain().await);
    let profile = dev.file("python.toml");
    let key = dev.file("keys/python.key");
    let text = format!(
        "trust_domain = \"aip.local\"\nprincipal = \"agent:python\"\nkind = \"agent\"\nkey = {key:?}\n\
         [http]\nurl = \"{}\"\n",
        dev.url
    );
    std::fs::write(&profile, text).unwrap();
    let withdraw = async |version: &str| {
        let profile = profile.to_str().unwrap();
        let args =
            ["worker", "withdraw", "python", "--version", version, "--profile", profile, "--via", "http"];
        let output = dev.aip(&args).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    withdraw("v1").await;
    assert_eq!(dev.output(CAPABILITY, json!({})).await["version"], "v2");
    assert_eq!(version_of(&dev, &fresh).await, "v2", "and what has ended stays readable");

    // with the new one gone, too, none is left: the old one does not come back
    assert!(new.drain().await);
    withdraw("v2").await;
    let (status, reply) = dev.action(&json!({"capability_id": CAPABILITY, "input": {}})).await;
    assert_eq!(reply["body"]["error"]["error"]["code"], "aip.capability.unknown", "{status} {reply}");
    for action in [&running, &waiting] {
        assert_eq!(version_of(&dev, action).await, "v1");
    }
}
