//! The name of an entity: its kind and its id.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One entity of a service: an action, a manifest, a replay claim. `kind` is one of the service's own short words,
/// `id` is the entity's id on the wire; neither is empty and `kind` holds no `/`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EntityKey {
    pub kind: String,
    pub id: String,
}

// === impl EntityKey ===

impl EntityKey {
    pub fn new(kind: impl Into<String>, id: impl Into<String>) -> EntityKey {
        EntityKey { kind: kind.into(), id: id.into() }
    }
}

impl fmt::Display for EntityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.id)
    }
}

impl fmt::Debug for EntityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.id)
    }
}
