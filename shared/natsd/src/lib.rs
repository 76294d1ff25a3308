//! Runs a real nats-server for one machine: finds or fetches the binary, writes its configuration with an
//! nkey user for each identity, starts, pauses, kills and restarts it.
//!
//! Used by `aip dev` and by tests. It must never be part of a service: services are given an address and a
//! key file. Permissions are not written here, they come from `aip-names`.

mod binary;
mod config;
mod error;
mod fetch;
mod identities;
mod process;
mod server;
pub mod shipped;

pub use binary::{Binary, ServerVersion, find};
pub use config::{Config, Listen, UserKey};
pub use error::NatsdError;
pub use identities::Identities;
pub use process::{OnLine, Process};
pub use server::{Server, Settings};
