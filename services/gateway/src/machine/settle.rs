//! Records what became of a dispatch, and decides whether there may be another. This is where nothing is done twice:
//! an attempt that may have reached a worker is followed by another only when its contract makes that harmless.

use aip_kernel::{Decision, Draft, EffectId, EffectMode, Facts, Fault, Millis, View};
use aip_names::limits::{
    ASYNC_ATTEMPTS_MAX, DISPATCH_ATTEMPTS_MAX, DISPATCH_BACKOFF_FIRST_MS, DISPATCH_BACKOFF_MAX_MS,
};
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
    /// The worker was told to cancel, and says that nothing will be done any more.
    Cancelled,
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
    /// The worker that has the attempt was not heard of in time.
    LeaseExpired,
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
    if state.queued || !state.is_running() || !current {
        return Ok(Decision::Answer(Answer::Nothing));
    }
    let events = events(&state, &settle.outcome, settle.attempt, facts.now.max(facts.log_time));
    let events = events.into_iter().map(Event::Action).collect();
    let draft = Draft::new(settle.effect.entity.clone(), events).cause(settle.effect.to_string());
    Ok(Decision::Append { draft, answer: Answer::Recorded })
}

/// What an outcome of an attempt that runs means. The last attempt of a queued action that comes to nothing is the end.
pub(super) fn events(state: &ActionState, outcome: &Outcome, attempt: u32, now: Millis) -> Vec<ActionEvent> {
    let one = event(state, outcome, attempt, now);
    let spent = state.queued && state.attempt >= ASYNC_ATTEMPTS_MAX;
    match &one {
        ActionEvent::AttemptFailed { code, delivered, .. } if spent => {
            let end = dead_letter(state, state.delivered || *delivered, code);
            vec![one, end]
        }
        _ => vec![one],
    }
}

/// The end of an action that no attempt is left for; `delivered` when some of them may have done it.
pub(super) fn dead_letter(state: &ActionState, delivered: bool, last: &str) -> ActionEvent {
    let details = serde_json::json!({
        "attempts": state.attempt,
        "last": last,
        "uncertain_outcome": state.pinned.mutation && delivered,
    });
    ActionEvent::DeadLettered { error: Box::new(errors::with_details(codes::ACTION_DEAD_LETTERED, details)) }
}

/// True when an action that has ended ended by this outcome.
pub(super) fn ended_so(state: &ActionState, outcome: &Outcome) -> bool {
    match (outcome, state.result.as_deref()) {
        (Outcome::Answered(said), Some(result)) => {
            said.status == result.status && said.output == result.output && said.error == result.error
        }
        (Outcome::Rejected(error), Some(result)) => result.error.as_ref().is_some_and(|said| {
            let cause = said.details.as_ref().and_then(|details| details.get("cause"));
            said == error.as_ref() || cause.is_some_and(|cause| *cause == error.code)
        }),
        (Outcome::Cancelled, Some(_)) => state.lifecycle == Lifecycle::Cancelled,
        (Outcome::BadOutput { .. }, Some(result)) => {
            result.error.as_ref().is_some_and(|error| error.code == codes::ACTION_OUTPUT.name)
        }
        _ => false,
    }
}

fn event(state: &ActionState, outcome: &Outcome, attempt: u32, now: Millis) -> ActionEvent {
    match outcome {
        Outcome::Answered(result) => match (&result.status, &result.error) {
            (ActionResultStatus::Completed, _) => ActionEvent::Completed { attempt, result: result.clone() },
            (_, Some(error)) => by_worker(error),
            (_, None) => lost(state, Lost::Garbage, now),
        },
        // nothing was done by this attempt; an earlier one may have done it
        Outcome::Rejected(error) if state.pinned.mutation && state.delivered => because(&error.code),
        Outcome::Rejected(error) => {
            let uncertain = errors::is_uncertain(error);
            ActionEvent::Failed { by_worker: false, uncertain, error: error.clone() }
        }
        Outcome::BadOutput { path } => {
            let details = serde_json::json!({"path": path, "worker_status": "completed"});
            let error = errors::with_details(codes::ACTION_OUTPUT, details);
            ActionEvent::Failed { by_worker: true, uncertain: false, error: Box::new(error) }
        }
        // nobody had asked: then it is no answer
        Outcome::Cancelled if state.lifecycle != Lifecycle::Cancelling => lost(state, Lost::Garbage, now),
        Outcome::Cancelled => ActionEvent::Cancelled { by_worker: true },
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
    if state.lifecycle == Lifecycle::Cancelling {
        return match state.pinned.mutation && state.delivered {
            true => uncertain(codes::ACTION_CANCELLED),
            false => ActionEvent::Cancelled { by_worker: false },
        };
    }
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

/// When the next attempt may begin; none when there may be no more. A pause that would take all that is left of the
/// deadline takes half of it.
fn another_attempt(state: &ActionState, now: Millis) -> Option<Millis> {
    // a queued action's last attempt comes through here too, to be dead-lettered
    let attempts_max = if state.queued { ASYNC_ATTEMPTS_MAX + 1 } else { DISPATCH_ATTEMPTS_MAX };
    if state.attempt >= attempts_max || state.lifecycle == Lifecycle::Cancelling {
        return None;
    }
    let doublings = state.attempt.saturating_sub(1).min(16);
    let backoff = (DISPATCH_BACKOFF_FIRST_MS << doublings).min(DISPATCH_BACKOFF_MAX_MS);
    let left = state.deadline.saturating_sub(now);
    (left > DISPATCH_BACKOFF_FIRST_MS).then(|| now + backoff.min(left / 2))
}

/// A mutation that may have happened: it ends here, and nothing but reconciliation may say more (13.6, 19.3).
pub(super) fn uncertain(cause: &'static Code) -> ActionEvent {
    because(cause.name)
}

fn because(cause: &str) -> ActionEvent {
    let details = serde_json::json!({"uncertain_outcome": true, "cause": cause});
    let error = errors::with_details(codes::ACTION_UNCERTAIN, details);
    ActionEvent::Failed { by_worker: false, uncertain: true, error: Box::new(error) }
}

// === impl Lost ===

impl Lost {
    fn code(self) -> &'static Code {
        match self {
            Lost::NoAnswer | Lost::Disconnected | Lost::DispatcherGone => codes::WORKER_SILENT,
            Lost::LeaseExpired => codes::WORKER_LOST,
            Lost::Garbage => codes::WORKER_INVALID,
            Lost::TooLarge => codes::WORKER_TOO_LARGE,
        }
    }

    /// True for what the road did, and may not do again; a worker that answers nonsense would answer it again.
    fn may_pass(self) -> bool {
        match self {
            Lost::NoAnswer | Lost::Disconnected | Lost::DispatcherGone | Lost::LeaseExpired => true,
            Lost::Garbage | Lost::TooLarge => false,
        }
    }
}
