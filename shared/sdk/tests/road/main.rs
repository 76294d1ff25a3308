//! Worker and client on a real nats-server, each against a gateway that says what the test wants.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod chunks;
mod client;
mod fake;
mod follow;
mod http;
mod subject;
mod worker;
