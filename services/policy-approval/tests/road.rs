//! Approvals end to end on a real nats-server: gateways, the service and a worker, each in several replicas.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../../../tests/e2e/browser.rs"]
mod browser;
#[path = "road/changed.rs"]
mod changed;
#[path = "road/console.rs"]
mod console;
#[path = "road/decisions.rs"]
mod decisions;
#[path = "road/world.rs"]
mod world;
