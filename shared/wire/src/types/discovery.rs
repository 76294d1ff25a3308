//! Manifests and capabilities (section 9.1 to 9.3, 9.8).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{CapabilityId, ProfileId};
use crate::shape::wire_enum;
use crate::types::{CapabilityContract, Principal, Resource, SideEffect};

/// How a capability shows in one profile (9.3). The one object of the protocol that keeps members of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Binding {
    pub profile: ProfileId,
    #[serde(flatten)]
    pub extra: BTreeMap<String, Value>,
}

/// One operation that can be discovered and invoked (9.3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Capability {
    pub id: CapabilityId,
    pub name: String,
    pub kind: CapabilityKind,
    pub input_schema: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<RiskLevel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stability: Option<Stability>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bindings: Vec<Binding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requires_human_approval: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contract: Option<CapabilityContract>,
}

wire_enum! {
    /// What stands behind a capability (9.3).
    pub enum CapabilityKind {
        Agent = "agent",
        Tool = "tool",
        Workflow = "workflow",
        Channel = "channel",
        Resource = "resource",
        HumanTask = "human_task",
    }
}

/// What one participant offers (9.1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub manifest_version: String,
    pub agent: Principal,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Capability>,
    pub profiles: Vec<ProfileId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Resource>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub governance: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compatibility: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Value>,
}

/// Narrows a manifest; an empty list does not filter (9.8).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ManifestFilter {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capability_ids: Vec<CapabilityId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_kinds: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<ProfileId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub risk: Vec<RiskLevel>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub side_effects: Vec<SideEffect>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requires_approval: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_streaming: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_transactions: Option<bool>,
}

/// Asks for a manifest (9.8).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ManifestRequest {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<ProfileId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<ManifestFilter>,
}

wire_enum! {
    /// How much can go wrong (9.3).
    pub enum RiskLevel {
        Low = "low",
        Medium = "medium",
        High = "high",
        Critical = "critical",
    }
}

wire_enum! {
    /// How settled a capability is (9.3, 23.5).
    pub enum Stability {
        Stable = "stable",
        Experimental = "experimental",
        Deprecated = "deprecated",
    }
}

// === impl Manifest ===

impl Manifest {
    /// The version that every manifest of AIP 1.0 carries.
    pub const VERSION: &'static str = "aip-manifest/v1";

    pub fn new(agent: Principal, profiles: Vec<ProfileId>, capabilities: Vec<Capability>) -> Manifest {
        Manifest {
            manifest_version: Manifest::VERSION.to_owned(),
            agent,
            capabilities,
            profiles,
            resources: Vec::new(),
            channels: Vec::new(),
            security: None,
            governance: None,
            limits: None,
            compatibility: None,
            extensions: None,
        }
    }
}

// === impl Capability ===

impl Capability {
    pub fn new(
        id: CapabilityId,
        name: impl Into<String>,
        kind: CapabilityKind,
        input_schema: Value,
    ) -> Capability {
        Capability {
            id,
            name: name.into(),
            kind,
            input_schema,
            output_schema: None,
            description: None,
            risk: None,
            stability: None,
            cost: None,
            auth: None,
            bindings: Vec::new(),
            requires_human_approval: None,
            contract: None,
        }
    }
}
