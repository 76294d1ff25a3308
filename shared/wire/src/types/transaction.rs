//! Plans, commits and compensation (section 13).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{ActionId, CapabilityId, TransactionId};
use crate::shape::wire_enum;
use crate::timestamp::Timestamp;
use crate::types::{
    Action, ActionResult, ApprovalPolicy, IdentityContext, Principal, ProtocolError, ReceiptChain, SideEffect,
};

/// Which stage of which transaction an action is (13.1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionTransaction {
    pub mode: TransactionMode,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction_id: Option<TransactionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compensation_for: Option<ActionId>,
}

/// Whether and how an effect can be made good (13.7).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompensationContract {
    pub mode: CompensationMode,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compensation_capability_id: Option<CapabilityId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compensation_window_ms: Option<u64>,
    pub requires_approval: bool,
}

wire_enum! {
    /// How far compensation goes (13.7).
    pub enum CompensationMode {
        NotRequired = "not_required",
        Supported = "supported",
        BestEffort = "best_effort",
        RollbackNotSupported = "rollback_not_supported",
    }
}

wire_enum! {
    /// How much a dry run really tries (13.2).
    pub enum DryRunFidelity {
        SchemaOnly = "schema_only",
        PolicyAndSchema = "policy_and_schema",
        DownstreamValidation = "downstream_validation",
        FullSimulation = "full_simulation",
    }
}

/// The provider's name for an operation, for reconciling it (13.6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderOperationRef {
    pub provider: String,
    pub operation_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// Which transaction stages a capability supports (9.4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransactionContract {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supported_modes: Vec<TransactionMode>,
    pub requires_plan_before_commit: bool,
    pub dry_run_fidelity: DryRunFidelity,
}

wire_enum! {
    /// The stages of a transaction (13.1).
    pub enum TransactionMode {
        Execute = "execute",
        DryRun = "dry_run",
        Plan = "plan",
        Commit = "commit",
        Compensate = "compensate",
        Reconcile = "reconcile",
        RollbackNotSupported = "rollback_not_supported",
    }
}

/// What would be committed, bound by hash (13.3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransactionPlan {
    pub plan_id: String,
    pub transaction_id: TransactionId,
    pub action_id: ActionId,
    pub capability_id: CapabilityId,
    pub transaction: ActionTransaction,
    pub planned_by: Principal,
    pub input_hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_snapshot: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub predicted_side_effects: Vec<SideEffect>,
    pub approval_required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<ApprovalPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compensation: Option<CompensationContract>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run_fidelity: Option<DryRunFidelity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<IdentityContext>,
    pub created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}

wire_enum! {
    /// Where a transaction stands (13.5).
    pub enum TransactionProtocolStatus {
        DryRunCompleted = "dry_run_completed",
        Planned = "planned",
        Prepared = "prepared",
        Committing = "committing",
        Committed = "committed",
        Compensating = "compensating",
        Compensated = "compensated",
        RequiresHuman = "requires_human",
        Cancelled = "cancelled",
        RollbackNotSupported = "rollback_not_supported",
        Failed = "failed",
        OutcomeUnknown = "outcome_unknown",
        Reconciling = "reconciling",
        Reconciled = "reconciled",
    }
}

/// Asks for one transaction, by exactly one of its ids (13.5).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransactionQueryRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction_id: Option<TransactionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action_id: Option<ActionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    #[serde(default)]
    pub include_result: bool,
    #[serde(default)]
    pub include_receipts: bool,
}

/// Runs one stage of a transaction (13.1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransactionRequest {
    pub transaction_id: TransactionId,
    pub action: Action,
    pub requested_by: Principal,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_operation: Option<ProviderOperationRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconciliation_cursor: Option<String>,
}

/// How a stage ended (13.5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransactionResult {
    pub transaction_id: TransactionId,
    pub action_id: ActionId,
    pub capability_id: CapabilityId,
    pub transaction: ActionTransaction,
    pub status: TransactionProtocolStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<TransactionPlan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<ActionResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ProtocolError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt_chain: Option<ReceiptChain>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_operation: Option<ProviderOperationRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconciliation_cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconcile_after: Option<Timestamp>,
}

/// A transaction as its reader may see it (13.5); `status` is a free label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransactionView {
    pub transaction_id: TransactionId,
    pub action_id: ActionId,
    pub capability_id: CapabilityId,
    pub transaction: ActionTransaction,
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<TransactionPlan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<ActionResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt_chain: Option<ReceiptChain>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}
