//! Random walks: whatever commands come in whatever order, replaying the log gives the same store, every action moves
//! by the table only, and what may not be repeated is not.

use aip_kernel::{EffectMode, View};
use proptest::prelude::*;
use serde_json::json;

use super::env::*;
use crate::machine::settle::{Lost, NotDone, Outcome, Settle};
use crate::machine::{ActionEvent, Command, Event, GatewayMachine, keys, lifecycle, receipts};

#[derive(Debug, Clone)]
enum Step {
    Admit { id: u8, key: Option<u8>, input: u8, mutation: bool, repeatable: bool },
    Settle { id: u8, attempt: u32, outcome: u8 },
    Advance { ms: u64 },
    Register { variant: u8 },
    Poke { id: u8, redispatch: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4_u8, prop::option::of(0..2_u8), 0..2_u8, any::<bool>(), any::<bool>()).prop_map(
            |(id, key, input, mutation, repeatable)| Step::Admit { id, key, input, mutation, repeatable }
        ),
        6 => (0..4_u8, 1..4_u32, 0..9_u8)
            .prop_map(|(id, attempt, outcome)| Step::Settle { id, attempt, outcome }),
        4 => prop_oneof![Just(1), Just(150), Just(3_000), Just(40_000)].prop_map(|ms| Step::Advance { ms }),
        1 => (0..3_u8).prop_map(|variant| Step::Register { variant }),
        2 => (0..4_u8, any::<bool>()).prop_map(|(id, redispatch)| Step::Poke { id, redispatch }),
    ]
}

fn outcome(number: u8, action: &str) -> Outcome {
    match number {
        0 => Outcome::Answered(Box::new(completed(action))),
        1 => Outcome::Answered(Box::new(failed(action, worker_error()))),
        2 => Outcome::Rejected(Box::new(worker_error())),
        3 => Outcome::BadOutput { path: "/x".into() },
        4 => Outcome::NotDone(NotDone::NoResponders),
        5 => Outcome::Lost(Lost::NoAnswer),
        6 => Outcome::Lost(Lost::DispatcherGone),
        7 => Outcome::Lost(Lost::Garbage),
        _ => Outcome::Lost(Lost::TooLarge),
    }
}

fn run(env: &mut Env, step: &Step) {
    match step {
        Step::Admit { id, key: name, input, mutation, repeatable } => {
            let mut admit = env.admission(&format!("act_{id}"));
            admit.input_hash = format!("input {input}");
            admit.pinned.mutation = *mutation;
            admit.pinned.dispatch = if *repeatable { EffectMode::Repeatable } else { EffectMode::Once };
            admit.reservations = name.iter().map(|name| key(&name.to_string(), env.now + 60_000)).collect();
            env.admit(admit);
        }
        Step::Settle { id, attempt, outcome: number } => {
            let action = format!("act_{id}");
            let entity = keys::action(&action);
            let effect = aip_kernel::EffectId { entity, n: 1, index: 0 };
            let outcome = outcome(*number, &action);
            env.apply(Command::Settle(Box::new(Settle { effect, attempt: *attempt, outcome })));
        }
        Step::Advance { ms } => env.advance(*ms),
        Step::Register { variant } => {
            env.register(worker_manifest(vec![
                capability("cap:book", json!({"type": "object"})),
                capability("cap:other", json!({"variant": variant})),
            ]));
        }
        Step::Poke { id, redispatch } => {
            let action = format!("act_{id}");
            env.apply(if *redispatch { Command::Redispatch { action } } else { Command::Expire { action } });
        }
    }
}

/// An attempt that may have been delivered is followed by another only where the contract allows it, and nothing
/// follows an end.
fn check_dispatches(env: &Env, id: &str) {
    let Ok(Some(_)) = env.memory.entity(&keys::action(id)) else { return };
    let state = env.action(id);
    let past = env.memory.history(&keys::action(id), 1, 1_000).unwrap();
    assert!(past.len() <= aip_names::limits::ACTION_RECORDS_MAX);
    let mut delivered = false;
    let mut ended = false;
    for event in past.iter().flat_map(|(record, _, _)| &record.events) {
        assert!(!ended, "something follows the end of {id}");
        match event {
            Event::Action(ActionEvent::Dispatched { .. }) => {
                assert!(!delivered || state.pinned.dispatch == EffectMode::Repeatable, "{id} sent twice");
            }
            Event::Action(ActionEvent::AttemptFailed { delivered: may, .. }) => delivered |= may,
            Event::Action(ActionEvent::Accepted(_)) => {}
            _ => ended = true,
        }
    }
    assert_eq!(ended, state.is_terminal());
    let pending = env.memory.effects().filter(|(effect, _, _)| effect.entity.id == id).count();
    let timers = env.memory.timers().filter(|(entity, _, _)| entity.id == id).count();
    let running = state.lifecycle == aip_wire::ActionLifecycleState::Running;
    assert_eq!(pending, usize::from(running));
    assert_eq!(timers == 0, state.is_terminal());
    receipts::chain(&past, &state).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replaying_the_log_gives_the_store(steps in prop::collection::vec(step(), 1..60)) {
        let mut env = Env::new();
        let mut before = std::collections::BTreeMap::new();
        for step in &steps {
            run(&mut env, step);
            for id in 0..4 {
                let id = format!("act_{id}");
                if !env.exists(&id) {
                    continue;
                }
                let now = env.action(&id).lifecycle;
                if let Some(was) = before.insert(id.clone(), now) {
                    // a step may take several transitions, but never leaves an end
                    prop_assert!(was == now || !lifecycle::is_terminal(was), "{id} left {was} for {now}");
                }
                check_dispatches(&env, &id);
            }
        }
        let again = env.memory.replay(GatewayMachine).unwrap();
        prop_assert!(env.memory.same(&again));
    }
}
