//! The pure heart of a service: what a machine is, what a record is, and the one rule that judges records.
//!
//! Nothing here knows a clock, a network, a disk or a runtime. Times, ids and randomness come in as [`Facts`];
//! what should happen in the world goes out as data ([`Applying`] collects effects, timers and index rows).
//! Replaying the same records through the same machine gives the same state on every replica, always.
//!
//! A service is one [`Machine`]: `decide` turns a command into a [`Draft`] or an answer, `apply` folds an event
//! into the state of its entity. The road that carries drafts to the log and back is `aip-ledger`.

mod apply;
mod facts;
mod hash;
mod judge;
mod key;
mod machine;
mod memory;
mod record;
pub mod stamp;

pub use apply::{Applying, EffectId, EffectMode, IndexKey, LogPlace, Output};
pub use facts::{Facts, Millis, ReplicaId, WriterId};
pub use hash::Hash;
pub use judge::{Heads, Holder, Verdict, VoidReason, judge};
pub use key::EntityKey;
pub use machine::{Bug, Decision, Draft, Entity, Fault, Machine, Past, View};
pub use memory::{Appended, Memory, MemoryError};
pub use record::{Claim, Header, Read, Record};

#[cfg(test)]
mod tests;
