//! The road that every service shares: decide, append, learn by the tail, commit, then speak.
//!
//! A service is a deterministic [`aip_kernel::Machine`], replicated over one totally ordered JetStream stream into
//! the redb store of every replica. The log is the truth and is fsynced before it acknowledges; a store is what a
//! replica has learned from it. [`replica::Replica`] is the whole road without I/O; [`Ledger`] runs it on JetStream,
//! with a thread of its own for the store. Nothing here knows what the machine is about.
//!
//! The invariants L-1 to L-6 are stated in ARCHITECTURE.md and checked after every step of the simulation.

mod batch;
mod drive;
mod handle;
pub mod recover;
pub mod replica;
mod store;
pub mod verify;

use bytes::Bytes;

use aip_kernel::{Hash, Millis};

pub use batch::{Batch, Encoded, FrameError, Recovered};
pub use drive::{Config, OpenError, Performer};
pub use handle::{Ledger, Watch};
pub use store::{Identity, PendingEffect, PendingTimer, Position, Snapshot, Standing, Store, StoreError};

/// A message of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogMessage {
    pub seq: u64,
    /// When the log took it, in nanoseconds since the epoch.
    pub time_ns: i128,
    pub bytes: Bytes,
}

/// The log as its server describes it when a tail is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogInfo {
    pub created_ns: i128,
    pub first_seq: u64,
    pub last_seq: u64,
}

/// Whether a replica may answer, decide and perform.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Readiness {
    Ready,
    NotReady { reason: String },
}

/// Why a command or a read has no answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LedgerError {
    /// Nothing was done.
    #[error("the ledger is not ready: {reason}")]
    NotReady { reason: String },
    /// Nothing was done.
    #[error("too many commands are waiting")]
    Overloaded,
    /// The record was published and has not come back: ask again with the same id.
    #[error("the outcome is not known yet")]
    Unknown,
    /// Other replicas were faster every time; nothing was done.
    #[error("the entity changed too often")]
    Busy,
    /// Nothing was done.
    #[error("the record would be larger than the log takes")]
    TooLarge,
    #[error("store: {0}")]
    Store(String),
    /// The service is going down.
    #[error("the ledger is closed")]
    Closed,
}

// === impl LogMessage ===

impl LogMessage {
    /// The digest by which a store recognizes the message it applied last.
    pub fn hash(&self) -> Hash {
        Hash::of_parts(&[&self.seq.to_be_bytes(), &self.time_ns.to_be_bytes(), &self.bytes])
    }

    pub fn time_ms(&self) -> Millis {
        u64::try_from(self.time_ns / 1_000_000).unwrap_or(0)
    }
}
