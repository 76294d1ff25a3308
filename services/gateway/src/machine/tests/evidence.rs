use aip_crypto::receipt::verify_chain;
use aip_kernel::{EffectMode, View};
use aip_wire::{ReceiptType, codes};
use serde_json::json;
use std::ops::Bound;

use super::env::*;
use crate::machine::settle::{Lost, NotDone, Outcome};
use crate::machine::{audit, keys, receipts, stamp};

fn chain(env: &Env, id: &str) -> aip_wire::ReceiptChain {
    let past = env.memory.history(&keys::action(id), 1, 100).unwrap();
    receipts::chain(&past, &env.action(id)).unwrap()
}

fn types(env: &Env, id: &str) -> Vec<ReceiptType> {
    chain(env, id).receipts.iter().map(|receipt| receipt.receipt_type).collect()
}

const ADMISSION: [ReceiptType; 3] =
    [ReceiptType::RequestReceived, ReceiptType::PolicyDecision, ReceiptType::ActionAccepted];

#[test]
fn every_end_has_its_receipts_and_the_chain_verifies() {
    let executed = [ReceiptType::ToolExecuted, ReceiptType::ResultReturned];
    let returned = [ReceiptType::ResultReturned];
    let stories: [(Outcome, &[ReceiptType]); 5] = [
        (Outcome::Answered(Box::new(completed("act_1"))), &executed),
        (Outcome::Answered(Box::new(failed("act_1", worker_error()))), &executed),
        (Outcome::Rejected(Box::new(worker_error())), &returned),
        (Outcome::Lost(Lost::NoAnswer), &returned),
        (Outcome::BadOutput { path: "".into() }, &executed),
    ];
    for (outcome, end) in stories {
        let mut env = Env::running("act_1", true, EffectMode::Once);
        assert_eq!(types(&env, "act_1"), ADMISSION);
        env.settle(outcome);
        assert_eq!(types(&env, "act_1"), [&ADMISSION, end].concat());
        let chain = serde_json::to_value(chain(&env, "act_1")).unwrap();
        assert_eq!(verify_chain(&chain).unwrap().receipts, u64::from(env.action("act_1").receipts.count));
        let last = chain["receipts"].as_array().unwrap().last().unwrap();
        let head = env.action("act_1").receipts.head.unwrap();
        assert_eq!((&last["hash"], &last["id"]), (&json!(head.hash), &json!(head.id)));
    }
}

#[test]
fn receipts_hold_no_payload() {
    let mut env = Env::new();
    let mut admit = env.admission("act_1");
    admit.action.input = json!({"secret": "swordfish"});
    admit.context.trace.trace_id = Some("swordfish".into());
    env.admit(admit);
    let mut result = completed("act_1");
    result.output = Some(json!({"secret": "swordfish"}));
    env.settle(Outcome::Answered(Box::new(result)));
    assert!(!serde_json::to_string(&chain(&env, "act_1")).unwrap().contains("swordfish"));
    let gateway = actor("svc:gateway");
    for past in env.memory.history(&keys::action("act_1"), 1, 10).unwrap() {
        let events = audit::events(&past, &gateway);
        assert!(!serde_json::to_string(&events).unwrap().contains("swordfish"));
    }
}

#[test]
fn a_history_that_does_not_lead_to_the_state_is_found() {
    let mut env = Env::running("act_1", true, EffectMode::Once);
    env.settle(Outcome::Answered(Box::new(completed("act_1"))));
    let past = env.memory.history(&keys::action("act_1"), 1, 100).unwrap();
    assert!(receipts::chain(&past[..1], &env.action("act_1")).is_err());
    let mut changed = past;
    changed[1].2 += 1;
    assert!(receipts::chain(&changed, &env.action("act_1")).is_err());
}

#[test]
fn a_receipt_id_leads_back_to_its_action() {
    let mut env = Env::running("act_1", true, EffectMode::Once);
    env.settle(Outcome::Answered(Box::new(completed("act_1"))));
    for receipt in chain(&env, "act_1").receipts {
        let sort = stamp::record_stamp(receipt.id.as_str(), "rcpt_").unwrap();
        let sort = Bound::Included(sort.as_str());
        let found = env.memory.scan(keys::INDEX_AUDIT, sort, sort, 10).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].1, keys::action("act_1"));
    }
}

#[test]
fn the_audit_tells_who_did_what_in_order() {
    let mut env = Env::running("act_1", true, EffectMode::Once);
    env.settle(Outcome::NotDone(NotDone::NoResponders));
    env.advance(200);
    env.settle(Outcome::Lost(Lost::Garbage));
    let gateway = actor("svc:gateway");
    let past = env.memory.history(&keys::action("act_1"), 1, 100).unwrap();
    let events: Vec<_> = past.iter().flat_map(|past| audit::events(past, &gateway)).collect();
    let told: Vec<_> = events.iter().map(|event| (event.action.as_str(), event.actor.id.as_str())).collect();
    assert_eq!(
        told,
        [
            ("aip.action.admitted", "svc:client"),
            ("aip.action.dispatched", "svc:gateway"),
            ("aip.action.attempt_lost", "svc:gateway"),
            ("aip.action.dispatched", "svc:gateway"),
            ("aip.action.failed", "svc:gateway"),
        ]
    );
    let last = events.last().unwrap();
    assert_eq!(last.data.as_ref().unwrap()["code"], json!(codes::ACTION_UNCERTAIN.name));
    assert!(events.iter().all(|event| aip_wire::events::find(&event.action).is_some()));
    // in the order of time: the manifest, the admission, the end
    let rows = env.memory.scan(keys::INDEX_AUDIT, Bound::Unbounded, Bound::Unbounded, 10).unwrap();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[2].1, keys::action("act_1"));
}
