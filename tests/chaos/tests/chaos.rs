//! What CI runs of it: a campaign in which every fault of the table fires, and scenarios with a name.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "chaos/campaign.rs"]
mod campaign;
#[path = "chaos/log.rs"]
mod log;
#[path = "chaos/outages.rs"]
mod outages;
#[path = "chaos/stores.rs"]
mod stores;
#[path = "chaos/teeth.rs"]
mod teeth;
#[path = "chaos/workers.rs"]
mod workers;
