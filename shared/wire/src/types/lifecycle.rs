//! Questions about actions and their answers (section 16.5).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{
    ActionId, ApprovalId, CapabilityId, CorrelationId, DelegationId, PrincipalId, SessionId, TransactionId,
};
use crate::shape::wire_enum;
use crate::timestamp::Timestamp;
use crate::types::{ActionResult, ActionResultStatus, Event, ReceiptChain, StreamChunk};

/// Events and chunks of one action (16.5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionEvents {
    pub action_id: ActionId,
    pub events: Vec<Event>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunks: Vec<StreamChunk>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    pub terminal: bool,
}

/// Asks for the events of one action (16.5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionEventsRequest {
    pub action_id: ActionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    #[serde(default)]
    pub include_chunks: bool,
    #[serde(default)]
    pub follow: bool,
}

wire_enum! {
    /// Where an action stands (11.5).
    pub enum ActionLifecycleState {
        Unknown = "unknown",
        Accepted = "accepted",
        Queued = "queued",
        Running = "running",
        Streaming = "streaming",
        PendingApproval = "pending_approval",
        Cancelling = "cancelling",
        Cancelled = "cancelled",
        Completed = "completed",
        Failed = "failed",
        Expired = "expired",
        DeadLettered = "dead_lettered",
    }
}

/// A page of actions; `total_size` counts visible matches before paging (16.5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionList {
    pub actions: Vec<ActionStatus>,
    pub total_size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Asks for actions (16.5).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionListRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ActionLifecycleState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capability_id: Option<CapabilityId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal_id: Option<PrincipalId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction_id: Option<TransactionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    #[serde(default)]
    pub include_results: bool,
    #[serde(default)]
    pub include_receipts: bool,
}

/// Asks for the result of an action, waiting up to `wait_ms` (16.4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionResultRequest {
    pub action_id: ActionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    #[serde(default)]
    pub include_receipt: bool,
    #[serde(default)]
    pub include_terminal_events: bool,
}

/// An action as its reader may see it (16.5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionStatus {
    pub action_id: ActionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capability_id: Option<CapabilityId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<CorrelationId>,
    pub state: ActionLifecycleState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_status: Option<ActionResultStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction_id: Option<TransactionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegation_id: Option<DelegationId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    pub updated_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<ActionResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt_chain: Option<ReceiptChain>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunks: Vec<StreamChunk>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<String, String>,
}

/// Asks how an action stands, waiting up to `wait_ms` (16.4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionStatusRequest {
    pub action_id: ActionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    #[serde(default)]
    pub include_result: bool,
    #[serde(default)]
    pub include_receipts: bool,
    #[serde(default)]
    pub include_chunks: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

// === impl ActionStatus ===

impl ActionStatus {
    /// A view that shows the state only.
    pub fn new(action_id: ActionId, state: ActionLifecycleState, updated_at: Timestamp) -> ActionStatus {
        ActionStatus {
            action_id,
            capability_id: None,
            session_id: None,
            correlation_id: None,
            state,
            queued_state: None,
            result_status: None,
            approval_id: None,
            transaction_id: None,
            delegation_id: None,
            started_at: None,
            updated_at,
            completed_at: None,
            retry: None,
            lease: None,
            result: None,
            receipt_chain: None,
            chunks: Vec::new(),
            links: BTreeMap::new(),
        }
    }
}

// === impl ActionLifecycleState ===

impl ActionLifecycleState {
    /// True for the states that an action never leaves (11.5).
    pub const fn is_terminal(self) -> bool {
        use ActionLifecycleState as S;
        matches!(self, S::Cancelled | S::Completed | S::Failed | S::Expired | S::DeadLettered)
    }
}
