use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use aip_bus::{Job, Serving, Worked};
use aip_gateway::edge::{Bounds, Edge};
use aip_gateway::front::Via;
use aip_names::{Identity, Service, TrustDomain, Version, queue_consumer_name, queue_stream_name};
use aip_sdk::{ActionError, CapabilitySpec, Context, Worker, WorkerConfig};
use aip_testkit::{TestNats, wait_for, wait_for_some};
use aip_wire::trusted::{METADATA_KEY, TrustedContext};
use aip_wire::{
    ActionId, MessageType, Principal, PrincipalId, PrincipalKind, RetrySafety, SideEffect, codes, validate,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::world::*;

const SOON: Duration = Duration::from_secs(20);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Order {
    /// The attempt up to which nothing is answered.
    hang: u32,
}

#[derive(Serialize, JsonSchema)]
struct Done {
    attempt: u32,
}

/// How often the handler was begun.
type Begun = Arc<AtomicU32>;

fn spec(id: &str, safety: RetrySafety) -> CapabilitySpec {
    CapabilitySpec::write(id, "Work", "Works.", SideEffect::Write, safety)
        .key(aip_wire::IdempotencyRequirement::Optional)
        .queued()
        .cancellable()
}

async fn work(begun: Begun, context: Context, order: Order) -> Result<Done, ActionError> {
    begun.fetch_add(1, Ordering::SeqCst);
    if context.attempt() <= order.hang {
        context.stop().cancelled().await;
        if context.is_cancelled() {
            return Err(ActionError::cancelled("stopped"));
        }
        std::future::pending::<()>().await;
    }
    Ok(Done { attempt: context.attempt() })
}

/// A worker's process, which can be ended as by SIGKILL: nothing of it says goodbye.
struct Process {
    runtime: Option<Runtime>,
    begun: Begun,
}

impl Process {
    fn start(nats: &TestNats, name: &str) -> Process {
        Process::of(nats, name, aip_names::limits::WORKER_RUNNING_DEFAULT)
    }

    /// One that works on so many at a time.
    fn of(nats: &TestNats, name: &str, running_max: usize) -> Process {
        let runtime = Runtime::new().unwrap();
        let begun = Begun::default();
        let (seed_file, url) = (nats.seed_file(&TestNats::worker("restaurant")), nats.url());
        let store = nats.scratch().join(name).join("results.redb");
        let mut config = WorkerConfig::new(
            TestNats::trust_domain(),
            Service::new(SERVICE).unwrap(),
            Principal::new(PrincipalId::parse("agent:restaurant").unwrap(), PrincipalKind::Agent),
            Arc::new(aip_crypto::SigningKey::from_seed(&[2; 32])),
            store,
        );
        config.running_max = running_max;
        let (safe, not) = (begun.clone(), begun.clone());
        let (told, ready) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            let identity = TestNats::worker("restaurant");
            let settings = aip_bus::Settings { url, seed_file, identity, name: "worker".to_owned() };
            let bus = aip_bus::Bus::connect(settings).await.unwrap();
            bus.ready(SOON).await.unwrap();
            let worker = Worker::builder(config)
                .capability(spec("cap:test:safe", RetrySafety::Safe), move |c, o| work(safe.clone(), c, o))
                .capability(spec("cap:test:unsafe", RetrySafety::Unsafe), move |c, o| work(not.clone(), c, o))
                .start(&bus)
                .await
                .unwrap();
            worker.registered().await.unwrap();
            told.send(()).unwrap();
            std::future::pending::<()>().await;
            drop(worker);
        });
        tokio::task::block_in_place(|| ready.recv_timeout(SOON)).unwrap();
        Process { runtime: Some(runtime), begun }
    }

    fn begun(&self) -> u32 {
        self.begun.load(Ordering::SeqCst)
    }

    fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn queued(capability: &str, hang: u32) -> Value {
    action(
        json!({"capability_id": capability, "input": {"hang": hang}, "mode": "async", "timeout_ms": 600_000}),
    )
}

/// The gateway's door on NATS, through which workers speak.
async fn door(world: &World, nats: &TestNats) -> Serving {
    let bus = connect(nats, Identity::Gateway).await;
    let bounds = Bounds { in_flight: 64, in_flight_per_sender: 64, bytes: 4 * 1_048_576 };
    let edge = Edge::new(Via::Nats, world.gateway.clone(), bounds, Arc::new(String::new));
    aip_gateway::edge::nats::serve(&bus, &TestNats::trust_domain(), edge, bounds).await.unwrap()
}

impl World {
    /// Has the action taken and returns its id.
    pub async fn submit(&self, action: &Value) -> ActionId {
        let reply = self.call(action).await;
        assert_eq!(reply.envelope["body"]["ack"]["status"], "queued", "{}", reply.envelope);
        ActionId::opaque(action["id"].as_str().unwrap())
    }

    pub async fn state(&self, id: &ActionId) -> Value {
        let status = self.ask(MessageType::ActionStatusRequest, json!({"action_id": id})).await;
        status.map(|status| status["action_status"]["state"].clone()).unwrap_or_default()
    }

    pub async fn stands(&self, id: &ActionId, state: &str) {
        wait_for(state, Duration::from_secs(60), || async { self.state(id).await == state }).await;
    }

    pub async fn result(&self, id: &ActionId) -> Value {
        let request = json!({"action_id": id, "wait_ms": 30_000});
        match self.ask(MessageType::ActionResultRequest, request).await {
            Ok(result) => result["action_result"].clone(),
            Err(refused) => refused.envelope["body"].clone(),
        }
    }

    /// What a worker's process says of an attempt.
    pub async fn says(&self, id: &ActionId, worker: &str, attempt: u32, phase: &str) -> String {
        let report = json!({"action_id": id, "attempt": attempt, "worker": worker, "phase": phase});
        let mut message = match phase {
            "ended" => {
                let result = json!({"action_id": id, "status": "completed", "output": {"said": worker}});
                envelope(MessageType::ActionResult, result)
            }
            _ => envelope(MessageType::Heartbeat, json!({"sequence": 1})),
        };
        message["extensions"] = json!({"aip.attempt": report});
        let reply = self.send(&signed(message, &self.worker_key)).await;
        code(&reply).to_owned()
    }

    async fn cancel(&self, id: &ActionId) -> Value {
        let wish = envelope(MessageType::Cancel, json!({"target": {"action": id}}));
        self.send(&signed(wish, &self.client_key)).await.envelope["body"]["ack"].clone()
    }

    /// The next message of the worker's queue.
    pub async fn pull(&self) -> (Job, TrustedContext) {
        let td: TrustDomain = TestNats::trust_domain();
        let stream = queue_stream_name(&td, &Service::new(SERVICE).unwrap());
        let taker = self.bus.taker(&stream, &queue_consumer_name(Version::V1)).await.unwrap();
        let job = wait_for_some("work", SOON, || async {
            taker.ask(1).await.unwrap().next().await.map(Result::unwrap)
        })
        .await;
        let (_, metadata) = validate::frame(job.payload(), &aip_wire::read::Bounds::FRAME).unwrap();
        (job, TrustedContext::read(&metadata[METADATA_KEY]).unwrap())
    }

    /// A capability that may be repeated and queued, without a worker behind it.
    pub async fn with_queue() -> World {
        let world = World::empty().await;
        let reply = world.register(queueable()).await;
        assert_eq!(reply.status, 200, "{}", reply.envelope);
        world
    }
}

fn said() -> Value {
    action(json!({"mode": "async", "timeout_ms": 600_000}))
}

pub const TAKEN: &str = "no error";

#[tokio::test(flavor = "multi_thread")]
async fn an_action_is_acknowledged_as_queued_and_its_result_asked_for() {
    let world = World::empty().await;
    let _door = door(&world, world.nats()).await;
    let worker = Process::start(world.nats(), "w1");
    let mut action = queued("cap:test:safe", 0);
    action["idempotency_key"] = json!("k");
    let id = world.submit(&action).await;
    assert_eq!(world.result(&id).await["output"], json!({"attempt": 1}));
    // the same again, and another under its key
    let again = world.call(&action).await;
    assert_eq!(again.envelope["body"]["ack"]["status"], "cached", "{}", again.envelope);
    action["id"] = json!(ActionId::generate());
    let other = world.call(&action).await;
    assert_eq!(other.envelope["body"]["ack"], json!({"action_id": id, "status": "cached"}));
    assert_eq!(worker.begun(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_workers_action_is_taken_over_in_time_or_ends_as_not_known() {
    let world = World::empty().await;
    let _door = door(&world, world.nats()).await;
    let mut first = Process::start(world.nats(), "w1");
    let safe = world.submit(&queued("cap:test:safe", 1)).await;
    let not = world.submit(&queued("cap:test:unsafe", 1)).await;
    wait_for("both to be begun", SOON, || async { first.begun() == 2 }).await;
    let second = Process::start(world.nats(), "w2");
    first.kill();
    let killed = Instant::now();
    assert_eq!(world.result(&safe).await["output"], json!({"attempt": 2}));
    assert!(killed.elapsed() <= Duration::from_secs(15), "after {:?}", killed.elapsed());
    let lost = world.result(&not).await;
    assert_eq!(lost["error"]["code"], codes::ACTION_UNCERTAIN.name, "{lost}");
    assert_eq!(lost["error"]["details"]["cause"], codes::WORKER_LOST.name);
    assert_eq!(second.begun(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_stuck_holds_nothing_that_others_could_do() {
    let world = World::empty().await;
    let _door = door(&world, world.nats()).await;
    let slow = Process::of(world.nats(), "w1", 1);
    let stuck = world.submit(&queued("cap:test:safe", 1)).await;
    wait_for("it to be begun", SOON, || async { slow.begun() == 1 }).await;
    let mut ids = Vec::new();
    for _ in 0..40 {
        ids.push(world.submit(&queued("cap:test:safe", 0)).await);
    }
    let fast = Process::start(world.nats(), "w2");
    for id in &ids {
        assert_eq!(world.result(id).await["output"], json!({"attempt": 1}), "not tried twice");
    }
    assert_eq!((slow.begun(), fast.begun(), world.state(&stuck).await), (1, 40, json!("running")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_superseded_workers_result_changes_nothing() {
    let world = World::with_queue().await;
    let id = world.submit(&said()).await;
    let (job, context) = world.pull().await;
    assert_eq!(context.attempt, 1);
    assert_eq!(world.says(&id, "a", 1, "started").await, TAKEN);
    assert_eq!(world.says(&id, "b", 1, "started").await, codes::ACTION_SUPERSEDED.name);
    assert_eq!(world.says(&id, "a", 1, "running").await, TAKEN);
    job.end(Worked::Done).await.unwrap();
    // not heard of any more
    let (_again, context) = world.pull().await;
    assert_eq!(context.attempt, 2);
    assert_eq!(world.says(&id, "a", 1, "ended").await, codes::ACTION_SUPERSEDED.name);
    assert_eq!(world.says(&id, "b", 2, "started").await, TAKEN);
    assert_eq!(world.says(&id, "a", 1, "ended").await, codes::ACTION_SUPERSEDED.name);
    assert_eq!(world.state(&id).await, "running");
    assert_eq!(world.says(&id, "b", 2, "ended").await, TAKEN);
    assert_eq!(world.result(&id).await["output"], json!({"said": "b"}));
    assert_eq!(world.says(&id, "a", 1, "ended").await, codes::ACTION_SUPERSEDED.name);
    assert_eq!(world.result(&id).await["output"], json!({"said": "b"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_no_worker_begins_is_dead_lettered() {
    let world = World::with_queue().await;
    let id = world.submit(&said()).await;
    for _ in 0..aip_names::limits::QUEUE_DELIVERIES_MAX {
        let (job, _) = world.pull().await;
        job.end(Worked::GivenBack { after: Duration::ZERO }).await.unwrap();
    }
    // the server says so when it would hand it out once more
    let td = TestNats::trust_domain();
    let stream = queue_stream_name(&td, &Service::new(SERVICE).unwrap());
    let taker = world.bus.taker(&stream, &queue_consumer_name(Version::V1)).await.unwrap();
    let mut batch = taker.ask(1).await.unwrap();
    let (nothing, ()) = tokio::join!(batch.next(), world.stands(&id, "dead_lettered"));
    assert!(nothing.is_none());
    let result = world.result(&id).await;
    assert_eq!(result["error"]["code"], codes::ACTION_DEAD_LETTERED.name, "{result}");
    assert_eq!(result["error"]["details"]["uncertain_outcome"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancellation_ends_as_the_worker_says_or_as_what_came_first() {
    let world = World::empty().await;
    let _door = door(&world, world.nats()).await;
    let worker = Process::start(world.nats(), "w1");
    // told, and confirmed by the handler
    let id = world.submit(&queued("cap:test:unsafe", 1)).await;
    wait_for("it to be begun", SOON, || async { worker.begun() == 1 }).await;
    assert_eq!(world.cancel(&id).await["status"], "accepted");
    assert_eq!(world.result(&id).await["status"], "cancelled");
    assert_eq!(world.state(&id).await, "cancelled");
    // completed first
    let id = world.submit(&queued("cap:test:unsafe", 0)).await;
    assert_eq!(world.result(&id).await["status"], "completed");
    let late = world.cancel(&id).await;
    assert_eq!((late["status"].as_str(), world.state(&id).await), (Some("rejected"), json!("completed")));
    // asked for and not queued
    let mut requested = queued("cap:test:unsafe", 1);
    requested["mode"] = json!("sync");
    requested["timeout_ms"] = json!(60_000);
    let id = ActionId::opaque(requested["id"].as_str().unwrap());
    let (reply, ack) = tokio::join!(world.call(&requested), async {
        wait_for("it to be begun", SOON, || async { worker.begun() == 3 }).await;
        world.cancel(&id).await
    });
    assert_eq!(ack["status"], "accepted");
    assert_eq!(reply.envelope["body"]["action_result"]["status"], "cancelled", "{}", reply.envelope);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_began_is_cancelled_at_once_and_others_may_not() {
    let world = World::with_queue().await;
    let id = world.submit(&said()).await;
    let foreign = envelope(MessageType::Cancel, json!({"target": {"action": id}}));
    let reply = world.send(&signed(foreign, &world.worker_key)).await;
    assert_eq!(code(&reply), codes::ACTION_NOT_FOUND.name);
    assert_eq!(world.cancel(&id).await["status"], "accepted");
    assert_eq!(world.state(&id).await, "cancelled");
    assert_eq!(world.says(&id, "a", 1, "started").await, codes::ACTION_SUPERSEDED.name);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_cannot_be_cancelled_ends_as_it_ends() {
    let world = World::with_queue().await;
    let id = world.submit(&said()).await;
    let (_job, _) = world.pull().await;
    assert_eq!(world.says(&id, "a", 1, "started").await, TAKEN);
    assert_eq!(world.cancel(&id).await["status"], "accepted");
    assert_eq!(world.state(&id).await, "cancelling");
    assert_eq!(world.says(&id, "a", 1, "running").await, TAKEN);
    assert_eq!(world.says(&id, "a", 1, "ended").await, TAKEN);
    assert_eq!(world.state(&id).await, "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_lost_under_load_is_made_again_and_nothing_is_lost() {
    let mut nats = TestNats::start().await;
    let folder = nats.server.store_dir();
    let world = World::near(&nats).await;
    let _door = door(&world, &nats).await;
    let mut ids = Vec::new();
    {
        // registered, with nobody to take the work
        let mut worker = Process::start(&nats, "w1");
        worker.kill();
    }
    for _ in 0..20 {
        ids.push(world.submit(&queued("cap:test:safe", 0)).await);
    }
    nats.server.kill().await.unwrap();
    let stream = queue_stream_name(&TestNats::trust_domain(), &Service::new(SERVICE).unwrap());
    let lost: Vec<_> = folders(&folder).into_iter().filter(|path| path.ends_with(&stream)).collect();
    assert_eq!(lost.len(), 1);
    std::fs::remove_dir_all(&lost[0]).unwrap();
    nats.server.restart().await.unwrap();
    let back = Instant::now();
    let worker = Process::start(&nats, "w2");
    for _ in 0..5 {
        let id = wait_for_some("the gateway", SOON, || async {
            let action = queued("cap:test:safe", 0);
            let reply = world.call(&action).await;
            (reply.envelope["body"]["ack"]["status"] == "queued")
                .then(|| ActionId::opaque(action["id"].as_str().unwrap()))
        })
        .await;
        ids.push(id);
    }
    for id in &ids {
        assert_eq!(world.result(id).await["status"], "completed");
    }
    assert!(back.elapsed() <= Duration::from_secs(25), "after {:?}", back.elapsed());
    assert!(worker.begun() >= 25);
}

pub fn folders(below: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(below).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(folders(&path));
            found.push(path);
        }
    }
    found
}
