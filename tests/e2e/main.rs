//! The system as people run it: `aip dev` with its real processes, a real nats-server, real HTTP, real kills.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod approvals;
mod browser;
mod console;
mod doors;
mod first_action;
mod harness;
mod kills;
mod pressed;
mod python;
mod recovery;
mod redrive;
mod streams;
mod versions;
