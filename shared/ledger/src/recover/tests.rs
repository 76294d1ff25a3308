mod files;
mod histories;
mod toy;

use std::collections::BTreeSet;

use aip_kernel::{Hash, Header};

use super::{Log, Options, Orphan, RecoverError, Report, Source, mend, rebuild};
use crate::store::{Kept, Store};
use crate::verify::{VerifyError, verify};
use toy::{MemLog, Rng, Toy, follow, grow, store};

/// Everything that a store keeps, with its log time, without its place.
fn kept(store: &Store, wanted: Kept) -> BTreeSet<(String, u64, Hash, u64)> {
    let mut all = BTreeSet::new();
    let snapshot = store.snapshot().unwrap();
    snapshot
        .each_kept(|kept, past| {
            if kept == wanted {
                let header: Header = serde_json::from_slice(past.raw).unwrap();
                all.insert((header.entity().to_string(), header.n, past.hash(), past.log_time));
            }
            Ok(())
        })
        .unwrap();
    all
}

fn hashes(store: &Store, wanted: Kept) -> BTreeSet<Hash> {
    kept(store, wanted).into_iter().map(|(_, _, hash, _)| hash).collect()
}

/// What a store is about, without the places of records and the numbers of writers, which a mended log has anew.
fn meaning(store: &Store) -> Vec<(String, Vec<u8>)> {
    let meant = ["entities", "effects", "timers", "timer of", "index", "stopped", "log time"];
    let rows = store
        .snapshot()
        .unwrap()
        .rows()
        .unwrap()
        .map(Result::unwrap)
        .filter(|row| meant.contains(&row.table));
    rows.map(|row| (format!("{} {}", row.table, row.key), row.value)).collect()
}

struct Recovered {
    report: Report,
    orphans: Vec<Orphan>,
    rebuilt: Store,
}

fn run(log: &mut MemLog, stores: &[&Store], prefer: Option<usize>) -> Result<Recovered, RecoverError> {
    let names: Vec<String> = (0..stores.len()).map(|i| format!("store {i}")).collect();
    let sources: Vec<Source<'_>> =
        names.iter().zip(stores).map(|(name, store)| Source { name, store }).collect();
    let mut orphans = Vec::new();
    let mut hear = |orphan| orphans.push(orphan);
    let mut options = Options { prefer, dry_run: false, orphan: Some(&mut hear) };
    let report = mend(&Toy, log, &sources, &store(), &mut options)?;
    let rebuilt = store();
    if log.info()?.is_some() {
        assert_eq!(
            rebuild(&Toy, log, &rebuilt)?,
            report.digest,
            "replay of the mended log equals what was mended"
        );
    }
    Ok(Recovered { report, orphans, rebuilt })
}

/// A store that stands on the log passes verification; its rebuilt successor does too.
fn verified(log: &mut MemLog, candidate: &Store) -> Result<u64, VerifyError> {
    verify(&Toy, log, candidate, &store(), &mut |_, _, _| Ok(())).map(|verified| verified.records)
}
