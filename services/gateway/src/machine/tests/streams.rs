use aip_kernel::{EffectMode, View};
use aip_names::limits::{LEASE_GRACE_MS, LEASE_MS};
use aip_wire::{ActionId, ActionLifecycleState as Lifecycle, ActionMode, CorrelationId, MessageId};

use super::env::*;
use crate::machine::{Answer, Command, Effect, Outcome, Refusal, Report, Says, Stream, keys};

const SUPERSEDED: Answer = Answer::Refused(Refusal::Superseded);

fn admission(env: &Env, id: &str, correlation: &CorrelationId) -> crate::machine::Admit {
    let mut admit = env.admission(id);
    admit.action.mode = Some(ActionMode::Streaming);
    admit.context.deadline_ms = START + 3_000_000;
    admit.pinned.dispatch = EffectMode::Repeatable;
    admit.pinned.streams = true;
    admit.correlation_id = Some(correlation.clone());
    admit
}

fn streaming() -> (Env, CorrelationId) {
    let (mut env, correlation) = (Env::new(), CorrelationId::generate());
    let admit = admission(&env, "act_1", &correlation);
    assert_eq!(env.admit(admit), Answer::Admitted);
    (env, correlation)
}

fn says(env: &mut Env, worker: &str, attempt: u32, says: Says) -> Answer {
    let report = Report {
        provider: actor("svc:worker"),
        action: ActionId::opaque("act_1"),
        attempt,
        worker: worker.into(),
        says,
        message_id: MessageId::opaque("msg_report"),
        replay: None,
    };
    env.apply(Command::Report(Box::new(report)))
}

fn streams(env: &mut Env, worker: &str, attempt: u32, sequence: u64) -> Answer {
    let stream = Stream {
        provider: actor("svc:worker"),
        action: ActionId::opaque("act_1"),
        attempt,
        worker: worker.into(),
        sequence,
    };
    env.apply(Command::Stream(Box::new(stream)))
}

fn done(env: &mut Env, worker: &str, attempt: u32) -> Answer {
    says(env, worker, attempt, Says::Ended(Outcome::Answered(Box::new(completed("act_1")))))
}

fn close(env: &mut Env, last: u64) -> Answer {
    env.apply(Command::CloseStream { action: "act_1".into(), last })
}

fn effects(env: &Env) -> Vec<Effect> {
    env.memory.effects().map(|(_, effect, _)| effect.clone()).collect()
}

#[test]
fn a_stream_begins_with_one_record_and_is_closed_with_one() {
    let (mut env, _) = streaming();
    assert_eq!(effects(&env), [Effect::Enqueue { attempt: 1 }]);
    assert_eq!(streams(&mut env, "a", 1, 1), SUPERSEDED, "not begun");
    says(&mut env, "a", 1, Says::Started);
    assert_eq!(streams(&mut env, "b", 1, 1), SUPERSEDED);
    assert_eq!(streams(&mut env, "a", 1, 1), Answer::Recorded);
    assert_eq!(streams(&mut env, "a", 1, 2), Answer::Nothing);
    let state = env.action("act_1");
    assert_eq!((state.lifecycle, state.stream.reached), (Lifecycle::Streaming, 1));
    assert_eq!(says(&mut env, "a", 1, Says::Running), Answer::Recorded);
    assert_eq!(close(&mut env, 2), Answer::Nothing, "it has not ended");
    assert_eq!(done(&mut env, "a", 1), Answer::Recorded);
    assert_eq!(effects(&env), [Effect::CloseStream]);
    assert_eq!(streams(&mut env, "a", 1, 3), SUPERSEDED);
    assert_eq!(close(&mut env, 2), Answer::Recorded);
    assert_eq!(close(&mut env, 9), Answer::Nothing, "closed before");
    let state = env.action("act_1");
    assert_eq!((state.lifecycle, state.stream.last), (Lifecycle::Completed, Some(2)));
    assert_eq!(effects(&env), []);
    let again = env.memory.replay(crate::machine::GatewayMachine).unwrap();
    assert!(env.memory.same(&again));
}

#[test]
fn a_takeover_streams_on_and_a_late_worker_does_not() {
    let (mut env, _) = streaming();
    says(&mut env, "a", 1, Says::Started);
    streams(&mut env, "a", 1, 1);
    env.advance(LEASE_MS);
    env.advance(LEASE_GRACE_MS);
    env.advance(200);
    assert_eq!(effects(&env), [Effect::Enqueue { attempt: 2 }]);
    assert_eq!(streams(&mut env, "a", 1, 2), SUPERSEDED);
    says(&mut env, "b", 2, Says::Started);
    assert_eq!(env.action("act_1").lifecycle, Lifecycle::Running);
    assert_eq!(streams(&mut env, "b", 2, 7), Answer::Recorded);
    let state = env.action("act_1");
    assert_eq!((state.lifecycle, state.stream.reached), (Lifecycle::Streaming, 7));
}

#[test]
fn a_stream_is_closed_however_its_action_ends() {
    let (mut env, _) = streaming();
    says(&mut env, "a", 1, Says::Started);
    streams(&mut env, "a", 1, 1);
    env.advance(3_000_000);
    assert!(env.action("act_1").is_terminal());
    assert_eq!(effects(&env), [Effect::CloseStream]);
}

#[test]
fn a_correlation_id_leads_to_one_stream_at_a_time() {
    let (mut env, correlation) = streaming();
    let second = admission(&env, "act_2", &correlation);
    assert_eq!(env.admit(second), Answer::Refused(Refusal::CorrelationInUse));
    // chosen names are nobody's, so nothing is told under them
    let chosen = admission(&env, "act_3", &CorrelationId::opaque("corr_mine"));
    assert_eq!(env.admit(chosen), Answer::Admitted);
    assert!(env.action("act_1").stream.native && !env.action("act_3").stream.native);
    says(&mut env, "a", 1, Says::Started);
    done(&mut env, "a", 1);
    assert!(
        env.memory.claim(&keys::stream(&correlation)).unwrap().is_some(),
        "the result is still to be told"
    );
    close(&mut env, 0);
    let later = admission(&env, "act_4", &correlation);
    assert_eq!(env.admit(later), Answer::Admitted);
}
