use std::sync::mpsc;

use aip_kernel::{Applying, Bug, Decision, EffectId, Facts};
use tempfile::tempdir;

use super::*;
use crate::store::{Identity, Store};

/// Decides nothing: here nobody is asked.
#[derive(Debug)]
struct Idle;

impl Machine for Idle {
    const VERSION: u32 = 1;
    type Command = ();
    type Answer = ();
    type Event = ();
    type State = ();
    type Effect = ();

    fn decide(&self, _: &dyn View<Self>, _: &(), _: &Facts) -> Result<Decision<Self>, Fault> {
        Ok(Decision::Answer(()))
    }

    fn apply(&self, _: Option<()>, _: &(), _: &mut Applying<'_, Self>) -> Result<(), Bug> {
        Ok(())
    }

    fn on_timer(&self, _: &EntityKey, _: &str) {}

    fn on_abandoned(&self, _: &EffectId, _: &()) {}
}

fn ledger(folder: &std::path::Path) -> (Ledger<Idle>, mpsc::Receiver<Event<Idle>>) {
    let identity = Identity { service: "gateway".to_owned(), trust_domain: "aip.local".to_owned(), shard: 0 };
    let store = Store::open(&folder.join("store.redb"), &identity).unwrap();
    let (events, inbox) = mpsc::channel::<Event<Idle>>();
    let (_, readiness) = watch::channel(Readiness::Ready);
    let shared = Shared::new(events, Arc::new(store.snapshot().unwrap()), readiness);
    (Ledger::new(Arc::new(shared)), inbox)
}

#[test]
fn watches_that_go_at_the_same_time_leave_nothing_behind() {
    let folder = tempdir().unwrap();
    let (ledger, _inbox) = ledger(folder.path());
    let together = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..2_000 {
                    let watch = ledger.watch(&EntityKey::new("action", format!("act_{round}")));
                    together.wait();
                    drop(watch);
                }
            });
        }
    });
    assert_eq!(lock(&ledger.shared.watchers).len(), 0);
}

/// A store that failed, or a drain that took too long, ends the thread while records are on their way.
#[tokio::test]
async fn who_waits_when_the_thread_ends_is_not_told_that_nothing_was_done() {
    let folder = tempdir().unwrap();
    let (ledger, inbox) = ledger(folder.path());
    let deciding = tokio::spawn({
        let ledger = ledger.clone();
        async move { ledger.decide(()).await }
    });
    let taken = tokio::task::spawn_blocking(move || (inbox.recv().is_ok(), inbox));
    let (taken, _inbox) = taken.await.unwrap();
    assert!(taken, "the thread has the command");
    ledger.shared.close();
    assert!(matches!(deciding.await.unwrap(), Err(LedgerError::Unknown)));
    assert!(matches!(ledger.decide(()).await, Err(LedgerError::Closed)), "who comes later was never heard");
}
