//! What the gateway's doors hand in and get back. The doors know nothing behind this face, and nothing behind it
//! knows which door a message came through beyond [`Via`].

use bytes::Bytes;
use secrecy::SecretString;
use serde_json::Value;

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
