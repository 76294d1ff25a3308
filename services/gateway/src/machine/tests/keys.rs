use aip_wire::{ActionId, IdempotencyCollisionBehavior as Behavior};

use super::env::*;
use crate::machine::idempotency::{Collision, Reservation};
use crate::machine::settle::{NotDone, Outcome};
use crate::machine::{Answer, Refusal};

fn with_key(env: &Env, id: &str, reservation: Reservation) -> crate::machine::Admit {
    let mut admit = env.admission(id);
    admit.reservations = vec![reservation];
    admit
}

#[test]
fn the_same_key_and_input_is_answered_from_the_first() {
    for on_collision in [Collision::Conflict, Collision::Original] {
        let mut env = Env::new();
        let reservation = Reservation { on_collision, ..key("k", START + 1_000) };
        let first = with_key(&env, "act_1", reservation.clone());
        assert_eq!(env.admit(first), Answer::Admitted);
        let second = with_key(&env, "act_2", reservation);
        assert_eq!(env.admit(second), Answer::Duplicate { first: ActionId::opaque("act_1") });
        assert!(!env.exists("act_2"));
    }
}

#[test]
fn another_input_under_the_key_follows_the_contract() {
    for (on_collision, expected) in [
        (Collision::Conflict, Answer::Refused(Refusal::IdempotencyConflict)),
        (Collision::Original, Answer::Duplicate { first: ActionId::opaque("act_1") }),
    ] {
        let mut env = Env::new();
        let reservation = Reservation { on_collision, ..key("k", START + 1_000) };
        let first = with_key(&env, "act_1", reservation.clone());
        env.admit(first);
        let mut second = with_key(&env, "act_2", reservation);
        second.input_hash = "different".into();
        assert_eq!(env.admit(second), expected);
    }
}

#[test]
fn another_capability_under_a_wide_key_is_always_a_conflict() {
    let mut env = Env::new();
    let reservation = Reservation { on_collision: Collision::Original, ..key("k", START + 1_000) };
    let first = with_key(&env, "act_1", reservation.clone());
    env.admit(first);
    let mut second = with_key(&env, "act_2", reservation);
    second.action.capability_id = aip_wire::CapabilityId::parse("cap:other").unwrap();
    assert_eq!(env.admit(second), Answer::Refused(Refusal::IdempotencyConflict));
}

#[test]
fn a_key_is_free_again_when_its_time_is_over() {
    let mut env = Env::new();
    let first = with_key(&env, "act_1", key("k", START + 1_000));
    env.admit(first);
    env.settle(Outcome::Answered(Box::new(completed("act_1"))));
    env.now += 1_001;
    // log time follows the records
    env.register(worker_manifest(vec![
        capability("cap:book", serde_json::json!({"type": "object"})),
        capability("cap:more", serde_json::json!({})),
    ]));
    let second = with_key(&env, "act_2", key("k", START + 2_000));
    assert_eq!(env.admit(second), Answer::Admitted);
}

#[test]
fn a_refusal_does_not_use_up_the_key() {
    let mut env = Env::new();
    let mut refused = with_key(&env, "act_1", key("k", START + 1_000));
    refused.context.deadline_ms = START;
    assert_eq!(env.admit(refused), Answer::Refused(Refusal::DeadlinePassed));
    let second = with_key(&env, "act_2", key("k", START + 1_000_000));
    assert_eq!(env.admit(second), Answer::Admitted);
    // but a failure does: it is the outcome
    while !env.action("act_2").is_terminal() {
        env.settle(Outcome::NotDone(NotDone::NoResponders));
        env.advance(6_000);
    }
    let third = with_key(&env, "act_3", key("k", START + 1_000_000));
    assert_eq!(env.admit(third), Answer::Duplicate { first: ActionId::opaque("act_2") });
}

#[test]
fn any_of_several_reservations_that_is_held_decides() {
    let mut env = Env::new();
    let mut first = env.admission("act_1");
    first.reservations = vec![key("intent", START + 1_000), key("delivery", START + 1_000)];
    assert_eq!(env.admit(first), Answer::Admitted);
    for held in ["intent", "delivery"] {
        let mut second = env.admission("act_2");
        second.reservations = vec![key("other", START + 1_000), key(held, START + 1_000)];
        assert_eq!(env.admit(second), Answer::Duplicate { first: ActionId::opaque("act_1") });
    }
}

#[test]
fn only_returning_the_original_takes_another_input() {
    assert_eq!(Collision::from(Behavior::ReturnOriginalResult), Collision::Original);
    assert_eq!(Collision::from(Behavior::RejectConflict), Collision::Conflict);
    assert_eq!(Collision::from(Behavior::RevalidateInputHash), Collision::Conflict);
}
