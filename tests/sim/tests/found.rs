//! What the simulation has found, each as the shortest story that shows it. The seeds named here found it when they
//! did; they tell other stories since the plans have changed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use aip_kernel::{EffectId, ReplicaId, View, WriterId};
use aip_ledger::replica::{BarrierMode, Input, Now, Output, Replica, Variant};
use aip_ledger::{Identity, LogInfo, LogMessage, Readiness, Store};
use aip_sim::toy::{Ask, Command, Toy};
use redb::backends::InMemoryBackend;

/// One replica on a log that does as it is told.
struct Bench {
    replica: Replica<Toy>,
    log: Vec<LogMessage>,
    now_ms: u64,
}

impl Bench {
    fn ready() -> Bench {
        let identity = Identity { service: "toy".to_owned(), trust_domain: "sim.local".to_owned(), shard: 0 };
        let store = Store::with_backend(InMemoryBackend::new(), &identity).unwrap();
        let me = WriterId { replica: ReplicaId("r0".to_owned()), life: "1".to_owned() };
        let replica = Replica::new(Toy, store, me, BarrierMode::LastSequence, Variant::Sound).unwrap();
        let mut bench = Bench { replica, log: Vec::new(), now_ms: 0 };
        bench.step([Input::Opened(LogInfo { created_ns: 1, first_seq: 1, last_seq: 0 })]);
        bench
    }

    fn step(&mut self, inputs: impl IntoIterator<Item = Input<Toy>>) -> Vec<Output<Toy>> {
        self.now_ms += 1;
        let now = Now { wall_ms: self.now_ms, mono_ms: self.now_ms, entropy: u128::from(self.now_ms) };
        let mut out = Vec::new();
        self.replica.step(now, inputs, &mut out).unwrap();
        out
    }

    /// Decides a command and lets its record come back.
    fn ask(&mut self, req: &str, ask: Ask) -> Vec<Output<Toy>> {
        let command = Command::Ask { req: req.to_owned(), thing: "t".to_owned(), ask };
        let mut out = self.step([Input::Command { token: 0, command }]);
        let appended = out.iter().position(|output| matches!(output, Output::Append { .. })).unwrap();
        let Output::Append { bytes, .. } = out.remove(appended) else { unreachable!() };
        let seq = self.log.len() as u64 + 1;
        self.log.push(LogMessage { seq, time_ns: i128::from(self.now_ms) * 1_000_000, bytes });
        let message = self.log.last().unwrap().clone();
        out.extend(self.step([Input::Message(message)]));
        out
    }
}

fn performed(out: &[Output<Toy>]) -> Vec<EffectId> {
    let performed = out.iter().filter_map(|output| match output {
        Output::Perform { id, .. } => Some(id.clone()),
        _ => None,
    });
    performed.collect()
}

fn passed(out: &[Output<Toy>]) -> bool {
    out.iter().any(|output| matches!(output, Output::BarrierPassed { result: Ok(()), .. }))
}

fn fell_silent(out: &[Output<Toy>]) -> bool {
    out.iter().any(|output| matches!(output, Output::Readiness(Readiness::NotReady { .. })))
}

/// Seed 1507, L-4.once: the outcome of an effect of mode once could not be recorded, because its entity had been
/// stopped; after a rest the effect was taken up like a repeatable one.
#[test]
fn an_effect_of_mode_once_is_not_started_again_when_its_outcome_has_no_place() {
    let mut bench = Bench::ready();
    let ids = performed(&bench.ask("begin", Ask::Begin { repeatable: 0, once: 1, timer_ms: None }));
    assert_eq!(ids.len(), 1);
    bench.ask("poison", Ask::Poison { name: "name".to_owned() });
    let outcome = Command::Outcome { id: ids[0].clone(), known: true };
    bench.step([Input::Performed { id: ids[0].clone(), outcome: Some(outcome) }]);
    for _ in 0..100 {
        bench.now_ms += 1_000;
        assert_eq!(performed(&bench.step([Input::Tick])), []);
    }
}

/// Seed 39, L-1.state: a record that its machine could not apply stopped its entity, and held its claims for ever.
#[test]
fn a_record_that_stops_its_entity_takes_no_claims() {
    let mut bench = Bench::ready();
    let out = bench.ask("poison", Ask::Poison { name: "name".to_owned() });
    assert!(out.iter().any(|output| matches!(output, Output::Alarm { .. })));
    assert_eq!(View::<Toy>::claim(bench.replica.snapshot(), "name").unwrap(), None);
}

/// Seed 1993, L-3.silent: a read's question was answered after a hole in the tail, and the read went on although
/// the position had yet to be checked again.
#[test]
fn a_read_does_not_pass_while_the_tail_is_closed() {
    let mut bench = Bench::ready();
    bench.ask("first", Ask::Add { amount: 1 });
    let asked = bench.step([Input::Barrier { token: 1 }]);
    let request = asked.iter().find_map(|output| match output {
        Output::AskLastSequence { request } => Some(*request),
        _ => None,
    });
    let beyond = LogMessage { seq: 3, ..bench.log[0].clone() };
    assert!(fell_silent(&bench.step([Input::Message(beyond)])));
    let answer = Input::LastSequence { request: request.unwrap(), seq: Some(1) };
    assert!(!passed(&bench.step([answer])));
    let info = LogInfo { created_ns: 1, first_seq: 1, last_seq: 1 };
    let again = bench.log[0].clone();
    assert!(passed(&bench.step([Input::Opened(info), Input::Message(again)])));
}

/// Found with the one before: the log that answers a read's question ends before what was learned from it, so it is
/// another one. The read must not go on by its word.
#[test]
fn a_log_that_has_become_shorter_lets_no_read_pass() {
    let mut bench = Bench::ready();
    bench.ask("first", Ask::Add { amount: 1 });
    bench.ask("second", Ask::Add { amount: 1 });
    let asked = bench.step([Input::Barrier { token: 1 }]);
    let request = asked.iter().find_map(|output| match output {
        Output::AskLastSequence { request } => Some(*request),
        _ => None,
    });
    let out = bench.step([Input::LastSequence { request: request.unwrap(), seq: Some(1) }]);
    assert!(!passed(&out) && fell_silent(&out));
}
