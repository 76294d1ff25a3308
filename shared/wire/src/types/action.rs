//! Actions, their acknowledgements, chunks and results (section 11).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{ActionId, CapabilityId, SessionId};
use crate::shape::wire_enum;
use crate::types::{
    ActionTransaction, ApprovalDecision, Callback, Conversation, DelegationEntry, IdentityContext,
    MessagePart, ProtocolError, ReceiptRef,
};

/// Says what became of an action at admission (11.4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ack {
    pub action_id: ActionId,
    pub status: AckStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Value>,
}

wire_enum! {
    /// What became of an action at admission (11.4).
    pub enum AckStatus {
        Accepted = "accepted",
        Rejected = "rejected",
        Queued = "queued",
        Streaming = "streaming",
        Cached = "cached",
    }
}

/// One requested unit of work (11.1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Action {
    pub id: ActionId,
    pub capability_id: CapabilityId,
    pub input: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ActionMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Conversation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_context: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delegation_chain: Vec<DelegationEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub federation: Option<FederationContext>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback: Option<Callback>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observability: Option<ObservabilityContext>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compliance: Option<ComplianceContext>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<IdentityContext>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalDecision>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<ActionTransaction>,
}

wire_enum! {
    /// How a caller wants to get the result (11.1).
    pub enum ActionMode {
        Sync = "sync",
        Async = "async",
        Streaming = "streaming",
    }
}

/// How an action ended (11.7).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionResult {
    pub action_id: ActionId,
    pub status: ActionResultStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub message: Vec<MessagePart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_update: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<ReceiptRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ProtocolError>,
}

wire_enum! {
    /// How an action ended (11.7).
    pub enum ActionResultStatus {
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
        PendingApproval = "pending_approval",
        RequiresHuman = "requires_human",
    }
}

/// Asks to cancel an action or session (11.8).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cancel {
    pub target: CancelTarget,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Regimes that apply to an action (11.1).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ComplianceContext {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regimes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_classification: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}

/// Trust domains an action has crossed (11.1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FederationContext {
    pub trust_domain: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<String>,
}

/// Trace references of an action (11.1).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ObservabilityContext {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fields: Option<Value>,
}

/// One piece of a stream; sequences only grow (11.6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamChunk {
    pub action_id: ActionId,
    pub sequence: u64,
    pub kind: StreamChunkKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<MessagePart>,
}

wire_enum! {
    /// What a chunk carries (11.6).
    pub enum StreamChunkKind {
        Data = "data",
        Progress = "progress",
        Tool = "tool",
        Thought = "thought",
        Preview = "preview",
        PendingApproval = "pending_approval",
        Error = "error",
        Done = "done",
    }
}

/// What an action consumed (11.7).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Value>,
}

/// What to cancel (11.8).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CancelTarget {
    Action(ActionId),
    Session(SessionId),
}

// === impl Action ===

impl Action {
    /// An action with nothing but what it needs.
    pub fn new(id: ActionId, capability_id: CapabilityId, input: Value) -> Action {
        Action {
            id,
            capability_id,
            input,
            mode: None,
            idempotency_key: None,
            timeout_ms: None,
            conversation: None,
            memory_context: None,
            delegation_chain: Vec::new(),
            federation: None,
            callback: None,
            observability: None,
            compliance: None,
            identity: None,
            approval: None,
            transaction: None,
        }
    }
}

// === impl ActionResult ===

impl ActionResult {
    pub fn completed(action_id: ActionId, output: Value) -> ActionResult {
        ActionResult { output: Some(output), ..ActionResult::bare(action_id, ActionResultStatus::Completed) }
    }

    pub fn failed(action_id: ActionId, error: ProtocolError) -> ActionResult {
        ActionResult { error: Some(error), ..ActionResult::bare(action_id, ActionResultStatus::Failed) }
    }

    /// A result of this status and nothing else; a failed one needs an error to be valid.
    pub fn bare(action_id: ActionId, status: ActionResultStatus) -> ActionResult {
        ActionResult {
            action_id,
            status,
            output: None,
            message: Vec::new(),
            memory_update: None,
            usage: None,
            receipt: None,
            error: None,
        }
    }
}
