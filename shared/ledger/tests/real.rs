//! The road on a real nats-server: acknowledged is durable, replicas agree, and nobody serves beside the log.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aip_bus::{Bus, Settings};
use aip_kernel::{
    Applying, Bug, Decision, Draft, EffectId, EffectMode, EntityKey, Facts, Fault, Machine, View,
};
use aip_ledger::{Config, Ledger, LedgerError, Performer, Readiness};
use aip_names::{Identity, Service};
use aip_testkit::{TestNats, wait_for};
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

/// Accounts that take deposits; each deposit is told to the world once or more.
#[derive(Debug)]
struct Accounts;

#[derive(Debug)]
enum Command {
    Deposit { account: String, amount: u64, key: String },
    Told(EffectId),
    Remind(String),
}

#[derive(Debug, PartialEq)]
enum Answer {
    Balance(u64),
    AlreadyDone,
    Recorded,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
enum Event {
    Deposited { amount: u64, once: bool },
    Told { id: EffectId },
    Reminded,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default)]
struct Account {
    balance: u64,
    told: u64,
    reminders: u64,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
struct Tell {
    amount: u64,
}

impl Machine for Accounts {
    const VERSION: u32 = 1;
    type Command = Command;
    type Answer = Answer;
    type Event = Event;
    type State = Account;
    type Effect = Tell;

    fn decide(
        &self,
        view: &dyn View<Self>,
        command: &Command,
        facts: &Facts,
    ) -> Result<Decision<Self>, Fault> {
        match command {
            Command::Deposit { account, amount, key } => {
                if view.claim(key)?.is_some() {
                    return Ok(Decision::Answer(Answer::AlreadyDone));
                }
                let entity = EntityKey::new("account", account);
                let before = view.entity(&entity)?.map_or(0, |entity| entity.state.balance);
                let event = Event::Deposited { amount: *amount, once: account == "once" };
                let draft = Draft::new(entity, vec![event])
                    .claims(key, Some(facts.now.max(facts.log_time) + 3_600_000))
                    .cause("test");
                Ok(Decision::Append { draft, answer: Answer::Balance(before + amount) })
            }
            Command::Told(id) => {
                let draft = Draft::new(id.entity.clone(), vec![Event::Told { id: id.clone() }]);
                Ok(Decision::Append { draft, answer: Answer::Recorded })
            }
            Command::Remind(account) => {
                // another replica may have fired the timer as well
                let entity = view.entity(&EntityKey::new("account", account))?;
                if entity.is_some_and(|entity| entity.state.reminders > 0) {
                    return Ok(Decision::Answer(Answer::Recorded));
                }
                let draft = Draft::new(EntityKey::new("account", account), vec![Event::Reminded]);
                Ok(Decision::Append { draft, answer: Answer::Recorded })
            }
        }
    }

    fn apply(
        &self,
        state: Option<Account>,
        event: &Event,
        applying: &mut Applying<'_, Self>,
    ) -> Result<Account, Bug> {
        let mut account = state.unwrap_or_default();
        match event {
            Event::Deposited { amount, once } => {
                account.balance += amount;
                let mode = if *once { EffectMode::Once } else { EffectMode::Repeatable };
                applying.effect(Tell { amount: *amount }, mode);
                if account.balance == *amount {
                    applying.timer("remind", applying.log_time + 300);
                }
            }
            Event::Told { id } => {
                account.told += 1;
                applying.effect_done(id.clone());
            }
            Event::Reminded => {
                account.reminders += 1;
                applying.timer_done("remind");
            }
        }
        Ok(account)
    }

    fn on_timer(&self, entity: &EntityKey, _name: &str) -> Command {
        Command::Remind(entity.id.clone())
    }

    fn on_abandoned(&self, id: &EffectId, _effect: &Tell) -> Command {
        Command::Told(id.clone())
    }
}

/// Counts how often each effect was performed.
#[derive(Default)]
struct World {
    performed: Mutex<HashMap<EffectId, u32>>,
}

impl Performer<Accounts> for World {
    fn perform(&self, id: EffectId, _effect: Tell, _again: bool) -> BoxFuture<'static, Option<Command>> {
        *self.performed.lock().unwrap().entry(id.clone()).or_default() += 1;
        Box::pin(async move { Some(Command::Told(id)) })
    }
}

async fn bus(nats: &TestNats) -> Bus {
    let settings = Settings {
        url: nats.url(),
        identity: Identity::Gateway,
        seed_file: nats.seed_file(&Identity::Gateway),
        name: "ledger-test".to_owned(),
    };
    let bus = Bus::connect(settings).await.unwrap();
    bus.ready(Duration::from_secs(10)).await.unwrap();
    bus
}

fn config(replica: &str, folder: &Path) -> Config {
    Config {
        trust_domain: TestNats::trust_domain(),
        service: Service::gateway(),
        shard: 0,
        replica: replica.to_owned(),
        data_dir: folder.to_owned(),
        stream_replicas: 1,
    }
}

async fn open(nats: &TestNats, replica: &str, world: &Arc<World>) -> Ledger<Accounts> {
    let folder = nats.scratch().join(replica);
    let performer: Arc<dyn Performer<Accounts>> = world.clone();
    Ledger::open(Accounts, bus(nats).await, performer, &config(replica, &folder)).unwrap()
}

async fn ready(ledger: &Ledger<Accounts>) {
    let mut readiness = ledger.readiness();
    let came = readiness.wait_for(|state| *state == Readiness::Ready);
    let in_time = tokio::time::timeout(Duration::from_secs(20), came).await.is_ok();
    assert!(in_time, "not ready in time: {:?}", *ledger.readiness().borrow());
}

fn deposit(account: &str, amount: u64, key: impl Into<String>) -> Command {
    Command::Deposit { account: account.to_owned(), amount, key: key.into() }
}

async fn account(ledger: &Ledger<Accounts>, id: &str) -> Account {
    let key = EntityKey::new("account", id);
    ledger.read(|view| Ok(view.entity(&key)?.map(|entity| entity.state))).await.unwrap().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_are_acknowledged_once_and_seen_by_every_replica() {
    let nats = TestNats::start().await;
    let world = Arc::new(World::default());
    let (one, two) = (open(&nats, "r1", &world).await, open(&nats, "r2", &world).await);
    ready(&one).await;
    ready(&two).await;
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..400_u32 {
        let ledger = if i % 2 == 0 { one.clone() } else { two.clone() };
        // Every key is used twice, by different replicas: only one of each pair may count.
        tasks.spawn(async move { ledger.decide(deposit("shared", 1, format!("key-{}", i / 2))).await });
    }
    let answers = tasks.join_all().await;
    let counted = answers.iter().filter(|answer| matches!(answer, Ok(Answer::Balance(_)))).count();
    let doubled = answers.iter().filter(|answer| matches!(answer, Ok(Answer::AlreadyDone))).count();
    assert_eq!((counted, doubled), (200, 200), "{answers:?}");
    assert_eq!(account(&one, "shared").await.balance, 200);
    assert_eq!(account(&two, "shared").await.balance, 200);
    wait_for("all effects told", Duration::from_secs(20), || async {
        account(&two, "shared").await.told == 200
    })
    .await;
    wait_for("the timer fired once", Duration::from_secs(10), || async {
        account(&one, "shared").await.reminders == 1
    })
    .await;
    assert!(world.performed.lock().unwrap().values().all(|times| *times == 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    let mut nats = TestNats::start().await;
    let world = Arc::new(World::default());
    let ledger = open(&nats, "r1", &world).await;
    ready(&ledger).await;
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..200_u64 {
        let ledger = ledger.clone();
        tasks.spawn(async move {
            tokio::time::sleep(Duration::from_millis(i * 5)).await;
            ledger.decide(deposit(&format!("a{}", i % 7), 1, format!("k{i}"))).await
        });
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    nats.server.kill().await.unwrap();
    nats.server.restart().await.unwrap();
    let answers = tasks.join_all().await;
    let acknowledged = answers.iter().filter(|answer| answer.is_ok()).count() as u64;
    ready(&ledger).await;
    let mut total = 0;
    for i in 0..7 {
        total += account(&ledger, &format!("a{i}")).await.balance;
    }
    assert!(total >= acknowledged, "{total} < {acknowledged}: {answers:?}");
    assert_eq!(acknowledged, 200, "a restart within their patience is not felt by callers: {answers:?}");
    assert_eq!(total, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_comes_back_continues_from_its_store() {
    let nats = TestNats::start().await;
    let world = Arc::new(World::default());
    let ledger = open(&nats, "r1", &world).await;
    ready(&ledger).await;
    for i in 0..20 {
        ledger.decide(deposit("a", 1, format!("k{i}"))).await.unwrap();
    }
    let folder = nats.scratch().join("r1");
    let locked = Ledger::open(
        Accounts,
        bus(&nats).await,
        world.clone() as Arc<dyn Performer<Accounts>>,
        &config("r1", &folder),
    );
    assert!(locked.err().unwrap().to_string().contains("in use"));
    ledger.drain().await;
    assert_eq!(ledger.decide(deposit("a", 1, "late")).await, Err(LedgerError::Closed));
    drop(ledger);
    let again = open(&nats, "r1", &world).await;
    ready(&again).await;
    assert_eq!(account(&again, "a").await.balance, 20);
    assert_eq!(again.decide(deposit("a", 1, "k3")).await, Ok(Answer::AlreadyDone));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_serves_beside_a_lost_or_older_log() {
    let mut nats = TestNats::start().await;
    let world = Arc::new(World::default());
    let ledger = open(&nats, "r1", &world).await;
    ready(&ledger).await;
    for i in 0..5 {
        ledger.decide(deposit("a", 1, format!("k{i}"))).await.unwrap();
    }
    nats.server.stop().await.unwrap();
    let (store, copy) = (nats.server.store_dir(), nats.scratch().join("older"));
    copy_folder(&store, &copy);
    nats.server.restart().await.unwrap();
    ready(&ledger).await;
    ledger.decide(deposit("a", 1, "newer")).await.unwrap();
    nats.server.stop().await.unwrap();
    std::fs::remove_dir_all(&store).unwrap();
    copy_folder(&copy, &store);
    nats.server.restart().await.unwrap();
    refuses(&ledger, "older copy").await;

    nats.server.stop().await.unwrap();
    std::fs::remove_dir_all(&store).unwrap();
    nats.server.restart().await.unwrap();
    refuses(&ledger, "ledger stream").await;
    assert!(ledger.peek(|_| Ok(())).is_err());
}

async fn refuses(ledger: &Ledger<Accounts>, because: &str) {
    wait_for("the replica says why it does not serve", Duration::from_secs(20), || async {
        matches!(&*ledger.readiness().borrow(), Readiness::NotReady { reason } if reason.contains(because))
    })
    .await;
    let refused = ledger.decide(deposit("a", 1, "beside")).await;
    assert!(matches!(refused, Err(LedgerError::NotReady { .. })), "{refused:?}");
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

/// Reads page after page, as an export does.
async fn export(ledger: Ledger<Accounts>, done: Arc<AtomicBool>) -> u64 {
    let mut pages = 0;
    while !done.load(Ordering::Relaxed) {
        for account in 0..EXPORTED {
            let key = EntityKey::new("account", account.to_string());
            ledger.peek(|view| view.history(&key, 1, 100).map(drop)).unwrap();
            pages += 1;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    pages
}

const EXPORTED: u64 = 20;
const WRITTEN: u64 = 2_000;

/// Lets the readers end, also when the test fails: the runtime waits for threads.
struct Done(Arc<AtomicBool>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A reader that stays open keeps every page that was written over since; pages read one by one do not.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_export_beside_writing_does_not_make_the_file_grow() {
    let nats = TestNats::start().await;
    let world = Arc::new(World::default());
    let (alone, read, held) = (
        open(&nats, "alone", &world).await,
        open(&nats, "read", &world).await,
        open(&nats, "held", &world).await,
    );
    for ledger in [&alone, &read, &held] {
        ready(ledger).await;
    }
    let done = Arc::new(AtomicBool::new(false));
    let ends = Done(Arc::clone(&done));
    // what the measure must be able to see
    let (reader, until) = (held.clone(), Arc::clone(&done));
    let holding = tokio::task::spawn_blocking(move || {
        let hold = |_: &dyn View<Accounts>| {
            while !until.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(10));
            }
            Ok(())
        };
        reader.peek(hold).unwrap();
    });
    let exporting = tokio::spawn(export(read.clone(), Arc::clone(&done)));
    for written in 0..WRITTEN {
        let account = (written % EXPORTED).to_string();
        alone.decide(deposit(&account, 1, format!("k{written}"))).await.unwrap();
    }
    for ledger in [&alone, &read, &held] {
        assert_eq!(account(ledger, "0").await.balance, WRITTEN / EXPORTED);
    }
    let size = |replica: &str| {
        let file = config(replica, &nats.scratch().join(replica)).store_file();
        std::fs::metadata(file).unwrap().len()
    };
    let (one, other, kept) = (size("alone"), size("read"), size("held"));
    drop(ends);
    holding.await.unwrap();
    let pages = exporting.await.unwrap();
    assert!(pages > WRITTEN, "{pages} pages were read while {WRITTEN} records were written");
    // a file grows by doubling
    assert!(2 * kept > 5 * one, "an open reader is not seen: alone {one} bytes, with it {kept}");
    assert!(2 * other <= 5 * one, "alone {one} bytes, with an export {other}");
}
