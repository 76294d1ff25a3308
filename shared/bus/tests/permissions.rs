//! What each identity can and cannot do on a real server, whatever its program tries.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::time::Duration;

use aip_bus::{Bus, Ensured, Settings, jetstream};
use aip_names::{
    Atom, Identity, MessageType, Service, Subject, Version, chunk_stream_name, ledger_stream,
    ledger_stream_name,
};
use aip_testkit::{TestNats, wait_for_some};
use async_nats::Client;
use futures_util::{FutureExt, StreamExt};

const SOON: Duration = Duration::from_secs(10);

async fn bus(nats: &TestNats, identity: Identity) -> Bus {
    let settings = Settings {
        url: nats.url(),
        seed_file: nats.seed_file(&identity),
        name: format!("test-{identity}"),
        identity,
    };
    let bus = Bus::connect(settings).await.unwrap();
    bus.ready(SOON).await.unwrap();
    bus
}

/// The same identity on a connection that reports the server's refusals.
async fn raw(nats: &TestNats, identity: &Identity) -> (Client, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let (events_in, events) = tokio::sync::mpsc::unbounded_channel();
    let seed = std::fs::read_to_string(nats.seed_file(identity)).unwrap();
    let options = async_nats::ConnectOptions::with_nkey(seed.trim().to_owned())
        .custom_inbox_prefix(aip_names::inbox_prefix(identity))
        .event_callback(move |event| {
            let _ = events_in.send(event.to_string());
            async {}
        });
    (options.connect(nats.url()).await.unwrap(), events)
}

/// Publishes on each subject and expects a refusal that names it.
async fn refused_publishing(nats: &TestNats, identity: Identity, subjects: &[String]) {
    let (client, mut events) = raw(nats, &identity).await;
    for subject in subjects {
        client.publish(subject.clone(), "x".into()).await.unwrap();
        refusal(&mut events, &identity, subject).await;
    }
}

/// Subscribes to each subject and expects a refusal that names it.
async fn refused_subscribing(nats: &TestNats, identity: Identity, subjects: &[String]) {
    let (client, mut events) = raw(nats, &identity).await;
    for subject in subjects {
        let _subscriber = client.subscribe(subject.clone()).await.unwrap();
        refusal(&mut events, &identity, subject).await;
    }
}

async fn refusal(events: &mut tokio::sync::mpsc::UnboundedReceiver<String>, who: &Identity, subject: &str) {
    let quoted = format!("\"{subject}\"");
    let wait = async {
        while let Some(event) = events.recv().await {
            if event.contains("Permissions Violation") && event.contains(&quoted) {
                return;
            }
        }
    };
    tokio::time::timeout(SOON, wait).await.unwrap_or_else(|_| panic!("{who} was not refused {subject}"));
}

fn message(service: &str, message_type: &str) -> String {
    let (service, message_type) = (Service::new(service).unwrap(), MessageType::new(message_type).unwrap());
    Subject::message(&TestNats::trust_domain(), &service, Version::V1, &message_type).to_string()
}

fn ledger_subject() -> String {
    Subject::ledger(&TestNats::trust_domain(), &Service::gateway(), 0).to_string()
}

fn chunk_subject() -> String {
    let action = Atom::new("act_1").unwrap();
    Subject::chunks(&TestNats::trust_domain(), &Service::gateway(), action).to_string()
}

const CORRELATION_STREAM: &str = "aip.v1.aip_local.gateway.v1.stream.corr_1";

/// Everything by which the ledger or the chunk log could be written, read, changed or destroyed.
fn log_doors() -> Vec<String> {
    let (td, gateway) = (TestNats::trust_domain(), Service::gateway());
    let mut doors = doors(&ledger_stream_name(&td, &gateway, 0), ledger_subject());
    doors.extend(self::doors(&chunk_stream_name(&td, &gateway), chunk_subject()));
    // a stream of one's own that sources a log, or catches its subject
    doors.push("$JS.API.STREAM.CREATE.mine".to_owned());
    doors
}

fn doors(stream: &str, subject: String) -> Vec<String> {
    let stream_verbs =
        ["CREATE", "UPDATE", "DELETE", "PURGE", "MSG.GET", "MSG.DELETE", "SNAPSHOT", "RESTORE"];
    let mut doors: Vec<String> =
        stream_verbs.iter().map(|verb| format!("$JS.API.STREAM.{verb}.{stream}")).collect();
    doors.push(subject);
    doors.push(format!("$JS.API.DIRECT.GET.{stream}"));
    doors.push(format!("$JS.API.CONSUMER.CREATE.{stream}.spy"));
    doors.push(format!("$JS.API.CONSUMER.DURABLE.CREATE.{stream}.spy"));
    doors.push(format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.tail"));
    doors
}

#[tokio::test]
async fn a_client_reaches_the_gateway_and_nothing_else() {
    let nats = TestNats::start().await;
    let mut forbidden = log_doors();
    forbidden.push(message("sandbox-restaurant", "aip.core.v1.action"));
    forbidden.push(CORRELATION_STREAM.to_owned());
    forbidden.push("_INBOX.client-bob.x.1".to_owned());
    forbidden.push("$SRV.PING".to_owned());
    refused_publishing(&nats, TestNats::client("alice"), &forbidden).await;
    let unheard = [
        ">",
        "_INBOX.>",
        "_INBOX.client-bob.>",
        "aip.>",
        "$SRV.PING",
        &ledger_subject(),
        &message("sandbox-restaurant", "aip.core.v1.action"),
        &message("gateway", "aip.core.v1.action"),
        &chunk_subject(),
    ];
    refused_subscribing(&nats, TestNats::client("alice"), &unheard.map(str::to_owned)).await;
    // unlike alice, bob may not hear streams
    let streams = ["aip.v1.aip_local.gateway.v1.stream.*", CORRELATION_STREAM];
    refused_subscribing(&nats, TestNats::client("bob"), &streams.map(str::to_owned)).await;
}

#[tokio::test]
async fn a_client_that_wants_to_hear_everything_hears_nothing() {
    let nats = TestNats::start().await;
    let gateway = bus(&nats, Identity::Gateway).await;
    let action = message("gateway", "aip.core.v1.action");
    let group = aip_names::queue_group(&Service::gateway()).to_owned();
    let mut asked = gateway.client().queue_subscribe(action.clone(), group).await.unwrap();
    gateway.client().flush().await.unwrap();
    let answering = gateway.client().clone();
    tokio::spawn(async move {
        while let Some(request) = asked.next().await {
            answering.publish(request.reply.unwrap(), "the answer".into()).await.unwrap();
        }
    });
    let (curious, mut events) = raw(&nats, &TestNats::client("bob")).await;
    let mut heard = Vec::new();
    for subject in [">", "*.>", "aip.>", "_INBOX.>", "$JS.>", "$SYS.>"] {
        heard.push(curious.subscribe(subject).await.unwrap());
        refusal(&mut events, &TestNats::client("bob"), subject).await;
    }
    let alice = bus(&nats, TestNats::client("alice")).await;
    for client in [alice.client(), &curious] {
        let answer = wait_for_some("an answer", SOON, || async {
            client.request(action.clone(), "a question".into()).await.ok()
        });
        assert_eq!(answer.await.payload, "the answer");
    }
    // his own answer came after whatever he could have heard of hers
    for subscriber in &mut heard {
        assert!(subscriber.next().now_or_never().flatten().is_none());
    }
}

#[tokio::test]
async fn a_worker_serves_its_own_service_and_registers() {
    let nats = TestNats::start().await;
    let mut forbidden = log_doors();
    forbidden.push(message("gateway", "aip.core.v1.action"));
    forbidden.push(message("sandbox-restaurant", "aip.core.v1.action"));
    forbidden.push("_INBOX.gateway.x.1".to_owned());
    refused_publishing(&nats, TestNats::worker("restaurant"), &forbidden).await;
    let unheard = [
        "_INBOX.gateway.>",
        &ledger_subject(),
        // outside the queue group it would hear a copy of every action
        &message("sandbox-restaurant", "aip.core.v1.action"),
        &message("sandbox-accounts", "aip.core.v1.action"),
        &message("gateway", "aip.core.v1.action"),
        &chunk_subject(),
        CORRELATION_STREAM,
    ];
    refused_subscribing(&nats, TestNats::worker("restaurant"), &unheard.map(str::to_owned)).await;

    let gateway = bus(&nats, Identity::Gateway).await;
    let manifest = message("gateway", "aip.discovery.v1.manifest_response");
    let heard = gateway.client().queue_subscribe(manifest.clone(), "gateway".to_owned()).await.unwrap();
    gateway.client().flush().await.unwrap();
    let heard = tokio::sync::Mutex::new(heard);
    let worker = bus(&nats, TestNats::worker("restaurant")).await;
    let registered = wait_for_some("the registration", SOON, || async {
        worker.client().publish(manifest.clone(), "m".into()).await.unwrap();
        tokio::time::timeout(Duration::from_millis(200), heard.lock().await.next()).await.ok().flatten()
    });
    assert_eq!(registered.await.payload, "m");
}

#[tokio::test]
async fn the_admin_sees_services_and_streams_but_no_message() {
    let nats = TestNats::start().await;
    let mut forbidden = log_doors();
    forbidden.push(message("gateway", "aip.core.v1.action"));
    refused_publishing(&nats, Identity::Admin, &forbidden).await;
    refused_subscribing(&nats, Identity::Admin, &[">".to_owned(), "aip.>".to_owned(), ledger_subject()])
        .await;
}

#[tokio::test]
async fn the_gateway_makes_writes_and_reads_its_ledger() {
    let nats = TestNats::start().await;
    let gateway = bus(&nats, Identity::Gateway).await;
    let spec = ledger_stream(&TestNats::trust_domain(), &Service::gateway(), 0, 1);
    assert_eq!(gateway.ensure_stream(&spec).await.unwrap(), Ensured::Created);
    let context = gateway.jetstream();
    for record in ["one", "two"] {
        let stored = context.publish(ledger_subject(), record.into()).await.unwrap().await.unwrap();
        assert_eq!(stored.stream, spec.name);
    }
    let stream = context.get_stream(&spec.name).await.unwrap();
    let config = jetstream::consumer::pull::Config {
        name: Some("tail-test".to_owned()),
        deliver_policy: jetstream::consumer::DeliverPolicy::ByStartSequence { start_sequence: 1 },
        ack_policy: jetstream::consumer::AckPolicy::None,
        memory_storage: true,
        num_replicas: 1,
        inactive_threshold: Duration::from_millis(aip_names::ledger_tail().inactive_ms),
        ..Default::default()
    };
    let consumer = stream.create_consumer(config).await.unwrap();
    let mut messages = consumer.messages().await.unwrap();
    for record in ["one", "two"] {
        assert_eq!(messages.next().await.unwrap().unwrap().payload, record);
    }
    assert_eq!(stream.get_raw_message(2).await.unwrap().payload, "two");
    drop(messages);
    stream.delete_consumer("tail-test").await.unwrap();
    // what nobody may do
    refused_publishing(
        &nats,
        Identity::Gateway,
        &[
            format!("$JS.API.STREAM.DELETE.{}", spec.name),
            format!("$JS.API.STREAM.PURGE.{}", spec.name),
            "$JS.API.STREAM.CREATE.other".to_owned(),
            format!(
                "$JS.API.STREAM.PURGE.{}",
                chunk_stream_name(&TestNats::trust_domain(), &Service::gateway())
            ),
            "aip.v1.aip_local.callback-outbox-ledger.v1.0".to_owned(),
        ],
    )
    .await;
}
