//! The table of faults. Each is a small value that begins and ends; what it hurt stands in [`Hurt`] in between.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand::Rng as _;

use crate::Rng;
use crate::fleet::{Fleet, GATEWAYS};
use crate::member::Member;
use crate::proxy::Network;

/// Whom a fault hurts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    Gateway,
    Worker,
    /// All of them at once, which is what it means to them that the server is gone.
    Nats,
}

/// What is done to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    Kill,
    Pause,
    Network(Network),
    Store(Store),
    /// The server is killed and its folders of this name, below that of a work queue, are gone when it comes again: the
    /// queues themselves, or what workers had taken of them.
    Queues(&'static str),
}

/// All of a queue.
const MESSAGES: &str = "";
/// Its consumers, with what they know of messages on the way.
const CONSUMERS: &str = "obs";

/// What is done to a gateway's store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Store {
    /// While the gateway is dead.
    Deleted,
    /// An older copy takes its place, while the gateway is dead.
    Older,
    /// The gateway is started on it so.
    ReadOnly,
    /// While it runs. Its file may not grow, nor be written in its second half: what a full disk is to a file.
    Full,
}

/// A fault of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    pub name: &'static str,
    pub who: Who,
    pub what: What,
    /// How long it lasts, from and to, in milliseconds.
    pub lasts_ms: (u64, u64),
}

const fn fault(name: &'static str, who: Who, what: What, from_ms: u64, to_ms: u64) -> Fault {
    Fault { name, who, what, lasts_ms: (from_ms, to_ms) }
}

/// A lease lasts for 8 s, and its grace for 2.5 s more: a pause of 12 s outlives it, one of 4 s does not.
pub const TABLE: &[Fault] = &[
    fault("gateway killed", Who::Gateway, What::Kill, 0, 1_500),
    fault("gateway paused", Who::Gateway, What::Pause, 500, 4_000),
    fault("gateway paused past a lease", Who::Gateway, What::Pause, 11_000, 12_000),
    fault("gateway cut off", Who::Gateway, What::Network(Network::Cut), 100, 3_000),
    fault("gateway unheard", Who::Gateway, What::Network(Network::Silent), 500, 6_000),
    fault("worker killed", Who::Worker, What::Kill, 0, 1_500),
    fault("worker paused", Who::Worker, What::Pause, 500, 4_000),
    fault("worker paused past its lease", Who::Worker, What::Pause, 11_000, 12_000),
    fault("worker cut off", Who::Worker, What::Network(Network::Cut), 100, 3_000),
    fault("worker unheard", Who::Worker, What::Network(Network::Silent), 500, 6_000),
    fault("nats-server killed", Who::Nats, What::Kill, 0, 1_500),
    fault("nats-server paused", Who::Nats, What::Pause, 500, 4_000),
    fault("everybody cut off", Who::Nats, What::Network(Network::Cut), 100, 3_000),
    fault("everybody unheard", Who::Nats, What::Network(Network::Silent), 500, 3_000),
    fault("queues deleted", Who::Nats, What::Queues(MESSAGES), 0, 500),
    fault("consumers of queues deleted", Who::Nats, What::Queues(CONSUMERS), 0, 500),
    fault("store deleted", Who::Gateway, What::Store(Store::Deleted), 0, 1_000),
    fault("store swapped for an older copy", Who::Gateway, What::Store(Store::Older), 0, 1_000),
    fault("store read-only", Who::Gateway, What::Store(Store::ReadOnly), 0, 500),
    fault("store full", Who::Gateway, What::Store(Store::Full), 4_000, 5_000),
];

/// How long a gateway whose store can't be used may take to say so.
const TOLD: Duration = Duration::from_secs(30);

/// A fault that is under way.
#[derive(Debug)]
pub struct Hurt {
    pub fault: Fault,
    /// The place of the gateway or worker.
    pub victim: usize,
    pub lasts: Duration,
}

// === impl Fault ===

impl Fault {
    /// Chooses whom it hurts and for how long.
    pub fn aimed(self, fleet: &Fleet, rng: &mut Rng) -> Hurt {
        let many = match self.who {
            Who::Gateway => GATEWAYS,
            Who::Worker => fleet.workers.len(),
            Who::Nats => 1,
        };
        let lasts = Duration::from_millis(rng.random_range(self.lasts_ms.0..=self.lasts_ms.1));
        Hurt { fault: self, victim: rng.random_range(0..many), lasts }
    }
}

// === impl Hurt ===

impl Hurt {
    pub fn name(&self, fleet: &Fleet) -> String {
        match self.fault.who {
            Who::Gateway => fleet.gateways[self.victim].name.clone(),
            Who::Worker => fleet.workers[self.victim].name.clone(),
            Who::Nats => "nats-server".to_owned(),
        }
    }

    fn member<'f>(&self, fleet: &'f mut Fleet) -> &'f mut Member {
        match self.fault.who {
            Who::Worker => &mut fleet.workers[self.victim],
            Who::Gateway | Who::Nats => &mut fleet.gateways[self.victim],
        }
    }

    /// # Panics
    /// The fault can't be made, or what it hurts behaves as it must not.
    pub async fn begin(&self, fleet: &mut Fleet) {
        match (self.fault.who, self.fault.what) {
            (Who::Nats, What::Kill) => fleet.server.kill().await.expect("kill nats-server"),
            (_, What::Queues(what)) => {
                fleet.server.kill().await.expect("kill nats-server");
                queues_deleted(&fleet.server.store_dir(), what);
            }
            (Who::Nats, What::Pause) => fleet.server.pause().expect("pause nats-server"),
            (Who::Nats, What::Network(network)) => fleet.members().for_each(|one| one.proxy.set(network)),
            (_, What::Kill) => self.member(fleet).kill().await,
            (_, What::Pause) => self.member(fleet).pause(),
            (_, What::Network(network)) => self.member(fleet).proxy.set(network),
            (_, What::Store(store)) => store.begin(self.member(fleet)).await,
        }
    }

    /// # Panics
    /// The fault can't be ended.
    pub async fn end(&self, fleet: &mut Fleet) {
        match (self.fault.who, self.fault.what) {
            (Who::Nats, What::Kill) | (_, What::Queues(_)) => {
                fleet.server.restart().await.expect("start nats-server")
            }
            (Who::Nats, What::Pause) => fleet.server.resume().expect("resume nats-server"),
            (Who::Nats, What::Network(_)) => {
                fleet.members().for_each(|one| one.proxy.set(Network::Whole));
            }
            (_, What::Kill) => self.member(fleet).start().await,
            (_, What::Pause) => self.member(fleet).resume(),
            (_, What::Network(_)) => self.member(fleet).proxy.set(Network::Whole),
            (_, What::Store(store)) => store.end(self.member(fleet)).await,
        }
    }
}

/// Deletes every queue below a stopped server's folder, or one part of each.
fn queues_deleted(below: &Path, what: &str) {
    for entry in std::fs::read_dir(below).into_iter().flatten().flatten() {
        let path = entry.path();
        let queue = path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("-queue"));
        let lost = path.join(what);
        if queue && lost.is_dir() {
            std::fs::remove_dir_all(&lost).expect("delete a part of a queue");
        } else if path.is_dir() {
            queues_deleted(&path, what);
        }
    }
}

/// A gateway's store.
pub fn store_file(gateway: &Member) -> PathBuf {
    gateway.folder.join("gateway-0.redb")
}

/// Copies the store of a running gateway as a power cut would leave it.
///
/// # Panics
/// It can't be copied.
pub fn keep_copy(gateway: &Member) {
    gateway.pause();
    let store = store_file(gateway);
    std::fs::copy(&store, store.with_extension("older")).expect("copy a store");
    gateway.resume();
}

// === impl Store ===

impl Store {
    async fn begin(self, gateway: &mut Member) {
        let store = store_file(gateway);
        match self {
            Store::Deleted => {
                gateway.kill().await;
                std::fs::remove_file(&store).expect("delete a store");
            }
            Store::Older => {
                gateway.kill().await;
                let (older, newer) = (store.with_extension("older"), store.with_extension("newer"));
                std::fs::rename(&store, &newer).expect("move a store");
                std::fs::rename(&older, &store).expect("swap a store");
                std::fs::rename(&newer, &older).expect("keep a store");
            }
            Store::ReadOnly => {
                gateway.kill().await;
                permit(gateway, 0o444, 0o555);
                gateway.start().await;
                tells(gateway).await;
            }
            Store::Full => {
                let bytes = std::fs::metadata(&store).expect("a store's size").len() / 2;
                let pid = gateway.proc().id().to_string();
                let limit = format!("--fsize={bytes}:{bytes}");
                let limited = std::process::Command::new("prlimit").args(["--pid", &pid, &limit]).status();
                assert!(limited.is_ok_and(|status| status.success()), "prlimit {limit}");
            }
        }
    }

    async fn end(self, gateway: &mut Member) {
        match self {
            Store::Deleted | Store::Older => gateway.start().await,
            Store::ReadOnly => {
                permit(gateway, 0o600, 0o700);
                gateway.start().await;
            }
            Store::Full => {
                // with little to write it may not have noticed; the bound can't be lifted while it lives
                if gateway.is_running() {
                    gateway.kill().await;
                } else {
                    tells(gateway).await;
                }
                gateway.start().await;
            }
        }
    }
}

fn permit(gateway: &Member, file: u32, folder: u32) {
    for (path, mode) in [(store_file(gateway), file), (gateway.folder.clone(), folder)] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set permissions");
    }
}

/// A gateway that can't use its store ends, with an exit code of its own and the reason as its last words.
async fn tells(gateway: &Member) {
    let until = Instant::now() + TOLD;
    while gateway.is_running() && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let words = gateway.last_words();
    assert!(!gateway.is_running(), "{} serves on a store that it can't write: {words}", gateway.name);
    let code = gateway.proc().ended(TOLD).await.code();
    assert!(matches!(code, Some(3 | 4)), "{} ended with {code:?}: {words}", gateway.name);
    assert!(words.contains("store"), "{} does not say that its store can't be used: {words}", gateway.name);
    assert!(!words.contains("panicked"), "{words}");
}
