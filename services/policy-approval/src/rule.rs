//! Whether an approval rule is met by those who have approved (12.1): a pure function of the rule, the principals and
//! an oracle that says who has which authority. Exact: where a principal may count only once, every way to let the
//! principals count is looked at.
//!
//! Each principal has one vote. A leaf is met by one principal who has its authority. `any` is met by one of its rules;
//! `all` by all of them, and `quorum` by as many as it wants, each by principals of its own; only `all` with
//! `allow_decision_reuse` and `quorum` without `distinct_principals` let one principal count for several of their
//! rules. Beyond that, as many principals as the policy wants have to have authority in the rule at all.

use std::collections::BTreeSet;

use aip_names::limits::APPROVAL_DECISIONS_MAX;
use aip_wire::{ApprovalPolicy, ApprovalRule, ApproverSelector, PrincipalId};

use aip_admission::approval::TENANT_POLICY_DEFAULT;

/// Which principals meet a rule together: a bit for each, in the order in which they are given.
type Voters = u16;

const _: () = assert!(APPROVAL_DECISIONS_MAX == Voters::BITS as usize);

/// How a rule stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    pub is_met: bool,
    /// Principals with authority in the rule, whether or not they were needed.
    pub distinct: usize,
    /// Each leaf of the rule, with those of the principals who have its authority.
    pub leaves: Vec<(ApprovalRule, Vec<PrincipalId>)>,
}

/// Judges `rule` by the first [`APPROVAL_DECISIONS_MAX`] principals; none may be there twice.
pub fn stand(
    rule: &ApprovalRule,
    minimum_distinct: u32,
    voters: &[PrincipalId],
    meets: &dyn Fn(&PrincipalId, &ApprovalRule) -> bool,
) -> Standing {
    let voters = voters.get(..APPROVAL_DECISIONS_MAX).unwrap_or(voters);
    let mut leaves = Vec::new();
    each_leaf(rule, &mut |leaf| {
        let by = voters.iter().filter(|voter| meets(voter, leaf)).cloned().collect();
        leaves.push((leaf.clone(), by));
    });
    let mut met_by = leaves.iter().map(|(_, by): &(ApprovalRule, Vec<PrincipalId>)| {
        let bit = |(place, voter)| if by.contains(voter) { Some((1 as Voters) << place) } else { None };
        voters.iter().enumerate().filter_map(bit).collect()
    });
    let is_supported = !supports(rule, &mut met_by).is_empty();
    let distinct = voters.iter().filter(|voter| leaves.iter().any(|(_, by)| by.contains(voter))).count();
    let enough = distinct >= usize::try_from(minimum_distinct).unwrap_or(usize::MAX);
    Standing { is_met: is_supported && enough, distinct, leaves }
}

/// The rule of a policy: its own, or its selector as the one leaf.
pub fn of_policy(policy: &ApprovalPolicy) -> ApprovalRule {
    policy.rule.clone().unwrap_or_else(|| leaf_of(&policy.approver_selector))
}

pub fn leaf_of(selector: &ApproverSelector) -> ApprovalRule {
    match selector.clone() {
        ApproverSelector::Principal { id } => ApprovalRule::Principal { id },
        ApproverSelector::Role { name } => ApprovalRule::Role { name },
        ApproverSelector::Group { name } => ApprovalRule::Group { name },
        ApproverSelector::TenantPolicy {} => {
            ApprovalRule::TenantPolicy { policy_id: TENANT_POLICY_DEFAULT.to_owned() }
        }
        ApproverSelector::ExternalSystem { system } => ApprovalRule::ExternalSystem { system },
    }
}

/// Calls `with` for every leaf, in the order in which they are written.
pub fn each_leaf<'r>(rule: &'r ApprovalRule, with: &mut dyn FnMut(&'r ApprovalRule)) {
    match children(rule) {
        Some(rules) => rules.iter().for_each(|rule| each_leaf(rule, with)),
        None => with(rule),
    }
}

fn children(rule: &ApprovalRule) -> Option<&[ApprovalRule]> {
    match rule {
        ApprovalRule::All { rules, .. }
        | ApprovalRule::Any { rules }
        | ApprovalRule::Quorum { rules, .. } => Some(rules),
        _ => None,
    }
}

/// The smallest sets of principals that meet the rule; `leaves` gives those of each leaf, in their order.
fn supports(rule: &ApprovalRule, leaves: &mut dyn Iterator<Item = BTreeSet<Voters>>) -> BTreeSet<Voters> {
    let Some(rules) = children(rule) else { return leaves.next().unwrap_or_default() };
    let rules: Vec<BTreeSet<Voters>> = rules.iter().map(|rule| supports(rule, leaves)).collect();
    match rule {
        ApprovalRule::All { allow_decision_reuse, .. } => chosen(&rules, rules.len(), *allow_decision_reuse),
        ApprovalRule::Quorum { required, distinct_principals, .. } => {
            chosen(&rules, usize::try_from(*required).unwrap_or(usize::MAX), !distinct_principals)
        }
        _ => smallest(rules.into_iter().flatten().collect()),
    }
}

/// The smallest sets that meet `wanted` of the rules; with `reuse` one principal may count for several.
fn chosen(rules: &[BTreeSet<Voters>], wanted: usize, reuse: bool) -> BTreeSet<Voters> {
    // by how many rules are met so far
    let mut met: Vec<BTreeSet<Voters>> = vec![BTreeSet::from([0])];
    for rule in rules {
        for count in (0..met.len()).rev() {
            let Some(before) = met.get(count) else { continue };
            let both = before.iter().flat_map(|one| rule.iter().map(move |other| (*one, *other)));
            let both = both.filter(|(one, other)| reuse || one & other == 0);
            let more: BTreeSet<Voters> = both.map(|(one, other)| one | other).collect();
            if met.len() == count + 1 {
                met.push(BTreeSet::new());
            }
            if let Some(next) = met.get_mut(count + 1) {
                next.extend(more);
                *next = smallest(std::mem::take(next));
            }
        }
    }
    met.into_iter().nth(wanted).unwrap_or_default()
}

/// Without the sets that hold another one: who meets a rule with fewer meets it with more.
fn smallest(sets: BTreeSet<Voters>) -> BTreeSet<Voters> {
    let mut by_size: Vec<Voters> = sets.into_iter().collect();
    by_size.sort_by_key(|set| set.count_ones());
    let mut kept: Vec<Voters> = Vec::new();
    for set in by_size {
        if !kept.iter().any(|small| small & set == *small) {
            kept.push(set);
        }
    }
    kept.into_iter().collect()
}

#[cfg(test)]
mod tests;
