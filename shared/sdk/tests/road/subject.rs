//! Following over NATS: what comes by the action's subject, and what is read because it did not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use aip_crypto::SigningKey;
use aip_names::limits::FOLLOW_CHUNK_FAILURES_MAX;
use aip_sdk::{CallOptions, Client, Follow, Told};
use aip_testkit::TestNats;
use aip_wire::codes::Code;
use aip_wire::{
    ActionEvents, ActionId, ActionMode, Envelope, MessageBody, StreamChunk, StreamChunkKind, codes,
};
use serde_json::{Value, json};

use crate::fake::{FakeGateway, Reply, SOON, bus, completed, principal};

/// What the gateway of a test knows.
#[derive(Default)]
struct Known {
    chunks: Mutex<Vec<StreamChunk>>,
    ended: AtomicBool,
    reads: Mutex<usize>,
    /// Chunks can't be read, for this reason.
    unreadable: Mutex<Option<&'static Code>>,
}

impl Known {
    fn answer(&self, envelope: &Envelope) -> Reply {
        match &envelope.body {
            MessageBody::Action(action) => {
                assert_eq!(action.mode, Some(ActionMode::Streaming));
                let ack = json!({ "action_id": action.id, "status": "streaming" });
                Reply::Body(MessageBody::Ack(serde_json::from_value(ack).unwrap()))
            }
            MessageBody::ActionEventsRequest(request) => {
                *self.reads.lock().unwrap() += 1;
                match *self.unreadable.lock().unwrap() {
                    Some(code) if request.include_chunks => return Reply::error(code),
                    Some(_) => {}
                    None => assert!(request.include_chunks),
                }
                let chunks = match request.include_chunks {
                    true => self.chunks.lock().unwrap().clone(),
                    false => Vec::new(),
                };
                let from = request.cursor.as_ref().map_or(0, |cursor| cursor.parse().unwrap());
                Reply::Body(
                    ActionEvents {
                        action_id: request.action_id.clone(),
                        events: Vec::new(),
                        chunks: chunks[from..].to_vec(),
                        cursor: Some(chunks.len().to_string()),
                        terminal: self.ended.load(Ordering::SeqCst),
                    }
                    .into(),
                )
            }
            MessageBody::ActionResultRequest(request) => {
                Reply::Body(completed(&request.action_id, json!("ok")))
            }
            _ => Reply::error(codes::ENVELOPE_NOT_SERVED),
        }
    }
}

struct Stage {
    known: Arc<Known>,
    gateway: FakeGateway,
    action: ActionId,
    follow: Follow,
    _nats: TestNats,
}

async fn stage() -> Stage {
    let nats = TestNats::start().await;
    let known = Arc::<Known>::default();
    let told = Arc::clone(&known);
    let gateway = FakeGateway::start(&nats, move |_, envelope| told.answer(envelope)).await;
    let bus = bus(&nats, TestNats::client("alice")).await;
    let (key, did) = (Arc::new(SigningKey::generate().unwrap()), gateway.key.did().clone());
    let client = Client::on_bus(bus, &TestNats::trust_domain(), principal("agent:alice"), key, Some(did));
    let (action, follow) = client.unwrap().stream("cap:a", json!({}), CallOptions::default()).await.unwrap();
    Stage { known, gateway, action, follow, _nats: nats }
}

impl Stage {
    fn chunk(&self, sequence: u64, kind: StreamChunkKind) -> StreamChunk {
        StreamChunk {
            action_id: self.action.clone(),
            sequence,
            kind,
            data: Some(json!(sequence)),
            part: None,
        }
    }

    /// Keeps a chunk; publishes it, too, if `push`.
    async fn streams(&self, sequence: u64, kind: StreamChunkKind, push: bool) {
        let chunk = self.chunk(sequence, kind);
        self.known.chunks.lock().unwrap().push(chunk.clone());
        if push {
            self.push(chunk.into(), &self.gateway.key).await;
        }
    }

    async fn push(&self, body: MessageBody, key: &SigningKey) {
        let correlation = self.gateway.seen()[0].correlation_id.clone().unwrap();
        self.gateway.publish(correlation.as_str(), body, key).await;
    }

    async fn next(&mut self) -> Option<Told> {
        tokio::time::timeout(SOON, self.follow.next()).await.unwrap().unwrap()
    }

    async fn next_data(&mut self) -> Value {
        match self.next().await {
            Some(Told::Chunk(chunk)) => chunk.data.unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn reads(&self) -> usize {
        *self.known.reads.lock().unwrap()
    }
}

#[tokio::test]
async fn what_did_not_come_by_the_subject_is_read_and_the_gateway_is_believed_alone() {
    use StreamChunkKind::{Data, Done};
    let mut stage = stage().await;
    stage.streams(1, Data, true).await;
    stage.streams(2, Data, true).await;
    assert_eq!((stage.next_data().await, stage.next_data().await), (json!(1), json!(2)));
    assert_eq!(stage.reads(), 0, "nothing is missing");
    // a lost one, a second telling
    stage.streams(3, Data, false).await;
    stage.streams(4, Data, true).await;
    stage.push(stage.chunk(4, Data).into(), &stage.gateway.key).await;
    assert_eq!((stage.next_data().await, stage.next_data().await), (json!(3), json!(4)));
    // a gap that is the worker's
    stage.streams(7, Data, true).await;
    assert_eq!(stage.next_data().await, json!(7));
    // nobody else is heard
    stage.push(stage.chunk(8, Data).into(), &SigningKey::generate().unwrap()).await;
    // the end overtakes the last chunk
    stage.streams(9, Done, false).await;
    stage.push(completed(&stage.action, json!("ok")), &stage.gateway.key).await;
    assert_eq!(stage.next_data().await, json!(9));
    let Some(Told::Result(result)) = stage.next().await else { panic!("no result") };
    assert_eq!(result.output, Some(json!("ok")));
    assert_eq!(stage.next().await, None);
}

#[tokio::test]
async fn when_nothing_comes_all_of_it_is_read() {
    let mut stage = stage().await;
    stage.streams(1, StreamChunkKind::Data, false).await;
    assert_eq!(stage.next_data().await, json!(1));
    stage.streams(2, StreamChunkKind::Done, false).await;
    stage.known.ended.store(true, Ordering::SeqCst);
    assert_eq!(stage.next_data().await, json!(2));
    assert!(matches!(stage.next().await, Some(Told::Result(_))));
    assert_eq!(stage.next().await, None);
}

#[tokio::test]
async fn a_result_is_told_without_chunks_that_are_kept_no_more_or_cannot_be_read() {
    for code in [codes::STREAM_CHUNKS_GONE, codes::STREAM_UNAVAILABLE] {
        let mut stage = stage().await;
        stage.streams(1, StreamChunkKind::Data, true).await;
        assert_eq!(stage.next_data().await, json!(1));
        *stage.known.unreadable.lock().unwrap() = Some(code);
        stage.streams(2, StreamChunkKind::Data, false).await;
        stage.known.ended.store(true, Ordering::SeqCst);
        // each try at a log that is out takes the client a while
        let patience = SOON * FOLLOW_CHUNK_FAILURES_MAX;
        let mut told = Vec::new();
        while let Some(next) = tokio::time::timeout(patience, stage.follow.next()).await.unwrap().unwrap() {
            if !matches!(next, Told::Lost(_)) {
                told.push(next);
            }
        }
        let [Told::Chunk(missing), Told::Result(result)] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!((missing.sequence, missing.kind), (2, StreamChunkKind::Error));
        assert_eq!(missing.data.as_ref().unwrap()["code"], code.name);
        assert_eq!(result.output, Some(json!("ok")));
    }
}
