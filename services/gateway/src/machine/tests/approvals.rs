//! An action that waits for an approval: what may follow, and what may not.

use proptest::prelude::*;
use serde_json::json;

use aip_kernel::EffectMode;
use aip_wire::{
    ActionLifecycleState as Lifecycle, ApprovalDecision, ApprovalDecisionKind as Kind, ApprovalId,
    ApprovalRequest, MessageId, Timestamp, codes,
};

use super::env::*;
use crate::errors;
use crate::machine::approval::{Check, Pending, Resolve, Resolved};
use crate::machine::cancel::Cancel;
use crate::machine::settle::Outcome;
use crate::machine::{Answer, Command, Effect, GatewayMachine, Refusal};

fn request(approval: &str, until: u64) -> Box<ApprovalRequest> {
    let human = json!({"id": "svc:client", "kind": "service"});
    let request = json!({
        "id": approval, "action_id": "act_1", "capability_id": "cap:book", "requester": human, "subject": human,
        "approver_selector": {"type": "role", "name": "approver"}, "reason": "because", "policy_hash": "hash",
        "expires_at": Timestamp::from_ms(until),
    });
    Box::new(serde_json::from_value(request).unwrap())
}

fn decision(approval: &str, kind: Kind) -> ApprovalDecision {
    let decision = json!({
        "approval_id": approval, "decision": kind, "approver": {"id": "human:ann", "kind": "human"},
        "decided_at": Timestamp::from_ms(START), "decision_id": "d1", "policy_hash": "hash",
    });
    serde_json::from_value(decision).unwrap()
}

/// A mutation that waits for `appr_1`; synchronous or not.
fn waiting(mode: &str) -> Env {
    let mut env = Env::new();
    let mut admit = env.admission("act_1");
    admit.action.mode = Some(serde_json::from_value(json!(mode)).unwrap());
    admit.approval = Some(request("appr_1", START + TIMEOUT_MS / 2));
    assert_eq!(env.admit(admit), Answer::Admitted);
    env
}

fn resolve(env: &mut Env, approval: &str, kind: Kind, check: Option<Check>) -> Answer {
    let resolve = Resolve {
        action: aip_wire::ActionId::opaque("act_1"),
        resolved: Resolved {
            approval: ApprovalId::opaque(approval),
            kind,
            decision: Some(Box::new(decision(approval, kind))),
            receipt: None,
        },
        check,
    };
    env.apply(Command::Resolve(Box::new(resolve)))
}

fn effects(env: &Env) -> Vec<Effect> {
    env.memory.effects().map(|(_, effect, _)| effect.clone()).collect()
}

fn cancel(env: &mut Env) -> Answer {
    let cancel = Cancel {
        by: actor("svc:client"),
        action: aip_wire::ActionId::opaque("act_1"),
        reason: None,
        message_id: MessageId::opaque("msg_c"),
        replay: None,
    };
    env.apply(Command::Cancel(Box::new(cancel)))
}

#[test]
fn it_waits_and_asks_and_goes_on_once() {
    let mut env = waiting("sync");
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::PendingApproval);
    assert_eq!(effects(&env), [Effect::AskApproval]);
    let asked = || Command::ApprovalAsked { action: "act_1".into(), approval: ApprovalId::opaque("appr_1") };
    assert_eq!(env.apply(asked()), Answer::Recorded);
    assert!(effects(&env).is_empty());
    assert_eq!(resolve(&mut env, "appr_1", Kind::Approved, Some(Check::Stands)), Answer::Recorded);
    assert_eq!(env.effect().1, 1);
    // told again, or by another replica at the same time
    assert_eq!(resolve(&mut env, "appr_1", Kind::Approved, Some(Check::Stands)), Answer::Nothing);
    assert_eq!(env.action("act_1").attempt, 1);
    env.settle(Outcome::Answered(Box::new(completed("act_1"))));
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Completed);
    assert!(env.memory.same(&env.memory.replay(GatewayMachine).unwrap()));
}

#[test]
fn nothing_goes_on_without_a_comparison_or_by_another_approval() {
    let mut env = waiting("async");
    assert_eq!(resolve(&mut env, "appr_1", Kind::Approved, None), Answer::Nothing);
    assert_eq!(resolve(&mut env, "appr_2", Kind::Approved, Some(Check::Stands)), Answer::Nothing);
    assert_eq!(env.action("act_1").attempt, 0);
    assert_eq!(resolve(&mut env, "appr_1", Kind::Approved, Some(Check::Stands)), Answer::Recorded);
    assert_eq!(effects(&env), [Effect::Enqueue { attempt: 1 }]);
}

#[test]
fn denied_revoked_and_expired_are_ends_of_their_own() {
    for (kind, lifecycle, code) in [
        (Kind::Denied, Lifecycle::Failed, codes::POLICY_APPROVAL_DENIED),
        (Kind::Revoked, Lifecycle::Failed, codes::POLICY_APPROVAL_REVOKED),
        (Kind::Expired, Lifecycle::Expired, codes::POLICY_APPROVAL_EXPIRED),
    ] {
        let mut env = waiting("sync");
        assert_eq!(resolve(&mut env, "appr_1", kind, None), Answer::Recorded);
        assert_eq!((env.action("act_1").lifecycle, env.code("act_1").as_str()), (lifecycle, code.name));
        assert!(effects(&env).is_empty());
        assert_eq!(resolve(&mut env, "appr_1", Kind::Approved, Some(Check::Stands)), Answer::Nothing);
        assert_eq!(env.action("act_1").attempt, 0);
    }
    // approved in time and heard of too late
    let mut env = waiting("sync");
    env.now += TIMEOUT_MS / 2;
    assert_eq!(resolve(&mut env, "appr_1", Kind::Approved, Some(Check::Stands)), Answer::Recorded);
    assert_eq!(env.code("act_1"), codes::POLICY_APPROVAL_EXPIRED.name);
}

#[test]
fn what_changed_is_asked_for_again_with_the_code_that_says_why() {
    let mut env = waiting("sync");
    let pending = Pending {
        request: request("appr_2", START + TIMEOUT_MS),
        pinned: None,
        stale: Some(codes::APPROVAL_CONTRACT_CHANGED.name.to_owned()),
    };
    let stale = || Some(Check::Stale(Box::new(pending.clone())));
    assert_eq!(resolve(&mut env, "appr_1", Kind::Approved, stale()), Answer::Recorded);
    let approving = env.action("act_1").approval.unwrap();
    assert_eq!((approving.request.id.as_str(), approving.round), ("appr_2", 2));
    assert_eq!(approving.stale[0].1, codes::APPROVAL_CONTRACT_CHANGED.name);
    assert_eq!(effects(&env), [Effect::AskApproval]);
    // the first one is worth nothing any more, whatever is said of it
    for kind in [Kind::Approved, Kind::Denied, Kind::Revoked] {
        assert_eq!(resolve(&mut env, "appr_1", kind, Some(Check::Stands)), Answer::Nothing);
    }
    assert_eq!(resolve(&mut env, "appr_2", Kind::Approved, Some(Check::Stands)), Answer::Recorded);
    assert_eq!(env.action("act_1").attempt, 1);
    let fails = || Some(Check::Fails(Box::new(errors::of(codes::POLICY_APPROVAL_CONSTRAINT))));
    let mut env = waiting("sync");
    assert_eq!(resolve(&mut env, "appr_1", Kind::Approved, fails()), Answer::Recorded);
    assert_eq!(env.code("act_1"), codes::POLICY_APPROVAL_CONSTRAINT.name);
}

#[test]
fn a_contract_that_is_gone_when_the_log_judges_is_compared_again() {
    let mut env = waiting("sync");
    let gone = worker_manifest(vec![capability("cap:other", json!({}))]);
    let mut register = env.registration(gone);
    register.withdraw = env.manifests().rows.iter().map(|row| row.key.contract_hash.clone()).collect();
    env.apply(Command::RegisterManifest(Box::new(register)));
    let answer = resolve(&mut env, "appr_1", Kind::Approved, Some(Check::Stands));
    assert_eq!(answer, Answer::Refused(Refusal::CapabilityChanged));
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::PendingApproval);
}

#[test]
fn a_revocation_stops_what_nobody_began_and_is_noted_late_for_what_was() {
    let mut env = waiting("async");
    resolve(&mut env, "appr_1", Kind::Approved, Some(Check::Stands));
    assert_eq!(resolve(&mut env, "appr_1", Kind::Revoked, None), Answer::Recorded);
    assert_eq!(env.code("act_1"), codes::POLICY_APPROVAL_REVOKED.name);
    let mut env = waiting("sync");
    resolve(&mut env, "appr_1", Kind::Approved, Some(Check::Stands));
    assert_eq!(resolve(&mut env, "appr_1", Kind::Revoked, None), Answer::Nothing);
    assert!(env.action("act_1").approval.unwrap().revoked_late);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Running);
    env.settle(Outcome::Answered(Box::new(completed("act_1"))));
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Completed);
}

#[test]
fn an_action_that_ends_while_it_waits_takes_its_approval_back() {
    let mut cancelled = waiting("sync");
    assert_eq!(cancel(&mut cancelled), Answer::Recorded);
    let mut late = waiting("sync");
    late.advance(TIMEOUT_MS);
    for (env, lifecycle) in [(&mut cancelled, Lifecycle::Cancelled), (&mut late, Lifecycle::Expired)] {
        assert_eq!(env.action("act_1").lifecycle, lifecycle);
        assert_eq!(effects(env), [Effect::WithdrawApproval]);
        let effect = env.memory.effects().next().unwrap().0.clone();
        assert_eq!(env.apply(Command::ApprovalWithdrawn { effect }), Answer::Recorded);
        assert!(effects(env).is_empty());
        assert_eq!(resolve(env, "appr_1", Kind::Approved, Some(Check::Stands)), Answer::Nothing);
    }
}

#[test]
fn an_approval_that_comes_with_the_action_has_to_be_the_one_that_stands() {
    let mut env = waiting("sync");
    let bring = |env: &Env, decision: ApprovalDecision| {
        let mut admit = env.admission("act_1");
        admit.action.approval = Some(decision);
        admit
    };
    let mismatch = Answer::Refused(Refusal::ApprovalMismatch);
    let admit = bring(&env, decision("appr_1", Kind::Approved));
    assert_eq!(env.admit(admit), mismatch, "nobody has approved it yet");
    resolve(&mut env, "appr_1", Kind::Approved, Some(Check::Stands));
    let admit = bring(&env, decision("appr_1", Kind::Approved));
    assert!(matches!(env.admit(admit), Answer::Duplicate { .. }));
    let mut forged = decision("appr_1", Kind::Approved);
    forged.decision_id = Some("d2".to_owned());
    let admit = bring(&env, forged);
    assert_eq!(env.admit(admit), mismatch);
    let mut other = env.admission("act_2");
    other.action.approval = Some(decision("appr_1", Kind::Approved));
    assert_eq!(env.admit(other), mismatch);
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Approve(bool),
    Deny,
    Revoke,
    Expire,
    Cancel,
    Wait(u64),
    Stale,
    Answer,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        any::<bool>().prop_map(Step::Approve),
        Just(Step::Deny),
        Just(Step::Revoke),
        Just(Step::Expire),
        Just(Step::Cancel),
        (0..TIMEOUT_MS / 2).prop_map(Step::Wait),
        Just(Step::Stale),
        Just(Step::Answer),
    ];
    proptest::collection::vec(step, 1..12)
}

proptest! {
    /// Whatever comes in whatever order: nothing is dispatched that was not approved and compared, and never twice.
    #[test]
    fn no_order_of_events_dispatches_unapproved_or_twice(steps in steps(), queued in any::<bool>()) {
        let mut env = waiting(if queued { "async" } else { "sync" });
        let mut approved = false;
        let mut round = 1;
        for step in steps {
            let id = format!("appr_{round}");
            match step {
                Step::Approve(stands) => {
                    let check = stands.then_some(Check::Stands);
                    let answer = resolve(&mut env, &id, Kind::Approved, check);
                    approved |= stands && answer == Answer::Recorded;
                }
                Step::Deny => drop(resolve(&mut env, &id, Kind::Denied, None)),
                Step::Revoke => drop(resolve(&mut env, &id, Kind::Revoked, None)),
                Step::Expire => drop(resolve(&mut env, &id, Kind::Expired, None)),
                Step::Cancel => drop(cancel(&mut env)),
                Step::Wait(ms) => env.advance(ms),
                Step::Stale => {
                    let request = request(&format!("appr_{}", round + 1), START + TIMEOUT_MS);
                    let stale = Some(codes::APPROVAL_POLICY_CHANGED.name.to_owned());
                    let pending = Box::new(Pending { request, pinned: None, stale });
                    let answer = resolve(&mut env, &id, Kind::Approved, Some(Check::Stale(pending)));
                    let moved = env.action("act_1").approval.unwrap().round;
                    prop_assert!(moved == round || answer == Answer::Recorded);
                    round = moved;
                }
                Step::Answer if !queued && env.action("act_1").is_running() => {
                    env.settle(Outcome::Answered(Box::new(completed("act_1"))));
                }
                Step::Answer => {}
            }
            let state = env.action("act_1");
            prop_assert!(state.attempt <= 1, "dispatched {} times", state.attempt);
            prop_assert!(state.attempt == 0 || approved, "dispatched without an approval");
            let once = env.memory.effects().filter(|(_, effect, mode)| {
                matches!(effect, Effect::Dispatch { .. }) && *mode == EffectMode::Once
            });
            prop_assert!(once.count() <= 1);
        }
        prop_assert!(env.memory.same(&env.memory.replay(GatewayMachine).unwrap()));
    }
}
