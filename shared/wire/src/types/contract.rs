//! What a capability promises (section 9.4 to 9.6).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shape::wire_enum;
use crate::types::{ApprovalPolicy, CompensationContract, TransactionContract};

/// What callers may rely on when they invoke a capability (9.4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CapabilityContract {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub side_effects: Vec<SideEffect>,
    pub idempotency: IdempotencyContract,
    pub execution: ExecutionContract,
    pub data: DataContract,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<CredentialPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sla: Option<ServiceLevelContract>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<TransactionContract>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compensation: Option<CompensationContract>,
}

/// Which credential a capability needs (9.4). No accepted issuers means any issuer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CredentialPolicy {
    pub required: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted_issuers: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_scopes: Vec<String>,
    pub allow_oauth_refresh: bool,
}

/// What a capability does with data (9.6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DataContract {
    pub sensitivity: DataSensitivity,
    pub contains_pii: bool,
    pub redaction_required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub residency: Option<DataResidency>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<RetentionPolicy>,
}

/// Where data may and may not go (9.6).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DataResidency {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_regions: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prohibited_regions: Vec<String>,
}

wire_enum! {
    /// How sensitive the data is (9.6); policy treats `unknown` conservatively.
    pub enum DataSensitivity {
        Public = "public",
        Internal = "internal",
        Confidential = "confidential",
        Restricted = "restricted",
        Regulated = "regulated",
        Unknown = "unknown",
    }
}

/// Which modes, cancellation and retries a capability supports (9.6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionContract {
    pub supports_sync: bool,
    pub supports_async: bool,
    pub supports_streaming: bool,
    pub supports_cancel: bool,
    pub supports_retry: bool,
    pub expected_completion: ExpectedCompletionMode,
    pub retry_safety: RetrySafety,
}

wire_enum! {
    /// How a capability usually completes (9.6).
    pub enum ExpectedCompletionMode {
        Sync = "sync",
        Async = "async",
        Streaming = "streaming",
        Any = "any",
    }
}

wire_enum! {
    /// What happens when a key comes again (9.5).
    pub enum IdempotencyCollisionBehavior {
        ReturnOriginalResult = "return_original_result",
        RejectConflict = "reject_conflict",
        RevalidateInputHash = "revalidate_input_hash",
    }
}

/// Whether and how a capability takes idempotency keys (9.5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IdempotencyContract {
    pub requirement: IdempotencyRequirement,
    pub collision_behavior: IdempotencyCollisionBehavior,
    pub key_scope: IdempotencyKeyScope,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
}

wire_enum! {
    /// Within what an idempotency key is unique (9.5).
    pub enum IdempotencyKeyScope {
        Action = "action",
        Capability = "capability",
        Principal = "principal",
        Tenant = "tenant",
        ExternalAccount = "external_account",
    }
}

wire_enum! {
    /// Whether a caller has to give a key (9.5).
    pub enum IdempotencyRequirement {
        Required = "required",
        Optional = "optional",
        Unsupported = "unsupported",
    }
}

/// How long data is kept, in milliseconds (9.6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetentionPolicy {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retain_for_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_after_ms: Option<u64>,
    pub legal_hold_allowed: bool,
}

wire_enum! {
    /// Whether running twice does harm (9.6).
    pub enum RetrySafety {
        Safe = "safe",
        SafeWithIdempotencyKey = "safe_with_idempotency_key",
        Unsafe = "unsafe",
        Unknown = "unknown",
    }
}

/// Latency and availability that a provider declares, in milliseconds (9.4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceLevelContract {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_latency_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    pub async_expected: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_queue_delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability_target: Option<String>,
}

wire_enum! {
    /// What a capability does to the world (9.4).
    pub enum SideEffect {
        Read = "read",
        Write = "write",
        Delete = "delete",
        SendMessage = "send_message",
        Financial = "financial",
        Identity = "identity",
        Medical = "medical",
        Legal = "legal",
        ExternalNetwork = "external_network",
        CodeExecution = "code_execution",
    }
}
