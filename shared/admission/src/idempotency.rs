//! Names for idempotency reservations (9.5): one claim for one key in one scope. Pure, and the same on every replica.

use serde_json::{Value, json};

use aip_names::limits::IDEMPOTENCY_KEY_BYTES_MAX;
use aip_wire::{
    Action, ExternalAccountRef, IdempotencyCollisionBehavior, IdempotencyKeyScope, IdempotencyRequirement,
    PrincipalId, Refusal, codes,
};

use crate::contract::ContractView;

/// A key that an action reserves, with what a duplicate is compared by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// `idem:<scope>:<digest>`
    pub claim: String,
    /// [`input_hash`] of the action.
    pub input_hash: String,
    pub collision: IdempotencyCollisionBehavior,
    /// How long the contract keeps the key; `None` means as long as the action is kept.
    pub ttl_ms: Option<u64>,
}

/// Within what a key is unique, besides its capability or action.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    pub principal: &'a PrincipalId,
    pub tenant: Option<&'a str>,
    pub external_account: Option<&'a ExternalAccountRef>,
}

/// What the action reserves; nothing when it brings no key and none is demanded.
///
/// # Errors
/// `aip.idempotency.key_required`, `.key_unsupported` and `.scope_unresolved`; `aip.limit.string_bytes`.
pub fn reservation(
    action: &Action,
    contract: &ContractView,
    scope: Scope<'_>,
) -> Result<Option<Reservation>, Refusal> {
    let refuse = |code, message| Err(Refusal::new(code, "/body/action/idempotency_key", message));
    let idempotency = &contract.idempotency;
    let key = match (&action.idempotency_key, idempotency.requirement) {
        (None, IdempotencyRequirement::Required) => {
            return refuse(codes::IDEMPOTENCY_REQUIRED, "the capability needs an idempotency key");
        }
        (Some(_), IdempotencyRequirement::Unsupported) => {
            return refuse(codes::IDEMPOTENCY_UNSUPPORTED, "the capability takes no idempotency key");
        }
        (None, _) => return Ok(None),
        (Some(key), _) => key,
    };
    if key.len() > IDEMPOTENCY_KEY_BYTES_MAX {
        return refuse(codes::LIMIT_STRING_BYTES, "the idempotency key is too long");
    }
    let Some(claim) = claim_name(idempotency.key_scope, action, scope, key) else {
        return refuse(
            codes::IDEMPOTENCY_SCOPE,
            "the key is unique for an external account, and the action has none",
        );
    };
    Ok(Some(Reservation {
        claim,
        input_hash: input_hash(action),
        collision: idempotency.collision_behavior,
        ttl_ms: idempotency.ttl_ms,
    }))
}

/// The claim for a key. The tenant is part of every scope, so that tenants never meet; `None` when the scope is an
/// external account and there is none.
pub fn claim_name(kind: IdempotencyKeyScope, action: &Action, scope: Scope<'_>, key: &str) -> Option<String> {
    let within: Value = match kind {
        IdempotencyKeyScope::Action => json!([scope.principal, action.capability_id, action.id]),
        IdempotencyKeyScope::Capability => json!([action.capability_id]),
        IdempotencyKeyScope::Principal => json!([scope.principal]),
        IdempotencyKeyScope::Tenant => json!([]),
        IdempotencyKeyScope::ExternalAccount => {
            let account = scope.external_account?;
            json!([account.system, account.id])
        }
    };
    let digest = aip_crypto::canonical::hash(&json!([kind, scope.tenant, within, key]));
    Some(format!("idem:{kind}:{digest}"))
}

/// What makes two requests under one key the same: capability and input, in canonical form.
pub fn input_hash(action: &Action) -> String {
    aip_crypto::canonical::hash(&json!([action.capability_id, action.input]))
}
