//! The evaluator against one that tries everything, and the cases that people argue about.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn id(name: &str) -> PrincipalId {
    PrincipalId::parse(name).unwrap()
}

fn rule(value: Value) -> ApprovalRule {
    serde_json::from_value(value).unwrap()
}

fn role(name: &str) -> Value {
    json!({"operator": "role", "name": name})
}

/// A principal `ab` has the roles a and b.
fn has(principal: &PrincipalId, leaf: &ApprovalRule) -> bool {
    match leaf {
        ApprovalRule::Role { name } => principal.as_str().contains(name.as_str()),
        ApprovalRule::Principal { id } => principal == id,
        _ => false,
    }
}

fn met(rule_of: Value, minimum: u32, voters: &[&str]) -> bool {
    let voters: Vec<PrincipalId> = voters.iter().map(|name| id(name)).collect();
    stand(&rule(rule_of), minimum, &voters, &has).is_met
}

#[test]
fn a_quorum_of_two_of_three_wants_two_principals() {
    let quorum = json!({"operator": "quorum", "required": 2, "rules": [role("a"), role("b"), role("c")]});
    for (voters, is_met) in [
        (&["a"][..], false),
        (&["a", "c"], true),
        (&["ab"], false),
        (&["ab", "b"], true),
        (&["abc", "x"], false),
        (&["a", "a2"], false),
    ] {
        assert_eq!(met(quorum.clone(), 1, voters), is_met, "{voters:?}");
    }
    let loose = json!({"operator": "quorum", "required": 2, "distinct_principals": false,
        "rules": [role("a"), role("b"), role("c")]});
    assert!(met(loose.clone(), 1, &["ab"]) && !met(loose, 2, &["ab"]));
}

#[test]
fn one_decision_counts_twice_only_where_reuse_is_allowed() {
    let all = |reuse: bool| json!({"operator": "all", "allow_decision_reuse": reuse, "rules": [role("a"), role("b")]});
    assert!(!met(all(false), 1, &["ab"]) && met(all(true), 1, &["ab"]));
    assert!(met(all(false), 1, &["ab", "b"]) && met(all(false), 1, &["ab", "a"]));
    // what an inner rule may use twice is still one principal to the outer one
    let nested = json!({"operator": "all", "rules": [all(true), role("c")]});
    assert!(!met(nested.clone(), 1, &["abc"]) && met(nested, 1, &["ab", "c"]));
}

#[test]
fn principals_without_authority_do_not_count_towards_the_minimum() {
    assert!(!met(role("a"), 2, &["a", "x"]) && met(role("a"), 2, &["a", "a2"]));
    assert!(!met(role("a"), 0, &[]));
    assert!(!met(json!({"operator": "any", "rules": [role("a"), role("b")]}), 1, &["x"]));
}

#[test]
fn the_largest_rule_with_the_most_voters_is_judged() {
    let leaves: Vec<Value> = (0..16).map(|_| role("a")).collect();
    let voters: Vec<String> = (0..16).map(|n| format!("a{n:x}")).collect();
    let all = json!({"operator": "all", "rules": leaves});
    let names: Vec<&str> = voters.iter().map(String::as_str).collect();
    assert!(met(all.clone(), 16, &names));
    assert!(!met(all, 1, &names[..15]));
    let half = json!({"operator": "quorum", "required": 8, "rules": leaves});
    assert!(met(half, 16, &names));
}

/// Tries every subset of the voters, and every way to hand them out to the rules.
fn by_force(rule: &ApprovalRule, voters: &[PrincipalId], minimum: u32) -> bool {
    let authorized = voters.iter().filter(|voter| {
        let mut any = false;
        each_leaf(rule, &mut |leaf| any |= has(voter, leaf));
        any
    });
    (0..1_u32 << voters.len()).any(|set| exactly(rule, set, voters)) && authorized.count() >= minimum as usize
}

/// Whether exactly the voters in `set` can meet the rule, each counting.
fn exactly(rule: &ApprovalRule, set: u32, voters: &[PrincipalId]) -> bool {
    match rule {
        ApprovalRule::Any { rules } => rules.iter().any(|rule| exactly(rule, set, voters)),
        ApprovalRule::All { rules, allow_decision_reuse } => {
            split(rules, rules.len(), *allow_decision_reuse, set, voters)
        }
        ApprovalRule::Quorum { required, rules, distinct_principals } => {
            split(rules, *required as usize, !distinct_principals, set, voters)
        }
        leaf => set.count_ones() == 1 && has(&voters[set.trailing_zeros() as usize], leaf),
    }
}

fn split(rules: &[ApprovalRule], wanted: usize, reuse: bool, set: u32, voters: &[PrincipalId]) -> bool {
    let Some((first, rest)) = rules.split_first() else { return wanted == 0 && set == 0 };
    if rules.len() < wanted {
        return false;
    }
    if split(rest, wanted, reuse, set, voters) {
        return true;
    }
    if wanted == 0 {
        return false;
    }
    let part_of = |part: u32| part & set == part;
    (0..1_u32 << voters.len()).filter(|part| part_of(*part)).any(|part| {
        if !exactly(first, part, voters) {
            return false;
        }
        match reuse {
            false => split(rest, wanted - 1, reuse, set & !part, voters),
            // the others may use any of these again
            true => (0..1_u32 << voters.len())
                .filter(|again| again & part == *again)
                .any(|again| split(rest, wanted - 1, reuse, set & !part | again, voters)),
        }
    })
}

fn rules() -> impl Strategy<Value = ApprovalRule> {
    let leaf = prop_oneof![
        Just(rule(role("a"))),
        Just(rule(role("b"))),
        Just(rule(role("c"))),
        Just(ApprovalRule::Principal { id: id("ab") }),
    ];
    leaf.prop_recursive(3, 9, 3, |inner| {
        let rules = proptest::collection::vec(inner, 1..=3);
        prop_oneof![
            (rules.clone(), any::<bool>())
                .prop_map(|(rules, reuse)| ApprovalRule::All { rules, allow_decision_reuse: reuse }),
            rules.clone().prop_map(|rules| ApprovalRule::Any { rules }),
            (rules, any::<bool>(), 1_u32..=3).prop_map(|(rules, distinct, required)| {
                let required = required.min(u32::try_from(rules.len()).unwrap());
                ApprovalRule::Quorum { required, rules, distinct_principals: distinct }
            }),
        ]
    })
}

fn voters() -> impl Strategy<Value = Vec<PrincipalId>> {
    let names = ["a", "b", "c", "ab", "bc", "abc", "x"].map(id).to_vec();
    proptest::sample::subsequence(names, 0..=4)
}

proptest! {
    #[test]
    fn the_evaluator_agrees_with_trying_everything(rule in rules(), voters in voters(), minimum in 0_u32..4) {
        let judged = stand(&rule, minimum, &voters, &has).is_met;
        prop_assert_eq!(judged, by_force(&rule, &voters, minimum), "{:?} by {:?}", rule, voters);
    }

    #[test]
    fn another_approver_never_unmeets_a_rule(rule in rules(), voters in voters(), minimum in 0_u32..4) {
        let fewer = voters.get(1..).unwrap_or_default();
        if stand(&rule, minimum, fewer, &has).is_met {
            prop_assert!(stand(&rule, minimum, &voters, &has).is_met);
        }
    }

    #[test]
    fn the_order_of_approvers_does_not_matter(rule in rules(), voters in voters(), minimum in 0_u32..4) {
        let mut other: Vec<PrincipalId> = voters.clone();
        other.reverse();
        prop_assert_eq!(
            stand(&rule, minimum, &voters, &has).is_met,
            stand(&rule, minimum, &other, &has).is_met
        );
    }
}
