//! Whom this deployment knows: tenants, principals and what proves them, token issuers, workers, credentials and
//! grants. It is configuration, read as a whole or refused as a whole, and never changes once built. It holds no
//! secret: of an API key it knows a digest, of a credential a reference.

mod build;
pub mod config;
mod load;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;

use subtle::ConstantTimeEq;

use aip_wire::{ExternalAccountRef, Principal, PrincipalId, RiskLevel};

use crate::pattern::{CapabilityPattern, Scopes};

use config::ApproversConfig;

pub use config::{Config, EscalationConfig, EscalationStep, LimitsConfig as Limits, TokenAlgorithm};
pub use load::{DirectoryError, Problem};

/// The checked configuration. Replaced as a whole, never edited.
#[derive(Debug)]
pub struct Directory {
    version: String,
    trust_domain: String,
    limits: Limits,
    tenants: BTreeMap<String, Tenant>,
    parties: BTreeMap<PrincipalId, Party>,
    dids: HashMap<String, PrincipalId>,
    subjects: HashMap<(String, String), PrincipalId>,
    api_keys: Vec<ApiKey>,
    issuers: BTreeMap<String, Issuer>,
    workers: Vec<Worker>,
    grants: Vec<Grant>,
}

/// What belongs to one tenant.
#[derive(Debug, Default)]
pub(crate) struct Tenant {
    pub accounts: Vec<ExternalAccountRef>,
    pub credentials: HashMap<String, Credential>,
    pub approvers: HashMap<String, ApproversConfig>,
    pub escalations: Vec<EscalationConfig>,
}

/// One configured principal and what it may do.
#[derive(Debug, Clone)]
pub struct Party {
    /// As it is written into messages; every member comes from configuration.
    pub principal: Principal,
    pub tenants: Vec<String>,
    pub scopes: Scopes,
    pub capabilities: Vec<CapabilityPattern>,
    pub risk_max: RiskLevel,
    /// What it is wherever it belongs to the tenant (12.1).
    pub roles: Vec<String>,
    pub groups: Vec<String>,
    /// External systems whose approvals it brings.
    pub external_systems: Vec<String>,
}

pub(crate) struct ApiKey {
    pub id: String,
    pub principal: PrincipalId,
    pub digest: [u8; 32],
    pub expires_at_ms: Option<u64>,
}

/// A configured token issuer.
#[derive(Debug, Clone)]
pub struct Issuer {
    pub iss: String,
    pub audience: String,
    pub keys: KeySource,
    pub algorithms: Vec<TokenAlgorithm>,
    pub principal_claim: String,
    pub scopes_claim: Option<String>,
    pub leeway_ms: u64,
    pub refresh_ms: u64,
}

/// Where an issuer's JWKS is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    File(PathBuf),
    Url(String),
}

/// A worker that may register capabilities, and how it is reached.
#[derive(Debug, Clone)]
pub struct Worker {
    pub principal: PrincipalId,
    pub service: String,
    pub version: String,
    pub capabilities: Vec<CapabilityPattern>,
}

/// A reference to a credential, as the tenant's vault describes it.
#[derive(Debug, Clone)]
pub struct Credential {
    pub id: String,
    pub issuer: String,
    pub scopes: Scopes,
    pub expires_at_ms: Option<u64>,
    pub refreshable: bool,
    pub external_account: Option<ExternalAccountRef>,
}

/// Authority of `delegate` to act for `principal` (8.4).
#[derive(Debug, Clone)]
pub struct Grant {
    pub delegate: PrincipalId,
    pub principal: PrincipalId,
    pub scopes: Scopes,
    pub capabilities: Vec<CapabilityPattern>,
    pub tenant: String,
    pub risk_max: RiskLevel,
    pub expires_at_ms: u64,
}

/// What looking for a credential in a tenant found.
pub(crate) enum CredentialLookup<'a> {
    Found(&'a Credential),
    /// Another tenant has one of this name.
    OtherTenant,
    Unknown,
}

// === impl Directory ===

impl Directory {
    /// The digest of the configuration, whatever its layout and comments: 64 hexadecimal digits. Decisions name it.
    pub fn version(&self) -> &str {
        &self.version
    }

    pub fn trust_domain(&self) -> &str {
        &self.trust_domain
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    pub fn party(&self, id: &PrincipalId) -> Option<&Party> {
        self.parties.get(id)
    }

    pub fn parties(&self) -> impl Iterator<Item = &Party> {
        self.parties.values()
    }

    pub fn issuers(&self) -> impl Iterator<Item = &Issuer> {
        self.issuers.values()
    }

    pub fn issuer(&self, iss: &str) -> Option<&Issuer> {
        self.issuers.get(iss)
    }

    pub fn workers(&self) -> &[Worker] {
        &self.workers
    }

    /// The principal that this DID is bound to.
    pub fn party_of_did(&self, did: &str) -> Option<&Party> {
        self.parties.get(self.dids.get(did)?)
    }

    pub(crate) fn party_of_subject(&self, iss: &str, subject: &str) -> Option<&Party> {
        self.parties.get(self.subjects.get(&(iss.to_owned(), subject.to_owned()))?)
    }

    /// The key with this digest. Every key is compared, each in constant time, so that the time taken says nothing.
    pub(crate) fn api_key(&self, digest: &[u8; 32]) -> Option<&ApiKey> {
        self.api_keys.iter().fold(None, |found, key| {
            let equal = bool::from(key.digest.ct_eq(digest));
            if equal { Some(key) } else { found }
        })
    }

    pub(crate) fn credential(&self, tenant: &str, id: &str) -> CredentialLookup<'_> {
        if let Some(found) = self.tenants.get(tenant).and_then(|tenant| tenant.credentials.get(id)) {
            return CredentialLookup::Found(found);
        }
        match self.tenants.values().any(|other| other.credentials.contains_key(id)) {
            true => CredentialLookup::OtherTenant,
            false => CredentialLookup::Unknown,
        }
    }

    pub(crate) fn account_is_bound(&self, tenant: &str, account: &ExternalAccountRef) -> bool {
        self.tenants.get(tenant).is_some_and(|tenant| tenant.accounts.contains(account))
    }

    /// Whether a principal of the tenant meets the tenant's own approval policy of this name (12.1).
    pub fn meets_tenant_policy(&self, party: &Party, tenant: &str, policy_id: &str) -> bool {
        let approvers = self.tenants.get(tenant).and_then(|tenant| tenant.approvers.get(policy_id));
        approvers.is_some_and(|approvers| {
            approvers.principals.contains(&party.principal.id)
                || approvers.roles.iter().any(|role| party.roles.contains(role))
                || approvers.groups.iter().any(|group| party.groups.contains(group))
        })
    }

    /// The approval policies that a tenant has.
    pub fn tenant_policies(&self, tenant: &str) -> impl Iterator<Item = &str> {
        self.tenants.get(tenant).into_iter().flat_map(|tenant| tenant.approvers.keys().map(String::as_str))
    }

    /// The tenant's escalation ladder, in the order of time.
    pub fn escalations(&self, tenant: &str) -> &[EscalationConfig] {
        self.tenants.get(tenant).map(|tenant| tenant.escalations.as_slice()).unwrap_or_default()
    }

    /// Grants to this delegate that are in force; expired ones do not exist (8.4).
    pub fn grants_to<'d>(&'d self, delegate: &PrincipalId, now_ms: u64) -> impl Iterator<Item = &'d Grant> {
        self.grants.iter().filter(move |grant| grant.delegate == *delegate && now_ms < grant.expires_at_ms)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiKey")
            .field("id", &self.id)
            .field("principal", &self.principal)
            .finish_non_exhaustive()
    }
}

impl Party {
    /// The tenant that is meant when a request names none.
    pub fn tenant_default(&self) -> Option<&str> {
        self.tenants.first().map(String::as_str)
    }

    pub fn may_invoke(&self, capability_id: &str) -> bool {
        self.capabilities.iter().any(|pattern| pattern.covers(capability_id))
    }
}

#[cfg(test)]
mod tests;
