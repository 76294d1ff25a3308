//! Stores that a process must not touch: in use, or another's.

use std::path::Path;
use std::time::Duration;

use aip_chaos::faults::store_file;
use aip_chaos::fleet::Fleet;
use redb::TableDefinition;

const SOON: Duration = Duration::from_secs(30);
const FOREIGN: TableDefinition<&str, &str> = TableDefinition::new("foreign");

/// Starts a gateway once more and returns what it says at its end, which has to be soon and no success.
async fn refused(fleet: &Fleet) -> String {
    let second = fleet.gateways[0].spawn(&["--http-bind", "127.0.0.1:0"]).await;
    let ended = second.ended(SOON).await;
    let words = second.lines().last().cloned().unwrap_or_default();
    assert!(matches!(ended.code(), Some(2 | 3)), "{ended}: {words}");
    words
}

async fn refused_untouched(fleet: &Fleet, what: &str, why: &str) {
    let store = store_file(&fleet.gateways[0]);
    let before = std::fs::read(&store).unwrap();
    let words = refused(fleet).await;
    assert!(words.contains(why), "{what}: {words}");
    assert!(words.contains(store.to_str().unwrap()), "{what}: the store is not named: {words}");
    assert!(std::fs::read(&store).unwrap() == before, "{what}: its bytes were changed");
}

fn foreign(path: &Path) {
    let database = redb::Database::create(path).unwrap();
    let writing = database.begin_write().unwrap();
    writing.open_table(FOREIGN).unwrap().insert("whose", "another program's").unwrap();
    writing.commit().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_in_use_or_of_another_is_refused_and_left_as_it_is() {
    let mut fleet = Fleet::start().await;
    let words = refused(&fleet).await;
    assert!(words.contains("in use by another process"), "{words}");
    fleet.healed().await;
    let mut second = fleet.bank("worker-2").await;
    second.start().await;
    assert!(!second.proc().ended(SOON).await.success(), "two workers on one store");
    assert!(second.last_words().contains("use"), "{}", second.last_words());
    fleet.healed().await;

    fleet.gateways[0].stop().await;
    let (store, kept) = (store_file(&fleet.gateways[0]), fleet.folder().join("kept"));
    std::fs::rename(&store, &kept).unwrap();
    std::fs::write(&store, "a person's notes").unwrap();
    refused_untouched(&fleet, "no redb file", "").await;
    std::fs::remove_file(&store).unwrap();
    foreign(&store);
    refused_untouched(&fleet, "a redb file of another program", "another program").await;
    let whole = std::fs::read(&kept).unwrap();
    std::fs::write(&store, &whole[..whole.len() / 3]).unwrap();
    refused(&fleet).await;
    std::fs::rename(&kept, &store).unwrap();
    fleet.gateways[0].start().await;
    fleet.healed().await;
}
