//! The same on files: locks, names, and old files that are kept.

use std::path::Path;

use redb::ReadableTable;
use tempfile::tempdir;

use super::toy::identity;
use super::*;
use crate::StoreError;
use crate::recover::{recover, verify};
use crate::store::Tables;

/// A store file that has learned the first `until` messages.
fn file(path: &Path, log: &MemLog, until: u64) -> Store {
    let (mut log, store) = (log.clone(), Store::open(path, &identity()).unwrap());
    let info = log.info().unwrap().unwrap();
    super::super::replay(&Toy, &mut log, &info, until, &store, &[]).unwrap();
    store.adopt_stream(info.created_ns).unwrap();
    store
}

fn names(folder: &Path) -> Vec<String> {
    let names =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn store_files_are_rebuilt_and_the_old_ones_kept() {
    let folder = tempdir().unwrap();
    let (one, two) = (folder.path().join("one.redb"), folder.path().join("two.redb"));
    let mut whole = MemLog::new(1);
    grow(&mut Rng::new(1), &mut whole, "a", 40);
    let open = file(&one, &whole, 40);
    drop(file(&two, &whole, 25));
    let meant = meaning(&open);
    let paths = [one.clone(), two.clone(), one.clone()];

    let mut log = whole.cut(10);
    let locked = recover(&Toy, &mut log, &identity(), &paths, None, Options::default());
    let locked = locked.unwrap_err();
    assert!(matches!(&locked, RecoverError::OfStore { source: StoreError::Locked, .. }), "{locked}");
    assert_eq!(log.messages.len(), 10);
    drop(open);

    let report = recover(&Toy, &mut log, &identity(), &paths, None, Options::default()).unwrap();
    assert_eq!(report.rebuilt.len(), 2, "a store that is named twice is one store");
    for (path, aside) in &report.rebuilt {
        assert_eq!(meaning(&Store::open(path, &identity()).unwrap()), meant);
        let verified = verify(&Toy, &mut log, &identity(), path, &mut |_, _, _| Ok(())).unwrap();
        assert_eq!((verified.digest, verified.position), (report.digest, report.last_seq));
        assert!(aside.to_str().unwrap().contains(".redb.before-recovery-"));
        assert!(Store::open(aside, &identity()).unwrap().standing().unwrap().position.seq >= 25);
    }
    assert_eq!(names(folder.path()).len(), 4, "{:?}", names(folder.path()));

    let again = recover(&Toy, &mut log, &identity(), &[one, two], None, Options::default()).unwrap();
    assert!(again.whole && again.rebuilt.is_empty());
    assert_eq!(names(folder.path()).len(), 4);
}

#[test]
fn what_is_no_store_or_not_given_is_named() {
    let folder = tempdir().unwrap();
    let (one, none) = (folder.path().join("one.redb"), folder.path().join("none.redb"));
    let mut log = MemLog::new(1);
    grow(&mut Rng::new(1), &mut log, "a", 5);
    drop(file(&one, &log, 5));
    let mut tried = |paths: &[std::path::PathBuf], prefer: Option<&Path>| {
        recover(&Toy, &mut log, &identity(), paths, prefer, Options::default()).unwrap_err()
    };
    assert!(matches!(tried(&[one.clone(), none.clone()], None), RecoverError::NoStore(_)));
    assert!(matches!(tried(std::slice::from_ref(&one), Some(&none)), RecoverError::NotGiven(_)));
    assert!(matches!(tried(&[], None), RecoverError::TooMany(0)));
    assert_eq!(names(folder.path()), ["one.redb"], "nothing was made");
}

#[test]
fn a_store_that_was_changed_is_found_out_and_rebuilt() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("one.redb");
    let mut log = MemLog::new(1);
    grow(&mut Rng::new(2), &mut log, "a", 30);
    let store = file(&path, &log, 30);
    let txn = store.begin(true).unwrap();
    {
        let mut tables = Tables::open(&txn).unwrap();
        let mut row = tables.entities.get(("thing", "e1")).unwrap().unwrap().value().to_vec();
        row.extend_from_slice(b" ");
        tables.entities.insert(("thing", "e1"), row.as_slice()).unwrap();
    }
    txn.commit().unwrap();
    drop(store);
    let found = verify(&Toy, &mut log, &identity(), &path, &mut |_, _, _| Ok(())).unwrap_err();
    assert!(
        matches!(&found, VerifyError::Differs(what) if what.contains("entities (\"thing\", \"e1\")")),
        "{found}"
    );
    let report =
        recover(&Toy, &mut log, &identity(), std::slice::from_ref(&path), None, Options::default()).unwrap();
    assert!(report.sources[0].beside.as_ref().unwrap().contains("not what the log makes"));
    assert_eq!((report.messages, report.rebuilt.len()), (0, 1));
    verify(&Toy, &mut log, &identity(), &path, &mut |_, _, _| Ok(())).unwrap();
    let refused = verify(&Toy, &mut log.cut(29), &identity(), &path, &mut |_, _, _| Ok(())).unwrap_err();
    assert!(matches!(refused, VerifyError::Beside(_)), "{refused}");
    let checked = verify(&Toy, &mut log, &identity(), &path, &mut |_, _, _| Err("no receipt".to_owned()));
    assert!(matches!(checked.unwrap_err(), VerifyError::Chain { what, .. } if what == "no receipt"));
}
