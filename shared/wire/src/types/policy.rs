//! Who has to approve what (section 12.1).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::PrincipalId;
use crate::shape::{tagged_union, wire_enum};
use crate::timestamp::Timestamp;
use crate::types::RiskLevel;

/// Who has to approve what, and how (12.1). Without `rule` the selector is the one leaf.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalPolicy {
    pub required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub approver_selector: ApproverSelector,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence_requirements: Vec<EvidenceRequirement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegated_authority: Option<DelegatedApprovalAuthority>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<ApprovalRule>,
    #[serde(default = "one")]
    pub minimum_distinct_principals: u32,
    #[serde(default)]
    pub separation_of_duties: SeparationOfDuties,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_version: Option<String>,
}

/// Who has to approve, composed (12.1). Leaves are judged by a trusted resolver only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "operator", rename_all = "snake_case", deny_unknown_fields, remote = "Self")]
#[schemars(rename = "ApprovalRule")]
pub enum ApprovalRule {
    All {
        rules: Vec<ApprovalRule>,
        #[serde(default)]
        allow_decision_reuse: bool,
    },
    Any {
        rules: Vec<ApprovalRule>,
    },
    Quorum {
        required: u32,
        rules: Vec<ApprovalRule>,
        #[serde(default = "yes")]
        distinct_principals: bool,
    },
    Principal {
        id: PrincipalId,
    },
    Role {
        name: String,
    },
    Group {
        name: String,
    },
    TenantPolicy {
        policy_id: String,
    },
    ExternalSystem {
        system: String,
    },
    DelegatedAuthority {
        scope: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_risk: Option<RiskLevel>,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_value: Option<u64>,
    },
}

tagged_union!(ApprovalRule, "operator");

/// Who may approve (12.1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields, remote = "Self")]
#[schemars(rename = "ApproverSelector")]
pub enum ApproverSelector {
    Principal { id: PrincipalId },
    Role { name: String },
    Group { name: String },
    TenantPolicy {},
    ExternalSystem { system: String },
}

tagged_union!(ApproverSelector, "type");

/// Authority to approve handed to another principal (12.1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelegatedApprovalAuthority {
    pub principal: PrincipalId,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scope: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

wire_enum! {
    /// What an approver has to be shown (12.1).
    pub enum EvidenceRequirement {
        Reason = "reason",
        InputSnapshot = "input_snapshot",
        PolicyDecision = "policy_decision",
        ExternalTicket = "external_ticket",
        Attachment = "attachment",
    }
}

/// Who may not approve (12.1).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SeparationOfDuties {
    #[serde(default)]
    pub requester_must_differ: bool,
    #[serde(default)]
    pub operator_must_differ: bool,
    #[serde(default)]
    pub allow_self_approval: bool,
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}
