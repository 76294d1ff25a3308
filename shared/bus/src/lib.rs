//! The road between processes: one NATS connection as one identity, and what travels on it.
//!
//! - [`Bus`] connects, never gives up, and says through [`Link`] whether the server is there and fit.
//! - [`Frame`] and [`Parcel`] read and write the TransportMessage of 20.4.
//! - [`Bus::request`] asks, [`serve`] answers: bounded, drained on shutdown, listed by `nats micro`.
//! - [`Bus::enqueue`] puts work into a worker's queue, [`Bus::taker`] takes it out.
//! - [`Bus::append`] keeps a message in a log of many subjects, [`Bus::tail_of`] reads one of them.
//! - [`Bus::ensure_stream`] makes a stream what the registry says, or refuses.
//! - [`Seldom`] keeps what comes in from filling the log.
//!
//! It judges no message: an envelope passes through as the bytes that came. It spells no subject.

mod bus;
mod frame;
mod link;
mod log;
mod queue;
mod request;
mod seldom;
mod serve;
mod server;
mod settings;
mod stream;

pub use async_nats::{HeaderMap, jetstream};
pub use bus::Bus;
pub use frame::{Frame, FrameError, Parcel};
pub use link::{Link, Up};
pub use log::{Kept, LogError, Tail};
pub use queue::{Batch, Job, JobError, QueueError, Taker, Worked};
pub use request::RequestError;
pub use seldom::Seldom;
pub use serve::{Answer, Handler, Incoming, Registration, Serving, serve};
pub use settings::{BusError, Settings};
pub use stream::{Difference, Ensured, StreamError};
