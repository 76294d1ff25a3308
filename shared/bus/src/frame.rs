//! The TransportMessage of 20.4: an envelope and optional metadata, read without touching the envelope's bytes.
//!
//! Signatures are verified over what was received, so nothing here parses and writes an envelope again.

use std::borrow::Cow;
use std::fmt;

use aip_names::{headers, limits};
use aip_wire::TransportMessage;
use async_nats::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

#[cfg(test)]
mod tests;

/// Why a payload is no frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("the message has {bytes} bytes, {bytes_max} are allowed")]
    TooLarge { bytes: usize, bytes_max: usize },
    #[error("the message is not a JSON object: {0}")]
    Json(#[from] serde_json::Error),
    #[error("a message with the member \"envelope\" has only \"metadata\" beside it, not {member:?}")]
    ForeignMember { member: String },
    #[error("the member \"metadata\" is not an object")]
    Metadata,
}

/// The parts of a received message, as bytes.
///
/// The rule that tells a wrapped envelope from a bare one: an object with a member `envelope` is wrapped, any
/// other is bare. An envelope is closed and has no such member, so no message can be read both ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The envelope as it came.
    pub envelope: &'a [u8],
    /// The metadata as it came, an object. It is the sender's word: drop it unless the sender is trusted.
    pub metadata: Option<&'a [u8]>,
}

impl<'a> Frame<'a> {
    /// # Errors
    /// Larger than [`limits::TRANSPORT_MESSAGE_BYTES_MAX`], no object, or a wrapper with a foreign member, a
    /// member twice, or metadata that is no object.
    pub fn read(payload: &'a [u8]) -> Result<Self, FrameError> {
        check_size(payload.len(), limits::TRANSPORT_MESSAGE_BYTES_MAX)?;
        let mut reader = serde_json::Deserializer::from_slice(payload);
        let members = reader.deserialize_map(MembersVisitor)?;
        reader.end()?;
        let Some(envelope) = members.envelope else {
            return Ok(Self { envelope: payload, metadata: None });
        };
        if let Some(member) = members.foreign {
            return Err(FrameError::ForeignMember { member });
        }
        let metadata = match members.metadata.map(RawValue::get) {
            None | Some("null") => None,
            Some(text) if text.starts_with('{') => Some(text.as_bytes()),
            Some(_) => return Err(FrameError::Metadata),
        };
        Ok(Self { envelope: envelope.get().as_bytes(), metadata })
    }
}

#[derive(Default)]
struct Members<'a> {
    envelope: Option<&'a RawValue>,
    metadata: Option<&'a RawValue>,
    foreign: Option<String>,
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Members::default();
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            let place = match &*name {
                "envelope" => &mut members.envelope,
                "metadata" => &mut members.metadata,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    members.foreign.get_or_insert_with(|| name.into_owned());
                    continue;
                }
            };
            if place.replace(map.next_value()?).is_some() {
                return Err(A::Error::custom(format!("member {name:?} stands twice")));
            }
        }
        Ok(members)
    }
}

/// A message ready to be sent: the wrapped envelope and its standard headers.
#[derive(Debug, Clone)]
pub struct Parcel {
    pub payload: Bytes,
    pub headers: HeaderMap,
}

impl Parcel {
    /// # Errors
    /// The message is larger than [`limits::TRANSPORT_MESSAGE_BYTES_MAX`].
    pub fn new(message: &TransportMessage) -> Result<Self, FrameError> {
        let payload = serde_json::to_vec(message)?;
        check_size(payload.len(), limits::TRANSPORT_MESSAGE_BYTES_MAX)?;
        Ok(Self { payload: payload.into(), headers: standard_headers(&message.envelope) })
    }

    /// Adds W3C trace context of this hop.
    #[must_use]
    pub fn with_traceparent(mut self, traceparent: &str) -> Self {
        insert(&mut self.headers, headers::TRACEPARENT, traceparent);
        self
    }
}

fn check_size(bytes: usize, bytes_max: usize) -> Result<(), FrameError> {
    if bytes > bytes_max { Err(FrameError::TooLarge { bytes, bytes_max }) } else { Ok(()) }
}

/// The standard headers of 20.4, copied from the envelope for those who route without parsing.
fn standard_headers(envelope: &Value) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (header, member) in [
        (headers::AIP_VERSION, "aip_version"),
        (headers::AIP_MESSAGE_TYPE, "message_type"),
        (headers::AIP_MESSAGE_ID, "message_id"),
        (headers::AIP_SESSION_ID, "session_id"),
        (headers::AIP_CORRELATION_ID, "correlation_id"),
    ] {
        if let Some(value) = envelope.get(member).and_then(Value::as_str) {
            insert(&mut map, header, value);
        }
    }
    map
}

/// An identifier may be any text; one that could end a header line, or is very long, is left out.
fn insert(map: &mut HeaderMap, header: &'static str, value: &str) {
    let plain = value.len() <= limits::BUS_HEADER_BYTES_MAX && !value.chars().any(char::is_control);
    if plain && let Ok(value) = value.parse::<HeaderValue>() {
        map.insert(HeaderName::from_static(header), value);
    }
}
