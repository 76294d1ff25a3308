//! What an action's records leave: what decisions and queries need, and never the input.

use serde::{Deserialize, Serialize};

use aip_kernel::{Bug, Millis};
use aip_wire::ActionLifecycleState as Lifecycle;
use aip_wire::trusted::PrincipalRef;
use aip_wire::{ActionId, ActionResult, CapabilityId, CorrelationId};

use super::event::{Accepted, Pinned, is_queued};
use crate::machine::approval::Approving;
use crate::machine::lifecycle;
use crate::machine::receipts::Chain;
use crate::machine::redrive::Redrives;

/// Who has an attempt, and how long nobody else may.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Lease {
    pub worker: String,
    pub until: Millis,
    /// It was over once and stands a little longer.
    pub grace: bool,
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
    /// Of an action that has to be approved: the approval that counts.
    #[serde(default)]
    pub approval: Option<Box<Approving>>,
    pub result: Option<Box<ActionResult>>,
    pub receipts: Chain,
}

// === impl ActionState ===

impl ActionState {
    pub(super) fn accepted(accepted: &Accepted, log_time: Millis) -> ActionState {
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
            approval: None,
            result: None,
            receipts: Chain::default(),
        }
    }

    pub fn is_terminal(&self) -> bool {
        lifecycle::is_terminal(self.lifecycle)
    }

    /// It waits for an approval.
    pub fn is_pending(&self) -> bool {
        self.lifecycle == Lifecycle::PendingApproval
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

    pub(super) fn end(
        &mut self,
        lifecycle: Lifecycle,
        result: ActionResult,
        log_time: Millis,
    ) -> Result<(), Bug> {
        self.lifecycle = lifecycle::advance(self.lifecycle, lifecycle)?;
        self.ended_at = Some(log_time);
        self.result = Some(Box::new(result));
        Ok(())
    }
}
