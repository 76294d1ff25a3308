//! One action: what its records say and what state they leave (11.5). The action itself, with its input, stands only
//! in its first record; the state keeps what decisions and queries need, and never the input.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use aip_kernel::{Applying, Bug, EffectMode, Header, Millis};
use aip_wire::ActionLifecycleState as Lifecycle;
use aip_wire::trusted::{PrincipalRef, TrustedContext};
use aip_wire::{
    Action, ActionId, ActionMode, ActionResult, ActionResultStatus, CapabilityId, CorrelationId, MessageId,
    ProtocolError,
};

use super::receipts::{self, Chain};
use super::redrive::Redrives;
use super::{Effect, GatewayMachine, Reservation, keys, lifecycle, redrive, shelf, stamp};

/// What happened to an action.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionEvent {
    Accepted(Box<Accepted>),
    /// The record that holds this is the claim on the dispatch: with `Once`, only its writer sends, once.
    Dispatched {
        attempt: u32,
        mode: EffectMode,
    },
    /// The action waits for a worker in its queue. The effect that puts it there stands until a worker has begun it.
    Enqueued {
        attempt: u32,
    },
    /// A worker has claimed the attempt: it alone may go on with it.
    Started {
        attempt: u32,
        worker: String,
        until: Millis,
    },
    /// The worker was heard of, or, with `grace`, was not heard of in time and has a little longer.
    Leased {
        attempt: u32,
        until: Millis,
        grace: bool,
    },
    /// The first chunk of the attempt is kept, under this sequence number.
    Streaming {
        attempt: u32,
        sequence: u64,
    },
    /// The action has ended before, and nothing stands behind `last` in its stream.
    StreamClosed {
        last: u64,
    },
    /// Somebody asked to cancel. Nothing is cancelled by that (11.8).
    CancelRequested {
        by: PrincipalRef,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// A worker may be at it that can be told.
        tell: bool,
    },
    /// It is certain that nothing will be done any more: no worker had begun it, or the one that had says so.
    Cancelled {
        by_worker: bool,
    },
    /// No attempt is left; a person has to look at it.
    DeadLettered {
        error: Box<ProtocolError>,
    },
    /// An answer that came too late to count: evidence, and nothing else.
    LateAnswer(Box<LateAnswer>),
    /// The attempt ended without an answer and another may follow. `delivered` is false when it is certain that no
    /// worker got it.
    AttemptFailed {
        attempt: u32,
        code: String,
        delivered: bool,
        retry_at: Millis,
    },
    Completed {
        attempt: u32,
        result: Box<ActionResult>,
    },
    /// `by_worker` when the failure is the worker's own answer. `uncertain` when a mutation may have happened.
    Failed {
        by_worker: bool,
        uncertain: bool,
        error: Box<ProtocolError>,
    },
    /// The deadline came, and nothing can have happened that matters.
    Expired {
        error: Box<ProtocolError>,
    },
}

/// What a superseded worker said, by digests.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LateAnswer {
    pub attempt: u32,
    pub worker: String,
    /// The status of a result, or the code of a failure.
    pub said: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_hash: Option<String>,
}

/// Who has an attempt, and how long nobody else may.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Lease {
    pub worker: String,
    pub until: Millis,
    /// It was over once and stands a little longer.
    pub grace: bool,
}

/// The admission: the frozen facts that everything later stands on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Accepted {
    pub action: Action,
    /// Who asked, for which tenant, until when, by which policy: the trusted context of 11.2, as the worker gets it.
    pub context: TrustedContext,
    /// Who admitted it: the gateway's own principal.
    pub gateway: PrincipalRef,
    pub message_id: MessageId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<CorrelationId>,
    /// Digest of capability and input together.
    pub input_hash: String,
    pub pinned: Pinned,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reservations: Vec<Reservation>,
    pub received_at: Millis,
    /// Of an action that takes up a dead letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redrives: Option<Redrives>,
}

/// The contract that an action was admitted under, and who performs it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pinned {
    pub provider: PrincipalRef,
    /// The record of the provider's manifest that holds the capability.
    pub registration_n: u64,
    pub contract_hash: String,
    pub service: String,
    pub version: String,
    /// A second execution would do harm that nobody could tell from the first.
    pub mutation: bool,
    pub dispatch: EffectMode,
    /// The handler can be told to stop and says when it has.
    #[serde(default)]
    pub cancel: bool,
    /// The worker may send chunks of this action.
    #[serde(default)]
    pub streams: bool,
}

/// What the ledger knows of an action's stream.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StreamState {
    /// Chunks are also told to native readers, under the action's correlation id, which no other such action has.
    pub native: bool,
    /// A sequence number that is known to have been kept; 0 before the first.
    pub reached: u64,
    /// The last one there is, once that is certain.
    pub last: Option<u64>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ActionState {
    pub id: ActionId,
    pub capability_id: CapabilityId,
    pub requester: PrincipalRef,
    pub tenant: Option<String>,
    pub gateway: PrincipalRef,
    pub correlation_id: Option<CorrelationId>,
    pub input_hash: String,
    pub pinned: Pinned,
    pub lifecycle: Lifecycle,
    pub accepted_at: Millis,
    pub updated_at: Millis,
    pub deadline: Millis,
    pub started_at: Option<Millis>,
    pub ended_at: Option<Millis>,
    /// The last attempt that was begun; 0 before the first.
    pub attempt: u32,
    /// Some attempt that has ended may have reached a worker.
    pub delivered: bool,
    /// Through a queue, and not by request and reply.
    #[serde(default)]
    pub queued: bool,
    /// Of a queued action: the attempt is in the queue, or begun. Else it waits for its time.
    #[serde(default)]
    pub enqueued: bool,
    /// Of a queued action's attempt that was begun.
    #[serde(default)]
    pub lease: Option<Lease>,
    #[serde(default)]
    pub late_answers: u32,
    #[serde(default)]
    pub stream: StreamState,
    /// Of an action that takes up a dead letter.
    #[serde(default)]
    pub redrives: Option<Redrives>,
    pub result: Option<Box<ActionResult>>,
    pub receipts: Chain,
}

// === impl ActionState ===

impl ActionState {
    fn accepted(accepted: &Accepted, log_time: Millis) -> ActionState {
        ActionState {
            id: accepted.action.id.clone(),
            capability_id: accepted.action.capability_id.clone(),
            requester: accepted.context.principal.clone(),
            tenant: accepted.context.tenant.clone(),
            gateway: accepted.gateway.clone(),
            correlation_id: accepted.correlation_id.clone(),
            input_hash: accepted.input_hash.clone(),
            pinned: accepted.pinned.clone(),
            lifecycle: Lifecycle::Accepted,
            accepted_at: log_time,
            updated_at: log_time,
            deadline: accepted.context.deadline_ms,
            started_at: None,
            ended_at: None,
            attempt: 0,
            delivered: false,
            queued: is_queued(accepted.action.mode),
            enqueued: false,
            lease: None,
            late_answers: 0,
            stream: StreamState { native: accepted.streams_to().is_some(), ..StreamState::default() },
            redrives: accepted.redrives.clone(),
            result: None,
            receipts: Chain::default(),
        }
    }

    pub fn is_terminal(&self) -> bool {
        lifecycle::is_terminal(self.lifecycle)
    }

    /// True when ending it now, without an answer, leaves open whether something was done.
    pub fn may_have_happened(&self) -> bool {
        self.pinned.mutation && (self.delivered || self.is_running())
    }

    /// Some worker may be at it.
    pub fn is_running(&self) -> bool {
        matches!(self.lifecycle, Lifecycle::Running | Lifecycle::Streaming | Lifecycle::Cancelling)
    }

    /// The attempt that counts is with this worker.
    pub fn is_held_by(&self, worker: &str, attempt: u32) -> bool {
        self.attempt == attempt && self.lease.as_ref().is_some_and(|lease| lease.worker == worker)
    }

    fn end(&mut self, lifecycle: Lifecycle, result: ActionResult, log_time: Millis) -> Result<(), Bug> {
        self.lifecycle = lifecycle::advance(self.lifecycle, lifecycle)?;
        self.ended_at = Some(log_time);
        self.result = Some(Box::new(result));
        Ok(())
    }
}

// === impl Accepted ===

impl Accepted {
    /// The correlation id under which native readers hear the action's chunks. Only the generated form is one: whoever
    /// chooses a name could choose another's.
    pub fn streams_to(&self) -> Option<&CorrelationId> {
        streams_to(&self.action, self.correlation_id.as_ref())
    }
}

/// See [`Accepted::streams_to`].
pub(super) fn streams_to<'a>(
    action: &Action,
    correlation: Option<&'a CorrelationId>,
) -> Option<&'a CorrelationId> {
    correlation.filter(|id| action.mode == Some(ActionMode::Streaming) && id.is_generated_form())
}

/// Whether an action of this mode is acknowledged and then waits in its worker's queue.
pub fn is_queued(mode: Option<ActionMode>) -> bool {
    matches!(mode, Some(ActionMode::Async | ActionMode::Streaming))
}

/// Folds one event into the action and writes its rows.
///
/// # Errors
/// The event can't follow what stands: a broken invariant.
pub fn apply(
    state: Option<ActionState>,
    event: &ActionEvent,
    applying: &mut Applying<'_, GatewayMachine>,
) -> Result<ActionState, Bug> {
    let (state, _) = step(state, event, applying.header, applying.log_time)?;
    let log_time = applying.log_time;
    let (owner, tenant) = (&state.requester.id, state.tenant.as_deref());
    if matches!(event, ActionEvent::Accepted(_)) {
        shelf::list(applying, owner, tenant);
    }
    // nothing is told of a lease, or of where a stream ends
    if !matches!(event, ActionEvent::Leased { .. } | ActionEvent::StreamClosed { .. }) {
        shelf::tell(applying, owner, tenant);
    }
    match event {
        ActionEvent::Accepted(accepted) => {
            applying.timer(keys::TIMER_DEADLINE, accepted.context.deadline_ms);
            redrive::accepted(&state, applying);
            applying.index(keys::INDEX_AUDIT, stamp::stamp(log_time, &applying.header.id, 0));
        }
        ActionEvent::Dispatched { attempt, mode } => {
            applying.timer_done(keys::TIMER_RETRY);
            applying.effect(Effect::Dispatch { attempt: *attempt }, *mode);
        }
        ActionEvent::Enqueued { attempt } => {
            applying.timer_done(keys::TIMER_RETRY);
            applying.effect(Effect::Enqueue { attempt: *attempt }, EffectMode::Repeatable);
        }
        ActionEvent::Started { until, .. } => {
            applying.effects_end();
            applying.timer(keys::TIMER_LEASE, *until);
        }
        ActionEvent::Leased { until, .. } => applying.timer(keys::TIMER_LEASE, *until),
        ActionEvent::Streaming { .. } => {}
        ActionEvent::StreamClosed { .. } => {
            applying.effects_end();
            if let Some(correlation) = state.correlation_id.as_ref().filter(|_| state.stream.native) {
                applying.release(keys::stream(correlation));
            }
        }
        ActionEvent::CancelRequested { tell, .. } => {
            if *tell {
                applying.effect(Effect::TellCancel, EffectMode::Repeatable);
            }
            applying.index(keys::INDEX_AUDIT, stamp::stamp(log_time, &applying.header.id, 0));
        }
        ActionEvent::AttemptFailed { retry_at, .. } => {
            applying.effects_end();
            applying.timer_done(keys::TIMER_LEASE);
            applying.timer(keys::TIMER_RETRY, *retry_at);
        }
        ActionEvent::LateAnswer(_) => {
            applying.index(keys::INDEX_AUDIT, stamp::stamp(log_time, &applying.header.id, 0));
        }
        ActionEvent::Completed { .. }
        | ActionEvent::Failed { .. }
        | ActionEvent::Expired { .. }
        | ActionEvent::Cancelled { .. }
        | ActionEvent::DeadLettered { .. } => {
            redrive::ended(&state, applying);
            applying.effects_end();
            applying.timer_done(keys::TIMER_RETRY);
            applying.timer_done(keys::TIMER_LEASE);
            applying.timer_done(keys::TIMER_DEADLINE);
            if state.pinned.streams {
                applying.effect(Effect::CloseStream, EffectMode::Repeatable);
            }
            applying.index(keys::INDEX_AUDIT, stamp::stamp(log_time, &applying.header.id, 0));
        }
    }
    Ok(state)
}

/// The state after one event, and the receipts of the transition, sealed into the action's chain. Queries run it over
/// the history to show the receipts that the state only counts.
///
/// # Errors
/// The event can't follow what stands.
pub fn step(
    state: Option<ActionState>,
    event: &ActionEvent,
    header: &Header,
    log_time: Millis,
) -> Result<(ActionState, Vec<Value>), Bug> {
    let mut state = match (state, event) {
        (None, ActionEvent::Accepted(accepted)) => {
            lifecycle::advance(Lifecycle::Unknown, Lifecycle::Accepted)?;
            ActionState::accepted(accepted, log_time)
        }
        (Some(_), ActionEvent::Accepted(_)) => return Err(Bug("an action was accepted twice".to_owned())),
        (None, _) => return Err(Bug("an action went on before it was accepted".to_owned())),
        (Some(state), _) => state,
    };
    match event {
        // they change nothing of an action that has ended
        ActionEvent::LateAnswer(_) => {
            state.late_answers += 1;
            return Ok((state, Vec::new()));
        }
        ActionEvent::StreamClosed { last } => {
            state.stream.last = Some(*last);
            return Ok((state, Vec::new()));
        }
        _ => {}
    }
    state.updated_at = log_time;
    follow(&mut state, event, log_time)?;
    let receipts = receipts::of(&mut state, event, header, log_time)?;
    Ok((state, receipts))
}

fn begin(state: &mut ActionState, attempt: u32) -> Result<(), Bug> {
    if attempt != state.attempt + 1 {
        return Err(Bug(format!("attempt {attempt} after attempt {}", state.attempt)));
    }
    state.attempt = attempt;
    Ok(())
}

/// How one event moves the state.
fn follow(state: &mut ActionState, event: &ActionEvent, log_time: Millis) -> Result<(), Bug> {
    match event {
        ActionEvent::Accepted(_) | ActionEvent::LateAnswer(_) | ActionEvent::StreamClosed { .. } => {}
        ActionEvent::Streaming { sequence, .. } => {
            state.lifecycle = lifecycle::advance(state.lifecycle, Lifecycle::Streaming)?;
            state.stream.reached = state.stream.reached.max(*sequence);
        }
        ActionEvent::Dispatched { attempt, .. } => {
            begin(state, *attempt)?;
            state.lifecycle = lifecycle::advance(state.lifecycle, Lifecycle::Running)?;
            state.started_at = state.started_at.or(Some(log_time));
        }
        ActionEvent::Enqueued { attempt } => {
            begin(state, *attempt)?;
            if state.lifecycle != Lifecycle::Queued {
                state.lifecycle = lifecycle::advance(state.lifecycle, Lifecycle::Queued)?;
            }
            state.enqueued = true;
        }
        ActionEvent::Started { attempt, worker, until } => {
            if *attempt != state.attempt {
                return Err(Bug(format!("attempt {attempt} was begun in place of {}", state.attempt)));
            }
            state.lifecycle = lifecycle::advance(state.lifecycle, Lifecycle::Running)?;
            state.lease = Some(Lease { worker: worker.clone(), until: *until, grace: false });
            state.started_at = state.started_at.or(Some(log_time));
        }
        ActionEvent::Leased { until, grace, .. } => {
            let lease = state.lease.as_mut().ok_or_else(|| Bug("a lease that nobody has".to_owned()))?;
            lease.until = *until;
            lease.grace = *grace;
        }
        ActionEvent::CancelRequested { .. } => {
            state.lifecycle = lifecycle::advance(state.lifecycle, Lifecycle::Cancelling)?;
        }
        ActionEvent::AttemptFailed { delivered, .. } => {
            if state.lifecycle != Lifecycle::Queued {
                state.lifecycle = lifecycle::advance(state.lifecycle, Lifecycle::Queued)?;
            }
            state.delivered |= *delivered;
            state.enqueued = false;
            state.lease = None;
        }
        ActionEvent::Cancelled { .. } => {
            let result = ActionResult::bare(state.id.clone(), ActionResultStatus::Cancelled);
            state.end(Lifecycle::Cancelled, result, log_time)?;
        }
        ActionEvent::DeadLettered { error } => {
            let result = ActionResult::failed(state.id.clone(), (**error).clone());
            state.end(Lifecycle::DeadLettered, result, log_time)?;
        }
        ActionEvent::Completed { result, .. } => {
            state.end(Lifecycle::Completed, (**result).clone(), log_time)?;
        }
        ActionEvent::Failed { error, .. } => {
            let result = ActionResult::failed(state.id.clone(), (**error).clone());
            state.end(Lifecycle::Failed, result, log_time)?;
        }
        ActionEvent::Expired { error } => {
            let result = ActionResult::failed(state.id.clone(), (**error).clone());
            state.end(Lifecycle::Expired, result, log_time)?;
        }
    }
    Ok(())
}
