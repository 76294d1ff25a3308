//! Handshakes, sessions and heartbeats (sections 10 and 11.9).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{CapabilityId, PrincipalId, ProfileId, SessionId};
use crate::shape::wire_enum;
use crate::timestamp::Timestamp;
use crate::types::{Event, Principal, ProtocolError};

/// Opens a session (10.1). What it says about authentication proves nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Handshake {
    pub client: Principal,
    pub purpose: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requested_capabilities: Vec<CapabilityId>,
    pub profiles: Vec<ProfileId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compliance_required: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub billing: Option<Value>,
}

/// Answers a handshake (10.2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HandshakeResponse {
    pub status: HandshakeStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<Principal>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agreed_profiles: Vec<ProfileId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agreed_capabilities: Vec<CapabilityId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub billing: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejection_reason: Option<ProtocolError>,
}

wire_enum! {
    /// How a handshake ended (10.2).
    pub enum HandshakeStatus {
        Accepted = "accepted",
        Rejected = "rejected",
        Redirect = "redirect",
    }
}

/// Sign of life or progress (11.9).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    pub sequence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
}

/// Answers a heartbeat with its sequence (11.9).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatAck {
    pub sequence: u64,
    pub received_at: Timestamp,
}

/// A session as a library value; it never travels on its own (10.3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Session {
    pub id: SessionId,
    pub state: SessionState,
    pub created_at: Timestamp,
    pub initiator: Principal,
    pub responder: Principal,
}

/// Asks to close a session (10.4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionCloseRequest {
    pub session_id: SessionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A page of sessions (10.4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionList {
    pub sessions: Vec<SessionView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Asks for sessions; `principal_id` matches either side (10.4).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionListRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal_id: Option<PrincipalId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<SessionState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Asks for one session (10.4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionRequest {
    pub session_id: SessionId,
}

/// Answers a resume with the view, missed events and the next token (10.5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionResume {
    pub session: SessionView,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replayed_events: Vec<Event>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_token: Option<String>,
}

/// Asks to resume a session with a single-use token (10.5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionResumeRequest {
    pub session_id: SessionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_event_cursor: Option<String>,
}

wire_enum! {
    /// Where a session stands (10.3).
    pub enum SessionState {
        New = "new",
        Active = "active",
        Queued = "queued",
        Processing = "processing",
        Streaming = "streaming",
        WaitingForHuman = "waiting_for_human",
        Completed = "completed",
        Cancelled = "cancelled",
        Failed = "failed",
        Settled = "settled",
    }
}

/// A session as its participants may see it (10.4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionView {
    pub session_id: SessionId,
    pub status: SessionState,
    pub principal: Principal,
    pub peer: Principal,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    pub active_action_count: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<String, String>,
}
