//! Random histories: what any store has comes back, in the old order and with the old log time.

use super::*;

const SEEDS: u64 = 40;

/// One to three stores that learned from `log`, the first as far as it goes.
fn replicas(rng: &mut Rng, log: &MemLog) -> Vec<Store> {
    let last = log.messages.len() as u64;
    let mut stores = vec![follow(log, last)];
    for _ in 0..rng.below(3) {
        stores.push(follow(log, rng.below(last + 1)));
    }
    stores
}

/// After a recovery that had nothing to reconcile, everything means what it meant to the longest store.
fn came_back(recovered: &Recovered, log: &mut MemLog, longest: &Store) {
    let Recovered { report, orphans, rebuilt } = recovered;
    assert_eq!(
        kept(rebuilt, Kept::Effective),
        kept(longest, Kept::Effective),
        "the same records at the same log time"
    );
    assert_eq!(kept(rebuilt, Kept::Stopping), kept(longest, Kept::Stopping));
    assert_eq!(meaning(rebuilt), meaning(longest));
    assert!(orphans.is_empty() && report.orphans == 0, "{orphans:?}");
    verified(log, rebuilt).unwrap();
}

#[test]
fn a_log_that_was_cut_gets_back_what_the_stores_know() {
    let mut records = 0;
    for seed in 0..SEEDS {
        let rng = &mut Rng::new(seed);
        let mut whole = MemLog::new(1);
        grow(rng, &mut whole, "a", 60);
        let stores = replicas(rng, &whole);
        let mut log = whole.cut(rng.below(60));
        let before = log.messages.clone();
        let recovered = run(&mut log, &stores.iter().collect::<Vec<_>>(), None).unwrap();
        came_back(&recovered, &mut log, &stores[0]);
        assert_eq!(log.messages[..before.len()], before, "nothing of the log is changed");
        records += recovered.report.records;
        assert!(run(&mut log, &[&recovered.rebuilt], None).unwrap().report.whole, "mended is mended");
    }
    assert!(records > SEEDS, "the histories lost {records} records, too few to show anything");
}

#[test]
fn an_empty_or_missing_log_is_refilled_from_one_store() {
    for seed in 0..SEEDS {
        let rng = &mut Rng::new(seed);
        let mut whole = MemLog::new(1);
        grow(rng, &mut whole, "a", 60);
        let stores = replicas(rng, &whole);
        let mut log = MemLog { exists: rng.chance(50), ..MemLog::new(2) };
        let recovered = run(&mut log, &stores.iter().collect::<Vec<_>>(), None).unwrap();
        came_back(&recovered, &mut log, &stores[0]);
        assert_eq!(recovered.rebuilt.standing().unwrap().stream, Some(2));
    }
}

#[test]
fn a_whole_log_and_stores_that_stand_on_it_are_left_alone() {
    let rng = &mut Rng::new(7);
    let mut log = MemLog::new(1);
    grow(rng, &mut log, "a", 40);
    let (one, two) = (follow(&log, 40), follow(&log, 13));
    let recovered = run(&mut log, &[&one, &two], None).unwrap();
    assert!(recovered.report.whole);
    assert_eq!(log.messages.len(), 40);
}

/// An older copy of the log, or another stream, on which a new replica had served: what it holds stands first, and
/// each record of the stores is effective, or an orphan that is told of and kept.
fn reconciled(seed: u64, restart: impl Fn(&mut Rng, &MemLog) -> MemLog) -> u64 {
    let rng = &mut Rng::new(seed);
    let mut old = MemLog::new(1);
    grow(rng, &mut old, "a", 50);
    let stores = replicas(rng, &old);
    let mut log = restart(rng, &old);
    grow(rng, &mut log, "b", 15);
    let served = follow(&log, log.messages.len() as u64);
    let recovered = run(&mut log, &stores.iter().collect::<Vec<_>>(), None).unwrap();
    let Recovered { report, orphans, rebuilt } = &recovered;
    assert!(kept(rebuilt, Kept::Effective).is_superset(&kept(&served, Kept::Effective)), "the log stands");
    let effective = hashes(rebuilt, Kept::Effective);
    let told: BTreeSet<Hash> = orphans.iter().map(|orphan| orphan.hash).collect();
    assert_eq!(told.len() as u64, report.orphans, "each orphan is told once");
    for hash in hashes(&stores[0], Kept::Effective) {
        assert!(effective.contains(&hash) != told.contains(&hash), "seed {seed}: {hash}");
    }
    assert_eq!(hashes(rebuilt, Kept::Orphan), told);
    assert!(orphans.iter().all(|orphan| orphan.first.is_some() && orphan.n > 0 && !orphan.why.is_empty()));
    verified(&mut log, rebuilt).unwrap();
    // An old store that turns up again adds nothing.
    let again = run(&mut log, &[rebuilt, &stores[0]], None).unwrap();
    assert_eq!((again.report.messages, again.report.orphans), (0, 0));
    assert_eq!(again.report.digest, report.digest);
    // The evidence outlives the log.
    let mut empty = MemLog::new(9);
    let refilled = run(&mut empty, &[rebuilt], None).unwrap();
    assert_eq!(hashes(&refilled.rebuilt, Kept::Orphan), told);
    assert_eq!(hashes(&refilled.rebuilt, Kept::Effective), effective);
    told.len() as u64
}

#[test]
fn an_older_copy_that_went_on_keeps_its_own_and_names_what_can_not_stand() {
    let orphans: u64 = (0..SEEDS).map(|seed| reconciled(seed, |rng, old| old.cut(rng.below(50)))).sum();
    assert!(orphans > 0);
}

#[test]
fn another_stream_in_the_place_of_the_log_keeps_its_own_and_names_what_can_not_stand() {
    let orphans: u64 = (0..SEEDS).map(|seed| reconciled(seed, |_, _| MemLog::new(5))).sum();
    assert!(orphans > 0);
}

#[test]
fn stores_that_contradict_each_other_are_refused_unless_one_is_preferred() {
    for seed in 0..SEEDS {
        let rng = &mut Rng::new(seed);
        let mut common = MemLog::new(1);
        grow(rng, &mut common, "a", 20);
        let (mut one, mut other) = (common.clone(), common.clone());
        grow(rng, &mut one, "b", 20);
        grow(rng, &mut other, "c", 12);
        let (first, second) = (follow(&one, 40), follow(&other, 32));
        let mut log = common.cut(15);
        let refused = run(&mut log.clone(), &[&first, &second], None).err().unwrap();
        assert!(matches!(refused, RecoverError::Contradiction { .. }), "seed {seed}: {refused}");
        assert!(refused.to_string().contains("position"), "{refused}");
        let Recovered { report, orphans, rebuilt } = run(&mut log, &[&first, &second], Some(1)).unwrap();
        assert!(kept(&rebuilt, Kept::Effective).is_superset(&kept(&second, Kept::Effective)), "seed {seed}");
        assert!(orphans.iter().all(|orphan| orphan.store == "store 0"));
        assert_eq!(report.orphans, orphans.len() as u64);
    }
}

#[test]
fn stores_of_different_streams_contradict_each_other_by_their_entities() {
    let rng = &mut Rng::new(3);
    let (mut one, mut other) = (MemLog::new(1), MemLog::new(2));
    grow(rng, &mut one, "a", 20);
    grow(rng, &mut other, "b", 20);
    let stores = [follow(&one, 20), follow(&other, 20)];
    let refused = run(&mut MemLog::new(3), &[&stores[0], &stores[1]], None).err().unwrap();
    assert!(refused.to_string().contains("different records 1 of thing/"), "{refused}");
}

#[test]
fn a_recovery_that_was_interrupted_is_run_again() {
    for fails_at in [1, 2, 9] {
        let rng = &mut Rng::new(fails_at);
        let mut whole = MemLog::new(1);
        grow(rng, &mut whole, "a", 40);
        let longest = follow(&whole, 40);
        let mut log = MemLog { fails_at: Some(fails_at), ..MemLog::new(2) };
        assert!(matches!(run(&mut log, &[&longest], None), Err(RecoverError::Log(_))));
        assert_eq!(log.messages.len() as u64, fails_at - 1);
        log.fails_at = None;
        let recovered = run(&mut log, &[&longest], None).unwrap();
        came_back(&recovered, &mut log, &longest);
    }
}

#[test]
fn a_trial_changes_nothing() {
    let rng = &mut Rng::new(5);
    let mut whole = MemLog::new(1);
    grow(rng, &mut whole, "a", 40);
    let longest = follow(&whole, 40);
    let mut log = MemLog { exists: false, ..MemLog::new(2) };
    let sources = [Source { name: "one", store: &longest }];
    let mut options = Options { dry_run: true, ..Options::default() };
    let tried = mend(&Toy, &mut log, &sources, &store(), &mut options).unwrap();
    assert!(!log.exists && log.messages.is_empty());
    let done = run(&mut log, &[&longest], None).unwrap();
    assert_eq!((tried.records, tried.last_seq), (done.report.records, done.report.last_seq));
    assert!(tried.records > 0);
}

#[test]
fn a_log_without_its_beginning_or_with_a_hole_is_refused() {
    let rng = &mut Rng::new(1);
    let mut whole = MemLog::new(1);
    grow(rng, &mut whole, "a", 20);
    let longest = follow(&whole, 20);
    let mut purged = whole.clone();
    purged.messages.drain(..4);
    assert!(matches!(run(&mut purged, &[&longest], None), Err(RecoverError::Begins(5))));
    let mut holed = whole.clone();
    holed.messages.remove(8);
    assert!(matches!(run(&mut holed, &[&longest], None), Err(RecoverError::Hole(10))));
    let mut foreign = whole.clone();
    foreign.messages[8].bytes = "hello".into();
    assert!(matches!(run(&mut foreign, &[&longest], None), Err(RecoverError::Foreign { seq: 9, .. })));
}
