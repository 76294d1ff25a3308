//! The NATS door on a real nats-server, asked by a client with a client's permissions.

use std::time::Duration;

use aip_bus::{Bus, Parcel, Settings};
use aip_names::{Identity, limits};
use aip_testkit::{TestNats, wait_for};
use async_nats::Message;
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};

use super::*;
use crate::edge::fake::{self, Fake, Seen};

const PATIENCE: Duration = Duration::from_secs(20);

struct Rig {
    client: Bus,
    admin: Bus,
    gateway: Bus,
    serving: Serving,
    // dropped last: the connections end before their server
    nats: TestNats,
}

impl Rig {
    async fn new(front: &Fake) -> Rig {
        Rig::bounded(front, fake::bounds()).await
    }

    async fn bounded(front: &Fake, bounds: Bounds) -> Rig {
        let nats = TestNats::start().await;
        let gateway = connect(&nats, Identity::Gateway).await;
        let client = connect(&nats, TestNats::client("alice")).await;
        let edge = front.edge(Via::Nats, bounds);
        let serving = serve(&gateway, &TestNats::trust_domain(), edge, bounds).await.unwrap();
        let admin = connect(&nats, Identity::Admin).await;
        // discovery is subscribed to after the messages are
        wait_for("the door to be open", PATIENCE, || async {
            admin.client().request("$SRV.PING.gateway", "".into()).await.is_ok()
        })
        .await;
        Rig { client, admin, gateway, serving, nats }
    }

    async fn ask(&self, message_type: &str, parcel: Parcel) -> Reply {
        ask(&self.client, message_type, parcel).await
    }
}

async fn connect(nats: &TestNats, identity: Identity) -> Bus {
    let settings = Settings {
        url: nats.url(),
        seed_file: nats.seed_file(&identity),
        name: identity.to_string(),
        identity,
    };
    let bus = Bus::connect(settings).await.unwrap();
    bus.ready(PATIENCE).await.unwrap();
    bus
}

fn subject(message_type: &str) -> String {
    let message_type = aip_names::MessageType::new(message_type).unwrap();
    Subject::message(&TestNats::trust_domain(), &Service::gateway(), Version::V1, &message_type).to_string()
}

async fn ask(client: &Bus, message_type: &str, parcel: Parcel) -> Reply {
    Reply::of(client.request(&subject(message_type), parcel, PATIENCE).await.unwrap())
}

fn envelope() -> Value {
    json!({
        "aip_version": "1.0", "message_type": "aip.core.v1.action", "message_id": "msg_1",
        "correlation_id": "corr_1", "body": { "action": { "input": 1.0 } },
    })
}

fn parcel(envelope: Value) -> Parcel {
    let metadata = json!({ "aip.trusted_context": { "tenant": "stolen" } });
    Parcel::new(&TransportMessage { envelope, metadata: metadata.as_object().cloned() }).unwrap()
}

/// What a client gets: always a TransportMessage without metadata.
#[derive(Debug)]
struct Reply {
    envelope: Value,
    headers: aip_bus::HeaderMap,
}

impl Reply {
    #[track_caller]
    fn of(message: Message) -> Reply {
        let mut frame: Value = serde_json::from_slice(&message.payload).unwrap();
        let envelope = frame["envelope"].take();
        assert_eq!(frame, json!({ "envelope": null }));
        Reply { envelope, headers: message.headers.unwrap() }
    }

    fn code(&self) -> &str {
        fake::code(&self.envelope)
    }
}

#[tokio::test]
async fn an_envelope_goes_in_without_its_metadata_and_the_reply_is_framed() {
    let front = Fake::new();
    let rig = Rig::new(&front).await;
    let reply = rig.ask("aip.core.v1.action", parcel(envelope())).await;
    let expected = front.reply.lock().unwrap().envelope.clone();
    assert_eq!(reply.envelope, expected);
    for (header, member) in [
        ("AIP-Version", "aip_version"),
        ("AIP-Message-Type", "message_type"),
        ("AIP-Message-Id", "message_id"),
    ] {
        assert_eq!(reply.headers.get(header).unwrap().as_str(), expected[member].as_str().unwrap());
    }
    let came = Seen::Message { text: envelope().to_string(), bearer: None, via: Via::Nats };
    assert_eq!(front.seen(), [came]);
}

#[tokio::test]
async fn what_disagrees_with_the_envelope_or_is_no_frame_is_refused() {
    let front = Fake::new();
    let rig = Rig::new(&front).await;
    let reply = rig.ask("aip.core.v1.cancel", parcel(envelope())).await;
    assert_eq!(reply.code(), codes::TRANSPORT_HEADERS.name);
    let mut lying = parcel(envelope());
    lying.headers.insert("AIP-Message-Id", "msg_2");
    let reply = rig.ask("aip.core.v1.action", lying).await;
    assert_eq!(reply.code(), codes::TRANSPORT_HEADERS.name);
    assert_eq!(reply.envelope["in_response_to"], "msg_1");
    let mut broken = parcel(envelope());
    broken.payload = "{\"envelope\":".into();
    let reply = rig.ask("aip.core.v1.action", broken).await;
    assert_eq!(reply.code(), codes::TRANSPORT_FRAME.name);
    assert_eq!(reply.headers.get("AIP-Message-Type").unwrap().as_str(), "aip.core.v1.error");
    assert_eq!(front.seen(), []);
}

#[tokio::test]
async fn a_message_that_wants_no_answer_is_handled_and_counted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let exposition = recorder.handle();
    // a test runs on one thread, so this recorder hears the door and no other test
    let _heard = metrics::set_default_local_recorder(&recorder);
    let front = Fake::new();
    let rig = Rig::new(&front).await;
    rig.client.publish(&subject("aip.core.v1.action"), parcel(envelope())).await.unwrap();
    wait_for("the count", PATIENCE, || async { exposition.render().contains("aip_edge_unanswered_total 1") })
        .await;
    assert_eq!(front.ended(), 1);
    rig.ask("aip.core.v1.cancel", parcel(envelope())).await;
    let text = exposition.render();
    for line in [
        r#"aip_edge_requests_total{edge="nats",message_type="aip.core.v1.action",code="ok"} 1"#,
        r#"aip_edge_requests_total{edge="nats",message_type="aip.core.v1.action",code="aip.transport.headers_mismatch"} 1"#,
        r#"aip_edge_requests_running{edge="nats"} 0"#,
        r#"aip_edge_request_seconds_count{edge="nats",message_type="aip.core.v1.action"} 2"#,
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[tokio::test]
async fn the_services_api_lists_the_gateway() {
    let rig = Rig::new(&Fake::new()).await;
    let info = rig.admin.client().request("$SRV.INFO.gateway", "".into()).await.unwrap();
    let info: Value = serde_json::from_slice(&info.payload).unwrap();
    assert_eq!(info["name"], "gateway");
    assert_eq!(info["endpoints"][0]["subject"], "aip.v1.aip_local.gateway.v1.*");
    assert_eq!(info["endpoints"][0]["queue_group"], "gateway");
}

#[tokio::test]
async fn a_full_door_says_so_at_once() {
    let front = Fake::held();
    let rig = Rig::bounded(&front, Bounds { in_flight: 1, ..fake::bounds() }).await;
    let client = rig.client.clone();
    let first = tokio::spawn(async move { ask(&client, "aip.core.v1.action", parcel(envelope())).await });
    wait_for("one inside", PATIENCE, || async { front.seen().len() == 1 }).await;
    let reply = rig.ask("aip.core.v1.action", parcel(envelope())).await;
    assert_eq!(reply.code(), codes::SERVICE_OVERLOADED.name);
    assert_eq!(reply.envelope["body"]["error"]["error"]["retry_after_ms"], limits::DOOR_RETRY_AFTER_MS);
    front.gate.add_permits(1);
    assert_eq!(first.await.unwrap().code(), "none");
}

#[tokio::test]
async fn a_panic_behind_the_door_is_an_answer() {
    let rig = Rig::new(&Fake { panics: true, ..Fake::new() }).await;
    let reply = rig.ask("aip.core.v1.action", parcel(envelope())).await;
    assert_eq!(reply.code(), codes::SERVICE_INTERNAL.name);
}

#[tokio::test]
async fn a_reply_that_does_not_fit_is_an_error() {
    let mut reply = fake::ok();
    reply.envelope["trace"] = Value::from("x".repeat(limits::TRANSPORT_MESSAGE_BYTES_MAX));
    let rig = Rig::new(&Fake::answering(reply)).await;
    let reply = rig.ask("aip.core.v1.action", parcel(envelope())).await;
    assert_eq!(reply.code(), codes::SERVICE_REPLY_TOO_LARGE.name);
}

#[tokio::test]
async fn draining_sends_the_replies_of_what_was_taken() {
    let front = Fake::held();
    let Rig { client, gateway, serving, nats, admin: _ } = Rig::new(&front).await;
    let waiting = tokio::spawn(async move { ask(&client, "aip.core.v1.action", parcel(envelope())).await });
    wait_for("one inside", PATIENCE, || async { front.seen().len() == 1 }).await;
    let draining = tokio::spawn(serving.drain(PATIENCE));
    front.gate.add_permits(1);
    assert!(draining.await.unwrap());
    // the process may end here: the reply is with the server
    drop(gateway);
    assert_eq!(waiting.await.unwrap().code(), "none");
    drop(nats);
}
