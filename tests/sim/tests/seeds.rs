//! The road as it is holds every invariant, over seeds in which every kind of fault fired.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use aip_ledger::replica::Variant;
use aip_sim::toy::ToySubject;
use aip_sim::{run, sweep};

const SEEDS: u64 = 400;

/// One part of the seeds; parts run beside each other.
fn part(part: u64) {
    let (counts, failure) = sweep(ToySubject::default, part * SEEDS..(part + 1) * SEEDS, Variant::Sound);
    if let Some(failure) = failure {
        panic!(
            "seed {}: {}\nevent log: {:?}\nagain: cargo run -p aip-sim -- replay --seed {}",
            failure.seed, failure.what, failure.trace, failure.seed
        );
    }
    println!("{counts}");
    assert!(counts.missing().is_empty(), "never seen: {:?}", counts.missing());
}

macro_rules! parts {
    ($($name:ident $number:literal,)*) => {$(
        #[test]
        fn $name() {
            part($number);
        }
    )*};
}

parts! {
    seeds_0_hold 0,
    seeds_400_hold 1,
    seeds_800_hold 2,
    seeds_1200_hold 3,
    seeds_1600_hold 4,
    seeds_2000_hold 5,
    seeds_2400_hold 6,
    seeds_2800_hold 7,
}

/// Without this a printed seed would tell nothing.
#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..40 {
        let again = || run(ToySubject::default(), seed, Variant::Sound, true);
        let (first, second) = (again(), again());
        assert!(!first.trace.is_empty());
        assert_eq!(first.counts, second.counts, "seed {seed}");
        assert_eq!(first.trace, second.trace, "seed {seed}");
    }
}
