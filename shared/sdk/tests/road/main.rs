//! Worker and client on a real nats-server, each against a gateway that says what the test wants.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod client;
mod fake;
mod http;
mod worker;
