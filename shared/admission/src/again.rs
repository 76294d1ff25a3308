//! The gates, once more and later: what was admitted before is judged by the directory of the moment. Who asked was
//! proven then and stands in the record of the admission; what they may do is looked up anew, and is never more than it
//! was.

use aip_wire::{Action, Capability, CorrelationId, Envelope, Refusal, Timestamp, codes};

use crate::authentic::Authentic;
use crate::caller::Caller;
use crate::context::{PrincipalRef, TrustedContext};
use crate::directory::Directory;
use crate::policy::{Admitted, admit};

/// Who was admitted with this context, as far as still known: with the scopes that it had then and has now.
///
/// # Errors
/// `aip.policy.not_authorized` for a principal that the directory does not know any more.
pub fn recall(context: &TrustedContext, directory: &Directory) -> Result<Caller, Refusal> {
    let party = directory.party(&context.principal.id);
    let party = party.filter(|party| PrincipalRef::of(&party.principal) == context.principal);
    let party = party.ok_or_else(|| {
        Refusal::new(codes::POLICY_DENIED, "", "the principal that asked is not known any more")
    })?;
    Ok(Caller::new(party, context.authentication.clone()).narrowed_to(&context.scopes))
}

/// Judges an action again that was admitted with `before`, under an id of its own: for the same principal, in the same
/// tenant, on the same behalf.
///
/// # Errors
/// As [`admit`]; `aip.policy.*` also when the principal is not known, not in the tenant or not granted any more what it
/// was.
pub fn admit_again(
    before: &TrustedContext,
    action: Action,
    correlation_id: Option<CorrelationId>,
    (capability, contract_hash): (&Capability, &str),
    directory: &Directory,
    now_ms: u64,
) -> Result<Admitted, Refusal> {
    let caller = recall(before, directory)?.within(before.tenant.as_deref());
    if before.tenant.is_some() && caller.tenants().is_empty() {
        let message = "the principal that asked does not belong to the tenant any more";
        return Err(Refusal::new(codes::TENANT_MISMATCH, "", message));
    }
    let mut envelope =
        Envelope::new(action, Timestamp::from_ms(now_ms)).with_from(caller.principal().clone());
    envelope.correlation_id = correlation_id;
    let authentic = Authentic::recalled(envelope, caller);
    let admitted = admit(authentic, capability, contract_hash, directory, now_ms)?;
    let behalf = |context: &TrustedContext| context.authority.as_ref().map(|own| own.principal.clone());
    if behalf(admitted.context()) != behalf(before) {
        let message = "the grant that the action was admitted by is not in force any more";
        return Err(Refusal::new(codes::POLICY_DENIED, "", message));
    }
    Ok(admitted)
}

#[cfg(test)]
mod tests;
