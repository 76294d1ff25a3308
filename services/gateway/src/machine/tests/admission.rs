use aip_kernel::{Decision, EffectMode, Hash, Machine, View};
use aip_wire::{ActionId, ActionLifecycleState as Lifecycle, MessageId};
use serde_json::json;

use super::env::*;
use crate::machine::{Answer, Command, GatewayMachine, Note, Refusal, Refused, audit, keys};

fn duplicate(first: &str) -> Answer {
    Answer::Duplicate { first: ActionId::opaque(first) }
}

#[test]
fn an_admission_is_one_record_that_is_the_claim_on_the_dispatch() {
    let env = Env::running("act_1", true, EffectMode::Once);
    let history = env.memory.history(&keys::action("act_1"), 1, 10).unwrap();
    assert_eq!(history.len(), 1);
    let (id, attempt, mode) = env.effect();
    assert_eq!((id.entity, id.n, attempt, mode), (keys::action("act_1"), 1, 1, EffectMode::Once));
    let state = env.action("act_1");
    assert_eq!(state.lifecycle, Lifecycle::Running);
    assert_eq!(state.started_at, Some(START));
    let timers: Vec<_> = env.memory.timers().map(|(_, name, due)| (name.to_owned(), due)).collect();
    assert_eq!(timers, [(keys::TIMER_DEADLINE.to_owned(), START + TIMEOUT_MS)]);
}

#[test]
fn the_same_action_again_is_a_duplicate_and_another_under_its_id_a_conflict() {
    let mut env = Env::running("act_1", true, EffectMode::Once);
    let again = env.admission("act_1");
    assert_eq!(env.admit(again), duplicate("act_1"));
    for change in 0..3 {
        let mut other = env.admission("act_1");
        match change {
            0 => other.context.principal = actor("svc:other"),
            1 => other.input_hash = "different".into(),
            _ => other.context.tenant = Some("other".into()),
        }
        assert_eq!(env.admit(other), Answer::Refused(Refusal::ActionIdConflict));
    }
    assert_eq!(env.memory.history(&keys::action("act_1"), 1, 10).unwrap().len(), 1);
}

#[test]
fn a_deadline_that_passed_admits_nothing() {
    let mut env = Env::new();
    let admit = env.admission("act_1");
    env.now += TIMEOUT_MS;
    assert_eq!(env.admit(admit), Answer::Refused(Refusal::DeadlinePassed));
    assert!(!env.exists("act_1"));
}

#[test]
fn a_contract_that_was_withdrawn_is_not_admitted_under() {
    let mut env = Env::new();
    let admit = env.admission("act_1");
    env.register(worker_manifest(vec![capability("cap:other", json!({}))]));
    assert_eq!(env.admit(admit), Answer::Refused(Refusal::CapabilityChanged));
    assert!(!env.exists("act_1"));
}

#[test]
fn an_admission_beside_a_changed_manifest_is_void() {
    let mut env = Env::new();
    let command = Command::Admit(Box::new(env.admission("act_1")));
    let facts = env.facts();
    let Decision::Append { draft, .. } = GatewayMachine.decide(&env.memory, &command, &facts).unwrap() else {
        panic!("nothing to append")
    };
    let record = env.memory.record(draft, &facts);
    env.register(worker_manifest(vec![
        capability("cap:book", json!({"type": "object"})),
        capability("cap:more", json!({})),
    ]));
    let now = env.now;
    assert!(matches!(env.memory.append(record, now).unwrap(), aip_kernel::Appended::Void(_)));
    assert_eq!(env.apply(command), Answer::Admitted);
}

#[test]
fn a_signed_message_comes_once_whatever_it_led_to() {
    let mut env = Env::new();
    let signed = |env: &Env, id: &str, message: &str| {
        let mut admit = env.admission(id);
        admit.replay = Some(replay(message, START + 600_000));
        admit
    };
    // in the admission's own record
    let first = signed(&env, "act_1", "a");
    assert_eq!(env.admit(first), Answer::Admitted);
    let again = signed(&env, "act_1", "a");
    assert_eq!(env.admit(again), Answer::Refused(Refusal::Replayed));
    // in a record of its own for a duplicate and for a refusal
    let duplicate_of_first = signed(&env, "act_1", "b");
    assert_eq!(env.admit(duplicate_of_first), duplicate("act_1"));
    let mut conflict = signed(&env, "act_1", "c");
    conflict.input_hash = "different".into();
    assert_eq!(env.admit(conflict), Answer::Refused(Refusal::ActionIdConflict));
    let read = |message: &str| {
        let note = Note {
            actor: actor("svc:client"),
            message_id: MessageId::opaque(message),
            claim: Some(replay(message, START + 600_000)),
            refused: None,
        };
        Command::Note(Box::new(note))
    };
    for message in ["a", "b", "c"] {
        assert_eq!(env.apply(read(message)), Answer::Refused(Refusal::Replayed));
    }
    // and for a read
    assert_eq!(env.apply(read("d")), Answer::Recorded);
    env.now += 1;
    assert_eq!(env.apply(read("d")), Answer::Refused(Refusal::Replayed));
}

#[test]
fn a_denial_without_a_signature_is_noted_each_time() {
    let mut env = Env::new();
    let refused = Refused { code: "aip.policy.not_authorized".into(), action_id: None, capability_id: None };
    for _ in 0..2 {
        let note = Note {
            actor: actor("svc:client"),
            message_id: MessageId::opaque("msg_1"),
            claim: None,
            refused: Some(refused.clone()),
        };
        assert_eq!(env.apply(Command::Note(Box::new(note))), Answer::Recorded);
    }
    let (record, at) = env.memory.log().last().unwrap();
    let said = audit::events(&(record.clone(), Hash::ZERO, *at), &actor("svc:gateway"));
    assert_eq!((said[0].action.as_str(), said[0].actor.id.as_str()), ("aip.action.refused", "svc:client"));
}

#[test]
fn a_look_again_does_not_use_up_the_message() {
    let mut env = Env::new();
    let mut admit = env.admission("act_1");
    admit.pinned.contract_hash = "gone".into();
    admit.replay = Some(replay("a", START + 600_000));
    assert_eq!(env.admit(admit), Answer::Refused(Refusal::CapabilityChanged));
    let mut admit = env.admission("act_1");
    admit.replay = Some(replay("a", START + 600_000));
    assert_eq!(env.admit(admit), Answer::Admitted);
}
