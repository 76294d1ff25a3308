//! Who may decide, what a decision does, and what others may see of it.

use aip_testkit::wait_for;
use serde_json::json;

use crate::world::*;

#[tokio::test(flavor = "multi_thread")]
async fn two_of_three_agree_on_any_of_three_replicas_and_it_is_done_once() {
    let world = World::with(two_of_three(), 3).await;
    let mut actions = Vec::new();
    for amount in 1..=5 {
        let action = pay(amount);
        let approval = world.ask(&action).await;
        world.view(&approval).await;
        actions.push((action, approval));
    }
    // all three decide at once, each by another gateway: two of them are the quorum, in whatever order
    for (_, approval) in &actions {
        let decided = tokio::join!(
            world.decide_at(0, "ann", approval, json!({})),
            world.decide_at(1, "bob", approval, json!({})),
            world.decide_at(2, "cay", approval, json!({})),
        );
        let taken = [decided.0, decided.1, decided.2].into_iter().filter(Result::is_ok).count();
        assert!(taken >= 2, "{taken}");
    }
    for (action, _) in &actions {
        assert_eq!(world.result(action).await["status"], "completed");
        assert_eq!(world.times(action), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_no_authority_or_asks_for_it_does_not_decide() {
    let world = World::new(two_of_three()).await;
    let action = pay(7);
    let approval = world.ask(&action).await;
    for (who, members, code) in [
        ("req", json!({}), "aip.approval.separation_of_duties"),
        ("req", json!({"decision": "denied"}), "aip.approval.separation_of_duties"),
        // hidden and absent are one answer
        ("eve", json!({}), "aip.approval.not_found"),
        ("zoe", json!({}), "aip.approval.not_found"),
        ("olga", json!({}), "aip.policy.scope_missing"),
        ("ann", json!({"approver": {"id": "human:bob", "kind": "human"}}), "aip.auth.claim_mismatch"),
        ("ann", json!({"policy_hash": "other"}), "aip.approval.policy_hash_mismatch"),
        ("ann", json!({"decision": "expired"}), "aip.approval.decision_not_taken"),
    ] {
        assert_eq!(world.refused(who, &approval, members).await, code, "{who}");
    }
    assert_eq!(world.approve("ann", &approval).await["status"], "pending");
    assert_eq!(world.status(&action).await["state"], "pending_approval");
    assert_eq!(world.times(&action), 0);
    assert_eq!(world.approve("bob", &approval).await["status"], "approved");
    assert_eq!(world.result(&action).await["output"]["paid"], 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_is_over_gives_no_authority() {
    let rule = json!({"operator": "delegated_authority", "scope": "payments:approve", "max_risk": "high"});
    let policy = json!({
        "required": true, "approver_selector": {"type": "principal", "id": "human:chief"}, "rule": rule,
    });
    let world = World::new(policy).await;
    let action = pay(1);
    let approval = world.ask(&action).await;
    assert_eq!(world.refused("dan", &approval, json!({})).await, "aip.approval.not_found");
    let view = world.approve("eve", &approval).await;
    assert_eq!(view["decision"]["authority_path"], json!(["delegated:human:chief:payments:approve"]));
    assert_eq!(world.result(&action).await["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn denied_and_revoked_are_ends_of_their_own_and_late_is_late() {
    let world = World::new(two_of_three()).await;
    let (denied, revoked, late) = (pay(1), pay(2), pay(3));
    let approval = world.ask(&denied).await;
    world.decide("cay", &approval, json!({"decision": "denied", "reason": "no"})).await.unwrap();
    assert_eq!(world.result(&denied).await["error"]["code"], "aip.policy.approval_denied");

    let approval = world.ask(&revoked).await;
    world.approve("ann", &approval).await;
    let taken_back =
        json!({"decision": "revoked", "decision_id": "r1", "target_decision_id": format!("ann-{approval}")});
    assert_eq!(world.decide("ann", &approval, taken_back).await.unwrap()["status"], "revoked");
    assert_eq!(world.result(&revoked).await["error"]["code"], "aip.policy.approval_revoked");
    assert_eq!((world.times(&denied), world.times(&revoked)), (0, 0));

    let approval = world.ask(&late).await;
    world.approve("ann", &approval).await;
    world.approve("bob", &approval).await;
    assert_eq!(world.result(&late).await["status"], "completed");
    let revocation = json!({"decision": "revoked", "decision_id": "r2"});
    assert_eq!(world.decide("bob", &approval, revocation).await.unwrap()["status"], "revoked");
    // what is done stays done
    assert_eq!(world.status(&late).await["state"], "completed");
    assert_eq!(world.times(&late), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn constraints_hold_on_the_input() {
    let world = World::new(by_role()).await;
    let constraint =
        |most: u64| json!({"constraints": [{"field": "amount", "operator": "lte", "value": most}]});
    let (small, large) = (pay(50), pay(51));
    for action in [&small, &large] {
        let approval = world.ask(action).await;
        let unknown = json!({"constraints": [{"field": "amount", "operator": "near", "value": 1}]});
        assert_eq!(world.refused("ann", &approval, unknown).await, "aip.approval.constraint_unsupported");
        world.decide("ann", &approval, constraint(50)).await.unwrap();
    }
    assert_eq!(world.result(&small).await["status"], "completed");
    assert_eq!(world.result(&large).await["error"]["code"], "aip.policy.approval_constraint");
    assert_eq!((world.times(&small), world.times(&large)), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_see_what_is_theirs_and_the_input_leaves_by_both_authorities_only() {
    let world = World::new(by_role()).await;
    let action = pay(9);
    let approval = world.ask(&action).await;
    world.view(&approval).await;
    for who in ["req", "ann", "olga"] {
        assert!(world.view_as(who, &approval).await.is_ok(), "{who}");
        assert_eq!(world.list(who, json!({})).await.as_slice(), std::slice::from_ref(&approval), "{who}");
    }
    for who in ["eve", "zoe"] {
        assert_eq!(
            world.view_as(who, &approval).await.unwrap_err()["code"],
            "aip.approval.not_found",
            "{who}"
        );
        assert!(world.list(who, json!({})).await.is_empty(), "{who}");
    }
    let waiting = json!({"status": "pending", "approver": "me"});
    assert_eq!(world.list("ann", waiting.clone()).await.as_slice(), std::slice::from_ref(&approval));
    assert!(
        world.list("req", waiting.clone()).await.is_empty(),
        "the requester has the role, and is excluded"
    );
    assert_eq!(world.evidence("ann", &approval).await.unwrap_err()["code"], "aip.policy.scope_missing");
    let payload = world.evidence("olga", &approval).await.unwrap();
    assert_eq!((&payload["input"], &payload["action_id"]), (&json!({"amount": 9}), &action["id"]));
    world.approve("ann", &approval).await;
    assert!(world.list("ann", waiting).await.is_empty());
    assert_eq!(world.list("ann", json!({"status": "approved"})).await, [approval]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_that_brings_an_approval_has_to_bring_the_one_that_stands() {
    let world = World::new(by_role()).await;
    let mut action = pay(4);
    let approval = world.ask(&action).await;
    let decided = world.approve("ann", &approval).await;
    assert_eq!(world.result(&action).await["status"], "completed");
    let brought = decided["decision"].clone();
    for (member, value) in [("decision_id", json!("made-up")), ("approval_id", json!("appr_other"))] {
        let mut forged = brought.clone();
        forged[member] = value;
        action["approval"] = forged;
        let reply = world.send(&action).await;
        assert_eq!(reply.envelope["body"]["error"]["error"]["code"], "aip.policy.approval_mismatch");
    }
    action["approval"] = brought.clone();
    let reply = world.send(&action).await;
    assert_eq!(reply.envelope["body"]["action_result"]["status"], "completed", "{}", reply.envelope);
    // for another action it is worth nothing
    let mut other = pay(4);
    other["approval"] = brought;
    let reply = world.send(&other).await;
    assert_eq!(reply.envelope["body"]["error"]["error"]["code"], "aip.policy.approval_mismatch");
    assert_eq!((world.times(&action), world.times(&other)), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_action_takes_its_approval_back() {
    let world = World::new(by_role()).await;
    let action = pay(4);
    let approval = world.ask(&action).await;
    world.view(&approval).await;
    world.cancel(&action).await;
    assert_eq!(world.result(&action).await["status"], "cancelled");
    wait_for("the approval to be withdrawn", SOON, || async {
        world.view(&approval).await["status"] == "withdrawn"
    })
    .await;
    assert_eq!(world.refused("ann", &approval, json!({})).await, "aip.approval.already_ended");
    assert_eq!(world.times(&action), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_decides_in_time() {
    let mut policy = by_role();
    policy["ttl_ms"] = json!(1_500);
    let world = World::new(policy).await;
    let action = pay(4);
    let approval = world.ask(&action).await;
    let result = world.result(&action).await;
    assert_eq!(result["error"]["code"], "aip.policy.approval_expired");
    assert_eq!(world.status(&action).await["state"], "expired");
    assert_eq!(world.refused("ann", &approval, json!({})).await, "aip.approval.expired");
}
