//! The names that outlive a deploy: subjects, streams, queue groups, headers, metrics, identities and limits.
//!
//! This is the only crate where a subject, a stream name or a permission is spelled. It knows nothing of
//! connections, messages or files, and must stay a leaf: everything else may depend on it.
//!
//! - [`Subject`] builds and parses every `aip.v1.…` subject; [`Names`] is the registered set that makes
//!   parsing a bijection.
//! - [`StreamSpec`] and [`ConsumerSpec`] declare what JetStream must hold; `aip-bus` creates and compares them.
//! - [`permissions`] turns a [`User`] into what NATS lets it do; configuration files are generated from it.
//! - [`limits`] holds every bound, [`headers`] every header, [`metrics`] every metric, [`operator`] every capability of
//!   the services themselves.

pub mod headers;
mod identity;
pub mod limits;
pub mod metrics;
mod names;
pub mod operator;
mod own;
mod permissions;
mod streams;
mod subject;
mod token;

pub use identity::{Identity, User};
pub use names::Names;
pub use own::OwnService;
pub use permissions::{Permissions, Responses, inbox_prefix, permissions};
pub use streams::{
    ConsumerSpec, Persist, Retention, StreamSpec, WorkConsumerSpec, chunk_stream, chunk_stream_name,
    chunk_tail, ledger_stream, ledger_stream_name, ledger_tail, queue_consumer, queue_consumer_name,
    queue_given_up, queue_stream, queue_stream_name,
};
pub use subject::Subject;
pub use token::{Atom, EventKind, MessageType, NameError, Service, TrustDomain, Version, fold};

/// The service that owns the edges, admission and the action's life.
pub const GATEWAY: &str = "gateway";
/// The principal that all gateways of a trust domain speak as.
pub const GATEWAY_PRINCIPAL: &str = "service:gateway";

/// How many ledger shards a service has. More shards are more streams, stores and store threads.
pub const LEDGER_SHARDS: u16 = 1;

/// The queue group in which all replicas of a service answer. It equals the service token, so that one rule
/// in the permissions covers both.
pub fn queue_group(service: &Service) -> &str {
    service.as_str()
}
