//! The registry of event kinds (section 25.2): nothing else may be emitted as `Event.kind` or as the action label of
//! an audit event by our services. A kind never changes its meaning.

use crate::types::DataSensitivity;

/// What a consumer has to expect of an event's delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Part of the action's durable history: replayed after a reconnect, deduplicated by event id.
    Replayed,
    /// Kept in the audit record only.
    Recorded,
}

impl Delivery {
    pub const fn as_str(self) -> &'static str {
        match self {
            Delivery::Replayed => "replayed, deduplicate by event id",
            Delivery::Recorded => "recorded for audit, read by query",
        }
    }
}

/// One registered event kind.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    pub name: &'static str,
    pub meaning: &'static str,
    pub delivery: Delivery,
    /// Who may see the event's data.
    pub classification: DataSensitivity,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The registered kind of this name.
pub fn find(name: &str) -> Option<&'static Kind> {
    ALL.iter().copied().find(|kind| kind.name == name)
}

macro_rules! kinds {
    ($($name:ident = $text:literal, $delivery:ident, $class:ident, $meaning:literal;)+) => {
        $(
            #[doc = $meaning]
            pub const $name: &Kind = &Kind {
                name: $text,
                meaning: $meaning,
                delivery: Delivery::$delivery,
                classification: DataSensitivity::$class,
            };
        )+

        /// Every kind, grouped by family.
        pub const ALL: &[&Kind] = &[$($name),+];
    };
}

kinds! {
    ACTION_ADMITTED = "aip.action.admitted", Replayed, Internal, "the action passed admission and is durable";
    ACTION_REDRIVEN = "aip.action.redriven", Replayed, Internal, "an operator had a dead letter taken up again as this action";
    ACTION_DISPATCHED = "aip.action.dispatched", Replayed, Internal, "the action was handed to a worker";
    ACTION_QUEUED = "aip.action.queued", Replayed, Internal, "the action waits in its worker's queue";
    ACTION_STARTED = "aip.action.started", Replayed, Internal, "a worker began the action";
    ACTION_STREAMING = "aip.action.streaming", Replayed, Internal, "the action's worker sends chunks";
    ACTION_ATTEMPT_LOST = "aip.action.attempt_lost", Replayed, Internal, "an attempt came to nothing; another may follow";
    ACTION_CANCELLING = "aip.action.cancelling", Replayed, Internal, "somebody asked to cancel the action";
    ACTION_COMPLETED = "aip.action.completed", Replayed, Internal, "the action ended with a result that its contract admits";
    ACTION_FAILED = "aip.action.failed", Replayed, Internal, "the action ended with an error";
    ACTION_CANCELLED = "aip.action.cancelled", Replayed, Internal, "the action ended because it was cancelled";
    ACTION_EXPIRED = "aip.action.expired", Replayed, Internal, "the action's time was over before it ended";
    ACTION_DEAD_LETTERED = "aip.action.dead_lettered", Replayed, Internal, "the action was given up for a person to look at";
    ACTION_DUPLICATE = "aip.action.duplicate_answered", Recorded, Internal, "a repeated request was answered from the first outcome";
    ACTION_LATE_ANSWER = "aip.action.late_answer", Recorded, Confidential, "a superseded worker answered, or one after the action had ended; nothing changed";
    ACTION_REFUSED = "aip.action.refused", Recorded, Confidential, "an authenticated action was refused before admission";
    ACTION_READ = "aip.action.read", Recorded, Internal, "somebody read an action's status or result";

    ACTION_PENDING_APPROVAL = "aip.action.pending_approval", Replayed, Internal, "the action waits for an approval";
    ACTION_APPROVED = "aip.action.approved", Replayed, Internal, "the action was approved and goes on";
    ACTION_APPROVAL_STALE = "aip.action.approval_stale", Replayed, Internal, "what was approved is not what would be done now; another approval is asked for";
    ACTION_LATE_REVOCATION = "aip.action.late_revocation", Recorded, Internal, "the approval was revoked after the action had been dispatched; nothing changed";

    APPROVAL_WAITING = "aip.approval.waiting", Recorded, Internal, "an approval waits for a decision";
    APPROVAL_REMINDED = "aip.approval.reminded", Recorded, Internal, "an approval still waits";
    APPROVAL_REASSIGNED = "aip.approval.reassigned", Recorded, Internal, "an approval waits for somebody else now";
    APPROVAL_ESCALATED = "aip.approval.escalated", Recorded, Internal, "an approval waits for somebody else as well now";
    APPROVAL_OVERDUE = "aip.approval.overdue", Recorded, Internal, "an approval ran out of time";
    APPROVAL_CHANGED = "aip.approval.changed", Recorded, Internal, "an approval was decided, or decided in part";

    STREAM_CHUNK = "aip.stream.chunk", Replayed, Public, "stands for the chunks of an action, which are no events: asked for as the only kind, they come alone";

    AUTH_REFUSED = "aip.auth.refused", Recorded, Confidential, "a request could not be authenticated";
    AUTH_REPLAYED = "aip.auth.replayed", Recorded, Confidential, "a signed message came a second time";
    AUTH_CLAIMED = "aip.auth.claimed", Recorded, Internal, "the id of a signed message was taken";

    MANIFEST_REGISTERED = "aip.manifest.registered", Recorded, Internal, "a worker's capabilities became callable";
    MANIFEST_REFUSED = "aip.manifest.refused", Recorded, Internal, "a worker's manifest was refused";
    MANIFEST_WITHDRAWN = "aip.manifest.withdrawn", Recorded, Internal, "a capability is no longer callable";
    MANIFEST_READ = "aip.manifest.read", Recorded, Internal, "somebody read the manifest";

    RECEIPT_READ = "aip.receipt.read", Recorded, Internal, "somebody read a receipt chain";
    AUDIT_READ = "aip.audit.read", Recorded, Confidential, "somebody read audit events";
}
