//! Names inside the gateway's ledger: entities, indexes, timers. They stand in the log for ever: never change one.

use aip_kernel::{EntityKey, Hash, LogPlace, Millis};
use aip_wire::{CapabilityId, CorrelationId, PrincipalId};

/// Kind of the entity that is one action, by its id.
pub const ACTION: &str = "action";
/// Kind of the entity that is all a worker's principal has registered, by its id.
pub const MANIFEST: &str = "manifest";
/// Kind of the entity that is one noted message.
pub const MESSAGE: &str = "message";

/// Registrations: by capability id, then by the time they came.
pub const INDEX_CAPABILITY: &str = "capability";
/// Records with receipts and audit events, by their stamp and so by time.
pub const INDEX_AUDIT: &str = "audit";

/// Actions on the shelves of those who may see them, the newest first.
pub const INDEX_ACTIONS: &str = "actions";
/// Records of which something is told, on the same shelves, in the order of the log.
pub const INDEX_FEED: &str = "feed";

/// Redriven actions: by the first dead letter of their line, the newest first.
pub const INDEX_REDRIVES: &str = "redrives";

/// Due at an action's deadline.
pub const TIMER_DEADLINE: &str = "deadline";
/// Due when an action is to be dispatched again.
pub const TIMER_RETRY: &str = "retry";

/// Due when the lease of an attempt is over, and again when its grace is.
pub const TIMER_LEASE: &str = "lease";

/// The cause of the record that closes an action's stream.
pub const CAUSE_STREAM: &str = "stream";

/// Stands between the parts of a sort key; no capability id that is registered has it.
const SEPARATOR: char = '\u{1}';
const BEHIND_SEPARATOR: char = '\u{2}';

pub fn action(id: &str) -> EntityKey {
    EntityKey::new(ACTION, id)
}

/// The claim of the action that streams to native readers under this correlation id.
pub fn stream(correlation: &CorrelationId) -> String {
    format!("stream:{correlation}")
}

pub fn manifest(provider: &PrincipalId) -> EntityKey {
    EntityKey::new(MANIFEST, provider.as_str())
}

/// The sort key of a registration: newer ones of a capability sort before older ones.
pub fn registration(capability: &CapabilityId, since: Millis, contract_hash: &str, service: &str) -> String {
    let age = Millis::MAX - since;
    format!("{capability}{SEPARATOR}{age:016x}{SEPARATOR}{contract_hash}{SEPARATOR}{service}")
}

/// Between which sort keys all registrations of a capability stand, the second excluded.
pub fn registrations_of(capability: &CapabilityId) -> (String, String) {
    (format!("{capability}{SEPARATOR}"), format!("{capability}{BEHIND_SEPARATOR}"))
}

/// The claim of the one redriven action of a line that has not come to nothing.
pub fn redrive_claim(root: &str) -> String {
    format!("redrive:{}", Hash::of(root.as_bytes()))
}

/// The sort key of a redriven action: newer ones of a line sort before older ones.
pub fn redrive(root: &str, place: LogPlace) -> String {
    let LogPlace { message, record } = place;
    format!("{}{SEPARATOR}{:016x}{:08x}", Hash::of(root.as_bytes()), u64::MAX - message, u32::MAX - record)
}

/// Between which sort keys all redriven actions of a line stand, the second excluded.
pub fn redrives_of(root: &str) -> (String, String) {
    let line = Hash::of(root.as_bytes());
    (format!("{line}{SEPARATOR}"), format!("{line}{BEHIND_SEPARATOR}"))
}

/// True for ids that can stand in a sort key.
pub fn is_sortable(id: &str) -> bool {
    !id.chars().any(char::is_control)
}
