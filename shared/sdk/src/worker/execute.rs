//! Runs one action: marks it as begun, calls the handler, keeps the end, and only then says it. A handler that does not
//! end in time is never reported as failed when it may have done something.

use std::time::Duration;

use aip_names::limits::WORKER_STOP_GRACE_MS;
use aip_names::metrics as names;
use aip_wire::{ActionResult, ActionResultStatus, ProtocolError, Refusal, Timestamp, Usage, codes};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::answer;
use super::dispatch::{Ended, Inner, Received, Signals, id_conflict};
use crate::capability::may_run_again;
use crate::chunks::Chunks;
use crate::context::Context;
use crate::error::ActionError;
use crate::store::Known;

/// How a handler ended.
enum Ran {
    Answered(Result<Value, ActionError>),
    Panicked,
    /// It went on after it was told to stop; `stopping` when that was because the worker stops.
    Left {
        stopping: bool,
    },
}

impl Inner {
    pub(super) async fn perform(&self, received: Received, signals: Signals) -> Ended {
        let id = received.action.id.clone();
        let mutates = received.offered.mutates();
        let now_ms = Timestamp::now().as_ms();
        let late = received.trusted.deadline_ms <= now_ms;
        let mark = mutates && !late;
        let known = match self.store.begin(&id, &received.digest, mark, now_ms).await {
            Ok(known) => known,
            Err(error) => return silent(&error),
        };
        let has_key = received.action.idempotency_key.is_some();
        let begun_before = match known {
            Known::Other => return id_conflict(),
            Known::Finished(result) => {
                metrics::counter!(names::WORKER_REPEATS).increment(1);
                return Ended::Result(result);
            }
            Known::Begun if late || !may_run_again(&received.offered.contract, has_key) => {
                let result =
                    failed(&received, uncertain("an earlier life of the worker began it and did not finish"));
                return self.keep(&received, result).await;
            }
            Known::Begun => true,
            Known::Nothing => false,
        };
        if late {
            return Ended::Refused(Refusal::of(codes::ACTION_DEADLINE).into());
        }
        let began = Instant::now();
        let ran = self.run(&received, begun_before, &signals).await;
        let taken = began.elapsed();
        let capability = received.action.capability_id.to_string();
        metrics::histogram!(names::WORKER_ACTION_SECONDS, "capability" => capability)
            .record(taken.as_secs_f64());
        // It was told to stop for the worker's sake and not for the action's: what it says then is no end of an action that
        // may be run again. Its mark stays, and whoever gets it next runs it.
        let moved = (self.stop.is_cancelled() || signals.superseded.is_cancelled())
            && !signals.cancelled.is_cancelled();
        let stopped = match &ran {
            Ran::Left { stopping } => *stopping,
            Ran::Answered(Err(_)) => moved,
            _ => false,
        };
        if stopped && !mutates {
            let message = "the worker stops before the action could end";
            return Ended::Refused(ProtocolError::of(codes::WORKER_UNAVAILABLE, message));
        }
        if stopped && may_run_again(&received.offered.contract, has_key) {
            return Ended::Silent;
        }
        let mut result = match ran {
            Ran::Answered(Ok(output)) => completed(&received, output),
            Ran::Answered(Err(error)) if signals.cancelled.is_cancelled() && error.is_cancelled() => {
                ActionResult::bare(received.action.id.clone(), ActionResultStatus::Cancelled)
            }
            Ran::Answered(Err(error)) => failed(&received, told(error, mutates)),
            Ran::Panicked if mutates => failed(&received, uncertain("the handler broke off")),
            Ran::Panicked => {
                failed(&received, ProtocolError::of(codes::WORKER_FAILED, "the handler broke off"))
            }
            Ran::Left { .. } if mutates => {
                failed(&received, uncertain("the handler did not stop when told to"))
            }
            Ran::Left { .. } => failed(&received, Refusal::of(codes::ACTION_DEADLINE).into()),
        };
        result.usage = Some(Usage {
            latency_ms: Some(u64::try_from(taken.as_millis()).unwrap_or(u64::MAX)),
            ..Usage::default()
        });
        if let Err(code) = answer::passes(&result) {
            let error = ActionError::registered(code, code.meaning).uncertain_outcome();
            result = failed(&received, told(error, mutates));
        }
        self.keep(&received, result).await
    }

    /// Keeps the end, then says it.
    async fn keep(&self, received: &Received, result: ActionResult) -> Ended {
        let (id, durable) = (&received.action.id, received.offered.mutates());
        let now_ms = Timestamp::now().as_ms();
        if let Err(error) = self.store.finish(id, &received.digest, result.clone(), durable, now_ms).await {
            return silent(&error);
        }
        let capability = received.action.capability_id.to_string();
        let outcome =
            result.error.as_ref().map_or_else(|| "completed".to_owned(), |error| error.code.clone());
        metrics::counter!(names::WORKER_ACTIONS, "capability" => capability, "outcome" => outcome)
            .increment(1);
        Ended::Result(Box::new(result))
    }

    /// Calls the handler in a task of its own, so that its panic is its own, and watches the time.
    async fn run(&self, received: &Received, begun_before: bool, signals: &Signals) -> Ran {
        let Signals { stop, cancelled, .. } = signals;
        let key = received.action.idempotency_key.as_deref();
        let context = Context::new(received.trusted.clone(), key, stop.clone())
            .cancelled_by(cancelled.clone())
            .begun_by_an_earlier_life(begun_before)
            .streaming_to(chunks(received, stop));
        let deadline = context.deadline();
        let mut handler = tokio::spawn(received.offered.run(context, received.action.input.clone()));
        let stopping = tokio::select! {
            ended = &mut handler => return judged(ended),
            () = tokio::time::sleep_until(deadline) => false,
            () = stopped(stop, cancelled, &self.stop) => true,
        };
        stop.cancel();
        let grace = Duration::from_millis(WORKER_STOP_GRACE_MS);
        if let Ok(ended) = tokio::time::timeout(grace, &mut handler).await {
            return judged(ended);
        }
        handler.abort();
        let (action, capability) = (&received.action.id, &received.action.capability_id);
        tracing::warn!(%action, %capability, stopping, "a handler did not stop when told to");
        Ran::Left { stopping }
    }
}

fn chunks(received: &Received, stop: &CancellationToken) -> Chunks {
    match &received.outlet {
        _ if !received.offered.contract.execution.supports_streaming => Chunks::undeclared(),
        Some(outlet) => Chunks::to_gateway(outlet.clone(), stop.clone()),
        None => Chunks::to_nobody(),
    }
}

/// Resolves when the handler has to go. One that is to cancel may take its time, unless the worker stops as well.
async fn stopped(stop: &CancellationToken, cancelled: &CancellationToken, worker: &CancellationToken) {
    stop.cancelled().await;
    if cancelled.is_cancelled() {
        worker.cancelled().await;
    }
}

fn judged(ended: Result<Result<Value, ActionError>, tokio::task::JoinError>) -> Ran {
    match ended {
        Ok(answered) => Ran::Answered(answered),
        Err(error) => {
            tracing::error!(%error, "a handler broke off");
            Ran::Panicked
        }
    }
}

/// The store is not to be trusted any more, so nothing is said.
fn silent(error: &crate::store::StoreError) -> Ended {
    tracing::error!(%error, "an action stays without an answer");
    Ended::Silent
}

fn uncertain(message: &str) -> ProtocolError {
    ActionError::registered(codes::ACTION_UNCERTAIN, message).uncertain_outcome().into()
}

/// A handler's own failure. Nothing is uncertain about what only reads.
fn told(error: ActionError, mutates: bool) -> ProtocolError {
    let mut error = ProtocolError::from(error);
    if !mutates && let Some(Value::Object(details)) = &mut error.details {
        details.remove(crate::error::UNCERTAIN);
        if details.is_empty() {
            error.details = None;
        }
    }
    error
}

fn completed(received: &Received, output: Value) -> ActionResult {
    ActionResult {
        action_id: received.action.id.clone(),
        status: ActionResultStatus::Completed,
        output: Some(output),
        message: Vec::new(),
        memory_update: None,
        usage: None,
        receipt: None,
        error: None,
    }
}

fn failed(received: &Received, error: ProtocolError) -> ActionResult {
    ActionResult {
        status: ActionResultStatus::Failed,
        output: None,
        error: Some(error),
        ..completed(received, Value::Null)
    }
}
