//! The trusted execution context (11.2): what admission established about an action, frozen, and all that a handler
//! may take authority from. It travels beside the envelope, from the gateway to a worker only. Here stands its form;
//! who fills it is for admission to say.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{ActionId, CapabilityId, PrincipalId};
use crate::types::{DelegationEntry, ExternalAccountRef, ExternalUserRef, Principal, PrincipalKind};

/// The member of a TransportMessage's metadata that holds the context.
pub const METADATA_KEY: &str = "aip.trusted_context";
/// The form of the context that this crate writes and reads.
pub const CONTEXT_VERSION: u32 = 1;

/// What a handler may rely on. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustedContext {
    pub version: u32,
    pub trust_domain: String,
    pub action_id: ActionId,
    pub capability_id: CapabilityId,
    /// What the capability declared when the action was admitted; a handler of another contract must not run it.
    pub contract_hash: String,
    /// Counts dispatches from 1. The action id is the same for all of them.
    pub attempt: u32,
    pub principal: PrincipalRef,
    pub authentication: Method,
    pub scopes: Scopes,
    /// On whose behalf the principal acts by a grant of the directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<Authority>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Bound to the tenant by the directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_account: Option<ExternalAccountRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<ResolvedCredential>,
    /// What the sender said without proof: for display, never for a decision.
    #[serde(default, skip_serializing_if = "IdentityClaims::is_empty")]
    pub claims: IdentityClaims,
    /// Never extended.
    pub deadline_ms: u64,
    #[serde(default, skip_serializing_if = "TraceContext::is_empty")]
    pub trace: TraceContext,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delegation_chain: Vec<DelegationEntry>,
    pub policy: PolicyResult,
}

/// The member of a TransportMessage's metadata by which the gateway says to another service of the system who asks.
pub const CALLER_KEY: &str = "aip.trusted_caller";

/// Who asks, as the gateway authenticated them (22.2). Believed only on subjects to which none but services of the system
/// may publish.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustedCaller {
    pub version: u32,
    pub principal: Principal,
    pub authentication: Method,
    /// What the directory gives and the token leaves.
    pub scopes: Scopes,
    pub tenants: Vec<String>,
    /// When the proof expires, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
}

/// A principal by its name in the directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrincipalRef {
    pub id: PrincipalId,
    pub kind: PrincipalKind,
}

/// A grant that was in force at admission (8.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Authority {
    pub principal: PrincipalRef,
    pub scopes: Scopes,
    pub expires_at_ms: u64,
}

/// An opaque reference that the tenant's vault resolves; never the secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolvedCredential {
    pub id: String,
    pub issuer: String,
    pub scopes: Scopes,
    /// Past for one that the vault has to renew first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<u64>,
}

/// Names from the sender's identity context that nothing vouches for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdentityClaims {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub human_actor: Option<PrincipalRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<PrincipalRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acted_on_behalf_of: Option<PrincipalRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_user: Option<ExternalUserRef>,
}

/// Ties the action to a trace. Given by the sender, so no more than a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceContext {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_id: Option<String>,
    /// W3C Trace Context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// By which configuration and which rule of it the action was allowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyResult {
    /// The version of the directory.
    pub directory: String,
    pub rule: String,
}

/// What proved the principal. Names keys and issuers, holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Method {
    /// A signed envelope (22.2), alone or beside a token of the same principal.
    Signature {
        did: String,
    },
    ApiKey {
        id: String,
    },
    Bearer {
        issuer: String,
    },
}

/// Verified scopes. `*` covers every scope (8.4).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scopes(Vec<String>);

/// Covers every scope.
const EVERY_SCOPE: &str = "*";

/// Why a value is no trusted context.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    #[error("the trusted context has a version other than {CONTEXT_VERSION}")]
    Version,
    #[error("the trusted context is malformed: {0}")]
    Shape(String),
}

// === impl TrustedContext ===

impl TrustedContext {
    /// Reads what the gateway sent. Only call it on metadata that came over a subject which nobody else may publish to.
    ///
    /// # Errors
    /// Another version, or not the shape of this one.
    pub fn read(value: &Value) -> Result<TrustedContext, ContextError> {
        // looked at first: another version has other members
        if value.get("version").and_then(Value::as_u64) != Some(u64::from(CONTEXT_VERSION)) {
            return Err(ContextError::Version);
        }
        TrustedContext::deserialize(value).map_err(|error| ContextError::Shape(error.to_string()))
    }

    /// The same context for a later dispatch of the same action.
    #[must_use]
    pub fn for_attempt(&self, attempt: u32) -> TrustedContext {
        TrustedContext { attempt, ..self.clone() }
    }
}

impl PrincipalRef {
    pub fn of(principal: &Principal) -> PrincipalRef {
        PrincipalRef { id: principal.id.clone(), kind: principal.kind }
    }
}

impl IdentityClaims {
    pub fn is_empty(&self) -> bool {
        *self == IdentityClaims::default()
    }
}

impl TraceContext {
    pub fn is_empty(&self) -> bool {
        *self == TraceContext::default()
    }
}

// === impl Scopes ===

impl Scopes {
    pub fn new(scopes: impl IntoIterator<Item = String>) -> Scopes {
        let mut scopes: Vec<String> = scopes.into_iter().collect();
        scopes.sort();
        scopes.dedup();
        Scopes(scopes)
    }

    pub fn cover(&self, scope: &str) -> bool {
        self.0.iter().any(|held| held == EVERY_SCOPE || held == scope)
    }

    /// What both sides cover: a token can only narrow what the directory gives.
    pub fn narrowed_to(&self, other: &Scopes) -> Scopes {
        let ours = self.0.iter().filter(|scope| other.cover(scope));
        let theirs = other.0.iter().filter(|scope| self.cover(scope));
        Scopes::new(ours.chain(theirs).cloned())
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scopes(texts: &[&str]) -> Scopes {
        Scopes::new(texts.iter().map(|s| (*s).to_owned()))
    }

    #[test]
    fn a_token_narrows_and_never_widens() {
        let directory = scopes(&["action:read", "action:write"]);
        assert_eq!(
            directory.narrowed_to(&scopes(&["action:write", "audit:read"])),
            scopes(&["action:write"])
        );
        assert_eq!(directory.narrowed_to(&scopes(&["*"])), directory);
        assert_eq!(scopes(&["*"]).narrowed_to(&scopes(&["action:read"])), scopes(&["action:read"]));
        assert_eq!(directory.narrowed_to(&scopes(&[])), scopes(&[]));
        assert!(scopes(&["*"]).cover("anything") && !scopes(&[]).cover("anything"));
    }
}
