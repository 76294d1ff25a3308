//! The ends of the road that chance does not reach: bounds, and what can't be read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use aip_kernel::{Machine, View};
use aip_ledger::replica::Input;
use aip_ledger::{LedgerError, LogMessage, Readiness};
use aip_names::limits;
use aip_sim::Bench;
use aip_sim::toy::{Answer, Ask, Toy, thing};
use bytes::Bytes;

fn add() -> Ask {
    Ask::Add { amount: 1 }
}

fn done(req: &str) -> Result<Answer, LedgerError> {
    Ok(Answer::Done { thing: "t".to_owned(), req: req.to_owned() })
}

#[test]
fn a_message_that_is_not_of_this_ledger_is_not_skipped() {
    let mut bench = Bench::ready().unwrap();
    bench.ask("first", add()).unwrap();
    assert!(bench.bring(Bytes::from_static(b"{}")).unwrap().fell_silent());
    let behind = bench.rival(Toy::VERSION).unwrap();
    bench.bring(behind).unwrap();
    assert_eq!(bench.replica.store().standing().unwrap().position.seq, 1);
    // It tries again, and stands where it stood.
    assert!(bench.later(limits::LEDGER_OPEN_TIMEOUT_MS).unwrap().opens_a_tail());
    assert!(bench.open().unwrap().fell_silent());
    assert_eq!(bench.command(7, "second", add()).unwrap().append(), None);
}

#[test]
fn a_record_of_a_newer_version_stops_an_older_program() {
    let mut bench = Bench::ready().unwrap();
    let newer = bench.rival(Toy::VERSION + 1).unwrap();
    let said = bench.bring(newer).unwrap();
    assert!(matches!(said.readiness(), Some(Readiness::NotReady { reason }) if reason.contains("newer")));
}

#[test]
fn a_record_that_the_log_would_not_take_is_refused() {
    let mut bench = Bench::ready().unwrap();
    let name = "x".repeat(limits::LEDGER_RECORD_BYTES_MAX);
    let said = bench.command(1, "large", Ask::Take { name, for_ms: None }).unwrap();
    assert_eq!(said.answers(), [(1, Err(LedgerError::TooLarge))]);
    assert_eq!(bench.ask("small", add()).unwrap().answers(), [(0, done("small"))]);
}

#[test]
fn more_commands_than_the_bound_are_refused_at_once() {
    let mut bench = Bench::started().unwrap();
    for token in 0..limits::LEDGER_COMMANDS_MAX as u64 {
        assert_eq!(bench.command(token, "waits", add()).unwrap().answers(), []);
        bench.now_ms = 0;
    }
    let said = bench.command(u64::MAX, "one more", add()).unwrap();
    assert_eq!(said.answers(), [(u64::MAX, Err(LedgerError::Overloaded))]);
}

#[test]
fn a_caller_is_told_when_nothing_was_done_and_when_that_is_not_known() {
    let mut bench = Bench::started().unwrap();
    assert_eq!(bench.command(1, "early", add()).unwrap().append(), None);
    let said = bench.later(limits::LEDGER_PATIENCE_MS).unwrap();
    assert!(matches!(said.answers()[..], [(1, Err(LedgerError::NotReady { .. }))]));

    bench.open().unwrap();
    let bytes = bench.command(2, "slow", add()).unwrap().append().unwrap();
    let said = bench.later(limits::LEDGER_PATIENCE_MS).unwrap();
    assert_eq!(said.answers(), [(2, Err(LedgerError::Unknown))]);
    // It comes back after all: done, but nobody is told twice. Who asks again learns it.
    assert_eq!(bench.bring(bytes).unwrap().answers(), []);
    let request = bench.command(3, "slow", add()).unwrap().asked().unwrap();
    let said = bench.step([Input::LastSequence { request, seq: Some(1) }]).unwrap();
    assert_eq!(said.answers(), [(3, done("slow"))]);
}

#[test]
fn an_answer_that_records_nothing_is_decided_on_the_log_as_it_stands() {
    let mut bench = Bench::ready().unwrap();
    let rival = bench.rival(Toy::VERSION).unwrap();
    let said = bench.command(1, "look", Ask::Look).unwrap();
    assert_eq!(said.answers(), []);
    // The log holds a message that this replica has not learned yet.
    let request = said.asked().unwrap();
    assert_eq!(bench.step([Input::LastSequence { request, seq: Some(1) }]).unwrap().answers(), []);
    assert_eq!(bench.bring(rival).unwrap().answers(), [(1, Ok(Answer::Nothing))]);
}

#[test]
fn a_writer_that_learns_late_of_its_effect_leaves_it_to_whoever_is_there() {
    let mut bench = Bench::ready().unwrap();
    let begin = Ask::Begin { repeatable: 1, once: 1, timer_ms: None };
    let ours = bench.command(1, "begin", begin).unwrap().append().unwrap();
    bench.now_ms += limits::EFFECT_ADOPT_MS;
    let started = bench.bring(ours).unwrap().again();
    assert_eq!(started, [false], "what only its writer may start waits for nobody");
    assert_eq!(bench.later(limits::EFFECT_ADOPT_MS).unwrap().again(), [true]);
}

#[test]
fn a_command_that_always_comes_second_gives_up() {
    let mut bench = Bench::ready().unwrap();
    let mut said = bench.command(1, "late", add()).unwrap();
    for tries in 1..=limits::LEDGER_TRIES_MAX {
        let ours = said.append().unwrap();
        let rival = bench.rival(Toy::VERSION).unwrap();
        bench.bring(rival).unwrap();
        said = bench.bring(ours).unwrap();
        let gave_up = tries == limits::LEDGER_TRIES_MAX;
        assert_eq!(said.answers().len(), usize::from(gave_up), "try {tries}");
    }
    assert_eq!(said.answers(), [(1, Err(LedgerError::Busy))]);
}

#[test]
fn an_append_is_sent_again_until_it_comes_back() {
    let mut bench = Bench::ready().unwrap();
    let first = bench.command(1, "req", add()).unwrap().append().unwrap();
    let again = bench.later(limits::LEDGER_APPEND_TIMEOUT_MS).unwrap().append().unwrap();
    assert_eq!(first, again);
    bench.step([Input::AppendUnsure { batch: 1 }]).unwrap();
    assert_eq!(bench.later(limits::LEDGER_APPEND_RETRY_MS).unwrap().append().unwrap(), first);
    assert_eq!(bench.bring(first.clone()).unwrap().answers(), [(1, done("req"))]);
    // A copy changes nothing and calls nothing forth.
    assert!(bench.bring(first).unwrap().0.is_empty());
    assert_eq!(bench.later(limits::LEDGER_APPEND_TIMEOUT_MS).unwrap().append(), None);
}

/// A log that keeps one publish under several sequences changes nothing.
#[test]
fn six_copies_of_a_message_are_one_dispatch() {
    let mut bench = Bench::ready().unwrap();
    let begin = Ask::Begin { repeatable: 1, once: 1, timer_ms: None };
    let bytes = bench.command(1, "begin", begin).unwrap().append().unwrap();
    let first = bench.bring(bytes.clone()).unwrap();
    assert_eq!((first.performed().len(), first.answers()), (2, vec![(1, done("begin"))]));
    for _ in 1..6 {
        assert!(bench.bring(bytes.clone()).unwrap().0.is_empty());
    }
    assert_eq!(bench.log.len(), 6);
    assert_eq!(bench.replica.snapshot().head(&thing("t")).unwrap().0, 1);
}

#[test]
fn a_hole_in_the_tail_is_seen_and_filled_from_the_log() {
    let mut bench = Bench::ready().unwrap();
    bench.ask("first", add()).unwrap();
    let (dropped, next) = (bench.rival(Toy::VERSION).unwrap(), bench.rival(Toy::VERSION).unwrap());
    bench.log.push(LogMessage { seq: 2, time_ns: 0, bytes: dropped });
    let said = bench.bring(next).unwrap();
    assert!(said.fell_silent() && said.opens_a_tail());
    assert_eq!(bench.replica.store().standing().unwrap().position.seq, 1);
    bench.open().unwrap();
    assert_eq!(bench.replica.store().standing().unwrap().position.seq, 3);
    let state = View::<Toy>::entity(bench.replica.snapshot(), &thing("t")).unwrap().unwrap().state;
    assert_eq!(state.total, 2, "the rival that came second is void");
}
