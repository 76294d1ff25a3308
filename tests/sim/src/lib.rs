//! Deterministic simulation of the ledger: the road itself (`aip_ledger::replica`) on a log, disks, clocks, clients
//! and performers that fail as real ones do.
//!
//! One seed is one run, on one thread, without tokio: several replicas of a machine on one [`log`](log::Log). After
//! every step the [catalogue](Invariant) is checked; at the end all faults cease and everything that was promised
//! must have come to pass. A seed that breaks an invariant is printed, and `aip-sim replay --seed N` tells its story
//! again. What a run looks at is the same for any machine; a service is simulated by writing a [`Subject`] for its
//! own.
//!
//! **Broken variants.** This crate turns on `aip-ledger`'s feature `broken`, and a build of the whole workspace
//! unifies features, so services built beside it contain the broken variants as well. We accept that: a variant is a
//! value that only `Replica::new` takes, and the only caller outside this crate, the shell in `aip_ledger`, passes
//! `Variant::Sound` as a constant. No configuration, environment or message reaches it. Build a service alone
//! (`-p`) and they are not even compiled in.
//!
//! **Not modelled.** Disks that acknowledge a sync and lie; a JetStream cluster with a stale leader; a foreign log
//! that grows past a replica's position before its shell has noticed the change of servers; the shell's own code
//! (threads, channels, async-nats), which the end-to-end tests run; payload and record bounds.

#![allow(clippy::indexing_slicing, reason = "a test harness may fail loudly")]

pub mod approvals;
mod bench;
mod disk;
mod invariants;
mod log;
mod oracle;
mod plan;
mod report;
mod run;
mod subject;
pub mod toy;
mod world;

pub use bench::{Bench, Said};
pub use invariants::{Invariant, Violation};
pub use report::{Counts, Fault, Report, Sight};
pub use run::{Failure, hunt, run, sweep};
pub use subject::{Evidence, Subject};
pub use world::World;

/// The only source of chance.
pub type Rng = rand_chacha::ChaCha8Rng;
