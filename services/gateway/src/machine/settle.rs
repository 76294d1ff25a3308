//! Records what became of a dispatch, and decides whether there may be another. This is where nothing is done twice:
//! an attempt that may have reached a worker is followed by another only when its contract makes that harmless.

use aip_kernel::{Decision, Draft, EffectId, EffectMode, Facts, Fault, Millis, View};
use aip_names::limits::{DISPATCH_ATTEMPTS_MAX, DISPATCH_BACKOFF_FIRST_MS, DISPATCH_BACKOFF_MAX_MS};
use aip_wire::ActionLifecycleState as Lifecycle;
use aip_wire::codes::{self, Code};
use aip_wire::{ActionResult, ActionResultStatus, ProtocolError};

use super::action::{ActionEvent, ActionState};
use super::{Answer, Event, GatewayMachine, load_action};
use crate::errors;

/// The outcome of one attempt.
#[derive(Debug, Clone)]
pub struct Settle {
    pub effect: EffectId,
    pub attempt: u32,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The worker's result: completed with an output that its schema admits, or failed with an error.
    Answered(Box<ActionResult>),
    /// The worker refused the action for good, before or without executing it.
    Rejected(Box<ProtocolError>),
    /// The worker says completed, but its output is not what the capability promises.
    BadOutput { path: String },
    /// It is certain that no worker has begun it.
    NotDone(NotDone),
    /// It was sent, and what came of it is not known.
    Lost(Lost),
}

#[derive(Debug, Clone, PartialEq)]
pub enum NotDone {
    /// Nobody subscribes to the worker's subject.
    NoResponders,
    /// There is no connection, or no time.
    NotSent,
    /// A worker refused to take it now, with this code.
    Refused(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    NoAnswer,
    Disconnected,
    /// The process that had sent it is gone.
    DispatcherGone,
    Garbage,
    TooLarge,
}

pub(super) fn decide(
    view: &dyn View<GatewayMachine>,
    settle: &Settle,
    facts: &Facts,
) -> Result<Decision<GatewayMachine>, Fault> {
    let Some(action) = load_action(view, &settle.effect.entity.id)? else {
        return Ok(Decision::Answer(Answer::Nothing));
    };
    let state = action.state;
    // An answer is an answer, whichever attempt brought it; a failure says something only about its own attempt.
    let answers =
        matches!(settle.outcome, Outcome::Answered(_) | Outcome::Rejected(_) | Outcome::BadOutput { .. });
    let current = state.attempt == settle.attempt || (answers && settle.attempt < state.attempt);
    if state.lifecycle != Lifecycle::Running || !current {
        return Ok(Decision::Answer(Answer::Nothing));
    }
    let event = event(&state, settle, facts.now.max(facts.log_time));
    let draft =
        Draft::new(settle.effect.entity.clone(), vec![Event::Action(event)]).cause(settle.effect.to_string());
    Ok(Decision::Append { draft, answer: Answer::Recorded })
}

fn event(state: &ActionState, settle: &Settle, now: Millis) -> ActionEvent {
    match &settle.outcome {
        Outcome::Answered(result) => match (&result.status, &result.error) {
            (ActionResultStatus::Completed, _) => {
                ActionEvent::Completed { attempt: settle.attempt, result: result.clone() }
            }
            (_, Some(error)) => by_worker(error),
            (_, None) => lost(state, Lost::Garbage, now),
        },
        Outcome::Rejected(error) => {
            let uncertain = errors::is_uncertain(error);
            ActionEvent::Failed { by_worker: false, uncertain, error: error.clone() }
        }
        Outcome::BadOutput { path } => {
            let details = serde_json::json!({"path": path, "worker_status": "completed"});
            let error = errors::with_details(codes::ACTION_OUTPUT, details);
            ActionEvent::Failed { by_worker: true, uncertain: false, error: Box::new(error) }
        }
        Outcome::NotDone(why) => not_done(state, why, now),
        Outcome::Lost(why) => lost(state, *why, now),
    }
}

fn by_worker(error: &ProtocolError) -> ActionEvent {
    let uncertain = errors::is_uncertain(error);
    ActionEvent::Failed { by_worker: true, uncertain, error: Box::new(error.clone()) }
}

fn not_done(state: &ActionState, why: &NotDone, now: Millis) -> ActionEvent {
    let code = match why {
        NotDone::NoResponders | NotDone::NotSent => codes::WORKER_UNAVAILABLE.name,
        NotDone::Refused(code) => code.as_str(),
    };
    if let Some(retry_at) = another_attempt(state, now) {
        let code = code.to_owned();
        return ActionEvent::AttemptFailed { attempt: state.attempt, code, delivered: false, retry_at };
    }
    if state.pinned.mutation && state.delivered {
        return uncertain(codes::WORKER_UNAVAILABLE);
    }
    if now >= state.deadline {
        return ActionEvent::Expired { error: Box::new(errors::of(codes::ACTION_DEADLINE)) };
    }
    let details = serde_json::json!({"attempts": state.attempt, "last": code});
    let error = errors::with_details(codes::WORKER_UNAVAILABLE, details);
    ActionEvent::Failed { by_worker: false, uncertain: false, error: Box::new(error) }
}

fn lost(state: &ActionState, why: Lost, now: Millis) -> ActionEvent {
    let code = why.code();
    if state.pinned.dispatch == EffectMode::Repeatable
        && why.may_pass()
        && let Some(retry_at) = another_attempt(state, now)
    {
        let code = code.name.to_owned();
        return ActionEvent::AttemptFailed { attempt: state.attempt, code, delivered: true, retry_at };
    }
    if state.pinned.mutation {
        return uncertain(code);
    }
    if now >= state.deadline {
        return ActionEvent::Expired { error: Box::new(errors::of(codes::ACTION_DEADLINE)) };
    }
    ActionEvent::Failed { by_worker: false, uncertain: false, error: Box::new(errors::of(code)) }
}

/// When the next attempt may begin; none when there may be no more.
fn another_attempt(state: &ActionState, now: Millis) -> Option<Millis> {
    if state.attempt >= DISPATCH_ATTEMPTS_MAX {
        return None;
    }
    let doublings = state.attempt.saturating_sub(1).min(16);
    let backoff = (DISPATCH_BACKOFF_FIRST_MS << doublings).min(DISPATCH_BACKOFF_MAX_MS);
    let retry_at = now.saturating_add(backoff);
    (retry_at < state.deadline).then_some(retry_at)
}

/// A mutation that may have happened: it ends here, and nothing but reconciliation may say more (13.6, 19.3).
pub(super) fn uncertain(cause: &'static Code) -> ActionEvent {
    let details = serde_json::json!({"uncertain_outcome": true, "cause": cause.name});
    let error = errors::with_details(codes::ACTION_UNCERTAIN, details);
    ActionEvent::Failed { by_worker: false, uncertain: true, error: Box::new(error) }
}

// === impl Lost ===

impl Lost {
    fn code(self) -> &'static Code {
        match self {
            Lost::NoAnswer | Lost::Disconnected | Lost::DispatcherGone => codes::WORKER_SILENT,
            Lost::Garbage => codes::WORKER_INVALID,
            Lost::TooLarge => codes::WORKER_TOO_LARGE,
        }
    }

    /// True for what the road did, and may not do again; a worker that answers nonsense would answer it again.
    fn may_pass(self) -> bool {
        match self {
            Lost::NoAnswer | Lost::Disconnected | Lost::DispatcherGone => true,
            Lost::Garbage | Lost::TooLarge => false,
        }
    }
}
