//! The AIP 1.0 wire: types, strict reading, rules, schemas and the registries of codes and events.
//!
//! Bytes become a [`validate::Checked`] here or are refused with a code. Nothing in this crate authenticates,
//! authorizes, stores or sends anything, and nothing reads a clock except where a caller asks for the present.

pub mod attempt;
pub mod capability_schema;
pub mod codes;
mod decode;
pub mod envelope;
pub mod events;
pub mod ids;
pub mod message;
pub mod read;
pub mod redact;
pub mod reference;
mod refusal;
pub mod rules;
mod scan;
pub mod schemas;
mod shape;
pub mod timestamp;
pub mod trusted;
pub mod types;
pub mod validate;

pub use aip_names::limits;
pub use decode::decode;
pub use envelope::{AIP_VERSION, Envelope, TransportMessage};
pub use ids::*;
pub use message::{MessageBody, MessageType};
pub use refusal::Refusal;
pub use timestamp::Timestamp;
pub use types::*;
