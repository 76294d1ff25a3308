//! What a worker streams, against a gateway that answers chunks as the test wants.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use aip_bus::Parcel;
use aip_crypto::SigningKey;
use aip_names::limits::{WORKER_CHUNK_PATIENCE_MS, WORKER_CHUNKS_QUEUED_MAX};
use aip_names::{MessageType, Service, Subject, Version, queue_consumer, queue_stream};
use aip_sdk::{ActionError, CapabilitySpec, ChunkError, Context, Worker, WorkerConfig};
use aip_testkit::{TestNats, wait_for, wait_for_some};
use aip_wire::attempt::{Phase, Report, STREAM_EXTENSION};
use aip_wire::trusted::METADATA_KEY;
use aip_wire::{
    Action, ActionResult, Envelope, ErrorBody, MessageBody, ProtocolError, StreamChunk, StreamChunkKind,
    Timestamp, TransportMessage, codes,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::fake::{FakeGateway, Reply, SOON, action, bus, context, principal};

const CAPABILITY: &str = "cap:test:stream";
const SERVICE: &str = "sandbox-restaurant";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Order {
    chunks: usize,
    #[serde(default)]
    fail: bool,
}

/// What the handler of a test tells it.
#[derive(Default)]
struct Heard {
    sent: AtomicUsize,
    superseded: AtomicBool,
}

async fn stream(heard: Arc<Heard>, context: Context, order: Order) -> Result<usize, ActionError> {
    for chunk in 0..order.chunks {
        match context.chunks().data(json!(chunk)).await {
            Ok(()) => {}
            Err(ChunkError::Superseded) => {
                context.stop().cancelled().await;
                heard.superseded.store(true, Ordering::SeqCst);
                break;
            }
            Err(error) => return Err(ActionError::permanent("test.chunk", error.to_string())),
        }
        heard.sent.fetch_add(1, Ordering::SeqCst);
    }
    if order.fail { Err(ActionError::permanent("test.failed", "told to")) } else { Ok(order.chunks) }
}

async fn worker(nats: &TestNats, heard: &Arc<Heard>) -> Worker {
    let config = WorkerConfig::new(
        TestNats::trust_domain(),
        Service::new(SERVICE).unwrap(),
        principal("service:restaurant"),
        Arc::new(SigningKey::generate().unwrap()),
        nats.scratch().join("worker.redb"),
    );
    let spec = CapabilitySpec::read(CAPABILITY, "Stream", "Streams.");
    let (streams, quiet) = (Arc::clone(heard), Arc::clone(heard));
    let worker = Worker::builder(config)
        .capability(spec.clone().streaming(), move |context, order| stream(streams.clone(), context, order))
        .capability(CapabilitySpec { id: "cap:test:quiet".to_owned(), ..spec }, move |context, order| {
            stream(quiet.clone(), context, order)
        })
        .start(&bus(nats, TestNats::worker("restaurant")).await)
        .await
        .unwrap();
    worker.registered().await.unwrap();
    worker
}

/// Puts the third attempt at an action into the worker's queue, as the gateway does.
async fn enqueue(gateway: &FakeGateway, action: &Action) {
    enqueue_for(gateway, action, 60_000).await;
}

async fn enqueue_for(gateway: &FakeGateway, action: &Action, deadline_ms: u64) {
    let (td, service) = (TestNats::trust_domain(), Service::new(SERVICE).unwrap());
    let name = MessageType::new("aip.core.v1.action").unwrap();
    let consumer = queue_consumer(&td, &service, Version::V1, &name);
    gateway.bus.ensure_queue(&queue_stream(&td, &service, 1), &consumer).await.unwrap();
    let mut context = context(action, deadline_ms);
    context.contract_hash = gateway.contract_hash(&action.capability_id).unwrap();
    let message = TransportMessage {
        envelope: serde_json::to_value(Envelope::new(action.clone(), Timestamp::now())).unwrap(),
        metadata: Some(
            [(METADATA_KEY.to_owned(), serde_json::to_value(context).unwrap())].into_iter().collect(),
        ),
    };
    let subject = Subject::queue(&td, &service, Version::V1, &name).to_string();
    gateway.bus.enqueue(&subject, action.id.as_str(), Parcel::new(&message).unwrap()).await.unwrap();
}

fn streaming(chunks: usize, fail: bool) -> Action {
    let mut action = action(CAPABILITY, json!({ "chunks": chunks, "fail": fail }));
    action.mode = Some(aip_wire::ActionMode::Streaming);
    action
}

/// Answers everything but chunks; a takeover goes on from `next`.
fn usual(envelope: &Envelope, next: u64) -> Reply {
    match &envelope.body {
        MessageBody::Manifest(_) => Reply::manifest(),
        MessageBody::Heartbeat(beat) => {
            let ack = json!({ "sequence": beat.sequence, "received_at": Timestamp::now() });
            let ack = serde_json::from_value(ack).map(MessageBody::HeartbeatAck).unwrap();
            let mut reply = Envelope::reply_to(envelope, ack, Timestamp::now());
            if phase(envelope) == Phase::Started {
                reply.extensions = Some(json!({ STREAM_EXTENSION: { "next_sequence": next } }));
            }
            Reply::Signed(Box::new(reply))
        }
        MessageBody::ActionResult(result) => Reply::Body(ack(&result.action_id, "accepted")),
        other => panic!("{other:?}"),
    }
}

fn ack(action: &aip_wire::ActionId, status: &str) -> MessageBody {
    let body = json!({ "action_id": action, "status": status });
    MessageBody::Ack(serde_json::from_value(body).unwrap())
}

fn phase(envelope: &Envelope) -> Phase {
    Report::read(envelope.extensions.as_ref()).unwrap().unwrap().phase
}

fn chunks(gateway: &FakeGateway) -> Vec<StreamChunk> {
    let seen = gateway.seen().into_iter().filter_map(|envelope| match envelope.body {
        MessageBody::StreamChunk(chunk) => Some(*chunk),
        _ => None,
    });
    seen.collect()
}

async fn result(gateway: &FakeGateway) -> ActionResult {
    result_within(gateway, SOON).await
}

async fn result_within(gateway: &FakeGateway, within: Duration) -> ActionResult {
    wait_for_some("a result", within, || async {
        gateway.seen().into_iter().find_map(|envelope| match envelope.body {
            MessageBody::ActionResult(result) => Some(*result),
            _ => None,
        })
    })
    .await
}

fn told(chunk: &StreamChunk) -> (u64, StreamChunkKind, Option<Value>) {
    (chunk.sequence, chunk.kind, chunk.data.clone())
}

#[tokio::test]
async fn chunks_are_numbered_and_signed_and_the_last_one_comes_before_the_result() {
    let nats = TestNats::start().await;
    let silent = AtomicBool::new(true);
    let gateway = FakeGateway::start(&nats, move |_, envelope| match &envelope.body {
        // the answer to the first is lost
        MessageBody::StreamChunk(_) if silent.swap(false, Ordering::SeqCst) => Reply::Silence,
        // an attempt that does not count any more has said something there
        MessageBody::StreamChunk(chunk) if chunk.sequence == 5 => {
            let mut error = ProtocolError::of(codes::STREAM_TAKEN, "taken");
            error.details = Some(json!({ "next_sequence": 8 }));
            Reply::Body(ErrorBody { error }.into())
        }
        MessageBody::StreamChunk(chunk) => Reply::Body(ack(&chunk.action_id, "streaming")),
        _ => usual(envelope, 4),
    })
    .await;
    let worker = worker(&nats, &Arc::default()).await;
    let registered = gateway.seen().into_iter().find_map(|envelope| match envelope.body {
        MessageBody::Manifest(manifest) => Some(manifest),
        _ => None,
    });
    let handlers = registered.unwrap().extensions.unwrap()["aip.worker"]["handlers"].clone();
    assert_eq!(handlers[1]["modes"], json!(["sync", "async", "streaming"]), "{handlers}");

    enqueue(&gateway, &streaming(3, false)).await;
    assert_eq!(result(&gateway).await.output, Some(json!(3)));
    let seen: Vec<_> = chunks(&gateway).iter().map(told).collect();
    let data = |sequence, n: u64| (sequence, StreamChunkKind::Data, Some(json!(n)));
    let expected =
        [data(4, 0), data(4, 0), data(5, 1), data(8, 1), data(9, 2), (10, StreamChunkKind::Done, None)];
    assert_eq!(seen, expected);
    let place = |wanted: fn(&MessageBody) -> bool| {
        gateway.seen().iter().rposition(|envelope| wanted(&envelope.body)).unwrap()
    };
    let last = place(|body| matches!(body, MessageBody::StreamChunk(_)));
    assert!(last < place(|body| matches!(body, MessageBody::ActionResult(_))));
    for (envelope, signer) in gateway.seen().iter().zip(gateway.signers()) {
        if let MessageBody::StreamChunk(_) = envelope.body {
            assert!(signer.is_some());
            assert_eq!(phase(envelope), Phase::Streamed);
        }
    }
    assert!(worker.drain().await);
}

#[tokio::test]
async fn who_streams_faster_than_the_gateway_takes_it_waits() {
    let nats = TestNats::start().await;
    let heard = Arc::<Heard>::default();
    let open = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&open);
    let gateway = FakeGateway::start(&nats, move |_, envelope| match &envelope.body {
        MessageBody::StreamChunk(_) if !gate.load(Ordering::SeqCst) => Reply::Silence,
        MessageBody::StreamChunk(chunk) => Reply::Body(ack(&chunk.action_id, "streaming")),
        _ => usual(envelope, 1),
    })
    .await;
    let _worker = worker(&nats, &heard).await;
    enqueue(&gateway, &streaming(100, false)).await;
    // some wait, one is in flight
    let full = WORKER_CHUNKS_QUEUED_MAX + 1;
    wait_for("a full queue", SOON, || async { heard.sent.load(Ordering::SeqCst) == full }).await;
    wait_for("a second try", SOON, || async { chunks(&gateway).len() >= 2 }).await;
    assert_eq!(heard.sent.load(Ordering::SeqCst), full, "no more are taken");
    open.store(true, Ordering::SeqCst);
    result(&gateway).await;
    let mut sequences: Vec<_> = chunks(&gateway).iter().map(|chunk| chunk.sequence).collect();
    sequences.dedup();
    assert_eq!(sequences, (1..=101).collect::<Vec<_>>(), "all came, in order");
}

#[tokio::test]
async fn an_attempt_that_does_not_count_any_more_is_told_by_its_chunks() {
    let nats = TestNats::start().await;
    let heard = Arc::<Heard>::default();
    let gateway = FakeGateway::start(&nats, |_, envelope| match &envelope.body {
        MessageBody::StreamChunk(_) => Reply::error(codes::ACTION_SUPERSEDED),
        _ => usual(envelope, 1),
    })
    .await;
    let _worker = worker(&nats, &heard).await;
    enqueue(&gateway, &streaming(1_000, false)).await;
    result(&gateway).await;
    assert!(heard.superseded.load(Ordering::SeqCst));
    assert_eq!(chunks(&gateway).len(), 1, "nothing is said after that");
}

#[tokio::test]
async fn a_failure_ends_the_stream_with_an_error_chunk() {
    let nats = TestNats::start().await;
    let gateway = FakeGateway::start(&nats, |_, envelope| match &envelope.body {
        MessageBody::StreamChunk(chunk) => Reply::Body(ack(&chunk.action_id, "streaming")),
        _ => usual(envelope, 1),
    })
    .await;
    let _worker = worker(&nats, &Arc::default()).await;
    enqueue(&gateway, &streaming(1, true)).await;
    result(&gateway).await;
    let (sequence, kind, data) = chunks(&gateway).last().map(told).unwrap();
    assert_eq!((sequence, kind), (2, StreamChunkKind::Error));
    let why: ProtocolError = serde_json::from_value(data.unwrap()).unwrap();
    assert_eq!((why.code.as_str(), why.message.as_str()), ("test.failed", "told to"));
}

#[tokio::test]
async fn a_result_does_not_wait_for_a_stream_that_is_not_taken() {
    let nats = TestNats::start().await;
    let gateway = FakeGateway::start(&nats, |_, envelope| match &envelope.body {
        MessageBody::StreamChunk(chunk) if chunk.sequence == 1 => {
            Reply::Body(ack(&chunk.action_id, "streaming"))
        }
        // the gateway is well, its log of chunks is not
        MessageBody::StreamChunk(_) => Reply::error(codes::SERVICE_NOT_READY),
        _ => usual(envelope, 1),
    })
    .await;
    let worker = worker(&nats, &Arc::default()).await;
    let begun = Instant::now();
    enqueue_for(&gateway, &streaming(9, false), 600_000).await;
    let patience = Duration::from_millis(WORKER_CHUNK_PATIENCE_MS);
    let result = result_within(&gateway, patience + SOON).await;
    assert_eq!(result.output, Some(json!(9)), "what the handler did is not lost");
    assert!(begun.elapsed() >= patience / 2, "it is tried for a while");
    let mut sequences: Vec<_> = chunks(&gateway).iter().map(|chunk| chunk.sequence).collect();
    sequences.dedup();
    assert_eq!(sequences, [1, 2], "and nothing is said behind what is missing");
    assert!(worker.drain().await);
}

#[tokio::test]
async fn nobody_hears_the_chunks_of_a_request_and_undeclared_ones_are_refused() {
    let nats = TestNats::start().await;
    let gateway = FakeGateway::start(&nats, |_, envelope| usual(envelope, 1)).await;
    let _worker = worker(&nats, &Arc::default()).await;
    let ends = |capability: &'static str| {
        let action = action(capability, json!({ "chunks": 40 }));
        let gateway = &gateway;
        async move {
            let answer = gateway.dispatch(&action, 20_000).await.unwrap();
            let MessageBody::ActionResult(result) = answer.body else { panic!("{answer:?}") };
            *result
        }
    };
    assert_eq!(ends(CAPABILITY).await.output, Some(json!(40)));
    let refused = ends("cap:test:quiet").await.error.unwrap();
    assert_eq!(refused.code, "test.chunk");
    assert!(refused.message.contains("does not say that it streams"), "{}", refused.message);
    assert!(chunks(&gateway).is_empty());
}
