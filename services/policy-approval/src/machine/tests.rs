//! The machine by itself, on a ledger in memory.

mod env;

use aip_admission::directory::{EscalationConfig, EscalationStep};
use aip_kernel::Millis;
use aip_wire::{ApprovalConstraint, ApproverSelector, EvidenceArtifact, codes};
use serde_json::json;

use super::*;
use env::{Env, MINUTE};

fn role(name: &str) -> serde_json::Value {
    json!({"operator": "role", "name": name})
}

fn two_of_three() -> serde_json::Value {
    json!({"operator": "quorum", "required": 2, "rules": [role("approver"), role("approver"), role("approver")]})
}

#[test]
fn a_quorum_is_met_by_two_and_told_once() {
    let mut env = Env::asked(json!({"rule": two_of_three()}));
    env.approve("human:ann", "d1").unwrap();
    assert_eq!(env.state().status, Status::Pending);
    assert!(!env.has_effect(&Effect::Tell));
    env.approve("human:bob", "d2").unwrap();
    assert_eq!(env.state().status, Status::Approved);
    assert!(env.has_effect(&Effect::Tell));
    let decision = env.state().decision().unwrap();
    assert_eq!(decision.authority_path, ["role:approver"]);
    assert_eq!(env.refused_code(env.approval("human:cay", "d3")), codes::APPROVAL_ENDED);
    env.told(Verdict::Taken);
    assert!(!env.has_effect(&Effect::Tell));
    env.check();
}

#[test]
fn the_same_decision_twice_is_one_and_another_under_its_id_is_refused() {
    let mut env = Env::asked(json!({"rule": two_of_three()}));
    assert_eq!(env.approve("human:ann", "d1"), Ok(Answer::Recorded));
    assert_eq!(env.approve("human:ann", "d1"), Ok(Answer::Nothing));
    assert_eq!(env.refused_code(env.approval("human:ann", "d2")), codes::APPROVAL_DECIDED);
    assert_eq!(env.refused_code(env.approval("human:bob", "d1")), codes::APPROVAL_DECISION_CONFLICT);
    let mut other = env.approval("human:ann", "d1");
    other.decision.reason = Some("another reason".to_owned());
    assert_eq!(env.refused_code(other), codes::APPROVAL_DECISION_CONFLICT);
    env.approve("human:bob", "d2").unwrap();
    // a repetition is answered as before, also after the end
    assert_eq!(env.approve("human:ann", "d1"), Ok(Answer::Nothing));
    assert_eq!(env.state().approvals.len(), 2);
}

#[test]
fn whoever_has_no_authority_decides_nothing() {
    let mut env = Env::asked(json!({"rule": two_of_three()}));
    assert_eq!(env.refused_code(env.approval("human:eve", "d1")), codes::APPROVAL_NOT_APPROVER);
    let mut spoofed = env.approval("human:ann", "d1");
    spoofed.by = env::principal("human:eve");
    assert_eq!(env.refused_code(spoofed), codes::AUTH_CLAIM);
    // an authority that the decision names itself is no authority
    let mut claimed = env.approval("human:eve", "d1");
    claimed.decision.authority_path = vec!["role:approver".to_owned()];
    assert_eq!(env.refused_code(claimed), codes::APPROVAL_NOT_APPROVER);
    assert_eq!(env.state().approvals.len(), 0);
}

#[test]
fn duties_are_separated() {
    // the requester is an approver by role and must not use it
    let mut env = Env::asked(json!({"rule": role("approver")}));
    env.give("agent:req", "approver");
    assert_eq!(env.refused_code(env.approval("agent:req", "d1")), codes::APPROVAL_DUTIES);
    let mut env = Env::asked(json!({
        "rule": role("approver"), "separation_of_duties": {"allow_self_approval": true, "operator_must_differ": true},
    }));
    env.give("agent:req", "approver");
    env.give("service:worker", "approver");
    assert_eq!(env.refused_code(env.approval("service:worker", "d1")), codes::APPROVAL_DUTIES);
    let denial = env.denial("agent:req", "d2");
    assert_eq!(env.refused_code(denial), codes::APPROVAL_DUTIES, "a requester ended its own request");
    env.approve("agent:req", "d3").unwrap();
    assert_eq!(env.state().status, Status::Approved);
    let mut env = Env::asked(json!({
        "rule": role("approver"), "separation_of_duties": {"allow_self_approval": true, "requester_must_differ": true},
    }));
    env.give("agent:req", "approver");
    assert_eq!(env.refused_code(env.approval("agent:req", "d1")), codes::APPROVAL_DUTIES);
}

#[test]
fn an_authority_that_is_gone_when_the_quorum_comes_does_not_count() {
    let mut env = Env::asked(json!({"rule": two_of_three()}));
    env.approve("human:ann", "d1").unwrap();
    env.take("human:ann", "approver");
    env.approve("human:bob", "d2").unwrap();
    assert_eq!(env.state().status, Status::Pending);
    env.approve("human:cay", "d3").unwrap();
    assert_eq!(env.state().status, Status::Approved);
}

#[test]
fn denied_expired_and_revoked_are_ends_of_their_own() {
    let mut env = Env::asked(json!({}));
    let denial = env.denial("human:ann", "d1");
    env.take_decision(denial).unwrap();
    assert_eq!(env.state().status, Status::Denied);
    assert_eq!(env.last_receipt(), "approval_denied");

    let mut env = Env::asked(json!({}));
    env.later(11 * MINUTE);
    assert_eq!(env.refused_code(env.approval("human:ann", "d1")), codes::APPROVAL_EXPIRED);
    env.fire();
    assert_eq!(env.state().status, Status::Expired);
    assert_eq!(env.last_receipt(), "approval_expired");
    assert_eq!(env.refused_code(env.approval("human:ann", "d1")), codes::APPROVAL_EXPIRED);

    let mut env = Env::asked(json!({}));
    env.approve("human:ann", "d1").unwrap();
    let mut wrong = env.revocation("human:bob", "r0");
    wrong.decision.target_decision_id = Some("d9".to_owned());
    assert_eq!(env.refused_code(wrong), codes::APPROVAL_TARGET);
    // who lost the authority can still take back what they said
    env.take("human:ann", "approver");
    let revocation = env.revocation("human:ann", "r1");
    env.take_decision(revocation).unwrap();
    assert_eq!(env.state().status, Status::Revoked);
    assert_eq!(env.last_receipt(), "approval_revoked");
    assert_eq!(env.refused_code(env.approval("human:bob", "d2")), codes::APPROVAL_ENDED);
    env.check();
    let expired = env.kind("human:bob", "x", aip_wire::ApprovalDecisionKind::Expired);
    assert_eq!(env.refused_code(expired), codes::APPROVAL_KIND);
}

#[test]
fn what_is_approved_has_to_be_what_was_asked() {
    let mut env = Env::asked(json!({}));
    for hash in [None, Some("another".to_owned())] {
        let mut decision = env.approval("human:ann", "d1");
        decision.decision.policy_hash = hash;
        assert_eq!(env.refused_code(decision), codes::APPROVAL_HASH);
    }
    // a request whose hash is not of its policy and subject is not taken
    let mut request = env::request(json!({}));
    request.governed.input_hash = "another".to_owned();
    assert_eq!(env.ask_refused(request), codes::APPROVAL_REQUEST_CONFLICT);
    let mut request = env::request(json!({}));
    request.request.id = ApprovalId::opaque("appr_other");
    assert_eq!(env.ask_refused(request), codes::APPROVAL_HASH, "without the input");
}

#[test]
fn constraints_and_evidence_are_judged_with_the_decision() {
    let mut env =
        Env::asked(json!({"evidence_requirements": ["reason", "external_ticket", "input_snapshot"]}));
    assert_eq!(env.refused_code(env.approval("human:ann", "d1")), codes::APPROVAL_EVIDENCE_MISSING);
    let artifact = |kind: &str, uri: &str| EvidenceArtifact {
        id: "e1".to_owned(),
        kind: kind.to_owned(),
        uri: Some(uri.to_owned()),
        hash: None,
        redacted: false,
    };
    let with = |env: &Env, evidence: EvidenceArtifact| {
        let mut decision = env.approval("human:ann", "d1");
        decision.decision.reason = Some("checked".to_owned());
        decision.decision.evidence = vec![evidence];
        decision
    };
    for secret in [
        artifact("secret", "https://vault.example/1"),
        artifact("db_password", "https://vault.example/1"),
        artifact("external_ticket", "https://ann:pw@tickets.example/1"),
        artifact("external_ticket", "data:text/plain,pw"),
    ] {
        assert_eq!(env.refused_code(with(&env, secret)), codes::APPROVAL_EVIDENCE_SECRET);
    }
    let mut unknown = with(&env, artifact("external_ticket", "https://tickets.example/1"));
    unknown.decision.constraints =
        vec![ApprovalConstraint { field: "a".to_owned(), operator: "matches".to_owned(), value: json!(1) }];
    assert_eq!(env.refused_code(unknown), codes::APPROVAL_CONSTRAINT);
    let good = with(&env, artifact("external_ticket", "https://tickets.example/1"));
    env.take_decision(good).unwrap();
    assert_eq!(env.state().status, Status::Approved);
}

#[test]
fn everybodys_constraints_stand() {
    let mut env = Env::asked(json!({"rule": two_of_three()}));
    for (who, id, most) in [("human:ann", "d1", 100), ("human:bob", "d2", 50)] {
        let mut decision = env.approval(who, id);
        let value = json!(most);
        decision.decision.constraints =
            vec![ApprovalConstraint { field: "amount".to_owned(), operator: "lte".to_owned(), value }];
        env.take_decision(decision).unwrap();
    }
    assert_eq!(env.state().decision().unwrap().constraints.len(), 2);
}

fn ladder(steps: Vec<(Millis, EscalationStep)>) -> Vec<EscalationConfig> {
    steps.into_iter().map(|(after_ms, step)| EscalationConfig { after_ms, step }).collect()
}

#[test]
fn the_ladder_reminds_reassigns_escalates_and_expires_and_never_approves() {
    let chief = || ApproverSelector::Role { name: "chief".to_owned() };
    let officer = || ApproverSelector::Role { name: "officer".to_owned() };
    let mut request = env::request(json!({}));
    request.ladder = ladder(vec![
        (MINUTE, EscalationStep::Remind),
        (2 * MINUTE, EscalationStep::Reassign(chief())),
        (3 * MINUTE, EscalationStep::Escalate(officer())),
        (5 * MINUTE, EscalationStep::Expire),
    ]);
    let mut env = Env::with(request);
    env.give("human:bob", "chief");
    env.give("human:cay", "officer");
    env.later(MINUTE);
    env.fire();
    assert!(env.has_notice("aip.approval.reminded"));
    assert!(env.waits_for(&role("approver")));
    env.later(MINUTE);
    env.fire();
    assert!(env.waits_for(&role("chief")) && !env.waits_for(&role("approver")));
    assert_eq!(env.refused_code(env.approval("human:ann", "d1")), codes::APPROVAL_NOT_APPROVER);
    assert_eq!(env.refused_code(env.approval("human:cay", "d1")), codes::APPROVAL_NOT_APPROVER);
    env.later(MINUTE);
    env.fire();
    assert!(env.waits_for(&role("chief")) && env.waits_for(&role("officer")));
    env.later(2 * MINUTE);
    env.fire();
    assert_eq!((env.state().status, env.state().steps), (Status::Expired, 4));
    assert!(!env.waits_for(&role("chief")));
    env.check();
}

#[test]
fn a_composed_rule_is_not_weakened_by_the_ladder() {
    let mut request = env::request(json!({"rule": two_of_three()}));
    let officer = ApproverSelector::Role { name: "officer".to_owned() };
    request.ladder = ladder(vec![(MINUTE, EscalationStep::Escalate(officer))]);
    let mut env = Env::with(request);
    env.give("human:dan", "officer");
    env.later(MINUTE);
    env.fire();
    assert!(env.waits_for(&role("officer")), "is told");
    assert_eq!(env.refused_code(env.approval("human:dan", "d1")), codes::APPROVAL_NOT_APPROVER);
}

#[test]
fn a_withdrawn_approval_takes_no_decision_and_tells_nobody() {
    let mut env = Env::asked(json!({}));
    env.withdraw();
    assert_eq!(env.state().status, Status::Withdrawn);
    assert_eq!(env.refused_code(env.approval("human:ann", "d1")), codes::APPROVAL_ENDED);
    assert!(!env.has_effect(&Effect::Tell));
    env.check();
}

#[test]
fn a_request_twice_is_one_approval() {
    let mut env = Env::asked(json!({}));
    assert_eq!(env.ask(env::request(json!({}))), Answer::Nothing);
    env.check();
}
