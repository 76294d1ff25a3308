//! What the records of an action say. The action itself, with its input, stands only in the first.

use serde::{Deserialize, Serialize};

use aip_kernel::{EffectId, EffectMode, Millis};
use aip_wire::trusted::{PrincipalRef, TrustedContext};
use aip_wire::{
    Action, ActionMode, ActionResult, ApprovalDecision, ApprovalId, CorrelationId, MessageId, ProtocolError,
};

use crate::machine::Reservation;
use crate::machine::approval::{Pending, Resolved};
use crate::machine::redrive::Redrives;

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
    /// The action waits until somebody approves it (12.2).
    PendingApproval(Box<Pending>),
    /// The approval is asked for.
    ApprovalAsked {
        approval: ApprovalId,
    },
    /// The approval came to its end. What follows from that stands behind it in the same record.
    ApprovalResolved(Box<Resolved>),
    /// The approval was revoked too late: evidence, and nothing else.
    RevokedLate {
        decision: Box<ApprovalDecision>,
    },
    /// The action has ended before, and its approval is withdrawn.
    ApprovalWithdrawn {
        effect: EffectId,
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

// === impl Accepted ===

impl Accepted {
    /// The correlation id under which native readers hear the action's chunks. Only the generated form is one: whoever
    /// chooses a name could choose another's.
    pub fn streams_to(&self) -> Option<&CorrelationId> {
        streams_to(&self.action, self.correlation_id.as_ref())
    }
}

/// See [`Accepted::streams_to`].
pub(in crate::machine) fn streams_to<'a>(
    action: &Action,
    correlation: Option<&'a CorrelationId>,
) -> Option<&'a CorrelationId> {
    correlation.filter(|id| action.mode == Some(ActionMode::Streaming) && id.is_generated_form())
}

/// Whether an action of this mode is acknowledged and then waits in its worker's queue.
pub fn is_queued(mode: Option<ActionMode>) -> bool {
    matches!(mode, Some(ActionMode::Async | ActionMode::Streaming))
}
