//! Child actions at other participants (section 14).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{ActionId, DelegationId};
use crate::shape::wire_enum;
use crate::timestamp::Timestamp;
use crate::types::{Action, ActionResult, Callback, Principal, ProtocolError, ReceiptChain};

/// One hop of a delegation chain (14.3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelegationEntry {
    pub from: Principal,
    pub to: Principal,
    pub scope: String,
    pub delegated_at: Timestamp,
}

/// A delegation as a library value; it never travels on its own (14).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelegationRecord {
    pub request: DelegationRequest,
    pub status: DelegationStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<DelegationResult>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Hands a child action to another participant (14.1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelegationRequest {
    pub delegation_id: DelegationId,
    pub parent_action_id: ActionId,
    pub child_action: Action,
    pub requested_by: Principal,
    pub delegate: Principal,
    pub scope: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback: Option<Callback>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}

/// How a delegated action ended (14.4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelegationResult {
    pub delegation_id: DelegationId,
    pub parent_action_id: ActionId,
    pub child_action_id: ActionId,
    pub status: DelegationStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<ActionResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ProtocolError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt_chain: Option<ReceiptChain>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback: Option<Value>,
}

wire_enum! {
    /// Where a delegation stands (14.4).
    pub enum DelegationStatus {
        Accepted = "accepted",
        Running = "running",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
        RequiresHuman = "requires_human",
    }
}
