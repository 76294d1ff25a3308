//! The third gate: an [`Authentic`] action becomes [`Admitted`], or is refused. Steps 5 to 8 of section 11.3 in their
//! order, as one pure function of the request, the capability, the directory and the time; nothing is reserved, stored
//! or dispatched here, and nothing that the message claims about its sender is believed.

mod credential;
mod features;
mod identity;

use aip_names::limits::{
    ACTION_ASYNC_TIMEOUT_MAX_MS, ACTION_TIMEOUT_DEFAULT_MS, ACTION_TIMEOUT_MAX_MS, ADMISSION_TEXT_BYTES_MAX,
};
use aip_wire::{Action, ActionMode, Capability, Refusal, codes};

use crate::authentic::{Authentic, ReplayClaim};
use crate::context::{CONTEXT_VERSION, PolicyResult, PrincipalRef, TrustedContext};
use crate::contract::ContractView;
use crate::directory::Directory;
use crate::idempotency::{self, Reservation, Scope};

pub(crate) use identity::{INVOKE_SCOPE, may_invoke};

/// An action that may run, with the context that it runs in. Only [`admit`] makes one.
#[derive(Debug, Clone)]
pub struct Admitted {
    authentic: Authentic,
    action: Action,
    contract: ContractView,
    context: TrustedContext,
    reservation: Option<Reservation>,
}

/// Judges an action against a registered capability. `contract_hash` is that of the registration it will be sent to;
/// `now_ms` is the wall clock. The caller has looked the capability up and checked the input before (11.3).
///
/// # Errors
/// The first thing that is wrong, with its code: `aip.policy.*`, `aip.credential.*`, `aip.capability.*`,
/// `aip.unsupported.*`, `aip.limit.*` and `aip.idempotency.*`.
pub fn admit(
    authentic: Authentic,
    capability: &Capability,
    contract_hash: &str,
    directory: &Directory,
    now_ms: u64,
) -> Result<Admitted, Refusal> {
    let action = authentic
        .action()
        .cloned()
        .ok_or_else(|| Refusal::new(codes::ENVELOPE_NOT_SERVED, "/body", "the message is not an action"))?;
    if action.capability_id != capability.id {
        return Err(Refusal::of(codes::CAPABILITY_UNKNOWN));
    }
    short("/body/action/id", action.id.as_str())?;
    short("/body/action/capability_id", action.capability_id.as_str())?;

    let contract = ContractView::of(capability);
    let identity = identity::resolve(&authentic, &action, &contract, directory, now_ms)?;
    let access = credential::resolve(
        action.identity.as_ref(),
        identity.tenant.as_deref(),
        contract.credentials.as_ref(),
        directory,
        now_ms,
    )?;

    features::check_mode(&action, &contract)?;
    let deadline_ms = deadline_ms(&action, &contract, directory.limits().async_timeout_ms, now_ms)?;
    features::check_available(authentic.envelope(), &action, &contract)?;

    let scope = Scope {
        principal: authentic.caller().id(),
        tenant: identity.tenant.as_deref(),
        external_account: access.external_account.as_ref(),
    };
    let reservation = idempotency::reservation(&action, &contract, scope)?;

    let context = TrustedContext {
        version: CONTEXT_VERSION,
        trust_domain: directory.trust_domain().to_owned(),
        action_id: action.id.clone(),
        capability_id: action.capability_id.clone(),
        contract_hash: contract_hash.to_owned(),
        attempt: 1,
        principal: PrincipalRef::of(authentic.caller().principal()),
        authentication: authentic.caller().method().clone(),
        scopes: authentic.caller().scopes().clone(),
        authority: identity.authority,
        tenant: identity.tenant,
        external_account: access.external_account,
        credential: access.credential,
        claims: identity.claims,
        deadline_ms,
        trace: features::trace(authentic.envelope(), &action),
        delegation_chain: Vec::new(),
        policy: PolicyResult { directory: directory.version().to_owned(), rule: identity.rule },
    };
    Ok(Admitted { authentic, action, contract, context, reservation })
}

/// The one moment after which nobody waits any more: as asked, or as the contract says, within our bound (11.1).
fn deadline_ms(
    action: &Action,
    contract: &ContractView,
    async_usual_ms: u64,
    now_ms: u64,
) -> Result<u64, Refusal> {
    let (usual_ms, most_ms) = match action.mode {
        Some(ActionMode::Async | ActionMode::Streaming) => (async_usual_ms, ACTION_ASYNC_TIMEOUT_MAX_MS),
        // nobody holds a request open while people decide
        _ if contract.approval_required => (async_usual_ms, ACTION_ASYNC_TIMEOUT_MAX_MS),
        _ => (ACTION_TIMEOUT_DEFAULT_MS, ACTION_TIMEOUT_MAX_MS),
    };
    // what the provider says is how long it takes, not how long people do
    let contract_ms = contract.timeout_ms.filter(|_| !contract.approval_required);
    let asked = action.timeout_ms.unwrap_or_else(|| contract_ms.unwrap_or(usual_ms));
    if action.timeout_ms.is_some() && asked > most_ms {
        let message = format!("an action of this mode may take {most_ms} ms at most");
        return Err(Refusal::new(codes::LIMIT_TIMEOUT, "/body/action/timeout_ms", message));
    }
    let granted = asked.min(contract_ms.unwrap_or(u64::MAX)).min(most_ms);
    Ok(now_ms.saturating_add(granted))
}

/// Refuses texts that would stand in the trusted context, in every record and event, at the sender's length.
fn short(path: &str, text: &str) -> Result<(), Refusal> {
    if text.len() > ADMISSION_TEXT_BYTES_MAX {
        let message = format!("is longer than {ADMISSION_TEXT_BYTES_MAX} bytes");
        return Err(Refusal::new(codes::LIMIT_STRING_BYTES, path, message));
    }
    Ok(())
}

// === impl Admitted ===

impl Admitted {
    pub fn authentic(&self) -> &Authentic {
        &self.authentic
    }

    pub fn action(&self) -> &Action {
        &self.action
    }

    pub fn contract(&self) -> &ContractView {
        &self.contract
    }

    pub fn context(&self) -> &TrustedContext {
        &self.context
    }

    /// The idempotency key that the action's record has to claim.
    pub fn reservation(&self) -> Option<&Reservation> {
        self.reservation.as_ref()
    }

    /// The claim of a signed message that the action's record has to carry.
    pub fn replay(&self) -> Option<&ReplayClaim> {
        self.authentic.replay()
    }
}

#[cfg(test)]
mod tests;
