//! Step 5, first half: for which tenant, on whose behalf and by which rule. Claims about people stay claims; only a
//! grant of the directory makes acting for somebody more than that (8.4).

use aip_wire::{Action, Capability, IdentityContext, Principal, Refusal, RiskLevel, codes};

use super::short;
use crate::authentic::Authentic;
use crate::caller::Caller;
use crate::context::{Authority, IdentityClaims, PrincipalRef};
use crate::contract::ContractView;
use crate::directory::{Directory, Grant, Party};
use crate::pattern::CapabilityPattern;

/// Invoking anything needs this.
pub const INVOKE_SCOPE: &str = "action:write";

pub struct Identity {
    pub tenant: Option<String>,
    pub authority: Option<Authority>,
    pub claims: IdentityClaims,
    pub rule: String,
}

/// Who asks, for what, how risky: what a rule is matched against.
struct Question<'a> {
    party: &'a Party,
    capability_id: &'a str,
    risk: RiskLevel,
    tenant: Option<&'a str>,
    now_ms: u64,
}

pub fn resolve(
    authentic: &Authentic,
    action: &Action,
    contract: &ContractView,
    directory: &Directory,
    now_ms: u64,
) -> Result<Identity, Refusal> {
    let caller = authentic.caller();
    let claimed = action.identity.as_ref();
    let party = directory.party(caller.id()).ok_or_else(denied)?;
    let requested = claimed.and_then(|identity| identity.tenant.as_ref()).map(|tenant| tenant.id.as_str());
    let tenant = caller.tenant(requested).map_err(|mut refusal| {
        refusal.path = "/body/action/identity/tenant".to_owned();
        refusal
    })?;
    if !caller.scopes().cover(INVOKE_SCOPE) || !party.scopes.cover(INVOKE_SCOPE) {
        return Err(Refusal::new(
            codes::POLICY_SCOPE,
            "",
            format!("invoking needs the scope {INVOKE_SCOPE}"),
        ));
    }
    let question =
        Question { party, capability_id: action.capability_id.as_str(), risk: contract.risk, tenant, now_ms };
    let subject = claimed.and_then(|identity| identity.acted_on_behalf_of.as_ref());
    let grant = subject.and_then(|subject| question.grant(directory, subject));
    let rule = match grant {
        Some((grant, pattern)) => {
            format!("grant of {} to {}: {pattern}", grant.principal.as_str(), grant.delegate.as_str())
        }
        None => question.own_rule()?,
    };
    Ok(Identity {
        tenant: tenant.map(str::to_owned),
        authority: grant.and_then(|(grant, _)| authority(grant, directory)),
        claims: claims(claimed, grant.is_some())?,
        rule,
    })
}

/// Whether the caller could invoke this at all, in some tenant and for somebody: what discovery may show (9.8).
pub fn may_invoke(caller: &Caller, capability: &Capability, directory: &Directory, now_ms: u64) -> bool {
    let Some(party) = directory.party(caller.id()) else { return false };
    let (id, risk) = (capability.id.as_str(), ContractView::of(capability).risk);
    let own = party.risk_max >= risk && party.may_invoke(id);
    caller.scopes().cover(INVOKE_SCOPE)
        && party.scopes.cover(INVOKE_SCOPE)
        && (own
            || directory.grants_to(caller.id(), now_ms).any(|grant| {
                caller.tenants().contains(&grant.tenant) && covers(grant, directory, id, risk).is_some()
            }))
}

// === impl Question ===

impl Question<'_> {
    fn own_rule(&self) -> Result<String, Refusal> {
        let covering = self.party.capabilities.iter().find(|pattern| pattern.covers(self.capability_id));
        // as if it were not there: discovery does not show it either
        let pattern = covering.ok_or_else(|| Refusal::of(codes::CAPABILITY_UNKNOWN))?;
        if self.risk > self.party.risk_max {
            let message = format!("the capability's risk is {}, above what the caller may take", self.risk);
            return Err(Refusal::new(codes::POLICY_DENIED, "/body/action/capability_id", message));
        }
        Ok(format!("principal {}: {pattern}", self.party.principal.id))
    }

    /// A grant of the claimed principal that covers all of it.
    fn grant<'d>(
        &self,
        directory: &'d Directory,
        subject: &Principal,
    ) -> Option<(&'d Grant, &'d CapabilityPattern)> {
        let tenant = self.tenant?;
        directory
            .grants_to(&self.party.principal.id, self.now_ms)
            .filter(|grant| grant.principal == subject.id && grant.tenant == tenant)
            .find_map(|grant| Some((grant, covers(grant, directory, self.capability_id, self.risk)?)))
    }
}

/// The pattern by which a grant covers a capability. Nobody can grant what they may not do themselves.
fn covers<'d>(
    grant: &'d Grant,
    directory: &Directory,
    capability_id: &str,
    risk: RiskLevel,
) -> Option<&'d CapabilityPattern> {
    let grantor = directory.party(&grant.principal)?;
    let own = grantor.tenants.contains(&grant.tenant)
        && grantor.scopes.cover(INVOKE_SCOPE)
        && grantor.may_invoke(capability_id);
    let fits = own && risk <= grant.risk_max.min(grantor.risk_max) && grant.scopes.cover(INVOKE_SCOPE);
    let pattern = grant.capabilities.iter().find(|pattern| pattern.covers(capability_id))?;
    fits.then_some(pattern)
}

fn authority(grant: &Grant, directory: &Directory) -> Option<Authority> {
    let grantor = directory.party(&grant.principal)?;
    Some(Authority {
        principal: PrincipalRef::of(&grantor.principal),
        scopes: grantor.scopes.narrowed_to(&grant.scopes),
        expires_at_ms: grant.expires_at_ms,
    })
}

fn claims(claimed: Option<&IdentityContext>, granted: bool) -> Result<IdentityClaims, Refusal> {
    let Some(claimed) = claimed else { return Ok(IdentityClaims::default()) };
    let named = |member: &str, principal: Option<&Principal>| {
        let Some(principal) = principal else { return Ok(None) };
        short(&format!("/body/action/identity/{member}/id"), principal.id.as_str())?;
        Ok(Some(PrincipalRef::of(principal)))
    };
    if let Some(user) = &claimed.external_user {
        short("/body/action/identity/external_user/id", &user.id)?;
        short("/body/action/identity/external_user/system", &user.system)?;
    }
    Ok(IdentityClaims {
        human_actor: named("human_actor", claimed.human_actor.as_ref())?,
        service_account: named("service_account", claimed.service_account.as_ref())?,
        acted_on_behalf_of: match granted {
            true => None,
            false => named("acted_on_behalf_of", claimed.acted_on_behalf_of.as_ref())?,
        },
        external_user: claimed.external_user.clone(),
    })
}

fn denied() -> Refusal {
    Refusal::new(codes::POLICY_DENIED, "", "the caller is not known any more")
}
