//! Asking people for more than an approval (section 12.7).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::shape::wire_enum;
use crate::timestamp::Timestamp;
use crate::types::{Conversation, Principal, RiskLevel};

/// Asks for human input, takeover or an exception (12.7). Never an approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Escalation {
    pub kind: EscalationKind,
    pub reason: String,
    pub requested_by: Principal,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<RiskLevel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_decisions: Vec<EscalationDecision>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Conversation>,
}

wire_enum! {
    /// What a person may answer (12.7).
    pub enum EscalationDecision {
        Approve = "approve",
        Reject = "reject",
        Modify = "modify",
        Handoff = "handoff",
        Cancel = "cancel",
    }
}

wire_enum! {
    /// What is asked of a person (12.7).
    pub enum EscalationKind {
        Approval = "approval",
        Input = "input",
        Handoff = "handoff",
        PolicyException = "policy_exception",
    }
}

/// How an escalation ended (12.7).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EscalationResolution {
    pub status: EscalationResolutionStatus,
    pub resolved_by: Principal,
    pub resolved_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
}

wire_enum! {
    /// How an escalation ended (12.7).
    pub enum EscalationResolutionStatus {
        Approved = "approved",
        Rejected = "rejected",
        Modified = "modified",
        HandoffCompleted = "handoff_completed",
        Expired = "expired",
        Cancelled = "cancelled",
    }
}
