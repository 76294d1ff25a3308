//! Whether an approval rule is met by those who have approved (12.1): a pure function of the rule, the principals and
//! an oracle that says who has which authority. Exact: where a principal may count only once, every way to let the
//! principals count is looked at.
//!
//! Each principal has one vote. A leaf is met by one principal who has its authority. `any` is met by one of its rules;
//! `all` by all of them, and `quorum` by as many as it wants, each by principals of its own; only `all` with
//! `allow_decision_reuse` and `quorum` without `distinct_principals` let one principal count for several of their
//! rules. Beyond that, as many principals as the policy wants have to have authority in the rule at all.

use std::collections::{BTreeMap, BTreeSet};

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
    let mut met: BTreeMap<usize, BTreeSet<Voters>> = BTreeMap::from([(0, BTreeSet::from([0]))]);
    for (place, rule) in rules.iter().enumerate() {
        let left = rules.len() - place - 1;
        for count in (0..wanted.min(place + 1)).rev() {
            // with so few, those that are left would not be enough
            if count + 1 + left < wanted {
                break;
            }
            let Some(before) = met.get(&count) else { continue };
            let both = before.iter().flat_map(|one| rule.iter().map(move |other| (*one, *other)));
            let both = both.filter(|(one, other)| reuse || one & other == 0);
            let mut more: BTreeSet<Voters> = both.map(|(one, other)| one | other).collect();
            more.extend(met.remove(&(count + 1)).unwrap_or_default());
            met.insert(count + 1, smallest(more));
        }
    }
    met.remove(&wanted).unwrap_or_default()
}

/// Without the sets that hold another one: who meets a rule with fewer meets it with more.
fn smallest(sets: BTreeSet<Voters>) -> BTreeSet<Voters> {
    let mut sizes = sets.iter().map(|set| set.count_ones());
    let first = sizes.next();
    if sizes.all(|size| Some(size) == first) {
        return sets;
    }
    // whether a set holds a smaller one of them, from the smallest sets on
    let mut holds = vec![false; usize::from(Voters::MAX) + 1];
    for set in 1..=Voters::MAX {
        let smaller = (0..Voters::BITS).map(|bit| 1 << bit).filter(|bit| set & bit != 0).map(|bit| set ^ bit);
        let mut known = smaller
            .map(|less| sets.contains(&less) || holds.get(usize::from(less)).is_some_and(|held| *held));
        let held = known.any(|known| known);
        if let Some(place) = holds.get_mut(usize::from(set)) {
            *place = held;
        }
    }
    sets.into_iter().filter(|set| !holds.get(usize::from(*set)).is_some_and(|held| *held)).collect()
}

#[cfg(test)]
mod tests;
