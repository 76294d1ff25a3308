use aip_kernel::{EffectMode, Machine};
use aip_names::limits::{DISPATCH_ATTEMPTS_MAX, DISPATCH_BACKOFF_FIRST_MS};
use aip_wire::{ActionLifecycleState as Lifecycle, codes};
use serde_json::json;

use super::env::*;
use crate::machine::settle::{Lost, NotDone, Outcome, Settle};
use crate::machine::{Answer, Command, Effect, GatewayMachine};

const LOST: [Lost; 5] =
    [Lost::NoAnswer, Lost::Disconnected, Lost::DispatcherGone, Lost::Garbage, Lost::TooLarge];

fn ended(env: &Env) {
    assert_eq!(env.memory.effects().count(), 0, "an effect is left");
    assert_eq!(env.memory.timers().count(), 0, "a timer is left");
}

#[test]
fn an_answer_ends_the_action_once() {
    let mut env = Env::running("act_1", true, EffectMode::Once);
    let (effect, attempt, _) = env.effect();
    assert_eq!(env.settle(Outcome::Answered(Box::new(completed("act_1")))), Answer::Recorded);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Completed);
    ended(&env);
    let outcome = Outcome::Answered(Box::new(failed("act_1", worker_error())));
    let late = Command::Settle(Box::new(Settle { effect, attempt, outcome }));
    assert_eq!(env.apply(late), Answer::Nothing);
    assert_eq!(env.apply(Command::Expire { action: "act_1".into() }), Answer::Nothing);
    assert_eq!(env.apply(Command::Redispatch { action: "act_1".into() }), Answer::Nothing);
    assert_eq!(env.action("act_1").result.map(|result| *result), Some(completed("act_1")));
}

#[test]
fn a_workers_failure_is_kept_as_it_is() {
    let mut env = Env::running("act_1", true, EffectMode::Once);
    env.settle(Outcome::Answered(Box::new(failed("act_1", worker_error()))));
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Failed);
    assert_eq!(env.action("act_1").result.unwrap().error, Some(worker_error()));
    ended(&env);
}

#[test]
fn a_mutation_whose_answer_is_lost_ends_uncertain_and_is_never_sent_again() {
    for lost in LOST {
        let mut env = Env::running("act_1", true, EffectMode::Once);
        assert_eq!(env.settle(Outcome::Lost(lost)), Answer::Recorded);
        assert_eq!(env.action("act_1").lifecycle, Lifecycle::Failed);
        assert_eq!(env.code("act_1"), codes::ACTION_UNCERTAIN.name);
        ended(&env);
        assert_eq!(env.apply(Command::Redispatch { action: "act_1".into() }), Answer::Nothing);
        env.advance(TIMEOUT_MS);
        assert_eq!(env.action("act_1").attempt, 1);
    }
}

#[test]
fn a_process_that_is_gone_with_the_answer_is_a_lost_answer() {
    let mut env = Env::running("act_1", true, EffectMode::Once);
    let (effect, attempt, _) = env.effect();
    let command = GatewayMachine.on_abandoned(&effect, &Effect::Dispatch { attempt });
    assert_eq!(env.apply(command), Answer::Recorded);
    assert_eq!(env.code("act_1"), codes::ACTION_UNCERTAIN.name);
}

#[test]
fn a_read_whose_answer_is_lost_fails_without_uncertainty() {
    for (lost, code) in [
        (Lost::NoAnswer, codes::WORKER_SILENT),
        (Lost::Garbage, codes::WORKER_INVALID),
        (Lost::TooLarge, codes::WORKER_TOO_LARGE),
    ] {
        let mut env = Env::running("act_1", false, EffectMode::Once);
        env.settle(Outcome::Lost(lost));
        assert_eq!(env.code("act_1"), code.name);
        ended(&env);
    }
}

#[test]
fn what_may_be_repeated_is_sent_again_until_it_is_answered() {
    let mut env = Env::running("act_1", true, EffectMode::Repeatable);
    for attempt in 1..=3 {
        assert_eq!(env.effect().1, attempt);
        env.settle(Outcome::Lost(Lost::NoAnswer));
        assert_eq!(env.action("act_1").lifecycle, Lifecycle::Queued);
        assert_eq!(env.memory.effects().count(), 0);
        env.advance(1_000);
        assert_eq!(env.action("act_1").lifecycle, Lifecycle::Running);
    }
    env.settle(Outcome::Answered(Box::new(completed("act_1"))));
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Completed);
    ended(&env);
}

#[test]
fn a_refusal_says_nothing_of_an_earlier_attempt() {
    for (earlier, code) in [(true, codes::ACTION_UNCERTAIN), (false, codes::ACTION_DEADLINE)] {
        let mut env = Env::running("act_1", true, EffectMode::Repeatable);
        env.settle(if earlier { Outcome::Lost(Lost::NoAnswer) } else { Outcome::NotDone(NotDone::NotSent) });
        env.advance(1_000);
        env.settle(Outcome::Rejected(Box::new(crate::errors::of(codes::ACTION_DEADLINE))));
        assert_eq!(env.code("act_1"), code.name);
        ended(&env);
    }
}

#[test]
fn an_earlier_attempts_answer_counts_and_its_failure_does_not() {
    let mut env = Env::running("act_1", true, EffectMode::Repeatable);
    let (first, _, _) = env.effect();
    env.settle(Outcome::Lost(Lost::NoAnswer));
    env.advance(1_000);
    let late = |outcome| Command::Settle(Box::new(Settle { effect: first.clone(), attempt: 1, outcome }));
    assert_eq!(env.apply(late(Outcome::Lost(Lost::Disconnected))), Answer::Nothing);
    assert_eq!(env.apply(late(Outcome::NotDone(NotDone::NoResponders))), Answer::Nothing);
    assert_eq!(env.apply(late(Outcome::Answered(Box::new(completed("act_1"))))), Answer::Recorded);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Completed);
}

#[test]
fn attempts_are_bounded_and_a_mutation_that_was_delivered_stays_uncertain() {
    for (delivered, code) in [(true, codes::ACTION_UNCERTAIN), (false, codes::WORKER_UNAVAILABLE)] {
        let mut env = Env::new();
        let mut admit = env.admission("act_1");
        admit.pinned.dispatch = EffectMode::Repeatable;
        admit.context.deadline_ms = START + 10_000_000;
        env.admit(admit);
        if delivered {
            env.settle(Outcome::Lost(Lost::NoAnswer));
            env.advance(10_000);
        }
        while !env.action("act_1").is_terminal() {
            env.settle(Outcome::NotDone(NotDone::NoResponders));
            env.advance(10_000);
        }
        assert_eq!(env.action("act_1").attempt, DISPATCH_ATTEMPTS_MAX);
        assert_eq!(env.code("act_1"), code.name);
        ended(&env);
    }
}

#[test]
fn what_nobody_took_is_tried_again_even_when_it_may_not_be_repeated() {
    let mut env = Env::running("act_1", true, EffectMode::Once);
    env.settle(Outcome::NotDone(NotDone::NoResponders));
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Queued);
    env.advance(200);
    let (_, attempt, mode) = env.effect();
    assert_eq!((attempt, mode), (2, EffectMode::Once));
    env.settle(Outcome::NotDone(NotDone::Refused("aip.service.stopping".into())));
    env.advance(1_000);
    env.settle(Outcome::Lost(Lost::NoAnswer));
    assert_eq!(env.code("act_1"), codes::ACTION_UNCERTAIN.name);
}

#[test]
fn the_deadline_ends_what_waits_as_expired_and_what_runs_by_what_it_may_have_done() {
    // running: a read expires, a mutation may have happened
    let mut env = Env::running("act_1", false, EffectMode::Once);
    env.advance(TIMEOUT_MS - 1);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Running);
    env.advance(1);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Expired);
    assert_eq!(env.code("act_1"), codes::ACTION_DEADLINE.name);
    ended(&env);
    let mut env = Env::running("act_1", true, EffectMode::Once);
    env.advance(TIMEOUT_MS);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Failed);
    assert_eq!(env.code("act_1"), codes::ACTION_UNCERTAIN.name);
    ended(&env);
    // waiting for another attempt, never delivered: nothing can have happened
    let mut env = Env::running("act_1", true, EffectMode::Once);
    env.advance(TIMEOUT_MS - 200);
    env.settle(Outcome::NotDone(NotDone::NoResponders));
    env.now += 200;
    assert_eq!(env.apply(Command::Redispatch { action: "act_1".into() }), Answer::Nothing);
    assert_eq!(env.apply(Command::Expire { action: "act_1".into() }), Answer::Recorded);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Expired);
}

#[test]
fn a_pause_leaves_time_for_another_attempt_before_the_deadline() {
    for (mode, outcome) in [
        (EffectMode::Repeatable, Outcome::Lost(Lost::NoAnswer)),
        (EffectMode::Once, Outcome::NotDone(NotDone::NoResponders)),
    ] {
        let mut env = Env::new();
        let mut admit = env.admission("act_1");
        admit.pinned.dispatch = mode;
        admit.context.deadline_ms = START + 10_000;
        env.admit(admit);
        // by the seventh attempt pauses are as long as they get
        let deadline = env.action("act_1").deadline;
        while !env.action("act_1").is_terminal() {
            let attempt = env.action("act_1").attempt;
            env.settle(outcome.clone());
            while env.action("act_1").attempt == attempt && !env.action("act_1").is_terminal() {
                env.advance(50);
            }
        }
        let early = deadline.saturating_sub(env.now);
        assert!(early <= 2 * DISPATCH_BACKOFF_FIRST_MS, "{early} ms before its deadline");
        ended(&env);
    }
}

#[test]
fn no_attempt_begins_at_or_after_the_deadline() {
    let mut env = Env::running("act_1", false, EffectMode::Repeatable);
    env.now += TIMEOUT_MS - 50;
    env.settle(Outcome::Lost(Lost::NoAnswer));
    assert_eq!(env.code("act_1"), codes::WORKER_SILENT.name);
    for outcome in [Outcome::Lost(Lost::NoAnswer), Outcome::NotDone(NotDone::NotSent)] {
        let mut env = Env::running("act_1", false, EffectMode::Once);
        env.now += TIMEOUT_MS;
        env.settle(outcome);
        assert_eq!(env.action("act_1").lifecycle, Lifecycle::Expired);
    }
}

#[test]
fn an_output_that_its_schema_refuses_is_no_completion() {
    let mut env = Env::running("act_1", true, EffectMode::Once);
    env.settle(Outcome::BadOutput { path: "/ok".into() });
    assert_eq!(env.code("act_1"), codes::ACTION_OUTPUT.name);
    assert_eq!(env.action("act_1").result.unwrap().output, None);
}

#[test]
fn a_failure_that_says_it_is_uncertain_is_recorded_so() {
    let mut env = Env::running("act_1", true, EffectMode::Once);
    let mut error = worker_error();
    error.details = Some(json!({"uncertain_outcome": true, "provider_operation": "op-1"}));
    env.settle(Outcome::Answered(Box::new(failed("act_1", error))));
    let (record, _) = env.memory.log().last().unwrap();
    let said = serde_json::to_value(&record.events).unwrap();
    assert_eq!(said[0]["action"]["failed"]["uncertain"], json!(true));
}
