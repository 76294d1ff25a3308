use aip_wire::ActionResultStatus;
use serde_json::json;

use super::*;

const DIGEST: &str = "d1";

fn result(id: &ActionId, output: serde_json::Value) -> ActionResult {
    ActionResult {
        action_id: id.clone(),
        status: ActionResultStatus::Completed,
        output: Some(output),
        message: Vec::new(),
        memory_update: None,
        usage: None,
        receipt: None,
        error: None,
    }
}

fn open(folder: &tempfile::TempDir) -> Store {
    Store::open(&folder.path().join("results.redb")).unwrap()
}

/// Closing is done when the file can be opened again.
async fn reopen(folder: &tempfile::TempDir, store: Store) -> Store {
    drop(store);
    loop {
        match Store::open(&folder.path().join("results.redb")) {
            Ok(store) => return store,
            Err(StoreError::Locked { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn an_action_is_unknown_then_begun_then_finished() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let id = ActionId::generate();
    assert_eq!(store.begin(&id, DIGEST, true, 1).await.unwrap(), Known::Nothing);
    assert_eq!(store.begin(&id, "another", true, 1).await.unwrap(), Known::Other);

    let store = reopen(&folder, store).await;
    assert_eq!(store.begin(&id, DIGEST, true, 2).await.unwrap(), Known::Begun);
    let ended = result(&id, json!({"n": 1}));
    store.finish(&id, DIGEST, ended.clone(), true, 3).await.unwrap();

    let store = reopen(&folder, store).await;
    assert_eq!(store.begin(&id, DIGEST, true, 4).await.unwrap(), Known::Finished(Box::new(ended)));
}

#[tokio::test]
async fn a_read_leaves_no_mark_and_its_answer_survives_a_close() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let id = ActionId::generate();
    for _ in 0..2 {
        assert_eq!(store.begin(&id, DIGEST, false, 1).await.unwrap(), Known::Nothing);
    }
    let ended = result(&id, json!([]));
    store.finish(&id, DIGEST, ended.clone(), false, 1).await.unwrap();
    let store = reopen(&folder, store).await;
    assert_eq!(store.begin(&id, DIGEST, false, 1).await.unwrap(), Known::Finished(Box::new(ended)));
}

#[tokio::test]
async fn what_is_too_old_is_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let (old, young) = (ActionId::generate(), ActionId::generate());
    store.finish(&old, DIGEST, result(&old, json!(1)), true, 1_000).await.unwrap();
    store
        .finish(&young, DIGEST, result(&young, json!(2)), true, 2_000 + WORKER_RESULTS_KEPT_MS)
        .await
        .unwrap();
    assert_eq!(store.begin(&old, DIGEST, false, 0).await.unwrap(), Known::Nothing);
    assert!(matches!(store.begin(&young, DIGEST, false, 0).await.unwrap(), Known::Finished(_)));
}

#[test]
fn the_oldest_go_first_when_there_is_too_much_and_the_count_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("results.redb")).unwrap();
    let mut kept = Kept::read(&database).unwrap();
    let writing = database.begin_write().unwrap();
    {
        let mut rows =
            Rows { actions: writing.open_table(ACTIONS).unwrap(), ages: writing.open_table(AGES).unwrap() };
        for at_ms in 0..10 {
            let row = Row { digest: DIGEST.to_owned(), at_ms, result: None };
            rows.put(&format!("act_{at_ms}"), &row, &mut kept).unwrap();
            // the same action again is one row
            rows.put(&format!("act_{at_ms}"), &row, &mut kept).unwrap();
        }
        let mut full = Kept { rows: WORKER_RESULTS_MAX + 3, bytes: kept.bytes };
        rows.prune(10, &mut full).unwrap();
        assert_eq!(full.rows, WORKER_RESULTS_MAX);
        assert!(rows.row("act_2").unwrap().is_none() && rows.row("act_3").unwrap().is_some());
        kept.rows -= 3;
        kept.bytes = full.bytes;
    }
    writing.commit().unwrap();
    assert_eq!(Kept::read(&database).unwrap(), kept);
}

#[tokio::test]
async fn one_file_has_one_owner() {
    let folder = tempfile::tempdir().unwrap();
    let _store = open(&folder);
    let second = Store::open(&folder.path().join("results.redb"));
    assert!(matches!(second, Err(StoreError::Locked { .. })));
}

#[tokio::test]
async fn many_at_once_are_all_answered() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let ids: Vec<ActionId> = (0..200).map(|_| ActionId::generate()).collect();
    let begun = futures_util::future::join_all(ids.iter().map(|id| store.begin(id, DIGEST, true, 5))).await;
    assert!(begun.into_iter().all(|known| known.unwrap() == Known::Nothing));
    let again = futures_util::future::join_all(ids.iter().map(|id| store.begin(id, DIGEST, true, 6))).await;
    assert!(again.into_iter().all(|known| known.unwrap() == Known::Begun));
}
