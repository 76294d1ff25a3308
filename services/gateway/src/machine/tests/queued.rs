use aip_kernel::EffectMode;
use aip_names::limits::{ASYNC_ATTEMPTS_MAX, LATE_ANSWERS_MAX, LEASE_GRACE_MS, LEASE_MS, LEASE_RENEW_MS};
use aip_wire::{ActionLifecycleState as Lifecycle, ActionMode, ActionResultStatus, MessageId, codes};

use super::env::*;
use crate::machine::{Answer, Cancel, Command, Effect, Lost, NotDone, Outcome, Refusal, Report, Says};

fn queued(mutation: bool, dispatch: EffectMode) -> Env {
    let mut env = Env::new();
    let mut admit = env.admission("act_1");
    admit.action.mode = Some(ActionMode::Async);
    admit.context.deadline_ms = START + 3_000_000;
    admit.pinned.mutation = mutation;
    admit.pinned.dispatch = dispatch;
    admit.pinned.cancel = true;
    assert_eq!(env.admit(admit), Answer::Admitted);
    env
}

fn says(env: &mut Env, worker: &str, attempt: u32, says: Says) -> Answer {
    let report = Report {
        provider: actor("svc:worker"),
        action: aip_wire::ActionId::opaque("act_1"),
        attempt,
        worker: worker.into(),
        says,
        message_id: MessageId::opaque("msg_report"),
        replay: None,
    };
    env.apply(Command::Report(Box::new(report)))
}

fn done() -> Says {
    Says::Ended(Outcome::Answered(Box::new(completed("act_1"))))
}

fn cancel(env: &mut Env) -> Answer {
    let cancel = Cancel {
        by: actor("svc:client"),
        action: aip_wire::ActionId::opaque("act_1"),
        reason: None,
        message_id: MessageId::opaque("msg_cancel"),
        replay: None,
    };
    env.apply(Command::Cancel(Box::new(cancel)))
}

fn effects(env: &Env) -> Vec<Effect> {
    env.memory.effects().map(|(_, effect, _)| effect.clone()).collect()
}

/// The lease of the worker that has the attempt is over, and so is its grace.
fn lose(env: &mut Env) {
    env.advance(LEASE_MS);
    env.advance(LEASE_GRACE_MS);
}

const SUPERSEDED: Answer = Answer::Refused(Refusal::Superseded);

#[test]
fn an_attempt_is_queued_until_a_worker_has_begun_it_and_ends_once() {
    let mut env = queued(true, EffectMode::Once);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Queued);
    assert_eq!(effects(&env), [Effect::Enqueue { attempt: 1 }]);
    assert_eq!(says(&mut env, "a", 1, Says::Running), SUPERSEDED);
    assert_eq!(says(&mut env, "a", 1, Says::Started), Answer::Recorded);
    assert_eq!(says(&mut env, "a", 1, Says::Started), Answer::Recorded, "asked again");
    assert_eq!(says(&mut env, "b", 1, Says::Started), SUPERSEDED);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Running);
    assert_eq!(effects(&env), []);
    assert_eq!(says(&mut env, "a", 1, done()), Answer::Recorded);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Completed);
    assert_eq!(env.memory.timers().count(), 0);
    // the answer to the first time was lost
    assert_eq!(says(&mut env, "a", 1, done()), Answer::Recorded);
    assert_eq!(env.action("act_1").late_answers, 0);
}

#[test]
fn a_worker_that_is_heard_of_keeps_its_attempt_for_as_long_as_it_takes() {
    let mut env = queued(true, EffectMode::Once);
    says(&mut env, "a", 1, Says::Started);
    for _ in 0..100 {
        env.advance(LEASE_MS - 1);
        assert_eq!(says(&mut env, "a", 1, Says::Running), Answer::Recorded);
    }
    // heard of within the grace
    env.advance(LEASE_MS + 1);
    assert!(env.action("act_1").lease.unwrap().grace);
    assert_eq!(says(&mut env, "a", 1, Says::Running), Answer::Recorded);
    env.advance(LEASE_GRACE_MS);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Running);
    assert_eq!(says(&mut env, "a", 1, done()), Answer::Recorded);
}

#[test]
fn a_worker_that_asks_again_whether_it_may_begin_keeps_its_attempt_and_fills_no_log() {
    let mut env = queued(true, EffectMode::Once);
    assert_eq!(says(&mut env, "a", 1, Says::Started), Answer::Recorded);
    // no answer reaches it for many leases
    for _ in 0..100 {
        env.advance(LEASE_MS / 8);
        assert_eq!(says(&mut env, "a", 1, Says::Started), Answer::Recorded);
    }
    let action = env.action("act_1");
    assert_eq!((action.lifecycle, action.attempt), (Lifecycle::Running, 1));
    let renewed = env.memory.log().len();
    assert!(renewed <= 4 + (100 * LEASE_MS / 8 / LEASE_RENEW_MS) as usize, "{renewed} records");
    // within the grace as well
    env.advance(LEASE_MS + 1);
    assert!(env.action("act_1").lease.unwrap().grace);
    assert_eq!(says(&mut env, "a", 1, Says::Started), Answer::Recorded);
    env.advance(LEASE_GRACE_MS);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Running);
}

#[test]
fn what_may_be_repeated_goes_to_another_worker_and_the_first_one_changes_nothing_any_more() {
    let mut env = queued(true, EffectMode::Repeatable);
    says(&mut env, "a", 1, Says::Started);
    lose(&mut env);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Queued);
    assert_eq!(says(&mut env, "a", 1, Says::Running), SUPERSEDED);
    env.advance(200);
    assert_eq!(effects(&env), [Effect::Enqueue { attempt: 2 }]);
    let before = env.action("act_1");
    assert_eq!(says(&mut env, "a", 1, done()), SUPERSEDED);
    let after = env.action("act_1");
    assert_eq!((after.late_answers, after.lifecycle, after.receipts), (1, before.lifecycle, before.receipts));
    assert_eq!(says(&mut env, "b", 2, Says::Started), Answer::Recorded);
    assert_eq!(says(&mut env, "a", 1, done()), SUPERSEDED);
    assert_eq!(says(&mut env, "b", 2, done()), Answer::Recorded);
    assert_eq!(env.action("act_1").attempt, 2);
    // also after the end, but not without bound
    for _ in 0..2 * LATE_ANSWERS_MAX {
        assert_eq!(says(&mut env, "a", 1, done()), SUPERSEDED);
    }
    assert_eq!(env.action("act_1").late_answers, LATE_ANSWERS_MAX);
}

#[test]
fn what_may_not_be_repeated_ends_as_not_known() {
    let mut env = queued(true, EffectMode::Once);
    says(&mut env, "a", 1, Says::Started);
    lose(&mut env);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Failed);
    assert_eq!(env.code("act_1"), codes::ACTION_UNCERTAIN.name);
    assert_eq!(says(&mut env, "a", 1, done()), SUPERSEDED);
    assert_eq!(env.code("act_1"), codes::ACTION_UNCERTAIN.name);
}

#[test]
fn attempts_are_bounded_and_the_last_one_dead_letters() {
    for (mutation, uncertain) in [(true, true), (false, false)] {
        let mut env = queued(mutation, EffectMode::Repeatable);
        for attempt in 1..=ASYNC_ATTEMPTS_MAX {
            assert_eq!(says(&mut env, "a", attempt, Says::Started), Answer::Recorded, "{attempt}");
            lose(&mut env);
            env.advance(10_000);
        }
        assert_eq!(env.action("act_1").lifecycle, Lifecycle::DeadLettered);
        let error = env.action("act_1").result.unwrap().error.unwrap();
        assert_eq!(error.code, codes::ACTION_DEAD_LETTERED.name);
        let details = error.details.unwrap();
        assert_eq!(details["last"], codes::WORKER_LOST.name);
        assert_eq!(details["uncertain_outcome"], uncertain);
        assert_eq!((env.memory.timers().count(), env.memory.effects().count()), (0, 0));
    }
}

#[test]
fn what_no_worker_began_is_given_up_once_and_only_for_its_attempt() {
    let give_up = |env: &mut Env, attempt| env.apply(Command::GiveUp { action: "act_1".into(), attempt });
    let mut env = queued(true, EffectMode::Once);
    assert_eq!(give_up(&mut env, 2), Answer::Nothing);
    assert_eq!(give_up(&mut env, 1), Answer::Recorded);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::DeadLettered);
    assert_eq!(give_up(&mut env, 1), Answer::Nothing);
    assert_eq!(says(&mut env, "a", 1, Says::Started), SUPERSEDED);
    let mut env = queued(true, EffectMode::Once);
    says(&mut env, "a", 1, Says::Started);
    assert_eq!(give_up(&mut env, 1), Answer::Nothing);
}

#[test]
fn a_worker_that_did_not_execute_it_leaves_it_to_another() {
    let mut env = queued(true, EffectMode::Once);
    says(&mut env, "a", 1, Says::Started);
    let refused = Says::Ended(Outcome::NotDone(NotDone::Refused("aip.worker.unavailable".into())));
    assert_eq!(says(&mut env, "a", 1, refused), Answer::Recorded);
    env.advance(200);
    assert_eq!(effects(&env), [Effect::Enqueue { attempt: 2 }]);
    let nonsense = Says::Ended(Outcome::Lost(Lost::Garbage));
    says(&mut env, "b", 2, Says::Started);
    assert_eq!(says(&mut env, "b", 2, nonsense), Answer::Recorded);
    assert_eq!(env.code("act_1"), codes::ACTION_UNCERTAIN.name);
}

#[test]
fn a_foreign_workers_report_is_about_nothing() {
    let mut env = queued(true, EffectMode::Once);
    let report = Report {
        provider: actor("svc:other"),
        action: aip_wire::ActionId::opaque("act_1"),
        attempt: 1,
        worker: "a".into(),
        says: Says::Started,
        message_id: MessageId::opaque("msg_report"),
        replay: None,
    };
    let answer = env.apply(Command::Report(Box::new(report)));
    assert_eq!(answer, Answer::Refused(Refusal::NoSuchAction));
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Queued);
}

#[test]
fn what_nobody_began_is_cancelled_at_once() {
    let mut env = queued(true, EffectMode::Once);
    assert_eq!(cancel(&mut env), Answer::Recorded);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Cancelled);
    assert_eq!(env.action("act_1").result.unwrap().status, ActionResultStatus::Cancelled);
    assert_eq!((env.memory.timers().count(), env.memory.effects().count()), (0, 0));
    assert_eq!(says(&mut env, "a", 1, Says::Started), SUPERSEDED);
    assert_eq!(cancel(&mut env), Answer::Nothing);
    // an earlier attempt may have done it
    let mut env = queued(true, EffectMode::Repeatable);
    says(&mut env, "a", 1, Says::Started);
    lose(&mut env);
    assert_eq!(cancel(&mut env), Answer::Recorded);
    assert_eq!(env.code("act_1"), codes::ACTION_UNCERTAIN.name);
}

#[test]
fn a_running_action_is_cancelled_only_when_its_worker_says_so() {
    let mut env = queued(true, EffectMode::Once);
    says(&mut env, "a", 1, Says::Started);
    // nobody asked for it
    let mut forced = queued(true, EffectMode::Once);
    says(&mut forced, "a", 1, Says::Started);
    says(&mut forced, "a", 1, Says::Ended(Outcome::Cancelled));
    assert_eq!(forced.code("act_1"), codes::ACTION_UNCERTAIN.name);

    assert_eq!(cancel(&mut env), Answer::Recorded);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Cancelling);
    assert_eq!(effects(&env), [Effect::TellCancel]);
    assert_eq!(cancel(&mut env), Answer::Nothing);
    assert_eq!(says(&mut env, "a", 1, Says::Running), Answer::Recorded);
    assert_eq!(says(&mut env, "a", 1, Says::Ended(Outcome::Cancelled)), Answer::Recorded);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Cancelled);
    assert_eq!((env.memory.timers().count(), env.memory.effects().count()), (0, 0));
}

#[test]
fn completion_and_cancellation_have_one_end_whichever_comes_first() {
    let mut env = queued(true, EffectMode::Once);
    says(&mut env, "a", 1, Says::Started);
    cancel(&mut env);
    assert_eq!(says(&mut env, "a", 1, done()), Answer::Recorded);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Completed);
    let mut env = queued(true, EffectMode::Once);
    says(&mut env, "a", 1, Says::Started);
    says(&mut env, "a", 1, done());
    assert_eq!(cancel(&mut env), Answer::Nothing);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Completed);
}

#[test]
fn a_worker_that_is_lost_while_it_cancels_leaves_a_mutation_not_known_and_nothing_is_tried_again() {
    for (mutation, code) in [(true, codes::ACTION_UNCERTAIN), (false, codes::WORKER_LOST)] {
        let mut env = queued(mutation, EffectMode::Repeatable);
        says(&mut env, "a", 1, Says::Started);
        cancel(&mut env);
        lose(&mut env);
        assert_eq!(env.code("act_1"), code.name);
    }
}

#[test]
fn a_requested_action_is_cancelled_the_same_way() {
    let mut env = Env::new();
    let mut admit = env.admission("act_1");
    admit.pinned.cancel = true;
    env.admit(admit);
    assert_eq!(cancel(&mut env), Answer::Recorded);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Cancelling);
    let (effect, _, _) = env.memory.effects().find(|(_, effect, _)| **effect != Effect::TellCancel).unwrap();
    let settle = crate::machine::Settle { effect: effect.clone(), attempt: 1, outcome: Outcome::Cancelled };
    assert_eq!(env.apply(Command::Settle(Box::new(settle))), Answer::Recorded);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Cancelled);
    // without cancellation nobody is told
    let mut env = Env::running("act_1", true, EffectMode::Once);
    assert_eq!(cancel(&mut env), Answer::Recorded);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Cancelling);
    assert!(!effects(&env).contains(&Effect::TellCancel));
}
