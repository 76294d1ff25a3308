//! A job that takes as long as it is told to, and stops when it is told to.

use std::time::Duration;

use aip_names::limits::{ACTION_ASYNC_TIMEOUT_MAX_MS, SANDBOX_SLOW_MS_MAX};
use aip_sdk::{ActionError, CapabilitySpec, Context, WorkerBuilder};
use aip_wire::{IdempotencyRequirement, RetrySafety, SideEffect};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::book::{Book, Draft};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Job {
    #[schemars(range(max = SANDBOX_SLOW_MS_MAX))]
    duration_ms: u64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Done {
    slept_ms: u64,
    /// The dispatch that brought it to its end, counted from 1.
    attempt: u32,
    /// An earlier life of the worker had begun it.
    begun_before: bool,
}

pub fn offer(worker: WorkerBuilder, book: &Book) -> WorkerBuilder {
    let job = CapabilitySpec::write(
        "cap:slow:job",
        "Do a slow job",
        "Takes as long as it is told to, and stops when it is to be cancelled. Done again, it does no harm.",
        SideEffect::Write,
        RetrySafety::Safe,
    )
    .key(IdempotencyRequirement::Optional)
    .takes(60_000, ACTION_ASYNC_TIMEOUT_MAX_MS)
    .queued()
    .cancellable();
    let book = book.clone();
    worker.capability(job, move |context, job| sleep(book.clone(), context, job))
}

pub fn seed(_: &mut Draft<'_>) -> Result<(), ActionError> {
    Ok(())
}

pub async fn sleep(book: Book, context: Context, job: Job) -> Result<Done, ActionError> {
    tokio::select! {
        () = tokio::time::sleep(Duration::from_millis(job.duration_ms)) => {}
        () = context.stop().cancelled() => {
            if context.is_cancelled() {
                return Err(ActionError::cancelled("the job was cancelled before its end"));
            }
            return Err(ActionError::temporary("sandbox.slow.stopped", "the job was stopped before its end"));
        }
    }
    let done =
        Done { slept_ms: job.duration_ms, attempt: context.attempt(), begun_before: context.begun_before() };
    book.once(&context, move |_| Ok(done)).await
}
