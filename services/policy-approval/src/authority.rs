//! Who may approve (12.1), said by somebody whom we trust and never by a payload: an interface, and the directory behind
//! it. What it says holds at one moment; it is asked again for each decision, about all who have decided.

use std::fmt::Debug;

use aip_admission::Directory;
use aip_kernel::Millis;
use aip_wire::{ApprovalPolicy, ApprovalRequest, ApprovalRule, CapabilityId, PrincipalId, RiskLevel};

use crate::rule;

/// Says who has which authority. A value, asked within a decision: it must not change while it is held.
pub trait Authorities: Debug + Send + Sync {
    /// By what `principal` meets a leaf of a rule about this; none when it does not.
    fn meets(&self, principal: &PrincipalId, leaf: &ApprovalRule, about: &About<'_>) -> Option<String>;
}

/// What a rule is judged about.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    pub tenant: Option<&'a str>,
    pub capability_id: &'a CapabilityId,
    pub risk: RiskLevel,
    pub governed_value: Option<u64>,
    /// Who may not decide, and so may not hand out authority to decide either.
    pub excluded: &'a [PrincipalId],
    pub now_ms: Millis,
}

/// Who is kept from deciding by the policy's separation of duties: who asked and on whose behalf, unless self-approval
/// is allowed and nothing stricter forbids it; who performs the action, if the policy says so.
pub fn excluded(request: &ApprovalRequest, policy: &ApprovalPolicy) -> Vec<PrincipalId> {
    let duties = &policy.separation_of_duties;
    let mut excluded = Vec::new();
    if duties.requester_must_differ || !duties.allow_self_approval {
        excluded.extend([request.requester.id.clone(), request.subject.id.clone()]);
    }
    if duties.operator_must_differ {
        excluded.extend(request.operator.as_ref().map(|operator| operator.id.clone()));
    }
    excluded
}

/// Whether a policy hands `principal` the authority of this leaf itself (12.1), still.
fn handed(policy: &ApprovalPolicy, principal: &PrincipalId, leaf: &ApprovalRule, now_ms: Millis) -> bool {
    let Some(given) = policy.delegated_authority.as_ref() else { return false };
    let holds =
        given.principal == *principal && given.expires_at.as_ref().is_none_or(|until| until.as_ms() > now_ms);
    let covers = match leaf {
        ApprovalRule::DelegatedAuthority { scope, .. } => given.scope.contains(scope),
        // without a rule the selector is all there is to stand in for
        _ => policy.rule.is_none(),
    };
    holds && covers
}

/// By what `principal` meets a leaf of this policy, itself being neither excluded nor unknown.
pub fn path(
    authorities: &dyn Authorities,
    policy: &ApprovalPolicy,
    principal: &PrincipalId,
    leaf: &ApprovalRule,
    about: &About<'_>,
) -> Option<String> {
    if about.excluded.contains(principal) {
        return None;
    }
    if handed(policy, principal, leaf, about.now_ms) && within(leaf, about) {
        let known = ApprovalRule::Principal { id: principal.clone() };
        return authorities.meets(principal, &known, about).map(|_| "policy:delegated".to_owned());
    }
    authorities.meets(principal, leaf, about)
}

/// The authorities of `principal` in a rule, as the decision's `authority_path` names them; empty for none.
pub fn paths(
    authorities: &dyn Authorities,
    policy: &ApprovalPolicy,
    rule_of: &ApprovalRule,
    principal: &PrincipalId,
    about: &About<'_>,
) -> Vec<String> {
    let mut paths = Vec::new();
    rule::each_leaf(rule_of, &mut |leaf| {
        paths.extend(path(authorities, policy, principal, leaf, about));
    });
    paths.sort();
    paths.dedup();
    paths
}

/// The bounds that a leaf of delegated authority has itself. What is not known is over every bound.
fn within(leaf: &ApprovalRule, about: &About<'_>) -> bool {
    let ApprovalRule::DelegatedAuthority { max_risk, max_value, .. } = leaf else { return true };
    max_risk.is_none_or(|most| about.risk <= most)
        && max_value.is_none_or(|most| about.governed_value.is_some_and(|value| value <= most))
}

impl Authorities for Directory {
    fn meets(&self, principal: &PrincipalId, leaf: &ApprovalRule, about: &About<'_>) -> Option<String> {
        let party = self.party(principal)?;
        // nobody decides in a tenant that they are not in
        if !about.tenant.is_none_or(|tenant| party.tenants.iter().any(|own| own == tenant)) {
            return None;
        }
        let when = |holds: bool, path: String| holds.then_some(path);
        match leaf {
            ApprovalRule::Principal { id } => when(id == principal, format!("principal:{id}")),
            ApprovalRule::Role { name } => when(party.roles.contains(name), format!("role:{name}")),
            ApprovalRule::Group { name } => when(party.groups.contains(name), format!("group:{name}")),
            ApprovalRule::ExternalSystem { system } => {
                when(party.external_systems.contains(system), format!("external_system:{system}"))
            }
            ApprovalRule::TenantPolicy { policy_id } => {
                let holds = self.meets_tenant_policy(party, about.tenant?, policy_id);
                when(holds, format!("tenant_policy:{policy_id}"))
            }
            ApprovalRule::DelegatedAuthority { scope, .. } => {
                let tenant = about.tenant?;
                let grant = self.grants_to(principal, about.now_ms).find(|grant| {
                    let capability = about.capability_id.as_str();
                    grant.tenant == tenant
                        && grant.scopes.cover(scope)
                        && grant.capabilities.iter().any(|pattern| pattern.covers(capability))
                        && about.risk <= grant.risk_max
                        && !about.excluded.contains(&grant.principal)
                        && self.party(&grant.principal).is_some_and(|from| from.scopes.cover(scope))
                });
                let grant = grant.filter(|_| within(leaf, about))?;
                Some(format!("delegated:{}:{scope}", grant.principal))
            }
            ApprovalRule::All { .. } | ApprovalRule::Any { .. } | ApprovalRule::Quorum { .. } => None,
        }
    }
}
