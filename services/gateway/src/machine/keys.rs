//! Names inside the gateway's ledger: entities, indexes, timers. They stand in the log for ever: never change one.

use aip_kernel::{EntityKey, Millis};
use aip_wire::{CapabilityId, PrincipalId};

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

/// Due at an action's deadline.
pub const TIMER_DEADLINE: &str = "deadline";
/// Due when an action is to be dispatched again.
pub const TIMER_RETRY: &str = "retry";

/// Stands between the parts of a sort key; no capability id that is registered has it.
const SEPARATOR: char = '\u{1}';
const BEHIND_SEPARATOR: char = '\u{2}';

pub fn action(id: &str) -> EntityKey {
    EntityKey::new(ACTION, id)
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

/// True for ids that can stand in a sort key.
pub fn is_sortable(id: &str) -> bool {
    !id.chars().any(char::is_control)
}
