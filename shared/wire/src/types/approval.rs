//! Approval requests, decisions and their queries (section 12).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{ActionId, ApprovalId, CapabilityId, PrincipalId};
use crate::shape::wire_enum;
use crate::timestamp::Timestamp;
use crate::types::{
    ActionStatus, ActionTransaction, ApprovalPolicy, ApproverSelector, IdentityContext, Principal,
    ReceiptChain, RiskLevel,
};

/// A condition that an approver attached (12.4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalConstraint {
    pub field: String,
    pub operator: String,
    pub value: Value,
}

/// What an approver decided, as claimed (12.4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalDecision {
    pub approval_id: ApprovalId,
    pub decision: ApprovalDecisionKind,
    pub approver: Principal,
    pub decided_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<ApprovalConstraint>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<EvidenceArtifact>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_hash: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authority_path: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_decision_id: Option<String>,
}

wire_enum! {
    /// The kinds of decision (12.4).
    pub enum ApprovalDecisionKind {
        Approved = "approved",
        Denied = "denied",
        Expired = "expired",
        Revoked = "revoked",
    }
}

/// The governed input, exported only under dedicated authority (16.6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalEvidencePayload {
    pub action_id: ActionId,
    pub capability_id: CapabilityId,
    pub input_hash: String,
    pub input: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<ActionTransaction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<IdentityContext>,
}

/// A page of approvals (16.4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalList {
    pub approvals: Vec<ApprovalRecordView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Asks for approvals (16.4).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalListRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approver: Option<PrincipalId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requester: Option<PrincipalId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    #[serde(default)]
    pub include_action_status: bool,
    #[serde(default)]
    pub include_receipts: bool,
}

/// Asks for one approval (16.6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalQueryRequest {
    pub approval_id: ApprovalId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    #[serde(default)]
    pub include_action_status: bool,
    #[serde(default)]
    pub include_receipts: bool,
    #[serde(default)]
    pub include_evidence_payload: bool,
}

/// An approval as its reader may see it (12.2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRecordView {
    pub request: ApprovalRequest,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<ApprovalDecision>,
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action_status: Option<ActionStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt_chain: Option<ReceiptChain>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence_payload: Option<ApprovalEvidencePayload>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// What is to be approved, bound to action and policy (12.2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRequest {
    pub id: ApprovalId,
    pub action_id: ActionId,
    pub capability_id: CapabilityId,
    pub requester: Principal,
    pub subject: Principal,
    pub approver_selector: ApproverSelector,
    pub reason: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<EvidenceArtifact>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_decision_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<IdentityContext>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_snapshot: Option<ApprovalPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<Principal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<RiskLevel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub governed_value: Option<u64>,
}

/// A piece of evidence, referred to and hashed (12.3). Never secret material.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvidenceArtifact {
    pub id: String,
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    pub redacted: bool,
}
