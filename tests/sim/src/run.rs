//! Runs seeds: one, or many in a row.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use aip_ledger::replica::Variant;

use crate::world::World;
use crate::{Counts, Invariant, Report, Subject, Violation};

/// A seed that went wrong, and where its event log was written.
#[derive(Debug)]
pub struct Failure {
    pub seed: u64,
    pub what: String,
    pub trace: Option<PathBuf>,
}

/// Runs one seed.
pub fn run<S: Subject>(subject: S, seed: u64, variant: Variant, trace: bool) -> Report {
    World::new(subject, seed, variant, trace).run(seed)
}

/// Runs seeds one after the other until one goes wrong. Returns what was seen, and that seed.
pub fn sweep<S: Subject>(
    subject: impl Fn() -> S,
    seeds: Range<u64>,
    variant: Variant,
) -> (Counts, Option<Failure>) {
    let mut counts = Counts::default();
    for seed in seeds {
        let what = match catch_unwind(AssertUnwindSafe(|| run(subject(), seed, variant, false))) {
            Ok(report) => {
                counts.add(&report.counts);
                match report.violation {
                    Some(violation) => violation.to_string(),
                    None => continue,
                }
            }
            Err(_) => "panicked".to_owned(),
        };
        return (counts, Some(Failure { seed, what, trace: write_trace(subject(), seed, variant) }));
    }
    (counts, None)
}

/// Looks for a seed that breaks one of these invariants; other violations on the way don't count.
pub fn hunt<S: Subject>(
    subject: impl Fn() -> S,
    mut seeds: Range<u64>,
    variant: Variant,
    invariants: &[Invariant],
) -> Option<(u64, Violation)> {
    seeds.find_map(|seed| {
        let violation = run(subject(), seed, variant, false).violation?;
        invariants.contains(&violation.invariant).then_some((seed, violation))
    })
}

/// Runs the seed again and keeps its event log: the same seed gives the same run.
fn write_trace<S: Subject>(subject: S, seed: u64, variant: Variant) -> Option<PathBuf> {
    let report = catch_unwind(AssertUnwindSafe(|| run(subject, seed, variant, true))).ok()?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/sim");
    std::fs::create_dir_all(&folder).ok()?;
    let path = folder.canonicalize().ok()?.join(format!("{seed}.log"));
    std::fs::write(&path, report.trace.join("\n")).ok()?;
    Some(path)
}
