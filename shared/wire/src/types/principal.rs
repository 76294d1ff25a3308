//! Who acts, for whom and with which credential (section 8). Only claims: nothing here proves an identity.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::PrincipalId;
use crate::shape::wire_enum;
use crate::timestamp::Timestamp;

/// Opaque reference to a credential kept elsewhere; never the secret itself (8.3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CredentialRef {
    pub id: String,
    pub issuer: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
}

/// Authority over one other principal, with scopes and an end (8.4). Scope `*` stands for every scope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelegatedAuthorityGrant {
    pub principal_id: PrincipalId,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An account at a provider (8.3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExternalAccountRef {
    pub id: String,
    pub system: String,
}

/// How a provider calls the same thing (8.2). Never a proof of identity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExternalRef {
    pub system: String,
    pub r#type: String,
    pub id: String,
}

/// A user at a provider (8.3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExternalUserRef {
    pub id: String,
    pub system: String,
}

/// On whose account and behalf something happens, as claimed by the sender (8.3). Authority comes from the trusted context only.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IdentityContext {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_account: Option<ExternalAccountRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_user: Option<ExternalUserRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub human_actor: Option<Principal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<Principal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acted_on_behalf_of: Option<Principal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential_ref: Option<CredentialRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OAuthCredentialState>,
}

/// What is known about an OAuth grant, without its tokens (8.3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OAuthCredentialState {
    pub issuer: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    pub refresh_available: bool,
}

/// Who acts: a person, agent, service or system (8.1). Everything but `id` and `kind` is description.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Principal {
    pub id: PrincipalId,
    pub kind: PrincipalKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust_domain: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub did: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external_refs: Vec<ExternalRef>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delegated_authority: Vec<DelegatedAuthorityGrant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_context: Option<Value>,
}

wire_enum! {
    /// What kind of party a principal is (8.1).
    pub enum PrincipalKind {
        Human = "human",
        Agent = "agent",
        Service = "service",
        Tenant = "tenant",
        Customer = "customer",
        Contact = "contact",
        System = "system",
    }
}

/// Names a tenant: a selector, not authority (22.6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantRef {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
}

// === impl Principal ===

impl Principal {
    pub fn new(id: PrincipalId, kind: PrincipalKind) -> Principal {
        Principal {
            id,
            kind,
            display_name: None,
            trust_domain: None,
            did: None,
            external_refs: Vec::new(),
            delegated_authority: Vec::new(),
            auth_context: None,
        }
    }
}
