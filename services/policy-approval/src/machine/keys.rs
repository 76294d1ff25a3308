//! Names inside the ledger: entities, indexes, timers. They stand in the log for ever: never change one.

use aip_kernel::EntityKey;
use aip_wire::ApprovalId;

/// Kind of the entity that is one approval, by its id.
pub const APPROVAL: &str = "approval";
/// Kind of the entity that is the governed input of one approval, by the approval's id.
pub const EVIDENCE: &str = "evidence";

/// Approvals on the shelves of those who may see them, the newest first.
pub const INDEX_APPROVALS: &str = "approvals";
/// The same, of those that wait.
pub const INDEX_WAITING: &str = "waiting";
/// Records with receipts, by their stamp.
pub const INDEX_RECEIPTS: &str = "receipts";
/// All of them.
pub const INDEXES: &[&str] = &[INDEX_APPROVALS, INDEX_WAITING, INDEX_RECEIPTS];

/// Due when the time for a decision is over.
pub const TIMER_EXPIRE: &str = "expire";
/// Due when the next step of the ladder is.
pub const TIMER_STEP: &str = "step";

pub fn approval(id: &ApprovalId) -> EntityKey {
    EntityKey::new(APPROVAL, id.as_str())
}

pub fn evidence(id: &ApprovalId) -> EntityKey {
    EntityKey::new(EVIDENCE, id.as_str())
}
