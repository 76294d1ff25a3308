use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aip_bus::RequestError;
use aip_crypto::SigningKey;
use aip_names::Service;
use aip_sdk::{ActionError, CapabilitySpec, Context, Worker, WorkerBuilder, WorkerConfig, WorkerError};
use aip_testkit::{TestNats, wait_for};
use aip_wire::{
    Action, ActionResult, ActionResultStatus, Envelope, MessageBody, ProtocolError, RetrySafety, SideEffect,
    codes,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::fake::{FakeGateway, Reply, SOON, action, bus, context, principal};

const DEADLINE_MS: u64 = 20_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    #[serde(default)]
    text: String,
    /// An enum is a plain string, as in its schema.
    #[serde(default)]
    tone: Tone,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Tone {
    #[default]
    Plain,
    Loud,
}

#[derive(Serialize, JsonSchema)]
struct Output {
    text: String,
    executions: usize,
}

/// What the handlers of a test share.
struct Stage {
    executions: AtomicUsize,
    gate: Semaphore,
}

impl Stage {
    fn open() -> Arc<Stage> {
        Arc::new(Stage { executions: AtomicUsize::new(0), gate: Semaphore::new(Semaphore::MAX_PERMITS) })
    }

    fn closed() -> Arc<Stage> {
        Arc::new(Stage { executions: AtomicUsize::new(0), gate: Semaphore::new(0) })
    }

    fn executions(&self) -> usize {
        self.executions.load(Ordering::SeqCst)
    }

    async fn begun(&self, executions: usize) {
        wait_for("executions", SOON, || async { self.executions() == executions }).await;
    }
}

fn config(nats: &TestNats, key: &Arc<SigningKey>) -> WorkerConfig {
    WorkerConfig::new(
        TestNats::trust_domain(),
        Service::new("sandbox-restaurant").unwrap(),
        principal("service:restaurant"),
        Arc::clone(key),
        nats.scratch().join("worker.redb"),
    )
}

fn write(id: &str, safety: RetrySafety) -> CapabilitySpec {
    CapabilitySpec::write(id, "Write", "Writes.", SideEffect::Write, safety)
}

/// A worker whose capabilities count executions and wait for the gate.
fn builder(config: WorkerConfig, stage: &Arc<Stage>) -> WorkerBuilder {
    let counted = |stage: &Arc<Stage>| {
        let stage = Arc::clone(stage);
        move |context: Context, input: Input| {
            let stage = Arc::clone(&stage);
            async move {
                let executions = stage.executions.fetch_add(1, Ordering::SeqCst) + 1;
                drop(stage.gate.acquire().await);
                let key = context.idempotency_key().unwrap_or("-");
                let told = format!(
                    "{} {} {} {} {} {}",
                    context.principal().id,
                    context.tenant().unwrap_or("-"),
                    key,
                    context.attempt(),
                    context.begun_before(),
                    input.text
                );
                Ok(Output { text: told, executions })
            }
        }
    };
    let own = Arc::clone(stage);
    Worker::builder(config)
        .capability(write("cap:test:safe", RetrySafety::Safe), counted(stage))
        .capability(write("cap:test:unsafe", RetrySafety::Unsafe), counted(stage))
        .capability(CapabilitySpec::read("cap:test:read", "Read", "Reads."), counted(stage))
        .capability(write("cap:test:chaos", RetrySafety::Unsafe), move |context: Context, input: Input| {
            let stage = Arc::clone(&own);
            async move {
                stage.executions.fetch_add(1, Ordering::SeqCst);
                match input.text.as_str() {
                    "panic" => panic!("told to"),
                    "obey" => {
                        context.stop().cancelled().await;
                        Err(ActionError::permanent("test.stopped", "stopped in time"))
                    }
                    "hang" => std::future::pending().await,
                    "uncertain" => Err(ActionError::temporary("test.lost", "no answer from the provider")
                        .uncertain_outcome()),
                    "large" => Ok(Output { text: "x".repeat(600_000), executions: 0 }),
                    other => Err(ActionError::permanent("test.unknown", other.to_owned())),
                }
            }
        })
        .capability(
            CapabilitySpec::read("cap:test:look", "Look", "Looks."),
            async |_: Context, input: Input| {
                assert!(input.text != "panic", "told to");
                let loud = matches!(input.tone, Tone::Loud);
                Ok(Output { text: if loud { input.text.to_uppercase() } else { input.text }, executions: 1 })
            },
        )
}

async fn accepting(nats: &TestNats) -> FakeGateway {
    FakeGateway::start(nats, |_, _| Reply::manifest()).await
}

async fn start(nats: &TestNats, stage: &Arc<Stage>) -> Worker {
    let key = Arc::new(SigningKey::generate().unwrap());
    start_as(nats, stage, config(nats, &key)).await
}

async fn start_as(nats: &TestNats, stage: &Arc<Stage>, config: WorkerConfig) -> Worker {
    let bus = bus(nats, TestNats::worker("restaurant")).await;
    let worker = builder(config, stage).start(&bus).await.unwrap();
    worker.registered().await.unwrap();
    worker
}

fn result(answer: Envelope) -> ActionResult {
    match answer.body {
        MessageBody::ActionResult(result) => *result,
        other => panic!("{other:?}"),
    }
}

fn refusal(answer: Envelope) -> ProtocolError {
    match answer.body {
        MessageBody::Error(body) => body.error,
        other => panic!("{other:?}"),
    }
}

fn is_uncertain(error: &ProtocolError) -> bool {
    error.details.as_ref().is_some_and(|details| details["uncertain_outcome"] == true)
}

async fn ends(gateway: &FakeGateway, action: &Action) -> ActionResult {
    result(gateway.dispatch(action, DEADLINE_MS).await.unwrap())
}

async fn fails(gateway: &FakeGateway, action: &Action) -> ProtocolError {
    let result = ends(gateway, action).await;
    assert_eq!(result.status, ActionResultStatus::Failed);
    assert_eq!(result.output, None);
    result.error.unwrap()
}

#[tokio::test]
async fn a_worker_registers_until_it_is_taken_and_says_where_its_handlers_are() {
    let nats = TestNats::start().await;
    let gateway = FakeGateway::start(&nats, |before, _| {
        if before == 0 { Reply::error(codes::SERVICE_NOT_READY) } else { Reply::manifest() }
    })
    .await;
    let key = Arc::new(SigningKey::generate().unwrap());
    let worker = start_as(&nats, &Stage::open(), config(&nats, &key)).await;

    let seen = gateway.seen();
    assert_eq!(seen.len(), 2);
    assert_ne!(seen[0].message_id, seen[1].message_id);
    assert_eq!(gateway.signers(), vec![Some(key.did().to_string()); 2]);
    assert_eq!(seen[1].from.as_ref().unwrap().id, "service:restaurant");
    let MessageBody::Manifest(manifest) = &seen[1].body else { panic!("{seen:?}") };
    let ids: Vec<&str> = manifest.capabilities.iter().map(|c| c.id.as_str()).collect();
    assert_eq!(ids, ["cap:test:chaos", "cap:test:look", "cap:test:read", "cap:test:safe", "cap:test:unsafe"]);
    let said = &manifest.extensions.as_ref().unwrap()["aip.worker"];
    assert_eq!((&said["service"], &said["version"]), (&json!("sandbox-restaurant"), &json!("v1")));
    assert_eq!(
        said["handlers"][0],
        json!({"capability_id": "cap:test:chaos", "modes": ["sync"], "cancel": false})
    );
    assert_eq!(said["handlers"].as_array().unwrap().len(), ids.len());

    worker.withdraw().await.unwrap();
    let last = gateway.seen().pop().unwrap();
    let MessageBody::Manifest(manifest) = last.body else { panic!("{last:?}") };
    assert!(manifest.capabilities.is_empty());
    assert_eq!(manifest.extensions.unwrap()["aip.worker"]["handlers"], json!([]));
}

#[tokio::test]
async fn a_worker_that_is_refused_says_so_and_ends() {
    let nats = TestNats::start().await;
    let _gateway = FakeGateway::start(&nats, |_, _| Reply::error(codes::MANIFEST_NOT_ALLOWED)).await;
    let bus = bus(&nats, TestNats::worker("restaurant")).await;
    let key = Arc::new(SigningKey::generate().unwrap());
    let worker = builder(config(&nats, &key), &Stage::open()).start(&bus).await.unwrap();
    let ended = worker.run_until(std::future::pending()).await.unwrap_err();
    assert!(matches!(&ended, WorkerError::Rejected(_)), "{ended}");
    assert!(ended.to_string().contains("aip.manifest.not_allowed"), "{ended}");
}

#[tokio::test]
async fn a_worker_registers_again_after_a_reconnect() {
    let mut nats = TestNats::start().await;
    let gateway = accepting(&nats).await;
    let _worker = start(&nats, &Stage::open()).await;
    let before = gateway.seen().len();
    nats.server.kill().await.unwrap();
    nats.server.restart().await.unwrap();
    wait_for("another registration", SOON, || async { gateway.seen().len() > before }).await;
}

#[tokio::test]
async fn a_handler_gets_the_trusted_context_and_a_second_dispatch_gets_the_first_answer() {
    let nats = TestNats::start().await;
    let gateway = accepting(&nats).await;
    let stage = Stage::open();
    let _worker = start(&nats, &stage).await;
    for capability in ["cap:test:unsafe", "cap:test:read"] {
        let before = stage.executions();
        let action = action(capability, json!({"text": "hi"}));
        let first = ends(&gateway, &action).await;
        assert_eq!(first.status, ActionResultStatus::Completed);
        assert_eq!(first.output.as_ref().unwrap()["text"], "agent:alice acme key-1 3 false hi");
        assert_eq!(ends(&gateway, &action).await, first);
        assert_eq!(stage.executions(), before + 1);
        // another input under the same id is another action
        let other = Action { input: json!({"text": "bye"}), ..action };
        let refused = refusal(gateway.dispatch(&other, DEADLINE_MS).await.unwrap());
        assert_eq!(refused.code, "aip.action.id_conflict");
    }
}

#[tokio::test]
async fn a_second_dispatch_while_the_first_runs_waits_for_its_end() {
    let nats = TestNats::start().await;
    let gateway = accepting(&nats).await;
    let stage = Stage::closed();
    let _worker = start(&nats, &stage).await;
    let action = action("cap:test:unsafe", json!({}));
    let both = async { tokio::join!(ends(&gateway, &action), ends(&gateway, &action)) };
    let release = async {
        stage.begun(1).await;
        stage.gate.add_permits(2);
    };
    let ((first, second), ()) = tokio::join!(both, release);
    assert_eq!(first, second);
    assert_eq!(stage.executions(), 1);
}

/// Runs a worker in a runtime of its own and ends it as a crash does: nothing is finished, nothing is said.
async fn crash_with_running(
    nats: &TestNats,
    gateway: &FakeGateway,
    key: &Arc<SigningKey>,
    actions: &[Action],
) {
    let stage = Stage::closed();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let building = builder(config(nats, key), &stage);
    let url = nats.url();
    let seed_file = nats.seed_file(&TestNats::worker("restaurant"));
    let worker = runtime.spawn(async move {
        let identity = TestNats::worker("restaurant");
        let settings = aip_bus::Settings { url, identity, seed_file, name: "crashing".to_owned() };
        let bus = aip_bus::Bus::connect(settings).await.unwrap();
        bus.ready(SOON).await.unwrap();
        let worker = building.start(&bus).await.unwrap();
        worker.run_until(std::future::pending()).await
    });
    wait_for("the worker", SOON, || async { !gateway.seen().is_empty() }).await;
    let sent = actions.iter().map(|action| gateway.dispatch(action, DEADLINE_MS));
    tokio::select! {
        _ = futures_util::future::join_all(sent) => panic!("nothing should be answered"),
        () = stage.begun(actions.len()) => {}
    }
    drop(worker);
    runtime.shutdown_background();
}

#[tokio::test]
async fn what_an_earlier_life_began_is_run_again_only_where_that_does_no_harm() {
    let nats = TestNats::start().await;
    let gateway = accepting(&nats).await;
    let key = Arc::new(SigningKey::generate().unwrap());
    let again = action("cap:test:safe", json!({}));
    let never = action("cap:test:unsafe", json!({}));
    crash_with_running(&nats, &gateway, &key, &[again.clone(), never.clone()]).await;

    let stage = Stage::open();
    let bus = bus(&nats, TestNats::worker("restaurant")).await;
    // the file is free once the old life is gone
    let worker = aip_testkit::wait_for_some("the store", SOON, || async {
        builder(config(&nats, &key), &stage).start(&bus).await.ok()
    })
    .await;
    worker.registered().await.unwrap();
    let done = ends(&gateway, &again).await;
    assert_eq!(done.output.unwrap()["text"], "agent:alice acme key-1 3 true ");
    let error = fails(&gateway, &never).await;
    assert_eq!(error.code, "aip.action.uncertain_outcome");
    assert!(is_uncertain(&error) && error.retryable == Some(false));
    assert_eq!(fails(&gateway, &never).await, error);
    assert_eq!(stage.executions(), 1);
}

#[tokio::test]
async fn a_panic_leaves_a_mutation_uncertain_and_a_read_failed() {
    let nats = TestNats::start().await;
    let gateway = accepting(&nats).await;
    let _worker = start(&nats, &Stage::open()).await;
    let error = fails(&gateway, &action("cap:test:chaos", json!({"text": "panic"}))).await;
    assert_eq!(error.code, "aip.action.uncertain_outcome");
    assert!(is_uncertain(&error));
    let error = fails(&gateway, &action("cap:test:look", json!({"text": "panic"}))).await;
    assert_eq!(error.code, "aip.worker.failed");
    assert!(!is_uncertain(&error));
    // and the worker lives on
    assert_eq!(
        ends(&gateway, &action("cap:test:look", json!({"text": "a"}))).await.output.unwrap()["text"],
        "a"
    );
}

#[tokio::test]
async fn a_handler_is_told_to_stop_at_the_deadline_and_what_it_says_then_is_the_truth() {
    let nats = TestNats::start().await;
    let gateway = accepting(&nats).await;
    let _worker = start(&nats, &Stage::open()).await;
    let told = |text: &str| action("cap:test:chaos", json!({ "text": text }));
    let obeys = result(gateway.dispatch(&told("obey"), 300).await.unwrap());
    assert_eq!(obeys.error.unwrap().code, "test.stopped");
    let hangs = result(gateway.dispatch(&told("hang"), 300).await.unwrap());
    let error = hangs.error.unwrap();
    assert_eq!(error.code, "aip.action.uncertain_outcome");
    assert!(is_uncertain(&error));
    let late = refusal(gateway.dispatch(&told("hang"), 0).await.unwrap());
    assert_eq!(late.code, "aip.action.deadline_expired");
}

#[tokio::test]
async fn what_a_handler_says_of_its_failure_is_passed_on() {
    let nats = TestNats::start().await;
    let gateway = accepting(&nats).await;
    let _worker = start(&nats, &Stage::open()).await;
    let error = fails(&gateway, &action("cap:test:chaos", json!({"text": "no"}))).await;
    assert_eq!((error.code.as_str(), error.message.as_str()), ("test.unknown", "no"));
    let error = fails(&gateway, &action("cap:test:chaos", json!({"text": "uncertain"}))).await;
    assert!(is_uncertain(&error) && error.retryable == Some(false));
    let error = fails(&gateway, &action("cap:test:chaos", json!({"text": "large"}))).await;
    assert_eq!(error.code, "aip.worker.answer_too_large");
    assert!(is_uncertain(&error));
    let loud = ends(&gateway, &action("cap:test:look", json!({"text": "hey", "tone": "loud"}))).await;
    assert_eq!(loud.output.unwrap()["text"], "HEY");
    let error = fails(&gateway, &action("cap:test:chaos", json!({"text": 7}))).await;
    assert_eq!(error.code, "aip.action.invalid_input");
    assert_eq!(error.details.unwrap()["path"], "text");
}

#[tokio::test]
async fn what_is_no_dispatch_is_refused_and_not_run() {
    let nats = TestNats::start().await;
    let gateway = accepting(&nats).await;
    let stage = Stage::open();
    let _worker = start(&nats, &stage).await;
    let sent = action("cap:test:unsafe", json!({}));
    let refused = |answer: Result<Envelope, RequestError>| refusal(answer.unwrap()).code;
    assert_eq!(refused(gateway.send(&sent, None).await), "aip.auth.missing");
    assert_eq!(
        refused(gateway.send(&sent, Some(json!({"version": 9}))).await),
        "aip.transport.frame_invalid"
    );
    let other = serde_json::to_value(context(&action("cap:test:unsafe", json!({})), DEADLINE_MS)).unwrap();
    assert_eq!(refused(gateway.send(&sent, Some(other)).await), "aip.auth.claim_mismatch");
    let nowhere = gateway.dispatch(&action("cap:test:nowhere", json!({})), DEADLINE_MS).await;
    let refused = refusal(nowhere.unwrap());
    assert_eq!((refused.code.as_str(), refused.retryable), ("aip.worker.unavailable", Some(true)));
    let outdated = context(&sent, DEADLINE_MS);
    let refused = refusal(gateway.send(&sent, Some(serde_json::to_value(outdated).unwrap())).await.unwrap());
    assert_eq!((refused.code.as_str(), refused.retryable), ("aip.worker.unavailable", Some(true)));
    assert!(refused.message.contains("another contract"), "{}", refused.message);
    assert_eq!(stage.executions(), 0);
}

#[tokio::test]
async fn a_full_worker_says_that_it_has_not_begun() {
    let nats = TestNats::start().await;
    let gateway = accepting(&nats).await;
    let key = Arc::new(SigningKey::generate().unwrap());
    let stage = Stage::closed();
    let _worker = start_as(&nats, &stage, WorkerConfig { running_max: 1, ..config(&nats, &key) }).await;
    let (first, second) = (action("cap:test:unsafe", json!({})), action("cap:test:unsafe", json!({})));
    let crowd = async {
        stage.begun(1).await;
        let refused = refusal(gateway.dispatch(&second, DEADLINE_MS).await.unwrap());
        stage.gate.add_permits(1);
        refused
    };
    let (first, refused) = tokio::join!(ends(&gateway, &first), crowd);
    assert_eq!(first.status, ActionResultStatus::Completed);
    assert_eq!((refused.code.as_str(), refused.retryable), ("aip.worker.unavailable", Some(true)));
    assert_eq!(stage.executions(), 1);
}

#[tokio::test]
async fn a_drain_lets_what_runs_end_and_takes_nothing_more() {
    let nats = TestNats::start().await;
    let gateway = accepting(&nats).await;
    let stage = Stage::closed();
    let worker = start(&nats, &stage).await;
    let running = action("cap:test:unsafe", json!({}));
    let draining = async {
        stage.begun(1).await;
        let drained = tokio::spawn(worker.drain());
        wait_for("an end of taking", SOON, || async {
            let late = gateway.dispatch(&action("cap:test:look", json!({})), DEADLINE_MS).await;
            matches!(late, Err(RequestError::NoResponders { .. }))
        })
        .await;
        stage.gate.add_permits(1);
        drained.await.unwrap()
    };
    let (ended, clean) = tokio::join!(ends(&gateway, &running), draining);
    assert_eq!(ended.status, ActionResultStatus::Completed);
    assert!(clean);
}

#[tokio::test]
async fn a_drain_stops_what_does_not_end() {
    let nats = TestNats::start().await;
    let gateway = accepting(&nats).await;
    let key = Arc::new(SigningKey::generate().unwrap());
    let stage = Stage::closed();
    let worker = start_as(&nats, &stage, WorkerConfig { drain_ms: 3_000, ..config(&nats, &key) }).await;
    let (write, read) = (action("cap:test:unsafe", json!({})), action("cap:test:read", json!({})));
    let draining = async {
        stage.begun(2).await;
        worker.drain().await
    };
    let (written, looked, clean) =
        tokio::join!(ends(&gateway, &write), gateway.dispatch(&read, DEADLINE_MS), draining);
    assert!(is_uncertain(&written.error.unwrap()));
    assert_eq!(refusal(looked.unwrap()).code, "aip.worker.unavailable");
    assert!(clean);
}

/// What a handler says because its worker stops is no end of an action that another worker can still do.
#[tokio::test]
async fn a_handler_that_obeys_a_drain_does_not_fail_what_may_be_run_again() {
    let nats = TestNats::start().await;
    let gateway = accepting(&nats).await;
    let key = Arc::new(SigningKey::generate().unwrap());
    let stage = Stage::closed();
    let obeys = |stage: &Arc<Stage>| {
        let stage = Arc::clone(stage);
        move |context: Context, _: Input| {
            let stage = Arc::clone(&stage);
            async move {
                stage.executions.fetch_add(1, Ordering::SeqCst);
                context.stop().cancelled().await;
                Err::<Output, _>(ActionError::permanent("test.stopped", "it was told to stop"))
            }
        }
    };
    let worker = Worker::builder(WorkerConfig { drain_ms: 5_000, ..config(&nats, &key) })
        .capability(CapabilitySpec::read("cap:test:read", "Read", "Reads."), obeys(&stage))
        .capability(write("cap:test:unsafe", RetrySafety::Unsafe), obeys(&stage));
    let worker = worker.start(&bus(&nats, TestNats::worker("restaurant")).await).await.unwrap();
    worker.registered().await.unwrap();
    let (write, read) = (action("cap:test:unsafe", json!({})), action("cap:test:read", json!({})));
    let draining = async {
        stage.begun(2).await;
        worker.drain().await
    };
    let (written, looked, clean) =
        tokio::join!(ends(&gateway, &write), gateway.dispatch(&read, DEADLINE_MS), draining);
    assert_eq!(written.error.unwrap().code, "test.stopped", "what can't be run again ends as it says");
    assert_eq!(refusal(looked.unwrap()).code, "aip.worker.unavailable");
    assert!(clean);
}

#[tokio::test]
async fn a_worker_that_cannot_be_is_refused_at_start() {
    let nats = TestNats::start().await;
    let _gateway = accepting(&nats).await;
    let stage = Stage::open();
    let bus = bus(&nats, TestNats::worker("restaurant")).await;
    let key = Arc::new(SigningKey::generate().unwrap());
    let read = || CapabilitySpec::read("cap:test:read", "Read", "");
    let twice = builder(config(&nats, &key), &stage).capability(read(), async |_: Context, _: Input| Ok(1));
    assert!(matches!(twice.start(&bus).await, Err(WorkerError::Twice(_))));
    let idle = WorkerConfig { running_max: 0, ..config(&nats, &key) };
    assert!(matches!(builder(idle, &stage).start(&bus).await, Err(WorkerError::RunningMax { .. })));
    let first = builder(config(&nats, &key), &stage).start(&bus).await.unwrap();
    assert!(matches!(builder(config(&nats, &key), &stage).start(&bus).await, Err(WorkerError::Store(_))));
    drop(first);
}
