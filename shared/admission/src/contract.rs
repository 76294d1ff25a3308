//! What a capability's contract means for admission, with the one reading of a capability that has none.
//!
//! Section 9.4 asks for the conservative interpretation where a contract is missing. Ours, completely:
//!
//! | question | reading without a contract |
//! |---|---|
//! | side effects | it writes, and reaches an external network |
//! | risk, when the capability names none | high |
//! | modes | sync only; it can't be cancelled |
//! | a lost answer | its outcome is unknown and it is never run again |
//! | idempotency | a key is taken but not demanded; it is unique for the principal; the same key with other input is refused |
//! | data | sensitivity unknown, contains personal data, is redacted |
//! | credential | none is demanded; one that is named has to resolve |
//! | approval | only if `requires_human_approval` says so |
//!
//! A missing `risk` is read as high in a capability with a contract as well.

use aip_wire::{
    ActionMode, Capability, CredentialPolicy, DataContract, DataSensitivity, ExecutionContract,
    ExpectedCompletionMode, IdempotencyCollisionBehavior, IdempotencyContract, IdempotencyKeyScope,
    IdempotencyRequirement, RetrySafety, RiskLevel, SideEffect,
};

/// A capability's contract as this deployment acts on it.
#[derive(Debug, Clone, PartialEq)]
pub struct ContractView {
    pub side_effects: Vec<SideEffect>,
    pub risk: RiskLevel,
    pub idempotency: IdempotencyContract,
    pub execution: ExecutionContract,
    pub data: DataContract,
    pub credentials: Option<CredentialPolicy>,
    /// An action may only run once somebody has approved it.
    pub approval_required: bool,
    /// An action may only commit a plan that was made before.
    pub plan_required: bool,
    /// The longest that the provider says an action takes.
    pub timeout_ms: Option<u64>,
}

// === impl ContractView ===

impl ContractView {
    pub fn of(capability: &Capability) -> ContractView {
        let human = capability.requires_human_approval == Some(true);
        let risk = capability.risk.unwrap_or(RiskLevel::High);
        let Some(contract) = &capability.contract else {
            return ContractView { risk, approval_required: human, ..ContractView::undeclared() };
        };
        ContractView {
            side_effects: contract.side_effects.clone(),
            risk,
            idempotency: contract.idempotency.clone(),
            execution: contract.execution.clone(),
            data: contract.data.clone(),
            credentials: contract.credentials.clone(),
            approval_required: human || contract.approval.as_ref().is_some_and(|approval| approval.required),
            plan_required: contract.transaction.as_ref().is_some_and(|t| t.requires_plan_before_commit),
            timeout_ms: contract.sla.as_ref().and_then(|sla| sla.timeout_ms),
        }
    }

    fn undeclared() -> ContractView {
        ContractView {
            side_effects: vec![SideEffect::Write, SideEffect::ExternalNetwork],
            risk: RiskLevel::High,
            idempotency: IdempotencyContract {
                requirement: IdempotencyRequirement::Optional,
                collision_behavior: IdempotencyCollisionBehavior::RevalidateInputHash,
                key_scope: IdempotencyKeyScope::Principal,
                ttl_ms: None,
            },
            execution: ExecutionContract {
                supports_sync: true,
                supports_async: false,
                supports_streaming: false,
                supports_cancel: false,
                supports_retry: false,
                expected_completion: ExpectedCompletionMode::Sync,
                retry_safety: RetrySafety::Unknown,
            },
            data: DataContract {
                sensitivity: DataSensitivity::Unknown,
                contains_pii: true,
                redaction_required: true,
                residency: None,
                retention: None,
            },
            credentials: None,
            approval_required: false,
            plan_required: false,
            timeout_ms: None,
        }
    }

    pub fn supports(&self, mode: ActionMode) -> bool {
        match mode {
            ActionMode::Sync => self.execution.supports_sync,
            ActionMode::Async => self.execution.supports_async,
            ActionMode::Streaming => self.execution.supports_streaming,
        }
    }

    /// True unless it only reads: running it twice may do something twice.
    pub fn mutates(&self) -> bool {
        self.side_effects.iter().any(|effect| *effect != SideEffect::Read)
    }

    /// Whether an action whose answer was lost may be dispatched again (13.6, 19.3).
    pub fn may_run_again(&self, has_key: bool) -> bool {
        let safe = match self.execution.retry_safety {
            RetrySafety::Safe => true,
            RetrySafety::SafeWithIdempotencyKey => has_key,
            RetrySafety::Unsafe | RetrySafety::Unknown => false,
        };
        !self.mutates() || (safe && self.execution.supports_retry)
    }
}

/// The digest of everything that a capability declares, schemas included: what an action is pinned to. `None` only
/// for a value that JSON cannot hold, which no received capability is.
pub fn contract_hash(capability: &Capability) -> Option<String> {
    serde_json::to_value(capability).ok().map(|value| aip_crypto::canonical::hash(&value))
}
