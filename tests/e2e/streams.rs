//! Live streams as people see them: `aip action call --follow`, while a worker or a gateway is killed under it.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use aip_crypto::SigningKey;
use aip_names::TrustDomain;
use aip_sdk::{CallOptions, Client, NatsConfig, Told};
use aip_wire::{ActionResultStatus, Principal, PrincipalId, PrincipalKind, StreamChunkKind};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout};

use crate::harness::{Dev, SOON, aip};

/// A takeover waits for the lease of the lost worker.
const PATIENCE: Duration = Duration::from_secs(90);

/// A followed call of the worker that streams slowly: half of its chunks over the delay, the others at once.
struct Call {
    child: Child,
    lines: tokio::io::Lines<BufReader<ChildStdout>>,
    told: Vec<Value>,
}

impl Call {
    fn start(dev: &Dev, input: &Value) -> Call {
        let mut command = tokio::process::Command::new(aip());
        command.current_dir(dev.folder()).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let input = input.to_string();
        command.args(["action", "call", "cap:chaos:misbehave_safe", &input, "--follow", "--json"]);
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Call { child, lines, told: Vec::new() }
    }

    /// The next line; none at the end.
    async fn next(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("nothing after {:?}", self.told)).unwrap()?;
        let line: Value = serde_json::from_str(&line).unwrap();
        self.told.push(line.clone());
        Some(line)
    }

    async fn until_chunk(&mut self, sequence: u64) {
        while self.next().await.expect("a chunk")["sequence"] != sequence {}
    }

    /// Everything, with how it ended.
    async fn rest(mut self) -> Vec<Value> {
        while self.next().await.is_some() {}
        assert!(self.child.wait().await.unwrap().success(), "{:?}", self.told);
        self.told
    }
}

fn chunks(told: &[Value]) -> Vec<&Value> {
    told.iter().filter(|line| line.get("sequence").is_some()).collect()
}

/// Chunks are numbered without a gap, none is told twice, no event either, and the result is the last thing.
fn is_whole(told: &[Value]) {
    let sequences: Vec<u64> = chunks(told).iter().map(|chunk| chunk["sequence"].as_u64().unwrap()).collect();
    assert_eq!(sequences, (1..=sequences.len() as u64).collect::<Vec<_>>(), "{told:?}");
    let mut events: Vec<_> = told.iter().filter_map(|line| line["id"].as_str()).collect();
    let all = events.len();
    events.sort_unstable();
    events.dedup();
    assert_eq!(events.len(), all, "{told:?}");
    assert_eq!(chunks(told).last().unwrap()["kind"], "done", "{told:?}");
    assert_eq!(told.last().unwrap()["status"], "completed", "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_shows_what_its_worker_streams() {
    let dev = Dev::start().await;
    let order = json!({"title": "Quarter", "sections": 3, "author_email": "a@example.org"}).to_string();
    let call = ["action", "call", "cap:report:write", &order, "--follow"];
    let shown = dev.aip(&call).await;
    let (out, err) = (String::from_utf8(shown.stdout).unwrap(), String::from_utf8(shown.stderr).unwrap());
    assert!(shown.status.success(), "{out}{err}");
    for section in 1..=3 {
        assert!(err.contains(&format!("[{section}/3] Section {section}")), "{err}");
    }
    let report = out.lines().position(|line| line.starts_with("completed act_")).unwrap();
    assert_eq!(report, 3, "three sections before the result: {out}");

    let lines = dev.aip(&[&call[..], &["--json"]].concat()).await;
    let told: Vec<Value> = String::from_utf8(lines.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    is_whole(&told);
    let kinds: Vec<_> = chunks(&told).iter().map(|chunk| chunk["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["data", "progress", "data", "progress", "data", "progress", "done"]);

    let sync = dev.aip(&[&call[..], &["--mode", "sync"]].concat()).await;
    assert!(!sync.status.success());
    // what does not stream is followed as well, and what may not stream says so
    let slow = ["action", "call", "cap:slow:job", r#"{"duration_ms": 10}"#, "--follow"];
    let queued = dev.aip(&[&slow[..], &["--mode", "async", "--json"]].concat()).await;
    let last = String::from_utf8(queued.stdout).unwrap().lines().last().unwrap().to_owned();
    assert!(last.contains("\"completed\"") && last.contains("slept_ms"), "{last}");
    let refused = dev.aip(&slow).await;
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && told.contains("aip.capability."), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_leaves_a_stream_that_another_attempt_goes_on_with() {
    let dev = Dev::start().await;
    let mut call = Call::start(&dev, &json!({"mode": "none", "chunks": 12, "delay_ms": 6_000}));
    call.until_chunk(3).await;
    dev.kill("sandbox");
    let told = call.rest().await;
    is_whole(&told);
    let attempts: Vec<_> =
        chunks(&told).iter().filter_map(|chunk| chunk["data"]["attempt"].as_u64()).collect();
    assert_eq!(attempts.first(), Some(&1), "{attempts:?}");
    let second = attempts.iter().filter(|attempt| **attempt == 2).count();
    assert_eq!(second, 12, "the takeover streams all of it: {attempts:?}");
    assert_eq!(told.last().unwrap()["output"]["attempt"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_gateway_is_missed_by_no_follower() {
    let dev = Dev::start().await;
    let mut call = Call::start(&dev, &json!({"mode": "none", "chunks": 40, "delay_ms": 5_000}));
    call.until_chunk(5).await;
    dev.kill("gateway-0");
    let told = call.rest().await;
    is_whole(&told);
    // an attempt that outlives the gateway says each of its chunks once
    let said: Vec<_> = chunks(&told)
        .iter()
        .filter(|chunk| chunk["kind"] == "data")
        .map(|chunk| (chunk["data"]["attempt"].as_u64().unwrap(), chunk["data"]["chunk"].as_u64().unwrap()))
        .collect();
    let last = said.last().unwrap().0;
    let whole: Vec<_> =
        said.iter().filter(|(attempt, _)| *attempt == last).map(|(_, chunk)| *chunk).collect();
    assert_eq!(whole, (1..=40).collect::<Vec<_>>(), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_crashes_in_mid_stream_is_followed_to_the_end() {
    let dev = Dev::start().await;
    let input = json!({"mode": "crash", "attempts": 1, "chunks": 8, "delay_ms": 2_000});
    let told = Call::start(&dev, &input).rest().await;
    is_whole(&told);
    assert_eq!(told.last().unwrap()["output"]["attempt"], 2);
}

/// The developer as a native client.
async fn native(dev: &Dev) -> Client {
    let profile = std::fs::read_to_string(dev.file("client.toml")).unwrap();
    let profile: toml::Table = toml::from_str(&profile).unwrap();
    let text = |value: &toml::Value| value.as_str().unwrap().to_owned();
    let nats = &profile["nats"];
    let config = NatsConfig {
        trust_domain: TrustDomain::new(&text(&profile["trust_domain"])).unwrap(),
        url: text(&nats["url"]),
        identity: text(&nats["identity"]).parse().unwrap(),
        seed_file: dev.file(&text(&nats["seed"])),
        principal: Principal::new(
            PrincipalId::parse(text(&profile["principal"])).unwrap(),
            PrincipalKind::Service,
        ),
        key: Arc::new(SigningKey::load(&dev.file(&text(&profile["key"]))).unwrap()),
        gateway: Some(text(&profile["gateway_did"]).parse().unwrap()),
    };
    let client = Client::nats(config).await.unwrap();
    client.ready(SOON).await.unwrap();
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn a_native_client_hears_its_action_and_misses_nothing_when_a_gateway_is_killed() {
    let dev = Dev::start().await;
    let client = native(&dev).await;
    let input = json!({"mode": "none", "chunks": 20, "delay_ms": 4_000});
    let options = CallOptions::default();
    let (action, mut follow) = client.stream("cap:chaos:misbehave_safe", input, options).await.unwrap();
    let (mut sequences, mut last) = (Vec::new(), None);
    let result = loop {
        let told = tokio::time::timeout(PATIENCE, follow.next()).await.expect("in time");
        match told.unwrap().expect("a result") {
            Told::Chunk(chunk) => {
                sequences.push(chunk.sequence);
                last = Some(chunk.kind);
                if chunk.sequence == 4 {
                    dev.kill("gateway-0");
                }
            }
            Told::Result(result) => break result,
            Told::Lost(_) => {}
            Told::Event(event) => panic!("{event:?}"),
        }
    };
    assert_eq!(sequences, (1..=sequences.len() as u64).collect::<Vec<_>>());
    assert!(sequences.len() > 20, "{sequences:?}");
    assert_eq!(last, Some(StreamChunkKind::Done));
    assert_eq!((result.action_id, result.status), (action, ActionResultStatus::Completed));
    assert_eq!(follow.next().await.unwrap(), None);
}
