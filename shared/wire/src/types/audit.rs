//! Receipts, audit events and settlement (section 18).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{ActionId, CorrelationId, PrincipalId, ReceiptId, SessionId, TransactionId};
use crate::shape::wire_enum;
use crate::timestamp::Timestamp;
use crate::types::{IdentityContext, Principal};

/// Who did what, for the record (18.3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditEvent {
    pub id: String,
    pub actor: Principal,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<IdentityContext>,
    pub action: String,
    pub occurred_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// Asks for audit events, `from` and `to` inclusive (18.3); `export` needs its own authority.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditQueryRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action_id: Option<ActionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal_id: Option<PrincipalId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction_id: Option<TransactionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    #[serde(default)]
    pub include_receipts: bool,
    #[serde(default)]
    pub export: bool,
}

/// A page of audit events (18.3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditQueryResult {
    pub events: Vec<AuditEvent>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub receipt_chains: Vec<ReceiptChain>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Evidence of one transition, linked by hash (18.1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    pub id: ReceiptId,
    pub receipt_type: ReceiptType,
    pub actor: Principal,
    pub occurred_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<CorrelationId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

/// Receipts in order, with the hash over all (18.2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceiptChain {
    pub chain_id: String,
    pub receipts: Vec<Receipt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_hash: Option<String>,
}

/// Asks for a receipt chain, by exactly one of its ids (18.2).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceiptQueryRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt_id: Option<ReceiptId>,
}

/// Points at a receipt (18.1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceiptRef {
    pub id: ReceiptId,
    pub hash: String,
}

wire_enum! {
    /// What a receipt is evidence of (18.1).
    pub enum ReceiptType {
        RequestReceived = "request_received",
        ActionAccepted = "action_accepted",
        PolicyDecision = "policy_decision",
        ApprovalRequested = "approval_requested",
        ApprovalGranted = "approval_granted",
        ApprovalDenied = "approval_denied",
        ApprovalExpired = "approval_expired",
        ApprovalRevoked = "approval_revoked",
        ToolExecuted = "tool_executed",
        DelegationMade = "delegation_made",
        HumanApproved = "human_approved",
        ResultReturned = "result_returned",
        SettlementRecorded = "settlement_recorded",
        TransactionPlanned = "transaction_planned",
        TransactionCommitStarted = "transaction_commit_started",
        TransactionCommitted = "transaction_committed",
        TransactionCompensated = "transaction_compensated",
        TransactionDryRunCompleted = "transaction_dry_run_completed",
        TransactionRollbackUnsupported = "transaction_rollback_unsupported",
        TransactionFailed = "transaction_failed",
        CallbackDeliveryAttempted = "callback_delivery_attempted",
        CallbackDelivered = "callback_delivered",
        CallbackDeliveryFailed = "callback_delivery_failed",
    }
}

/// A batch of settlement records (18.4). Nothing depends on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchSettlement {
    pub id: String,
    pub model: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<Value>,
}
