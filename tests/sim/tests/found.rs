//! What the simulation has found, each as the shortest story that shows it. The seeds named here found it when they
//! did; they tell other stories since the plans have changed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use aip_kernel::View;
use aip_ledger::LogMessage;
use aip_ledger::replica::Input;
use aip_sim::Bench;
use aip_sim::toy::{Ask, Command, Toy};

/// Seed 1507, L-4.once: the outcome of an effect of mode once could not be recorded, because its entity had been
/// stopped; after a rest the effect was taken up like a repeatable one.
#[test]
fn an_effect_of_mode_once_is_not_started_again_when_its_outcome_has_no_place() {
    let mut bench = Bench::ready().unwrap();
    let begun = bench.ask("begin", Ask::Begin { repeatable: 0, once: 1, timer_ms: None }).unwrap();
    let ids = begun.performed();
    assert_eq!(ids.len(), 1);
    bench.ask("poison", Ask::Poison { name: "name".to_owned() }).unwrap();
    let outcome = Command::Outcome { id: ids[0].clone(), known: true };
    bench.step([Input::Performed { id: ids[0].clone(), outcome: Some(outcome) }]).unwrap();
    for _ in 0..100 {
        assert_eq!(bench.later(1_000).unwrap().performed(), []);
    }
}

/// Seed 39, L-1.state: a record that its machine could not apply stopped its entity, and held its claims for ever.
#[test]
fn a_record_that_stops_its_entity_takes_no_claims() {
    let mut bench = Bench::ready().unwrap();
    assert!(bench.ask("poison", Ask::Poison { name: "name".to_owned() }).unwrap().alarm());
    assert_eq!(View::<Toy>::claim(bench.replica.snapshot(), "name").unwrap(), None);
}

/// Seed 1993, L-3.silent: a read's question was answered after a hole in the tail, and the read went on although
/// the position had yet to be checked again.
#[test]
fn a_read_does_not_pass_while_the_tail_is_closed() {
    let mut bench = Bench::ready().unwrap();
    bench.ask("first", Ask::Add { amount: 1 }).unwrap();
    let request = bench.step([Input::Barrier { token: 1 }]).unwrap().asked().unwrap();
    let beyond = LogMessage { seq: 3, ..bench.log[0].clone() };
    assert!(bench.step([Input::Message(beyond)]).unwrap().fell_silent());
    assert!(!bench.step([Input::LastSequence { request, seq: Some(1) }]).unwrap().read_passed());
    assert!(bench.open().unwrap().read_passed());
}

/// Found with the one before: the log that answers a read's question ends before what was learned from it, so it is
/// another one. The read must not go on by its word.
#[test]
fn a_log_that_has_become_shorter_lets_no_read_pass() {
    let mut bench = Bench::ready().unwrap();
    bench.ask("first", Ask::Add { amount: 1 }).unwrap();
    bench.ask("second", Ask::Add { amount: 1 }).unwrap();
    let request = bench.step([Input::Barrier { token: 1 }]).unwrap().asked().unwrap();
    let said = bench.step([Input::LastSequence { request, seq: Some(1) }]).unwrap();
    assert!(!said.read_passed() && said.fell_silent());
}
