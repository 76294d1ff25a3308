//! Recovery on a real nats-server with real files: its store is deleted or swapped for an older copy while everything
//! is stopped, the replica refuses, the recovery brings back what was acknowledged, and the replica serves again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aip_bus::{Bus, Settings};
use aip_kernel::{Applying, Bug, Decision, Draft, EffectId, EntityKey, Facts, Fault, Machine, View};
use aip_ledger::recover::{self, JetStreamLog, Options, RecoverError, Report};
use aip_ledger::verify::{Verified, VerifyError};
use aip_ledger::{Config, Ledger, LedgerError, Performer, Readiness, StoreError};
use aip_names::{Identity, Service};
use aip_testkit::{TestNats, wait_for};
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

/// Counters, each deposit under a name that is taken once.
#[derive(Debug)]
struct Counters;

#[derive(Debug)]
struct Add {
    counter: String,
    name: String,
}

impl Machine for Counters {
    const VERSION: u32 = 1;
    type Command = Add;
    type Answer = bool;
    type Event = u64;
    type State = u64;
    type Effect = ();

    fn decide(&self, view: &dyn View<Self>, add: &Add, facts: &Facts) -> Result<Decision<Self>, Fault> {
        if view.claim(&add.name)?.is_some() {
            return Ok(Decision::Answer(false));
        }
        let until = facts.now.max(facts.log_time) + 3_600_000;
        let draft =
            Draft::new(EntityKey::new("counter", &add.counter), vec![1]).claims(&add.name, Some(until));
        Ok(Decision::Append { draft, answer: true })
    }

    fn apply(&self, state: Option<u64>, event: &u64, _: &mut Applying<'_, Self>) -> Result<u64, Bug> {
        Ok(state.unwrap_or_default() + event)
    }

    fn on_timer(&self, entity: &EntityKey, name: &str) -> Add {
        Add { counter: entity.id.clone(), name: name.to_owned() }
    }

    fn on_abandoned(&self, id: &EffectId, (): &()) -> Add {
        Add { counter: id.entity.id.clone(), name: "abandoned".to_owned() }
    }
}

struct Nothing;

impl Performer<Counters> for Nothing {
    fn perform(&self, _: EffectId, (): (), _again: bool) -> BoxFuture<'static, Option<Add>> {
        Box::pin(async { None })
    }
}

fn config(nats: &TestNats, replica: &str) -> Config {
    Config {
        trust_domain: TestNats::trust_domain(),
        service: Service::gateway(),
        shard: 0,
        replica: replica.to_owned(),
        data_dir: nats.scratch().join(replica),
        stream_replicas: 1,
    }
}

async fn bus(nats: &TestNats) -> Bus {
    let settings = Settings {
        url: nats.url(),
        identity: Identity::Gateway,
        seed_file: nats.seed_file(&Identity::Gateway),
        name: "recovery-test".to_owned(),
    };
    let bus = Bus::connect(settings).await.unwrap();
    bus.ready(Duration::from_secs(10)).await.unwrap();
    bus
}

async fn open(nats: &TestNats, replica: &str) -> Ledger<Counters> {
    Ledger::open(Counters, bus(nats).await, Arc::new(Nothing), &config(nats, replica)).unwrap()
}

async fn ready(nats: &TestNats, replica: &str) -> Ledger<Counters> {
    let ledger = open(nats, replica).await;
    let mut readiness = ledger.readiness();
    let came = readiness.wait_for(|state| *state == Readiness::Ready);
    let in_time = tokio::time::timeout(Duration::from_secs(20), came).await.is_ok();
    assert!(in_time, "not ready in time: {:?}", *ledger.readiness().borrow());
    ledger
}

async fn add(ledger: &Ledger<Counters>, from: u64, to: u64) {
    for i in from..to {
        let add = Add { counter: format!("c{}", i % 5), name: format!("name-{i}") };
        assert_eq!(ledger.decide(add).await, Ok(true));
    }
}

/// Every acknowledged name is taken, and counted once.
async fn has_all(ledger: &Ledger<Counters>, count: u64) {
    let total = ledger.read(|view| {
        let mut total = 0;
        for i in 0..5 {
            total +=
                view.entity(&EntityKey::new("counter", format!("c{i}")))?.map_or(0, |entity| entity.state);
        }
        Ok(total)
    });
    assert_eq!(total.await, Ok(count));
    for i in 0..count {
        let again = Add { counter: "again".to_owned(), name: format!("name-{i}") };
        assert_eq!(ledger.decide(again).await, Ok(false), "name-{i}");
    }
}

async fn close(ledger: Ledger<Counters>) {
    ledger.drain().await;
}

async fn recovered(nats: &TestNats, replicas: &[&str]) -> Result<Report, RecoverError> {
    let own = config(nats, replicas[0]);
    let mut log = JetStreamLog::new(bus(nats).await, &own, Handle::current());
    let stores: Vec<PathBuf> = replicas.iter().map(|replica| config(nats, replica).store_file()).collect();
    let identity = own.identity();
    let work = move || recover::recover(&Counters, &mut log, &identity, &stores, None, Options::default());
    tokio::task::spawn_blocking(work).await.unwrap()
}

async fn verified(nats: &TestNats, replica: &str) -> Result<Verified, VerifyError> {
    let own = config(nats, replica);
    let mut log = JetStreamLog::new(bus(nats).await, &own, Handle::current());
    let work = move || {
        recover::verify(&Counters, &mut log, &own.identity(), &own.store_file(), &mut |_, _, _| Ok(()))
    };
    tokio::task::spawn_blocking(work).await.unwrap()
}

async fn refuses(nats: &TestNats, replica: &str) {
    let ledger = open(nats, replica).await;
    wait_for("the replica says why it does not serve", Duration::from_secs(20), || async {
        matches!(&*ledger.readiness().borrow(), Readiness::NotReady { reason } if reason.contains("ledger"))
    })
    .await;
    let refused = ledger.decide(Add { counter: "c0".to_owned(), name: "beside".to_owned() }).await;
    assert!(matches!(refused, Err(LedgerError::NotReady { .. })), "{refused:?}");
    close(ledger).await;
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_log_is_refilled_and_all_that_was_acknowledged_is_there() {
    let mut nats = TestNats::start().await;
    let (one, two) = (ready(&nats, "r1").await, ready(&nats, "r2").await);
    add(&one, 0, 20).await;
    close(two).await;
    add(&one, 20, 40).await;
    let locked = recovered(&nats, &["r1"]).await.unwrap_err();
    assert!(matches!(locked, RecoverError::OfStore { source: StoreError::Locked, .. }), "{locked}");
    close(one).await;
    let before = verified(&nats, "r1").await.unwrap();
    assert_eq!(before.records, 40);

    nats.server.stop().await.unwrap();
    std::fs::remove_dir_all(nats.server.store_dir()).unwrap();
    nats.server.restart().await.unwrap();
    refuses(&nats, "r1").await;
    assert!(matches!(verified(&nats, "r1").await, Err(VerifyError::Beside(_))));

    let report = recovered(&nats, &["r2", "r1"]).await.unwrap();
    assert_eq!((report.log_found, report.records, report.orphans), (None, 40, 0));
    assert_eq!(report.rebuilt.len(), 2);
    let (first, second) = (verified(&nats, "r1").await.unwrap(), verified(&nats, "r2").await.unwrap());
    assert_eq!((first.records, first.digest), (40, second.digest));
    assert!(first.log_time >= before.log_time);

    let (one, two) = (ready(&nats, "r1").await, ready(&nats, "r2").await);
    has_all(&two, 40).await;
    add(&one, 40, 45).await;
    has_all(&one, 45).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_of_the_log_gets_back_what_was_acknowledged_since() {
    let mut nats = TestNats::start().await;
    let ledger = ready(&nats, "r1").await;
    add(&ledger, 0, 10).await;
    close(ledger).await;
    nats.server.stop().await.unwrap();
    let (store, copy) = (nats.server.store_dir(), nats.scratch().join("older"));
    copy_folder(&store, &copy);
    nats.server.restart().await.unwrap();
    let ledger = ready(&nats, "r1").await;
    add(&ledger, 10, 30).await;
    close(ledger).await;
    nats.server.stop().await.unwrap();
    std::fs::remove_dir_all(&store).unwrap();
    copy_folder(&copy, &store);
    nats.server.restart().await.unwrap();
    refuses(&nats, "r1").await;

    let report = recovered(&nats, &["r1"]).await.unwrap();
    assert_eq!((report.records, report.orphans), (20, 0));
    assert!(recovered(&nats, &["r1"]).await.unwrap().whole, "a second run finds nothing to do");
    let ledger = ready(&nats, "r1").await;
    has_all(&ledger, 30).await;
    add(&ledger, 30, 35).await;
    close(ledger).await;
    assert_eq!(verified(&nats, "r1").await.unwrap().records, 35);
    // A replica that has nothing learns all of it from the mended log.
    has_all(&ready(&nats, "r3").await, 35).await;
}
