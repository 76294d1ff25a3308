//! A whole gateway on a real nats-server, as the `aip` program runs it.

use std::path::Path;

use aip_bus::Parcel;
use aip_ledger::Readiness;
use aip_testkit::{Scratch, TestNats, wait_for, wait_for_some};
use aip_wire::{Action, ActionId, CapabilityId, Envelope, Timestamp, TransportMessage, codes};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::*;
use crate::config::Flags;
use crate::edge::fake::{self, Fake};

const PATIENCE: Duration = Duration::from_secs(30);

/// A gateway's files beside a server's.
fn configure(folder: &Path, nats_url: &str, seed: &Path) -> Config {
    std::fs::create_dir_all(folder).unwrap();
    SigningKey::generate().unwrap().save(&folder.join("gateway.key")).unwrap();
    std::fs::write(folder.join("directory.toml"), "trust_domain = \"aip.local\"\n").unwrap();
    let text = format!(
        r#"
trust_domain = "aip.local"
replica = "gateway-1"
data_dir = "data"
directory = "directory.toml"
signing_key = "gateway.key"
nats = {{ url = "{nats_url}", seed = "{}" }}
http = {{ bind = "127.0.0.1:0" }}
"#,
        seed.display()
    );
    let path = folder.join("gateway.toml");
    std::fs::write(&path, text).unwrap();
    Config::load(Some(&path), Flags::default()).unwrap()
}

fn beside(nats: &TestNats) -> Config {
    configure(&nats.scratch().join("gateway"), &nats.url(), &nats.seed_file(&Identity::Gateway))
}

fn exposition() -> Exposition {
    Arc::new(String::new)
}

struct Running {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl Running {
    async fn start(config: Config) -> Running {
        let service = Service::build(config, exposition()).await.unwrap();
        let (address, stop) = (service.http_address().unwrap(), CancellationToken::new());
        let task = tokio::spawn(service.run(stop.clone().cancelled_owned()));
        Running { address, stop, task }
    }

    /// Status and body of an answer.
    async fn ask(&self, head: &str, text: &str) -> Option<(u16, Value)> {
        let mut stream = TcpStream::connect(self.address).await.ok()?;
        let request = format!(
            "{head} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{text}",
            text.len()
        );
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((status, serde_json::from_str(body).ok()?))
    }

    async fn ready(&self) -> Option<(u16, Value)> {
        self.ask("GET /ready", "").await
    }

    async fn becomes(&self, status: u16) -> Value {
        wait_for_some("readiness to change", PATIENCE, || async {
            self.ready().await.and_then(|(said, body)| (said == status).then_some(body))
        })
        .await
    }

    async fn end(self) -> Result<(), RunError> {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.task).await.unwrap().unwrap()
    }
}

async fn connect(nats: &TestNats, identity: Identity) -> Bus {
    let (seed_file, name) = (nats.seed_file(&identity), identity.to_string());
    let bus = Bus::connect(aip_bus::Settings { url: nats.url(), identity, seed_file, name }).await.unwrap();
    bus.ready(PATIENCE).await.unwrap();
    bus
}

fn code(envelope: &Value) -> Option<&str> {
    envelope["body"]["error"]["error"]["code"].as_str()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_serves_both_doors_follows_its_server_and_ends_cleanly() {
    let mut nats = TestNats::start().await;
    let running = Running::start(beside(&nats)).await;
    assert_eq!(running.becomes(200).await, json!({ "status": "ready" }));

    let bare = json!({ "capability_id": "cap:none", "input": {} }).to_string();
    let (status, envelope) = running.ask("POST /aip/v1/actions", &bare).await.unwrap();
    assert_eq!((status, code(&envelope)), (401, Some(codes::AUTH_MISSING.name)));
    let (status, envelope) = running.ask("GET /aip/v1/manifest", "").await.unwrap();
    assert_eq!((status, code(&envelope)), (401, Some(codes::AUTH_MISSING.name)));

    let client = connect(&nats, TestNats::client("alice")).await;
    let action = Action::new(ActionId::generate(), CapabilityId::parse("cap:none").unwrap(), json!({}));
    let envelope = serde_json::to_value(Envelope::new(action, Timestamp::now())).unwrap();
    let parcel = Parcel::new(&TransportMessage { envelope, metadata: None }).unwrap();
    let subject = "aip.v1.aip_local.gateway.v1.aip_core_v1_action";
    let reply = wait_for_some("the queue group", PATIENCE, || async {
        client.request(subject, parcel.clone(), PATIENCE).await.ok()
    })
    .await;
    let reply: Value = serde_json::from_slice(&reply.payload).unwrap();
    assert_eq!(code(&reply["envelope"]), Some(codes::AUTH_MISSING.name));

    nats.server.kill().await.unwrap();
    let said = running.becomes(503).await;
    assert_eq!(said["status"], "not_ready");
    assert!(said["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{said}");
    assert_eq!(running.ask("GET /health", "").await.unwrap().0, 200);
    nats.server.restart().await.unwrap();
    running.becomes(200).await;

    running.end().await.unwrap();
    let admin = connect(&nats, Identity::Admin).await;
    wait_for("the group to be empty", PATIENCE, || async {
        admin.client().request("$SRV.PING.gateway", "".into()).await.is_err()
    })
    .await;
}

#[tokio::test]
async fn without_its_server_a_gateway_starts_and_says_why_it_is_not_ready() {
    let nats = TestNats::start().await;
    let port = aip_testkit::free_port();
    let seed = nats.seed_file(&Identity::Gateway);
    let config = configure(&nats.scratch().join("alone"), &format!("nats://127.0.0.1:{port}"), &seed);
    // nothing is under way at the end, so no time is needed for it
    let limits = crate::config::Limits { drain_ms: 0, ..config.limits };
    let running = Running::start(Config { limits, ..config }).await;
    let said = running.becomes(503).await;
    assert!(said["reason"].as_str().unwrap().contains("nats-server"), "{said}");
    let action = json!({ "capability_id": "cap:none", "input": {} }).to_string();
    let (status, _) = running.ask("POST /aip/v1/actions", &action).await.unwrap();
    assert_eq!(status, 401);
    running.end().await.unwrap();
}

#[tokio::test]
async fn what_is_wrong_at_the_start_ends_the_start() {
    let nats = TestNats::start().await;
    let config = beside(&nats);
    let failed = async |config: Config| {
        let Err(error) = Service::build(config, exposition()).await else { panic!("it started") };
        (error.exit_code(), error)
    };

    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut busy = config.clone();
    busy.http.bind = taken.local_addr().unwrap();
    assert!(matches!(failed(busy).await, (3, RunError::Bind { .. })));

    let scratch = Scratch::new();
    let mut keyless = config.clone();
    keyless.signing_key = scratch.join("none.key");
    assert!(matches!(failed(keyless).await, (2, RunError::Key { .. })));

    let mut lost = config.clone();
    lost.directory = scratch.join("none.toml");
    assert!(matches!(failed(lost).await, (2, RunError::Directory { .. })));

    let mut foreign = config.clone();
    foreign.trust_domain = aip_names::TrustDomain::new("aip.other").unwrap();
    assert!(matches!(failed(foreign).await, (2, RunError::Gateway(GatewayError::TrustDomain { .. }))));

    let mut unknown = config.clone();
    unknown.nats.seed = scratch.join("none.nk");
    assert!(matches!(failed(unknown).await, (2, RunError::Bus(BusError::Seed { .. }))));

    let first = Service::build(config.clone(), exposition()).await.unwrap();
    assert!(matches!(failed(config).await, (3, RunError::Gateway(GatewayError::Ledger(_)))));
    drop(first);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blink_of_the_ledger_neither_closes_the_door_nor_loses_an_answer() {
    let nats = TestNats::start().await;
    let (bus, client) =
        (connect(&nats, Identity::Gateway).await, connect(&nats, TestNats::client("alice")).await);
    let front = Fake::held();
    let edge = front.edge(Via::Nats, fake::bounds());
    let (said, readiness) = watch::channel(Readiness::Ready);
    let stop = CancellationToken::new();
    let join = join(bus, beside(&nats).trust_domain, edge, fake::bounds());
    let attending = tokio::spawn(aip_service::attend(readiness, stop.clone(), join));

    let envelope = json!({
        "aip_version": "1.0", "message_type": "aip.core.v1.action", "message_id": "msg_1", "body": { "action": {} },
    });
    let parcel = Parcel::new(&TransportMessage { envelope, metadata: None }).unwrap();
    let ask = || {
        let (client, parcel) = (client.clone(), parcel.clone());
        let subject = "aip.v1.aip_local.gateway.v1.aip_core_v1_action";
        async move {
            wait_for_some("the queue group", PATIENCE, || async {
                let asked = client.request(subject, parcel.clone(), PATIENCE).await;
                asked
                    .map_err(|error| assert!(matches!(error, aip_bus::RequestError::NoResponders { .. })))
                    .ok()
            })
            .await
        }
    };
    let inside = tokio::spawn(ask());
    wait_for("a request inside", PATIENCE, || async { front.seen().len() == 1 }).await;
    said.send(Readiness::NotReady { reason: "a blink".to_owned() }).unwrap();
    let admin = connect(&nats, Identity::Admin).await;
    wait_for("the group to be empty", PATIENCE, || async {
        admin.client().request("$SRV.PING.gateway", "".into()).await.is_err()
    })
    .await;
    said.send(Readiness::Ready).unwrap();
    let next = tokio::spawn(ask());
    wait_for("the next one inside, while the first still is", PATIENCE, || async { front.seen().len() == 2 })
        .await;
    assert!(!inside.is_finished());
    front.gate.add_permits(2);
    for answered in [inside, next] {
        let reply: Value = serde_json::from_slice(&answered.await.unwrap().payload).unwrap();
        assert!(code(&reply["envelope"]).is_none(), "{reply}");
    }
    stop.cancel();
    tokio::time::timeout(PATIENCE, attending).await.unwrap().unwrap();
}
