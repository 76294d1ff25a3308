//! Misbehaves on request, in every way that a worker can, so that tests see what the others make of it. What it was asked
//! to do it does once and counts, before or after it misbehaves.

use std::sync::Arc;
use std::time::Duration;

use aip_names::limits::{WORKER_ANSWER_BYTES_MAX, WORKER_STOP_GRACE_MS};
use aip_sdk::{ActionError, CapabilitySpec, ChunkError, Context, WorkerBuilder};
use aip_wire::{IdempotencyRequirement, RetrySafety, RiskLevel, SideEffect};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::book::{Book, Draft};

const MISBEHAVE: &str = "cap:chaos:misbehave";
const MISBEHAVE_SAFE: &str = "cap:chaos:misbehave_safe";
pub const EFFECTS: &str = "cap:chaos:effects:read";

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Does as it should.
    None,
    /// Never answers, and does not stop when told to.
    Hang,
    /// Ends the whole process at once.
    Crash,
    /// Panics.
    Panic,
    /// Answers shortly after the deadline.
    Late,
    /// Answers bytes that are no message.
    Garbage,
    /// Answers more than may pass.
    Oversize,
    /// Fails with an error that may be retried.
    Error,
    /// Fails and says that it may have done it.
    Uncertain,
    /// Answers for another action.
    WrongAction,
    /// Answers an output that its own schema forbids.
    WrongSchema,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Order {
    mode: Mode,
    /// Misbehaves before it has done anything, not after.
    #[serde(default)]
    before_effect: bool,
    /// Misbehaves in the first so many dispatches, then no more; in all if left out.
    attempts: Option<u32>,
    /// Waits so long before it misbehaves, or does as it should.
    #[serde(default)]
    #[schemars(range(max = 60_000))]
    delay_ms: u64,
    /// Streams so many chunks: half of them during the delay, the others when it has not misbehaved.
    #[serde(default)]
    #[schemars(range(max = 1_000))]
    chunks: u16,
}

/// What the schema of its output promises.
#[derive(JsonSchema)]
#[schemars(inline)]
#[allow(dead_code)]
struct Promised {
    ok: bool,
    mode: Mode,
    attempt: u32,
}

/// What is answered, whatever was promised.
#[derive(Serialize)]
#[serde(transparent)]
pub struct Said(Value);

impl JsonSchema for Said {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Misbehaved".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Promised::json_schema(generator)
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The capability whose effects are counted; both that misbehave if left out.
    #[schemars(length(max = 200))]
    capability_id: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub struct Counted {
    effects: u64,
}

pub fn offer(mut worker: WorkerBuilder, book: &Book) -> WorkerBuilder {
    for (id, safety) in [(MISBEHAVE, RetrySafety::Unsafe), (MISBEHAVE_SAFE, RetrySafety::Safe)] {
        let spec = CapabilitySpec::write(
            id,
            "Misbehave",
            "Hangs, crashes, is late, answers garbage, too much or something wrong: as told.",
            SideEffect::Write,
            safety,
        )
        .key(IdempotencyRequirement::Optional)
        .risk(RiskLevel::Low);
        // both: what is not safe shows how a lost worker ends
        let spec = spec.streaming();
        let book = book.clone();
        worker = worker.capability(spec, move |context, order| misbehave(book.clone(), context, order));
    }
    let spec = CapabilitySpec::read(EFFECTS, "Count effects", "How often something was done, by capability.");
    let book = book.clone();
    worker
        .capability(spec, move |context, question| count(book.clone(), context, question))
        .tampering(Arc::new(tamper))
}

pub fn seed(_: &mut Draft<'_>) -> Result<(), ActionError> {
    Ok(())
}

pub async fn misbehave(book: Book, context: Context, order: Order) -> Result<Said, ActionError> {
    let attempt = context.attempt();
    let mode =
        if order.attempts.is_some_and(|attempts| attempt > attempts) { Mode::None } else { order.mode };
    let half = order.chunks / 2;
    let delay = Duration::from_millis(order.delay_ms);
    if half == 0 {
        tokio::time::sleep(delay).await;
    }
    for chunk in 1..=half {
        stream(&context, chunk).await?;
        tokio::time::sleep(delay / u32::from(half)).await;
    }
    if !order.before_effect || mode == Mode::None {
        book.once(&context, |_| Ok(true)).await?;
    }
    match mode {
        Mode::Hang => std::future::pending().await,
        Mode::Crash => std::process::abort(),
        // the lint is for mistakes; this is what was ordered
        #[allow(clippy::panic)]
        Mode::Panic => panic!("ordered to"),
        Mode::Late => {
            context.stop().cancelled().await;
            tokio::time::sleep(Duration::from_millis(WORKER_STOP_GRACE_MS / 2)).await;
        }
        Mode::Error => return Err(ActionError::temporary("sandbox.chaos.error", "ordered to fail")),
        Mode::Uncertain => {
            return Err(
                ActionError::temporary("sandbox.chaos.uncertain", "ordered to be unsure").uncertain_outcome()
            );
        }
        Mode::WrongSchema => return Ok(Said(json!({ "ok": "perhaps", "mode": mode }))),
        Mode::None | Mode::Garbage | Mode::Oversize | Mode::WrongAction => {}
    }
    for chunk in half + 1..=order.chunks {
        stream(&context, chunk).await?;
    }
    Ok(Said(json!({ "ok": true, "mode": mode, "attempt": attempt })))
}

async fn stream(context: &Context, chunk: u16) -> Result<(), ActionError> {
    let said = json!({ "chunk": chunk, "attempt": context.attempt() });
    let failed = |error: ChunkError| ActionError::temporary("sandbox.chaos.stream", error.to_string());
    context.chunks().data(said).await.map_err(failed)
}

pub async fn count(book: Book, context: Context, question: Question) -> Result<Counted, ActionError> {
    let capabilities = match question.capability_id {
        Some(capability) => vec![capability],
        None => vec![MISBEHAVE.to_owned(), MISBEHAVE_SAFE.to_owned()],
    };
    let mut effects = 0;
    for capability in capabilities {
        effects += book.effects(&context, capability).await?;
    }
    Ok(Counted { effects })
}

/// Spoils answers that say so, on their way out.
pub fn tamper(answer: Bytes) -> Bytes {
    let Ok(mut message) = serde_json::from_slice::<Value>(&answer) else { return answer };
    let Some(result) = message.pointer_mut("/envelope/body/action_result") else { return answer };
    let mode = result.pointer("/output/mode").and_then(|mode| Mode::deserialize(mode).ok());
    match mode {
        Some(Mode::Garbage) => Bytes::from_static(b"\xff\x00 this is no message {"),
        Some(Mode::Oversize) => {
            set(result, "output", json!({ "ok": true, "filler": "x".repeat(WORKER_ANSWER_BYTES_MAX) }));
            Bytes::from(message.to_string())
        }
        Some(Mode::WrongAction) => {
            set(result, "action_id", json!("act_00000000000070008000000000000000"));
            Bytes::from(message.to_string())
        }
        _ => answer,
    }
}

fn set(object: &mut Value, member: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(member.to_owned(), value);
    }
}
