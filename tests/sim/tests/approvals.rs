//! The machine of approvals holds every invariant, and no decision that was acknowledged is lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use aip_ledger::replica::Variant;
use aip_sim::approvals::ApprovalSubject;
use aip_sim::sweep;

#[test]
fn approvals_hold_over_four_hundred_seeds_of_faults() {
    let (counts, failure) = sweep(ApprovalSubject::default, 0..400, Variant::Sound);
    if let Some(failure) = failure {
        panic!("seed {}: {}\nevent log: {:?}", failure.seed, failure.what, failure.trace);
    }
    println!("{counts}");
}
