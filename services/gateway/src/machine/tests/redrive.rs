use aip_kernel::{Memory, View};
use aip_wire::{
    ActionId, ActionLifecycleState as Lifecycle, ActionMode, CapabilityId, MessageId, ReceiptType, events,
};
use serde_json::json;

use super::env::*;
use crate::machine::redrive::latest;
use crate::machine::{
    ActionState, Answer, Command, Effect, GatewayMachine, Lost, Outcome, Redrive, Refusal, audit, keys,
    receipts,
};

fn id(text: &str) -> ActionId {
    ActionId::opaque(text)
}

fn admission(env: &Env, action: &str) -> crate::machine::Admit {
    let mut admit = env.admission(action);
    admit.action.mode = Some(ActionMode::Async);
    admit.context.deadline_ms = env.now + 3_000_000;
    admit
}

fn dead_letter(env: &mut Env, action: &str) {
    let attempt = env.action(action).attempt;
    assert_eq!(env.apply(Command::GiveUp { action: action.into(), attempt }), Answer::Recorded);
    assert_eq!(env.action(action).lifecycle, Lifecycle::DeadLettered);
}

/// `act_1` of `svc:client` is dead-lettered, and held this key, if it is one.
fn dead(held: Option<&str>) -> Env {
    let mut env = Env::new();
    let mut admit = admission(&env, "act_1");
    admit.reservations = held.map(|name| key(name, START + 60_000)).into_iter().collect();
    assert_eq!(env.admit(admit), Answer::Admitted);
    dead_letter(&mut env, "act_1");
    env
}

fn command(env: &Env, of: &str, order: &str, reserve: Option<&str>) -> Redrive {
    let mut admit = admission(env, &format!("act_by_{order}"));
    admit.reservations = reserve.map(|name| key(name, env.now + 60_000)).into_iter().collect();
    admit.message_id = MessageId::opaque(format!("msg_{order}"));
    Redrive { admit, of: id(of), order: id(order), by: actor("svc:operator") }
}

fn redrive(env: &mut Env, of: &str, order: &str) -> Answer {
    let redrive = command(env, of, order, None);
    env.apply(Command::Redrive(Box::new(redrive)))
}

fn behind(env: &Env, action: &str) -> Option<String> {
    latest(&env.memory, &env.action(action)).unwrap().map(ActionId::into_string)
}

fn replays(env: &Env) {
    let again: Memory<GatewayMachine> = env.memory.replay(GatewayMachine).unwrap();
    assert!(again.same(&env.memory));
}

#[test]
fn a_dead_letter_becomes_one_new_action_and_stays_as_it_is() {
    let mut env = dead(None);
    let before: ActionState = env.action("act_1");
    assert_eq!(behind(&env, "act_1"), None);
    assert_eq!(redrive(&mut env, "act_1", "a"), Answer::Admitted);
    assert_eq!(env.action("act_1"), before);
    assert_eq!(behind(&env, "act_1").as_deref(), Some("act_by_a"));
    let new = env.action("act_by_a");
    assert_eq!((new.lifecycle, new.attempt), (Lifecycle::Queued, 1));
    assert_eq!((&new.requester, &new.tenant), (&before.requester, &before.tenant));
    let effects: Vec<_> =
        env.memory.effects().map(|(id, effect, _)| (id.entity.id.clone(), effect.clone())).collect();
    assert_eq!(effects, [("act_by_a".to_owned(), Effect::Enqueue { attempt: 1 })]);
    // performed once more, and ordered once more
    assert_eq!(redrive(&mut env, "act_1", "a"), Answer::Nothing);
    assert_eq!(redrive(&mut env, "act_1", "b"), Answer::Duplicate { first: id("act_by_a") });
    assert!(!env.exists("act_by_b"));
    replays(&env);
}

#[test]
fn of_one_line_only_one_action_has_not_come_to_nothing() {
    let mut env = dead(None);
    assert_eq!(redrive(&mut env, "act_1", "a"), Answer::Admitted);
    dead_letter(&mut env, "act_by_a");
    // the first or the second dead letter, but not both
    assert_eq!(redrive(&mut env, "act_1", "b"), Answer::Admitted);
    assert_eq!(redrive(&mut env, "act_by_a", "c"), Answer::Duplicate { first: id("act_by_b") });
    assert_eq!(env.action("act_by_b").redrives.unwrap().root, id("act_1"));
    dead_letter(&mut env, "act_by_b");
    assert_eq!(redrive(&mut env, "act_by_a", "c"), Answer::Admitted);
    for letter in ["act_1", "act_by_a", "act_by_b"] {
        assert_eq!(behind(&env, letter).as_deref(), Some("act_by_c"), "{letter}");
    }
    assert_eq!(behind(&env, "act_by_c"), None);
    // an end of any other kind is the line's end
    let cancel = crate::machine::Cancel {
        by: actor("svc:client"),
        action: id("act_by_c"),
        reason: None,
        message_id: MessageId::opaque("msg_cancel"),
        replay: None,
    };
    assert_eq!(env.apply(Command::Cancel(Box::new(cancel))), Answer::Recorded);
    assert_eq!(env.action("act_by_c").lifecycle, Lifecycle::Cancelled);
    assert_eq!(redrive(&mut env, "act_1", "d"), Answer::Duplicate { first: id("act_by_c") });
    replays(&env);
}

#[test]
fn only_dead_letters_are_redriven() {
    let mut env = Env::running("act_1", true, aip_kernel::EffectMode::Once);
    assert_eq!(redrive(&mut env, "act_1", "a"), Answer::Refused(Refusal::NotDeadLettered));
    assert_eq!(redrive(&mut env, "act_none", "a"), Answer::Refused(Refusal::NoSuchAction));
    // not known whether it was done: that is for reconciliation
    assert_eq!(env.settle(Outcome::Lost(Lost::NoAnswer)), Answer::Recorded);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Failed);
    assert_eq!(redrive(&mut env, "act_1", "a"), Answer::Refused(Refusal::NotDeadLettered));
    assert!(!env.exists("act_by_a"));
}

#[test]
fn another_action_under_the_new_id_is_not_taken_for_it() {
    let mut env = dead(None);
    let foreign = admission(&env, "act_by_a");
    assert_eq!(env.admit(foreign), Answer::Admitted);
    assert_eq!(redrive(&mut env, "act_1", "a"), Answer::Refused(Refusal::ActionIdConflict));
}

#[test]
fn a_contract_that_was_withdrawn_admits_nothing() {
    let mut env = dead(None);
    let prepared = command(&env, "act_1", "a", None);
    let other = worker_manifest(vec![capability("cap:other", json!({}))]);
    assert_eq!(env.register(other), Answer::Registered { added: 1, withdrawn: 1 });
    let book = CapabilityId::parse("cap:book").unwrap();
    assert_eq!(crate::machine::manifest::newest(&env.memory, &book).unwrap(), None);
    let answer = env.apply(Command::Redrive(Box::new(prepared)));
    assert_eq!(answer, Answer::Refused(Refusal::CapabilityChanged));
}

#[test]
fn a_key_stands_for_the_line() {
    let mut env = dead(Some("k"));
    let order = command(&env, "act_1", "a", Some("k"));
    assert_eq!(env.apply(Command::Redrive(Box::new(order))), Answer::Admitted);
    let holder = env.memory.claim("idem:k").unwrap().unwrap();
    assert_eq!(holder.entity, keys::action("act_1"));
    // whoever brings it again gets what the redriven action comes to
    let mut again = admission(&env, "act_again");
    again.reservations = vec![key("k", env.now + 60_000)];
    assert_eq!(env.admit(again), Answer::Duplicate { first: id("act_by_a") });
}

#[test]
fn a_key_that_is_free_again_is_the_new_actions_unless_another_has_it() {
    let mut env = dead(Some("k"));
    env.now += 60_000;
    // the operator's own action moves the log's time
    let order = admission(&env, "a");
    assert_eq!(env.admit(order), Answer::Admitted);
    let order = command(&env, "act_1", "a", Some("k"));
    assert_eq!(env.apply(Command::Redrive(Box::new(order))), Answer::Admitted);
    assert_eq!(env.memory.claim("idem:k").unwrap().unwrap().entity, keys::action("act_by_a"));

    let mut env = dead(Some("k"));
    env.now += 60_000;
    let order = admission(&env, "a");
    assert_eq!(env.admit(order), Answer::Admitted);
    let mut other = admission(&env, "act_other");
    other.reservations = vec![key("k", env.now + 60_000)];
    assert_eq!(env.admit(other), Answer::Admitted);
    let order = command(&env, "act_1", "a", Some("k"));
    let answer = env.apply(Command::Redrive(Box::new(order)));
    assert_eq!(answer, Answer::Refused(Refusal::IdempotencyConflict));
}

#[test]
fn the_operator_stands_in_receipt_and_audit_of_the_new_action_only() {
    let mut env = dead(None);
    let old = env.memory.history(&keys::action("act_1"), 1, 10).unwrap();
    assert_eq!(redrive(&mut env, "act_1", "a"), Answer::Admitted);
    assert_eq!(env.memory.history(&keys::action("act_1"), 1, 10).unwrap(), old);
    let past = env.memory.history(&keys::action("act_by_a"), 1, 10).unwrap();
    let said = audit::events(&past[0], &actor("svc:gateway"));
    assert_eq!(said[0].actor.id, "svc:client");
    assert_eq!(
        (said[1].action.as_str(), said[1].actor.id.as_str()),
        (events::ACTION_REDRIVEN.name, "svc:operator")
    );
    let data = json!({"action_id": "act_by_a", "redrive_of": "act_1", "ordered_by": "a"});
    assert_eq!(said[1].data, Some(data));
    let chain = receipts::chain(&past, &env.action("act_by_a")).unwrap();
    let first = &chain.receipts[0];
    assert_eq!((first.receipt_type, first.actor.id.as_str()), (ReceiptType::RequestReceived, "svc:operator"));
    assert_eq!(first.data.as_ref().unwrap()["redrive_of"], "act_1");
}
