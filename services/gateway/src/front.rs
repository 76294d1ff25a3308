//! What the gateway's doors hand in and get back. The doors know nothing behind this face, and nothing behind it
//! knows which door a message came through beyond [`Via`].

use bytes::Bytes;
use secrecy::SecretString;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

/// The approver of a decision that a door made of a request without an envelope: whoever its token is of.
pub const OF_TOKEN: &str = "of-token";

/// The door a message came through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    Http,
    Nats,
}

/// One message as it arrived: nothing of it is checked yet.
#[derive(Debug)]
pub struct Inbound {
    pub bytes: Bytes,
    /// The token of `Authorization: Bearer`: an API key or a JWT. Never set by NATS.
    pub bearer: Option<SecretString>,
    pub via: Via,
}

/// The answer to one message.
#[derive(Debug, Clone, PartialEq)]
pub struct Outbound {
    /// The whole reply envelope, signed when the request was.
    pub envelope: Value,
    /// The HTTP status that the answer maps to.
    pub status: u16,
    pub retry_after_ms: Option<u64>,
}

/// What goes on being told to one reader, until it ends. Dropping it ends it.
#[derive(Debug)]
pub struct Live {
    /// In order; closed behind the last.
    pub frames: mpsc::Receiver<Frame>,
    /// What is said instead of everything that still waits, to a reader that is too slow.
    pub cut: oneshot::Receiver<Frame>,
}

/// One message of a live stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// Where the reader may go on after this one; none where it may not.
    pub id: Option<String>,
    /// A standard event name of 20.2.
    pub name: &'static str,
    /// A whole envelope.
    pub envelope: Value,
}
