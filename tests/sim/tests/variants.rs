//! A simulation that finds nothing may be blind: each variant that is broken on purpose must be found out, within
//! the seeds that CI runs, by the invariant that it breaks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use aip_ledger::replica::Variant;
use aip_sim::toy::ToySubject;
use aip_sim::{Invariant, hunt};

const SEEDS: u64 = 2_000;

fn caught(variant: Variant, by: &[Invariant]) {
    let Some((seed, violation)) = hunt(ToySubject::default, 0..SEEDS, variant, by) else {
        panic!("{variant:?} was not caught in {SEEDS} seeds");
    };
    println!("{variant:?} was caught by seed {seed}: {violation}");
}

#[test]
fn acknowledging_before_the_tail_is_caught() {
    caught(Variant::AcknowledgeBeforeTail, &[Invariant::Effective]);
}

#[test]
fn judging_nothing_void_is_caught() {
    caught(Variant::NoVoidCheck, &[Invariant::Judged]);
}

#[test]
fn serving_without_a_position_check_is_caught() {
    caught(Variant::NoPositionCheck, &[Invariant::Ready, Invariant::Silent]);
}

#[test]
fn performing_before_the_commit_is_caught() {
    caught(Variant::EffectsBeforeCommit, &[Invariant::Committed]);
}

#[test]
fn effects_of_mode_once_that_pass_by_time_are_caught() {
    caught(Variant::ClaimsPassByTime, &[Invariant::Once]);
}

#[test]
fn repeatable_effects_that_a_late_writer_performs_at_once_are_caught() {
    caught(Variant::EffectsWithoutNotAfter, &[Invariant::NotAfter]);
}

#[test]
fn answers_from_an_old_view_are_caught() {
    caught(Variant::AnswersWithoutBarrier, &[Invariant::AnswerSees]);
}
