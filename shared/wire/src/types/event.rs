//! Events and their streams (section 16.1).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{ActionId, CorrelationId, EventId, SessionId};
use crate::timestamp::Timestamp;
use crate::types::Principal;

/// Something that happened (16.1). Its kind is a namespaced string.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Event {
    pub id: EventId,
    pub kind: String,
    pub occurred_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action_id: Option<ActionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<CorrelationId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<Principal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// A page of events (16.2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventStream {
    pub events: Vec<Event>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Asks for events after a cursor (16.2).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventStreamRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
}

// === impl Event ===

impl Event {
    /// An event of a registered kind, bound to nothing yet.
    pub fn of(kind: &'static crate::events::Kind, id: EventId, occurred_at: Timestamp) -> Event {
        Event {
            id,
            kind: kind.name.to_owned(),
            occurred_at,
            session_id: None,
            action_id: None,
            correlation_id: None,
            actor: None,
            data: None,
        }
    }
}
