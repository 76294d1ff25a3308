//! The shape of the directory's TOML file, and nothing about its meaning: what is unknown here is refused, what is
//! wrong together is found by `build`.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use toml::value::Datetime;

use aip_names::limits::ACTION_ASYNC_TIMEOUT_DEFAULT_MS;
use aip_wire::{ApproverSelector, ExternalAccountRef, PrincipalId, PrincipalKind, RiskLevel};

/// The whole file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub trust_domain: String,
    #[serde(default)]
    pub limits: LimitsConfig,
    #[serde(default, rename = "tenant", skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<TenantConfig>,
    #[serde(default, rename = "principal", skip_serializing_if = "Vec::is_empty")]
    pub principals: Vec<PrincipalConfig>,
    #[serde(default, rename = "issuer", skip_serializing_if = "Vec::is_empty")]
    pub issuers: Vec<IssuerConfig>,
    #[serde(default, rename = "worker", skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerConfig>,
    #[serde(default, rename = "credential", skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<CredentialConfig>,
    #[serde(default, rename = "grant", skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<GrantConfig>,
}

/// How far a signed message's `sent_at` may be from our clock, how long its id stays claimed (22.3), and how long an
/// asynchronous action may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    pub skew_past_ms: u64,
    pub skew_future_ms: u64,
    /// At least both skews together, so that no message outlives its own claim.
    pub replay_window_ms: u64,
    /// How long an asynchronous action may take when neither it nor its contract says.
    pub async_timeout_ms: u64,
}

/// A tenant and the accounts at providers that are bound to it (22.6).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantConfig {
    pub id: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external_accounts: Vec<ExternalAccountRef>,
    /// Who meets an approval rule that names one of the tenant's own policies (12.1).
    #[serde(default, rename = "approval_policy", skip_serializing_if = "Vec::is_empty")]
    pub approval_policies: Vec<ApproversConfig>,
    /// What happens, step by step, while an approval waits (12.7).
    #[serde(default, rename = "escalation", skip_serializing_if = "Vec::is_empty")]
    pub escalations: Vec<EscalationConfig>,
}

/// A named set of approvers: whoever is in any of these lists. `default` is meant where a selector names none.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApproversConfig {
    pub id: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub principals: Vec<PrincipalId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
}

/// One step of the ladder, so long after the approval was asked for. No step ever approves anything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EscalationConfig {
    pub after_ms: u64,
    pub step: EscalationStep,
}

/// What a step of the ladder does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EscalationStep {
    /// Tells the approvers again.
    Remind,
    /// Asks somebody else in place of those who were asked.
    Reassign(ApproverSelector),
    /// Asks somebody else as well.
    Escalate(ApproverSelector),
    /// Lets the approval expire.
    Expire,
}

/// A principal, what proves it and what it may do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrincipalConfig {
    pub id: PrincipalId,
    pub kind: PrincipalKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The first is the default; none means that it acts in no tenant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Which capabilities it may invoke: exact ids, or a prefix before a final `*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// What it is in its tenants, where an approval rule asks for a role (12.1).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// External systems whose approvals it brings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external_systems: Vec<String>,
    /// The highest risk it may invoke; absent means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_max: Option<RiskLevel>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dids: Vec<String>,
    /// How token issuers call it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<SubjectConfig>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_keys: Vec<ApiKeyConfig>,
}

/// The value of an issuer's principal claim that stands for a principal.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubjectConfig {
    pub iss: String,
    pub subject: String,
}

/// An API key, of which only the digest is known here. A key must not look like a JWT, three parts between dots.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiKeyConfig {
    pub id: String,
    pub sha256: KeyDigestText,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Datetime>,
}

/// Sixty-four hexadecimal digits. Even a digest of a weak key is worth guessing at, so it is never printed.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyDigestText(pub String);

/// A token issuer and where its keys are; exactly one of `jwks_file` and `jwks_url`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerConfig {
    pub iss: String,
    pub audience: String,
    /// Relative to the directory file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_url: Option<String>,
    pub algorithms: Vec<TokenAlgorithm>,
    #[serde(default = "default_principal_claim")]
    pub principal_claim: String,
    /// When given, a token has to carry this claim (a list, or one text with blanks), and only the scopes that
    /// both the token and the directory name are verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes_claim: Option<String>,
    #[serde(default = "default_leeway_ms")]
    pub leeway_ms: u64,
    #[serde(default = "default_refresh_ms")]
    pub refresh_ms: u64,
}

/// Which capabilities a worker's principal may register, and the NATS service token that they are reached by.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerConfig {
    pub principal: PrincipalId,
    pub service: String,
    #[serde(default = "default_worker_version")]
    pub version: String,
    pub capabilities: Vec<String>,
}

/// An opaque reference to a credential that some vault holds for a tenant.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialConfig {
    pub id: String,
    pub tenant: String,
    pub issuer: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Datetime>,
    /// True when the vault can renew it: an expired one is then taken where the capability's policy allows that.
    #[serde(default)]
    pub refreshable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_account: Option<ExternalAccountRef>,
}

/// Authority that one principal gives another (8.4).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantConfig {
    pub delegate: PrincipalId,
    pub principal: PrincipalId,
    pub scopes: Vec<String>,
    pub capabilities: Vec<String>,
    pub tenant: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_max: Option<RiskLevel>,
    pub expires_at: Datetime,
}

/// The signature algorithms that tokens may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TokenAlgorithm {
    #[serde(rename = "EdDSA")]
    EdDsa,
    #[serde(rename = "ES256")]
    Es256,
    #[serde(rename = "RS256")]
    Rs256,
}

fn default_principal_claim() -> String {
    "sub".to_owned()
}

fn default_leeway_ms() -> u64 {
    30_000
}

fn default_refresh_ms() -> u64 {
    300_000
}

fn default_worker_version() -> String {
    "v1".to_owned()
}

impl Default for LimitsConfig {
    fn default() -> LimitsConfig {
        LimitsConfig {
            skew_past_ms: 300_000,
            skew_future_ms: 30_000,
            replay_window_ms: 600_000,
            async_timeout_ms: ACTION_ASYNC_TIMEOUT_DEFAULT_MS,
        }
    }
}

impl fmt::Debug for KeyDigestText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}
