//! The envelope that carries every native message (section 6) and the frame it travels in over NATS (section 20.4).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{CorrelationId, MessageId, MessageReference, SessionId};
use crate::message::{MessageBody, MessageType};
use crate::timestamp::Timestamp;
use crate::types::Principal;

/// The one protocol version of this implementation.
pub const AIP_VERSION: &str = "1.0";

/// One native message. `from` and `to` are claims; only authentication makes them more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    pub aip_version: String,
    pub message_type: MessageType,
    pub message_id: MessageId,
    pub sent_at: Timestamp,
    pub body: MessageBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<CorrelationId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_response_to: Option<MessageReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Principal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Principal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Value>,
}

impl Envelope {
    /// An envelope around this body, with a fresh id, sent at `sent_at`.
    pub fn new(body: impl Into<MessageBody>, sent_at: Timestamp) -> Envelope {
        let body = body.into();
        Envelope {
            aip_version: AIP_VERSION.to_owned(),
            message_type: body.message_type(),
            message_id: MessageId::generate(),
            sent_at,
            body,
            session_id: None,
            correlation_id: None,
            in_response_to: None,
            idempotency_key: None,
            from: None,
            to: None,
            trace: None,
            security: None,
            extensions: None,
        }
    }

    /// An answer: it keeps the request's correlation and names the request (section 6.2).
    pub fn reply_to(request: &Envelope, body: impl Into<MessageBody>, sent_at: Timestamp) -> Envelope {
        let mut reply = Envelope::new(body, sent_at);
        reply.session_id.clone_from(&request.session_id);
        reply.correlation_id.clone_from(&request.correlation_id);
        reply.in_response_to = Some(request.message_id.clone().into());
        reply
    }

    pub fn with_from(mut self, from: Principal) -> Envelope {
        self.from = Some(from);
        self
    }

    pub fn with_to(mut self, to: Principal) -> Envelope {
        self.to = Some(to);
        self
    }
}

/// What travels over NATS: an envelope and what the sending service adds to it. The envelope stays a value here, so
/// that signatures are checked over what was received.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransportMessage {
    pub envelope: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}
