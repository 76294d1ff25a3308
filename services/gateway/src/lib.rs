//! The gateway: where messages of a trust domain come in, are judged, become durable and find their workers.
//!
//! The road of a message, in the order of the files: a door in [`edge`] hands it to [`gateway`]; `road`
//! authenticates it and sends it its way; `admit` takes an action through admission into [`machine`], the pure state that all replicas agree
//! on; `dispatch` sends it to its worker and `answer` reads what comes back; `wait` wakes whoever waits; `reply` speaks.
//! `attempt` and `stream` are the road of what workers say, `chunks` what they streamed, `operator` is what the gateway offers itself; `register` is the road of a worker's manifest, `query` and `discover` are reads, `live` is what goes on being told.

mod admit;
mod answer;
mod approve;
mod attempt;
mod cancel;
mod catalog;
mod chunks;
pub mod config;
mod cursor;
mod discover;
mod dispatch;
pub mod edge;
mod errors;
pub mod front;
pub mod gateway;
mod live;
pub mod machine;
mod native;
mod operator;
mod peer;
mod query;
mod queues;
mod redact;
mod register;
mod reply;
mod road;
pub mod run;
mod served;
mod stream;
mod wait;

pub use gateway::{Gateway, GatewayError, Parts};
pub use reply::{ACK_EXTENSION, PRINCIPAL};
