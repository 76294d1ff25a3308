//! Runs a [`Replica`] on JetStream: a thread that owns it, and tasks that publish, read the tail and perform.
//!
//! The thread only ever computes and commits; the tasks only ever wait. Whatever a task learns becomes an input,
//! whatever a step says becomes work for a task. Nothing else is decided here.

mod publisher;
mod tailer;
mod thread;

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Instant;

use futures_util::future::BoxFuture;
use tokio::sync::{Semaphore, watch};

use aip_bus::Bus;
use aip_kernel::{EffectId, Machine, ReplicaId, WriterId};
use aip_names::{Service, Subject, TrustDomain, limits};

use crate::handle::Shared;
use crate::replica::{BarrierMode, Input, Output, Replica, Variant};
use crate::{Identity, Ledger, Readiness, Store, StoreError};

pub(crate) use tailer::described;

/// Where a replica's ledger lives.
#[derive(Clone, Debug)]
pub struct Config {
    pub trust_domain: TrustDomain,
    pub service: Service,
    pub shard: u16,
    /// The replica's own name, for example `gateway-0`: one store, one replica.
    pub replica: String,
    /// The folder of the store; the file is `<service>-<shard>.redb`.
    pub data_dir: PathBuf,
    /// JetStream replicas of the stream: 1 on a single server, 3 on a cluster.
    pub stream_replicas: usize,
}

// === impl Config ===

impl Config {
    /// The store's file.
    pub fn store_file(&self) -> PathBuf {
        self.data_dir.join(format!("{}-{}.redb", self.service, self.shard))
    }

    /// Whose store it is.
    pub fn identity(&self) -> Identity {
        Identity {
            service: self.service.to_string(),
            trust_domain: self.trust_domain.to_string(),
            shard: u32::from(self.shard),
        }
    }
}

/// Performs effects in the world.
pub trait Performer<M: Machine>: Send + Sync + 'static {
    /// Performs one effect. `Some` is the command that records its outcome; `None` means not now, try again later.
    /// The id lets the receiver drop a second copy. `again` says that it may have been performed before: then a failure
    /// to do it now does not show that it was not done.
    fn perform(&self, id: EffectId, effect: M::Effect, again: bool)
    -> BoxFuture<'static, Option<M::Command>>;
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("can't open the store {path}: {source}")]
    Store { path: PathBuf, source: StoreError },
    #[error("can't make the folder {path}: {source}")]
    Folder { path: PathBuf, source: std::io::Error },
    #[error("can't start the store's thread: {0}")]
    Thread(std::io::Error),
}

/// What reaches the thread.
pub(crate) enum Event<M: Machine> {
    Input(Input<M>),
    /// Something of a tail, which counts only while that tail is the current one. The permit bounds what waits.
    Tail {
        generation: u64,
        input: Input<M>,
        permit: Option<tokio::sync::OwnedSemaphorePermit>,
    },
    /// Finish what is in flight, make it hard and end.
    Drain,
}

/// Work for the tasks.
pub(crate) struct Doors {
    pub append: tokio::sync::mpsc::UnboundedSender<(u64, bytes::Bytes)>,
    pub open_tail: watch::Sender<Option<tailer::Request>>,
}

impl<M: Machine> Ledger<M> {
    /// Opens the replica's store, starts its thread and tasks, and returns at once; the ledger serves when its
    /// position check has passed (see [`Ledger::readiness`]).
    ///
    /// # Errors
    /// When the store is locked, foreign, damaged or newer than this program. The file is left as it is.
    pub fn open(
        machine: M,
        bus: Bus,
        performer: Arc<dyn Performer<M>>,
        config: &Config,
    ) -> Result<Ledger<M>, OpenError> {
        let folder = |source| OpenError::Folder { path: config.data_dir.clone(), source };
        // The store holds what actions were given: nobody else looks in.
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&config.data_dir).map_err(folder)?;
        let (path, identity) = (config.store_file(), config.identity());
        let broken = |source| OpenError::Store { path: path.clone(), source };
        let store = Store::open(&path, &identity).map_err(broken)?;
        let life = uuid::Uuid::now_v7().simple().to_string();
        let me = WriterId { replica: ReplicaId(config.replica.clone()), life };
        let barrier =
            if config.stream_replicas > 1 { BarrierMode::Append } else { BarrierMode::LastSequence };
        let replica = Replica::new(machine, store, me, barrier, Variant::Sound).map_err(broken)?;

        let (events, inbox) = mpsc::channel();
        let starting = Readiness::NotReady { reason: "starting".to_owned() };
        let (readiness, ready) = watch::channel(starting);
        let shared = Arc::new(Shared::new(events, Arc::clone(replica.shared_snapshot()), ready));
        let (append, appends) = tokio::sync::mpsc::unbounded_channel();
        let (open_tail, tail_requests) = watch::channel(None);
        let subject = Subject::ledger(&config.trust_domain, &config.service, config.shard).to_string();
        let spec = aip_names::ledger_stream(
            &config.trust_domain,
            &config.service,
            config.shard,
            config.stream_replicas,
        );
        let log = Log { bus, spec, subject };

        tokio::spawn(publisher::run(log.clone(), appends, shared.events()));
        let window = Arc::new(Semaphore::new(limits::LEDGER_TAIL_WINDOW_BYTES));
        tokio::spawn(tailer::run(log.clone(), tail_requests, window, shared.events()));
        tokio::spawn(tailer::watch_connection(log.bus.clone(), shared.events()));
        let road = thread::Road {
            replica,
            inbox,
            shared: Arc::clone(&shared),
            readiness,
            performer,
            doors: Doors { append, open_tail },
            log,
            runtime: tokio::runtime::Handle::current(),
            started: Instant::now(),
            generation: 0,
            quiet: aip_bus::Seldom::default(),
        };
        let name = format!("{}-store", config.service);
        std::thread::Builder::new().name(name).spawn(move || road.run()).map_err(OpenError::Thread)?;
        Ok(Ledger::new(shared))
    }
}

/// The stream behind one shard.
#[derive(Clone)]
pub(crate) struct Log {
    pub bus: Bus,
    pub spec: aip_names::StreamSpec,
    pub subject: String,
}

/// A fresh `Output` buffer's usual size.
const OUTPUTS: usize = 64;

pub(crate) fn outputs<M: Machine>() -> Vec<Output<M>> {
    Vec::with_capacity(OUTPUTS)
}
