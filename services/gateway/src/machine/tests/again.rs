//! The same action again: in a hurry, for an hour, after every end, and behind one that hangs.

use aip_names::limits::LEASE_HEARTBEAT_MS;
use aip_wire::{ActionId, ActionLifecycleState as Lifecycle, ActionMode, MessageId, codes};
use serde_json::json;

use super::env::*;
use crate::machine::{
    ActionEvent, Admit, Answer, Cancel, Command, Event, Lost, Outcome, Refusal, Report, Says,
};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;

fn duplicate() -> Answer {
    Answer::Duplicate { first: ActionId::opaque("act_1") }
}

fn dispatches(env: &Env) -> usize {
    let events = env.memory.log().iter().flat_map(|(record, _)| &record.events);
    events.filter(|event| matches!(event, Event::Action(ActionEvent::Dispatched { .. }))).count()
}

fn queued(env: &Env) -> Admit {
    let mut admit = env.admission("act_1");
    admit.action.mode = Some(ActionMode::Async);
    admit.pinned.cancel = true;
    admit
}

fn says(env: &mut Env, says: Says) -> Answer {
    let report = Report {
        provider: actor("svc:worker"),
        action: ActionId::opaque("act_1"),
        attempt: 1,
        worker: "a".into(),
        says,
        message_id: MessageId::opaque("msg_report"),
        replay: None,
    };
    env.apply(Command::Report(Box::new(report)))
}

/// With the message's own claim for a while, which a window of any length would be, and without one for good.
#[test]
fn the_same_message_every_minute_for_an_hour_is_one_dispatch() {
    for signed in [true, false] {
        let mut env = Env::new();
        for minute in 0..60 {
            let mut admit = env.admission("act_1");
            admit.replay = signed.then(|| replay("msg_act_1", START + 10 * MINUTE_MS));
            let answer = env.admit(admit);
            match minute {
                0 => {
                    assert_eq!(answer, Answer::Admitted);
                    env.settle(Outcome::Answered(Box::new(completed("act_1"))));
                }
                1..10 if signed => assert_eq!(answer, Answer::Refused(Refusal::Replayed), "minute {minute}"),
                _ => assert_eq!(answer, duplicate(), "minute {minute}"),
            }
            env.advance(MINUTE_MS);
            // log time follows the records, here of others
            env.register(worker_manifest(vec![
                capability("cap:book", json!({"type": "object"})),
                capability("cap:other", json!({"minute": minute})),
            ]));
        }
        assert_eq!((dispatches(&env), env.memory.effects().count()), (1, 0));
    }
}

/// An action that has come to this end.
fn ended(end: Lifecycle) -> Env {
    let mut env = Env::new();
    match end {
        Lifecycle::Completed | Lifecycle::Failed | Lifecycle::Expired => {
            let mut admit = env.admission("act_1");
            admit.pinned.mutation = end == Lifecycle::Failed;
            env.admit(admit);
        }
        _ => {
            let admit = queued(&env);
            env.admit(admit);
        }
    }
    match end {
        Lifecycle::Completed => drop(env.settle(Outcome::Answered(Box::new(completed("act_1"))))),
        Lifecycle::Failed => drop(env.settle(Outcome::Lost(Lost::NoAnswer))),
        Lifecycle::Expired => env.advance(TIMEOUT_MS),
        Lifecycle::Cancelled => {
            let cancel = Cancel {
                by: actor("svc:client"),
                action: ActionId::opaque("act_1"),
                reason: None,
                message_id: MessageId::opaque("msg_cancel"),
                replay: None,
            };
            env.apply(Command::Cancel(Box::new(cancel)));
        }
        _ => drop(env.apply(Command::GiveUp { action: "act_1".into(), attempt: 1 })),
    }
    assert_eq!(env.action("act_1").lifecycle, end);
    env
}

#[test]
fn an_id_that_has_come_to_any_end_is_answered_from_it_or_refused_and_never_begun_anew() {
    let ends = crate::machine::lifecycle::TRANSITIONS.iter().filter(|(_, next)| next.is_empty());
    for (end, _) in ends {
        let mut env = ended(*end);
        let records = |env: &Env| env.memory.log().iter().filter(|(r, _)| r.header.key == "act_1").count();
        let (before, had) = (env.action("act_1"), records(&env));
        for advance_ms in [0, 25 * HOUR_MS] {
            env.now += advance_ms;
            let again = env.admission("act_1");
            assert_eq!(env.admit(again), duplicate(), "{end}");
            let mut other = env.admission("act_1");
            other.input_hash = "different".into();
            assert_eq!(env.admit(other), Answer::Refused(Refusal::ActionIdConflict), "{end}");
        }
        assert!(env.action("act_1") == before && records(&env) == had, "{end}");
        assert_eq!((env.memory.effects().count(), env.memory.timers().count()), (0, 0), "{end}");
    }
}

#[test]
fn a_handler_that_hangs_ends_at_its_deadline_and_its_key_goes_by_the_contract() {
    for asynchronous in [false, true] {
        let mut env = Env::new();
        let mut admit = if asynchronous { queued(&env) } else { env.admission("act_1") };
        admit.reservations = vec![key("k", START + HOUR_MS)];
        assert_eq!(env.admit(admit), Answer::Admitted);
        if asynchronous {
            // hangs, and is heard of all the while
            assert_eq!(says(&mut env, Says::Started), Answer::Recorded);
            while env.now + LEASE_HEARTBEAT_MS < START + TIMEOUT_MS {
                env.advance(LEASE_HEARTBEAT_MS);
                assert_eq!(says(&mut env, Says::Running), Answer::Recorded);
            }
        }
        assert!(!env.action("act_1").is_terminal());
        env.advance(TIMEOUT_MS);
        assert_eq!(env.code("act_1"), codes::ACTION_UNCERTAIN.name, "it may have happened");
        assert_eq!((env.memory.effects().count(), env.memory.timers().count()), (0, 0));
        // for as long as the contract has it, the key leads to what became of it: nothing is executed a second time
        let second = |env: &Env| {
            let mut admit = env.admission("act_2");
            admit.reservations = vec![key("k", env.now + HOUR_MS)];
            admit
        };
        let early = second(&env);
        assert_eq!(env.admit(early), duplicate());
        env.now = START + HOUR_MS + 1;
        // log time follows the records
        env.register(worker_manifest(vec![
            capability("cap:book", json!({"type": "object"})),
            capability("cap:more", json!({})),
        ]));
        let late = second(&env);
        assert_eq!(env.admit(late), Answer::Admitted);
    }
}
