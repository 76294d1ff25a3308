//! The gateway on a real nats-server with a worker that does as it is told: from bytes to a durable answer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "road/actions.rs"]
mod actions;
#[path = "road/lists.rs"]
mod lists;
#[path = "road/live.rs"]
mod live;
#[path = "road/load.rs"]
mod load;
#[path = "road/manifests.rs"]
mod manifests;
#[path = "road/queued.rs"]
mod queued;
#[path = "road/reads.rs"]
mod reads;
#[path = "road/redrive.rs"]
mod redrive;
#[path = "road/restart.rs"]
mod restart;
#[path = "road/signed.rs"]
mod signed;
#[path = "road/streams.rs"]
mod streams;
#[path = "road/workers.rs"]
mod workers;
#[path = "road/world.rs"]
mod world;
