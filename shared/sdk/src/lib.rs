//! Writing workers and calling capabilities.
//!
//! **A worker** offers capabilities: async functions with typed input, behind a declared contract.
//!
//! ```no_run
//! use aip_sdk::{ActionError, CapabilitySpec, Context, Worker, WorkerConfig};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize, JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! struct Greet { name: String }
//! #[derive(Serialize, JsonSchema)]
//! struct Greeting { text: String }
//!
//! async fn greet(context: Context, input: Greet) -> Result<Greeting, ActionError> {
//!     Ok(Greeting { text: format!("{} greets {}", context.principal().id, input.name) })
//! }
//!
//! # async fn run(config: WorkerConfig, bus: aip_bus::Bus) -> Result<(), aip_sdk::WorkerError> {
//! let spec = CapabilitySpec::read("cap:greeter:greet", "Greet", "Says hello.");
//! let worker = Worker::builder(config).capability(spec, greet).start(&bus).await?;
//! worker.run_until(aip_sdk::terminated()).await
//! # }
//! ```
//!
//! The SDK answers a second dispatch of an action without running it again, keeps results in a store of the worker's
//! own, enforces deadlines, catches panics, registers the manifest and drains. What it cannot do is make a provider's
//! effect happen once: give providers [`Context::effect_id`] as their idempotency key.
//!
//! **A client** calls capabilities through the gateway, over NATS or HTTP, and follows what happens: see [`Client`],
//! [`Client::stream`] and [`Client::follow`].
//!
//! Nothing here decides who may do what: that is the gateway's, and a handler takes its word from [`Context`] only.

mod capability;
mod chunks;
mod client;
mod context;
mod error;
mod manifest;
mod shutdown;
mod store;
mod worker;

pub use aip_bus as bus;
pub use aip_wire as wire;
pub use capability::{CapabilitySpec, SpecError};
pub use chunks::{ChunkError, Chunks, Content};
pub use client::{CallOptions, Client, ClientError, Follow, HttpConfig, NatsConfig, Proof, Told};
pub use context::Context;
pub use error::ActionError;
pub use shutdown::terminated;
pub use store::StoreError;
pub use worker::{Worker, WorkerBuilder, WorkerConfig, WorkerError};
