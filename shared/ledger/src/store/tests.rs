use redb::{ReadableDatabase, TableDefinition};
use tempfile::tempdir;

use super::*;

fn identity() -> Identity {
    Identity { service: "gateway".to_owned(), trust_domain: "aip.local".to_owned(), shard: 0 }
}

#[test]
fn a_store_opens_again_and_is_locked_while_it_is_open() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("gateway-0.redb");
    let store = Store::open(&path, &identity()).unwrap();
    store.adopt_stream(7).unwrap();
    assert!(matches!(Store::open(&path, &identity()), Err(StoreError::Locked)));
    drop(store);
    assert_eq!(Store::open(&path, &identity()).unwrap().standing().unwrap().stream, Some(7));
}

#[test]
fn a_store_of_another_service_or_shard_is_refused() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("gateway-0.redb");
    drop(Store::open(&path, &identity()).unwrap());
    let other = Identity { shard: 1, ..identity() };
    let before = std::fs::read(&path).unwrap();
    assert!(matches!(Store::open(&path, &other), Err(StoreError::WrongStore { .. })));
    assert!(std::fs::read(&path).unwrap() == before, "not even opened for writing");
    Store::open(&path, &identity()).unwrap();
}

#[test]
fn a_store_of_a_newer_program_is_refused() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("gateway-0.redb");
    let store = Store::open(&path, &identity()).unwrap();
    let txn = store.begin(true).unwrap();
    let newer = (FORMAT + 1).to_be_bytes();
    txn.open_table(tables::META).unwrap().insert("format", newer.as_slice()).unwrap();
    txn.commit().unwrap();
    drop(store);
    assert!(matches!(Store::open(&path, &identity()), Err(StoreError::Newer(_))));
}

#[test]
fn a_redb_file_of_another_program_is_left_as_it_is() {
    const THEIRS: TableDefinition<u64, u64> = TableDefinition::new("theirs");
    let folder = tempdir().unwrap();
    let path = folder.path().join("gateway-0.redb");
    let db = Database::create(&path).unwrap();
    let txn = db.begin_write().unwrap();
    txn.open_table(THEIRS).unwrap().insert(1, 2).unwrap();
    txn.commit().unwrap();
    drop(db);
    assert!(matches!(Store::open(&path, &identity()), Err(StoreError::Damaged(_))));
    let db = Database::open(&path).unwrap();
    assert_eq!(db.begin_read().unwrap().list_tables().unwrap().count(), 1);
}

/// A process that died while it made its store left a file that redb refuses; the next one begins anew.
#[test]
fn a_half_made_store_is_made_again() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("gateway-0.redb");
    std::fs::write(path.with_extension("new"), [0; 4096]).unwrap();
    drop(Store::open(&path, &identity()).unwrap());
    Store::open(&path, &identity()).unwrap();
    assert!(!path.with_extension("new").exists());
}
