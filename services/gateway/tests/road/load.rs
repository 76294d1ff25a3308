//! Many at once: what the ledger writes for them, and who does the work.

use std::io::Write;
use std::sync::{Arc, Mutex};

use aip_bus::jetstream;
use aip_ledger::Batch;
use aip_names::{Identity, Service, ledger_stream_name};
use aip_testkit::TestNats;
use aip_wire::codes;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::world::*;

const TOGETHER: usize = 128;
const ROUNDS: usize = 8;
/// Actions for each message of the ledger, which is one fsync.
const ACTIONS_PER_FSYNC: u64 = 10;

async fn ledger(nats: &TestNats) -> jetstream::stream::Stream {
    let name = ledger_stream_name(&TestNats::trust_domain(), &Service::gateway(), 0);
    connect(nats, Identity::Gateway).await.jetstream().get_stream(name).await.unwrap()
}

async fn last(stream: &jetstream::stream::Stream) -> u64 {
    stream.get_info().await.unwrap().state.last_sequence
}

/// Calls one after the other, on so many roads at a time.
async fn call_many(world: &Arc<World>, roads: usize, each: usize) {
    let mut calls = JoinSet::new();
    for _ in 0..roads {
        let world = Arc::clone(world);
        calls.spawn(async move {
            for _ in 0..each {
                let reply = world.call(&action(json!({}))).await;
                let status: &Value = &reply.envelope["body"]["action_result"]["status"];
                assert_eq!(status, "completed", "{}", reply.envelope);
            }
        });
    }
    calls.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_actions_at_once_share_an_fsync() {
    let world = Arc::new(World::new().await);
    let (_worker, _serving) = world.serve().await;
    let stream = ledger(world.nats()).await;
    let before = last(&stream).await;
    call_many(&world, TOGETHER, ROUNDS).await;
    let after = last(&stream).await;
    let (mut messages, mut records) = (0, 0);
    for seq in before + 1..=after {
        let message = stream.get_raw_message(seq).await.unwrap();
        messages += 1;
        records += Batch::decode(&message.payload).unwrap().records.len() as u64;
    }
    let actions = (TOGETHER * ROUNDS) as u64;
    println!("{actions} actions and {records} records in {messages} messages");
    assert!(records >= 2 * actions, "an action is admitted and ended: {records} records");
    assert!(actions >= ACTIONS_PER_FSYNC * messages, "{messages} messages");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_spread_over_the_replicas_of_a_worker() {
    let world = Arc::new(World::new().await);
    let mut replicas = Vec::new();
    for _ in 0..4 {
        replicas.push(serve_on(&connect(world.nats(), TestNats::worker("restaurant")).await).await);
    }
    call_many(&world, 30, 10).await;
    let each: Vec<usize> = replicas.iter().map(|(worker, _)| worker.seen.lock().unwrap().len()).collect();
    assert_eq!(each.iter().sum::<usize>(), 300);
    let (most, least) = (each.iter().max().unwrap(), each.iter().min().unwrap());
    // chance alone stays far below this
    assert!(most <= &(3 * least), "{each:?}");
}

/// What was logged.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

// on one thread, whose lines these are
#[tokio::test]
async fn a_flood_of_refusals_is_a_few_lines_of_each_kind() {
    let world = World::new().await;
    let page = Page::default();
    let writer = page.clone();
    let lines = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let _lines = tracing::subscriber::set_default(lines);
    let begun = std::time::Instant::now();
    for _ in 0..500 {
        let stranger = world.call_as("nobody's token", &action(json!({}))).await;
        assert_eq!(code(&stranger), codes::AUTH_TOKEN.name);
        let refused = world.call(&action(json!({"input": {}}))).await;
        assert_eq!(code(&refused), codes::ACTION_INPUT.name);
    }
    let intervals = begun.elapsed().as_millis() as usize / aip_names::limits::LOG_INTERVAL_MS as usize;
    let page = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
    for kind in [codes::AUTH_TOKEN.name, codes::ACTION_INPUT.name] {
        let told = page.lines().filter(|line| line.contains(kind)).count();
        assert!((1..=1 + intervals).contains(&told), "{told} lines of {kind}:\n{page}");
    }
}
