//! Helpers for tests on real processes: waiting for a condition, scratch folders, a nats-server, child processes.
//!
//! Only tests depend on it. Everything here panics with a sentence instead of returning errors, waits for
//! conditions instead of sleeping, and leaves no process and no file behind.
// tests may fail loudly, and so may what only tests use
#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used)]

mod nats;
mod proc;
mod scratch;
mod wait;

pub use nats::TestNats;
pub use proc::{Proc, binary, free_port};
pub use scratch::Scratch;
pub use wait::{wait_for, wait_for_some};
