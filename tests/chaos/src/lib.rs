//! Proof by force: three gateways, four workers and a nats-server as real processes, two tenants that hammer them, and
//! faults out of a table: SIGKILL, SIGSTOP, cut and silent connections, stores deleted, swapped, read-only or full.
//!
//! A [`campaign`] is a seed. After its faults, and in between, the [`judge`] asks what must hold whatever happened: no
//! acknowledged action is lost, every admitted one ends, nothing that is not repeatable is started twice, replicas
//! agree to the byte, receipts add up, and no tenant sees anything of the other. What happened in the world is counted
//! where it happened: in the providers' own stores.
//!
//! A seed fixes which faults come, in which order and to whom; the processes' own timing it can't fix.
#![allow(
    clippy::panic,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test harness may fail loudly"
)]

pub mod campaign;
pub mod client;
pub mod faults;
pub mod fleet;
pub mod journal;
pub mod judge;
pub mod load;
pub mod member;
pub mod provider;
pub mod proxy;
pub mod site;
pub mod stores;
pub mod tenants;
pub mod worker;

/// The only source of chance.
pub type Rng = rand_chacha::ChaCha8Rng;
