//! Reads the few members of an envelope that a transport repeats, without judging the envelope. A text that cannot be
//! read gives nothing: the front refuses it with the reason.

use std::borrow::Cow;

use aip_wire::MessageType;
use serde::Deserialize;

/// What headers, subjects and metrics repeat of an envelope.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
pub(super) struct Peek<'a> {
    #[serde(borrow)]
    pub aip_version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub message_type: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub message_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub session_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub correlation_id: Option<Cow<'a, str>>,
}

impl<'a> Peek<'a> {
    pub fn at(bytes: &'a [u8]) -> Peek<'a> {
        serde_json::from_slice(bytes).unwrap_or_default()
    }

    /// The registered type that the envelope claims.
    pub fn message_type(&self) -> Option<MessageType> {
        self.message_type.as_deref().and_then(MessageType::from_name)
    }
}
