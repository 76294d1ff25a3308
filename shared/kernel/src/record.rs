//! A record: one decision about one entity, as it stands in the log.

use serde::{Deserialize, Serialize};

use crate::{EntityKey, Hash, Millis, WriterId};

/// Another entity the decision depended on, and how many records it had then.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Read {
    pub kind: String,
    pub key: String,
    pub n: u64,
}

/// A name that must be free for the record to be effective. `until` is a log time; without it the claim is held for
/// good, or until an event of its entity releases it. The log's time stands still while nothing is appended, so a
/// claim for a while from now is reckoned from the later of `Facts::now` and `Facts::log_time`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
}

/// A record with events of type `E`. `n` counts the effective records of its entity from 1; `prev` is the hash of
/// the encoded record before (zeros for the first). `at` is the writer's wall clock: said for people, never judged.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Record<E> {
    #[serde(flatten)]
    pub header: Header,
    pub events: Vec<E>,
}

/// All of a record but its events: what the judge looks at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Header {
    /// Version of the record's meaning: a change of what `apply` does with it is a new number.
    pub v: u32,
    pub id: String,
    pub kind: String,
    pub key: String,
    pub n: u64,
    pub prev: Hash,
    pub at: Millis,
    pub writer: WriterId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<Read>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
}

// === impl Header ===

impl Header {
    pub fn entity(&self) -> EntityKey {
        EntityKey::new(self.kind.clone(), self.key.clone())
    }
}
