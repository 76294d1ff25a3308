//! Streams of actions (11.6): a worker that says what it is told, readers of both doors, and a chunk log that gets lost.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use aip_bus::Bus;
use aip_gateway::front::Outbound;
use aip_names::limits::{STREAM_AUTHORITY_MS, STREAM_CLOSE_MS};
use aip_names::{Atom, Identity, Service, Subject, Version, chunk_stream_name};
use aip_testkit::{TestNats, wait_for, wait_for_some};
use aip_wire::{ActionId, CorrelationId, MessageType, codes};
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::live::{Frame, door};
use super::queued::{TAKEN, folders};
use super::world::*;

const SOON: Duration = Duration::from_secs(20);

/// What a worker may stream, with a queue, and what it may not.
async fn offered(world: &World) {
    let mut capability = say("cap:test:say", safe());
    capability["contract"]["execution"]["supports_async"] = json!(true);
    let silent = {
        let mut silent = capability.clone();
        silent["id"] = json!("cap:test:silent");
        silent
    };
    capability["contract"]["execution"]["supports_streaming"] = json!(true);
    let mut manifest = manifest(&[capability, silent]);
    for handler in manifest["extensions"]["aip.worker"]["handlers"].as_array_mut().unwrap() {
        handler["modes"] = json!(["sync", "async", "streaming"]);
    }
    let reply = world.register(manifest).await;
    assert_eq!(reply.status, 200, "{}", reply.envelope);
}

async fn world() -> World {
    let world = World::empty().await;
    offered(&world).await;
    world
}

impl World {
    /// Sends a streaming action under this correlation id, signed.
    async fn ask_to_stream(&self, action: &Value, correlation: &CorrelationId) -> Outbound {
        let mut message = envelope(MessageType::Action, action.clone());
        message["correlation_id"] = json!(correlation);
        self.send(&signed(message, &self.client_key)).await
    }

    async fn streaming(&self) -> (ActionId, CorrelationId) {
        let (action, correlation) = (streamed(), CorrelationId::generate());
        let reply = self.ask_to_stream(&action, &correlation).await;
        assert_eq!(reply.envelope["body"]["ack"]["status"], "streaming", "{}", reply.envelope);
        (ActionId::opaque(action["id"].as_str().unwrap()), correlation)
    }

    async fn chunk(&self, id: &ActionId, worker: &str, attempt: u32, chunk: Value) -> Outbound {
        let report = json!({"action_id": id, "attempt": attempt, "worker": worker, "phase": "streamed"});
        self.reported_chunk(id, report, chunk).await
    }

    async fn reported_chunk(&self, id: &ActionId, report: Value, chunk: Value) -> Outbound {
        let mut body = json!({"action_id": id, "kind": "data"});
        body.as_object_mut().unwrap().extend(chunk.as_object().unwrap().clone());
        let mut message = envelope(MessageType::StreamChunk, body);
        message["extensions"] = json!({"aip.attempt": report});
        self.send(&signed(message, &self.worker_key)).await
    }

    /// A chunk of worker `a`'s first attempt, by number and content; the code of the answer.
    async fn streams(&self, id: &ActionId, sequence: u64, data: &str) -> String {
        let kind = if data == "done" { "done" } else { "data" };
        let chunk = json!({"sequence": sequence, "data": data, "kind": kind});
        let reply = self.chunk(id, "a", 1, chunk).await;
        if code(&reply) == TAKEN {
            assert_eq!(reply.envelope["body"]["ack"]["status"], "streaming", "{}", reply.envelope);
        }
        code(&reply).to_owned()
    }

    /// A page of chunks behind a cursor.
    async fn chunks(&self, id: &ActionId, cursor: Option<&str>, limit: u32) -> Result<Value, Outbound> {
        let mut request = json!({
            "action_id": id, "include_chunks": true, "kinds": ["aip.stream.chunk"], "limit": limit,
        });
        if let Some(cursor) = cursor {
            request["cursor"] = json!(cursor);
        }
        Ok(self.ask(MessageType::ActionEventsRequest, request).await?["action_events"].clone())
    }

    async fn begun(&self) -> (ActionId, CorrelationId) {
        let (id, correlation) = self.streaming().await;
        assert_eq!(self.says(&id, "a", 1, "started").await, TAKEN);
        (id, correlation)
    }
}

fn streamed() -> Value {
    action(json!({"mode": "streaming", "timeout_ms": 600_000}))
}

fn numbers(page: &Value) -> Vec<u64> {
    let chunks = page["chunks"].as_array().cloned().unwrap_or_default();
    chunks.iter().map(|chunk| chunk["sequence"].as_u64().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_has_one_content_and_nothing_follows_the_end() {
    let world = world().await;
    let (id, _) = world.begun().await;
    assert_eq!(world.state(&id).await, "running");
    assert_eq!(world.streams(&id, 0, "zero").await, codes::STREAM_NOT_NEXT.name);
    for (sequence, data) in [(1, "one"), (2, "two"), (2, "two"), (1, "one")] {
        assert_eq!(world.streams(&id, sequence, data).await, TAKEN, "{sequence} {data}");
    }
    assert_eq!(world.state(&id).await, "streaming");
    let taken = world.chunk(&id, "a", 1, json!({"sequence": 2, "data": "other"})).await;
    assert_eq!(code(&taken), codes::STREAM_TAKEN.name);
    assert_eq!(taken.envelope["body"]["error"]["error"]["details"]["next_sequence"], 3);
    assert_eq!(world.streams(&id, 1, "other").await, codes::STREAM_TAKEN.name);
    // a gap is allowed, and never filled
    assert_eq!(world.streams(&id, 5, "five").await, TAKEN);
    assert_eq!(world.streams(&id, 4, "four").await, codes::STREAM_NOT_NEXT.name);
    let large = "x".repeat(aip_names::limits::CHUNK_BYTES_MAX);
    assert_eq!(world.streams(&id, 6, &large).await, codes::LIMIT_CHUNK_BYTES.name);
    let over = aip_names::limits::ACTION_CHUNKS_MAX + 1;
    assert_eq!(world.streams(&id, over, "over").await, codes::LIMIT_ACTION_CHUNKS.name);
    let foreign = world.chunk(&id, "b", 1, json!({"sequence": 6})).await;
    assert_eq!(code(&foreign), codes::ACTION_SUPERSEDED.name);
    assert_eq!(world.streams(&id, 6, "done").await, TAKEN);
    assert_eq!(world.streams(&id, 7, "more").await, codes::STREAM_ENDED.name);
    assert_eq!(world.streams(&id, 6, "done").await, TAKEN);
    assert_eq!(world.says(&id, "a", 1, "ended").await, TAKEN);
    assert_eq!(world.streams(&id, 7, "late").await, codes::STREAM_ENDED.name);
    // pages, and the first one with the status
    let first = world.chunks(&id, None, 3).await.unwrap();
    assert_eq!((numbers(&first), &first["events"]), (vec![1, 2, 5], &json!([])));
    let rest = world.chunks(&id, first["cursor"].as_str(), 3).await.unwrap();
    assert_eq!((numbers(&rest), &rest["terminal"]), (vec![6], &json!(true)));
    let none = world.chunks(&id, rest["cursor"].as_str(), 3).await.unwrap();
    assert_eq!(numbers(&none), Vec::<u64>::new());
    let request = json!({"action_id": id, "include_chunks": true});
    let status = world.ask(MessageType::ActionStatusRequest, request).await.unwrap();
    assert_eq!(numbers(&status["action_status"]), [1, 2, 5, 6]);
    let request = json!({"action_id": id, "include_chunks": true});
    let all = world.ask(MessageType::ActionEventsRequest, request).await.unwrap();
    assert_eq!(numbers(&all["action_events"]), [1, 2, 5, 6]);
    assert!(all["action_events"]["events"].as_array().unwrap().len() >= 4, "{all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_that_grows_too_large_by_what_is_masked_in_it_is_refused_for_good() {
    let world = World::empty().await;
    let mut capability = say("cap:test:say", safe());
    capability["contract"]["execution"]["supports_async"] = json!(true);
    capability["contract"]["execution"]["supports_streaming"] = json!(true);
    capability["contract"]["data"]["redaction_required"] = json!(true);
    let mut manifest = manifest(&[capability]);
    manifest["extensions"]["aip.worker"]["handlers"][0]["modes"] = json!(["sync", "async", "streaming"]);
    assert_eq!(world.register(manifest).await.status, 200);
    let (id, _) = world.begun().await;
    assert_eq!(world.streams(&id, 1, "one").await, TAKEN);
    let small = vec![1; 9_000];
    let refused = world.chunk(&id, "a", 1, json!({"sequence": 2, "kind": "error", "data": small})).await;
    let error = &refused.envelope["body"]["error"]["error"];
    assert_eq!(error["code"], codes::LIMIT_CHUNK_BYTES.name, "{}", refused.envelope);
    assert_ne!(error["retryable"], json!(true));
    assert_eq!(world.streams(&id, 2, "two").await, TAKEN);
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_are_for_actions_that_stream() {
    let world = world().await;
    let refused = world.call(&action(json!({"capability_id": "cap:test:silent", "mode": "streaming"}))).await;
    assert_eq!(code(&refused), codes::CAPABILITY_MODE.name);
    let silent = action(
        json!({"capability_id": "cap:test:silent", "mode": "async", "timeout_ms": 600_000, "id": "act_silent"}),
    );
    let id = world.submit(&silent).await;
    assert_eq!(world.says(&id, "a", 1, "started").await, TAKEN);
    assert_eq!(world.streams(&id, 1, "one").await, codes::STREAM_NOT_STREAMING.name);
    // asynchronous ones may stream, too, whatever their id
    let id = "an id with spaces.and.dots";
    let id = world.submit(&action(json!({"mode": "async", "timeout_ms": 600_000, "id": id}))).await;
    assert_eq!(world.says(&id, "a", 1, "started").await, TAKEN);
    assert_eq!(world.streams(&id, 1, "one").await, TAKEN);
    assert_eq!(numbers(&world.chunks(&id, None, 9).await.unwrap()), [1]);
    // and nobody but the worker has any to send
    let message = envelope(MessageType::StreamChunk, json!({"action_id": id, "sequence": 2, "kind": "data"}));
    let reply = world.send(&signed(message, &world.client_key)).await;
    assert_eq!(code(&reply), codes::ENVELOPE_NOT_SERVED.name);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_goes_on_with_the_numbers_and_the_other_replica_reads_on() {
    let nats = TestNats::start().await;
    let world = World::near(&nats).await;
    offered(&world).await;
    let second = World::replica(&nats, "gateway-1").await;
    let (id, _) = world.begun().await;
    assert_eq!(world.streams(&id, 1, "one").await, TAKEN);
    // each replica's memory is behind the other's
    assert_eq!(second.streams(&id, 2, "two").await, TAKEN);
    assert_eq!(world.streams(&id, 3, "three").await, TAKEN);
    assert_eq!(second.streams(&id, 3, "other").await, codes::STREAM_TAKEN.name);
    let page = world.chunks(&id, None, 2).await.unwrap();
    // not heard of any more
    wait_for("the next attempt", Duration::from_secs(60), || async {
        world.state(&id).await == "queued" && world.says(&id, "b", 2, "started").await == TAKEN
    })
    .await;
    let again = json!({"action_id": id, "attempt": 2, "worker": "b", "phase": "started"});
    let mut message = envelope(MessageType::Heartbeat, json!({"sequence": 1}));
    message["extensions"] = json!({"aip.attempt": again});
    let reply = second.send(&signed(message, &second.worker_key)).await;
    let told = &reply.envelope["extensions"]["aip.attempt.stream"];
    assert_eq!(told, &json!({"next_sequence": 4, "ended": false}), "{}", reply.envelope);
    for gateway in [&world, &second] {
        assert_eq!(gateway.streams(&id, 4, "late").await, codes::ACTION_SUPERSEDED.name);
    }
    assert_eq!(code(&second.chunk(&id, "b", 2, json!({"sequence": 4, "data": "four"})).await), TAKEN);
    let rest = second.chunks(&id, page["cursor"].as_str(), 9).await.unwrap();
    assert_eq!((numbers(&page), numbers(&rest)), (vec![1, 2], vec![3, 4]));
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_and_events_are_pushed_in_one_stream_that_ends_with_the_result() {
    let nats = TestNats::start().await;
    let world = World::near(&nats).await;
    offered(&world).await;
    let second = World::replica(&nats, "gateway-1").await;
    let (http, other) = (door(&world).await, door(&second).await);
    let (id, _) = world.begun().await;
    let all = format!("/aip/v1/actions/{id}/events?include_chunks=true");
    let only = format!("/aip/v1/actions/{id}/chunks");
    let mut following = http.follow(CLIENT_TOKEN, &all, None).await;
    let mut alone = other.follow(CLIENT_TOKEN, &only, None).await;
    let mut frames = Vec::new();
    for sequence in 1..=3 {
        assert_eq!(world.streams(&id, sequence, "text").await, TAKEN);
        // pushed before the next one is there
        while frames.iter().filter(|frame: &&Frame| frame.name == "chunk").count() < sequence as usize {
            frames.push(following.next().await.unwrap());
        }
    }
    assert_eq!(world.streams(&id, 4, "done").await, TAKEN);
    assert_eq!(world.says(&id, "a", 1, "ended").await, TAKEN);
    frames.extend(following.rest().await);
    let names: Vec<&str> = frames.iter().map(|frame| frame.name.as_str()).collect();
    assert_eq!(names[names.len() - 3..], ["done", "message", "result"], "{names:?}");
    assert_eq!(names.iter().filter(|name| **name == "chunk").count(), 3);
    let chunk = frames.iter().find(|frame| frame.name == "chunk").unwrap();
    assert_eq!(chunk.body["stream_chunk"]["sequence"], 1);
    let names: Vec<String> = alone.rest().await.into_iter().map(|frame| frame.name).collect();
    assert_eq!(names, ["chunk", "chunk", "chunk", "done", "result"]);
    // from every frame on, at the other replica, what was not told
    let seen = |frame: &Frame| match frame.body.get("stream_chunk") {
        Some(chunk) => chunk["sequence"].to_string(),
        None => frame.body["action_events"]["events"][0]["id"].to_string(),
    };
    for index in 0..frames.len() {
        let mut again = other.follow(CLIENT_TOKEN, &all, frames[index].id.as_deref()).await;
        let mut rest: Vec<String> = again.rest().await.iter().map(seen).collect();
        let mut expected: Vec<String> = frames[index + 1..].iter().map(seen).collect();
        assert_eq!(rest.last(), expected.last(), "{index}");
        // events and chunks keep their own order; between them there is none
        rest.sort();
        expected.sort();
        assert_eq!(rest, expected, "{index}");
    }
    assert_eq!(http.follow(OTHER_TOKEN, &only, None).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_log_that_is_lost_is_made_again_and_its_readers_are_told() {
    let mut nats = TestNats::start().await;
    let world = World::near(&nats).await;
    offered(&world).await;
    let http = door(&world).await;
    let (id, _) = world.begun().await;
    for sequence in 1..=3 {
        assert_eq!(world.streams(&id, sequence, "text").await, TAKEN);
    }
    let read = world.chunks(&id, None, 9).await.unwrap();
    let mut following = http.follow(CLIENT_TOKEN, &format!("/aip/v1/actions/{id}/chunks"), None).await;
    for _ in 0..3 {
        assert_eq!(following.next().await.unwrap().name, "chunk");
    }
    lose_the_log(&mut nats).await;
    wait_for("the chunk to be kept", Duration::from_secs(15), || async {
        world.says(&id, "a", 1, "running").await;
        world.streams(&id, 4, "text").await == TAKEN
    })
    .await;
    // whoever had read the others goes on, alive or by a cursor
    assert_eq!(following.next().await.unwrap().body["stream_chunk"]["sequence"], 4);
    // a worker says that it lives, however slow the machine is
    world.says(&id, "a", 1, "running").await;
    let next = world.chunks(&id, read["cursor"].as_str(), 9).await.unwrap();
    assert_eq!(numbers(&next), [4]);
    world.says(&id, "a", 1, "running").await;
    // whoever had not is told
    let refused = world.chunks(&id, None, 9).await.unwrap_err();
    assert_eq!(code(&refused), codes::STREAM_CHUNKS_GONE.name);
    // and gets what does not depend on them
    let mut late = http.follow(CLIENT_TOKEN, &format!("/aip/v1/actions/{id}/chunks"), None).await;
    let first = late.next().await.unwrap();
    assert_eq!(first.body["stream_chunk"]["data"]["code"], codes::STREAM_CHUNKS_GONE.name);
    let request = json!({"action_id": id, "include_chunks": true});
    let status = world.ask(MessageType::ActionStatusRequest, request).await.unwrap();
    assert_eq!(status["action_status"]["chunks"], json!([first.body["stream_chunk"]]));
    assert_eq!(world.says(&id, "a", 1, "ended").await, TAKEN);
    assert_eq!(late.next().await.unwrap().name, "result");
    // the worker never said that its stream ends
    let last = following.next().await.unwrap();
    assert_eq!(last.body["stream_chunk"]["data"]["code"], codes::STREAM_BROKEN.name);
    let names: Vec<String> = following.rest().await.into_iter().map(|frame| frame.name).collect();
    assert_eq!(names, ["result"]);
}

/// That log is not fsynced: a server may come back without its newest messages.
#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_log_that_lost_its_end_cuts_off_nobody_who_has_it() {
    let mut nats = TestNats::start().await;
    let world = World::near(&nats).await;
    offered(&world).await;
    let http = door(&world).await;
    let (id, _) = world.begun().await;
    let path = format!("/aip/v1/actions/{id}/chunks");
    let mut following = http.follow(CLIENT_TOKEN, &path, None).await;
    let says = async |sequence: u64| {
        world.says(&id, "a", 1, "running").await;
        let report = json!({
            "action_id": id, "attempt": 1, "worker": "a", "phase": "streamed", "after": sequence - 1,
        });
        let chunk = json!({"sequence": sequence, "data": "text"});
        code(&world.reported_chunk(&id, report, chunk).await) == TAKEN
    };
    let mut followed = Vec::new();
    let mut old = None;
    for sequence in 1..=5 {
        if let 3 | 5 = sequence {
            swap_the_log(&mut nats, &mut old).await;
        }
        wait_for("the chunk to be kept", Duration::from_secs(15), || says(sequence)).await;
        followed.push(following.next().await.unwrap().body["stream_chunk"]["sequence"].clone());
    }
    assert_eq!(followed, [1, 2, 3, 4, 5]);
    let mut late = http.follow(CLIENT_TOKEN, &path, None).await;
    for expected in [json!(1), json!(2), json!(codes::STREAM_CHUNKS_GONE.name)] {
        let chunk = late.next().await.unwrap().body["stream_chunk"].clone();
        let told = if chunk["kind"] == "error" { &chunk["data"]["code"] } else { &chunk["sequence"] };
        assert_eq!(*told, expected);
    }
}

/// The server comes back with the copy, or with a copy made.
async fn swap_the_log(nats: &mut TestNats, copy: &mut Option<PathBuf>) {
    let stream = chunk_stream_name(&TestNats::trust_domain(), &Service::gateway());
    let of = |nats: &TestNats| {
        let folders = folders(&nats.server.store_dir());
        folders.into_iter().find(|path| path.ends_with(&stream)).unwrap()
    };
    // politely, so that the copy has all
    nats.server.stop().await.unwrap();
    let place = of(nats);
    let kept = nats.scratch().join("an older log");
    let copied = |from: &Path, to: &Path| {
        assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
    };
    match copy {
        None => {
            copied(&place, &kept);
            *copy = Some(kept);
        }
        Some(kept) => {
            std::fs::remove_dir_all(&place).unwrap();
            copied(kept, &place);
        }
    }
    nats.server.restart().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_told_while_the_chunk_log_is_out() {
    let world = world().await;
    let http = door(&world).await;
    let (id, _) = world.begun().await;
    let mut following = http.follow(CLIENT_TOKEN, &format!("/aip/v1/actions/{id}/chunks"), None).await;
    assert_eq!(world.streams(&id, 1, "one").await, TAKEN);
    assert_eq!(following.next().await.unwrap().name, "chunk");
    // nothing can be written there any more, for good
    let bus = connect(world.nats(), Identity::Gateway).await;
    let log = chunk_stream_name(&TestNats::trust_domain(), &Service::gateway());
    let mut log = bus.jetstream().get_stream(&log).await.unwrap();
    let sealed =
        async_nats::jetstream::stream::Config { sealed: true, ..log.info().await.unwrap().config.clone() };
    bus.jetstream().update_stream(sealed).await.unwrap();
    assert_eq!(world.streams(&id, 2, "two").await, codes::STREAM_UNAVAILABLE.name);
    assert_eq!(world.says(&id, "a", 1, "ended").await, TAKEN);
    let patience = Duration::from_millis(STREAM_CLOSE_MS + STREAM_AUTHORITY_MS) + SOON;
    let last = tokio::time::timeout(patience, following.read()).await.unwrap().unwrap();
    assert_eq!(last.body["stream_chunk"]["data"]["code"], codes::STREAM_UNAVAILABLE.name);
    let names: Vec<String> = following.rest().await.into_iter().map(|frame| frame.name).collect();
    assert_eq!(names, ["result"]);
}

/// The server comes back without it.
async fn lose_the_log(nats: &mut TestNats) {
    let folder = nats.server.store_dir();
    nats.server.kill().await.unwrap();
    let stream = chunk_stream_name(&TestNats::trust_domain(), &Service::gateway());
    let lost: Vec<_> = folders(&folder).into_iter().filter(|path| path.ends_with(&stream)).collect();
    assert_eq!(lost.len(), 1);
    std::fs::remove_dir_all(&lost[0]).unwrap();
    nats.server.restart().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_of_numbers_that_nobody_knows_any_more_ends_the_stream_with_an_error() {
    let mut nats = TestNats::start().await;
    let world = World::near(&nats).await;
    offered(&world).await;
    let (id, _) = world.begun().await;
    for sequence in 1..=2 {
        assert_eq!(world.streams(&id, sequence, "text").await, TAKEN);
    }
    lose_the_log(&mut nats).await;
    let started = json!({"action_id": id, "attempt": 2, "worker": "b", "phase": "started"});
    let told = wait_for_some("the next attempt", Duration::from_secs(60), || async {
        let mut message = envelope(MessageType::Heartbeat, json!({"sequence": 1}));
        message["extensions"] = json!({"aip.attempt": started});
        let reply = world.send(&signed(message, &world.worker_key)).await;
        (code(&reply) == TAKEN).then(|| reply.envelope["extensions"]["aip.attempt.stream"].clone())
    })
    .await;
    assert_eq!(told["ended"], json!(true), "{told}");
    let late = world.chunk(&id, "b", 2, json!({"sequence": told["next_sequence"]})).await;
    assert_eq!(code(&late), codes::STREAM_ENDED.name);
    let refused = world.chunks(&id, None, 9).await.unwrap_err();
    assert_eq!(code(&refused), codes::STREAM_CHUNKS_GONE.name);
    assert_eq!(world.says(&id, "b", 2, "ended").await, TAKEN);
    assert_eq!(world.result(&id).await["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_chunks_ends_with_the_authority_of_its_reader() {
    let world = world().await;
    let http = door(&world).await;
    let (id, _) = world.begun().await;
    assert_eq!(world.streams(&id, 1, "one").await, TAKEN);
    let mut following = http.follow(CLIENT_TOKEN, &format!("/aip/v1/actions/{id}/chunks"), None).await;
    assert_eq!(following.next().await.unwrap().name, "chunk");
    world.authenticator.replace(std::sync::Arc::new(directory_without_clients()));
    let last = following.next().await.unwrap();
    assert_eq!(last.body["error"]["error"]["code"], codes::AUTH_TOKEN.name);
    assert_eq!(following.next().await, None);
}

async fn heard(bus: &Bus, correlation: &CorrelationId) -> async_nats::Subscriber {
    let atom = Atom::new(correlation.as_str()).unwrap();
    let subject = Subject::stream(&TestNats::trust_domain(), &Service::gateway(), Version::V1, atom);
    let subscriber = bus.client().subscribe(subject.to_string()).await.unwrap();
    bus.client().flush().await.unwrap();
    subscriber
}

#[tokio::test(flavor = "multi_thread")]
async fn native_readers_hear_chunks_and_result_under_a_correlation_id_that_has_one_stream() {
    let world = world().await;
    let alice = connect(world.nats(), "client-alice".parse().unwrap()).await;
    let bob = connect(world.nats(), "client-bob".parse().unwrap()).await;
    let (id, correlation) = world.streaming().await;
    let (mut hears, mut deaf) = (heard(&alice, &correlation).await, heard(&bob, &correlation).await);
    let other = world.ask_to_stream(&streamed(), &correlation).await;
    assert_eq!(code(&other), codes::STREAM_CORRELATION.name);
    assert_eq!(world.says(&id, "a", 1, "started").await, TAKEN);
    assert_eq!(world.streams(&id, 1, "one").await, TAKEN);
    assert_eq!(world.streams(&id, 2, "done").await, TAKEN);
    assert_eq!(world.says(&id, "a", 1, "ended").await, TAKEN);
    let mut bodies = Vec::new();
    let mut ids = std::collections::BTreeSet::new();
    while bodies.len() < 3 {
        let message = tokio::time::timeout(SOON, hears.next()).await.unwrap().unwrap();
        let frame: Value = serde_json::from_slice(&message.payload).unwrap();
        let told = &frame["envelope"];
        assert_eq!(told["correlation_id"], json!(correlation));
        aip_crypto::verify_envelope(told).unwrap();
        if ids.insert(told["message_id"].to_string()) {
            bodies.push(told["body"].clone());
        }
    }
    assert_eq!(bodies[0]["stream_chunk"]["data"], "one");
    assert_eq!(bodies[1]["stream_chunk"]["kind"], "done");
    assert_eq!(bodies[2]["action_result"]["status"], "completed");
    // the id is free again, once the stream is closed
    wait_for("the correlation id to be free", SOON, || async {
        let reply = world.ask_to_stream(&streamed(), &correlation).await;
        reply.envelope["body"]["ack"]["status"] == "streaming"
    })
    .await;
    // whoever may not hear got nothing of what others have heard by now
    bob.client().flush().await.unwrap();
    assert!(futures_util::FutureExt::now_or_never(deaf.next()).flatten().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_gateway_writes_chunks() {
    let world = world().await;
    let (id, _) = world.begun().await;
    assert_eq!(world.streams(&id, 1, "one").await, TAKEN);
    let atom = Atom::new(id.as_str()).unwrap();
    let subject = Subject::chunks(&TestNats::trust_domain(), &Service::gateway(), atom).to_string();
    let alice = connect(world.nats(), "client-alice".parse::<Identity>().unwrap()).await;
    for bus in [&world.bus, &alice] {
        bus.client().publish(subject.clone(), "{}".into()).await.unwrap();
        bus.client().flush().await.unwrap();
    }
    // a message of theirs would stand between the two, and could not be read
    assert_eq!(world.streams(&id, 2, "two").await, TAKEN);
    assert_eq!(numbers(&world.chunks(&id, None, 9).await.unwrap()), [1, 2]);
}
