//! The worker side: a set of capabilities under one service name, registered at the gateway, served from NATS, drained
//! on request. Scale it by running more processes of it: each has its own store and takes its share of the queue group.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aip_bus::{Bus, BusError, Registration, Serving, serve};
use aip_crypto::SigningKey;
use aip_names::{NameError, Service, Subject, TrustDomain, Version, limits};
use aip_wire::{ActionMode, CapabilityId, MessageType, Principal, ProtocolError};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::capability::{CapabilitySpec, Offered, SpecError};
use crate::context::Context;
use crate::error::ActionError;
use crate::store::{Store, StoreError};

mod answer;
mod cancel;
mod dispatch;
mod execute;
mod publish;
mod queue;
mod register;
mod report;

use dispatch::Dispatcher;
use queue::Queue;
use register::{Registrar, Standing};
use report::Reporter;

/// What a worker is and where it keeps its results.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    pub trust_domain: TrustDomain,
    /// Names the NATS subject and the queue group.
    pub service: Service,
    pub version: Version,
    /// The principal that the gateway's directory binds to the key.
    pub principal: Principal,
    /// Signs the manifest.
    pub key: Arc<SigningKey>,
    /// The result store's file. One process at a time may use it.
    pub store: PathBuf,
    /// Requested actions that run at a time, and as many from the queue; more are refused as not begun, and the gateway tries elsewhere or later.
    pub running_max: usize,
    /// How long a drain waits for what runs.
    pub drain_ms: u64,
}

/// Why a worker does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error("capability {0} is offered twice")]
    Twice(CapabilityId),
    #[error("a worker runs 1 to {max} actions at a time, not {running_max}")]
    RunningMax { running_max: usize, max: usize },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("the gateway refused the manifest: {}: {}", .0.code, .0.message)]
    Rejected(Box<ProtocolError>),
    #[error("the worker was stopped before the gateway answered its registration")]
    NotRegistered,
}

/// Spoils an answer on its way out.
pub type Tamper = Arc<dyn Fn(Bytes) -> Bytes + Send + Sync>;

/// Collects capabilities.
pub struct WorkerBuilder {
    config: WorkerConfig,
    offered: Vec<Result<Offered, SpecError>>,
    tamper: Option<Tamper>,
}

/// A running worker. Dropping it stops at once; [`drain`](Self::drain) is the polite way.
pub struct Worker {
    service: Service,
    serving: Serving,
    /// Of a worker with capabilities that may be queued.
    queue: Option<Queue>,
    _stop_queue: DropGuard,
    listening: AbortHandle,
    store: Arc<Store>,
    standing: watch::Receiver<Standing>,
    wanted: watch::Sender<bool>,
    stop_registering: DropGuard,
    stop_handlers: CancellationToken,
    /// What is left behind must not go on for ever.
    _stop_handlers: DropGuard,
    drain_ms: u64,
}

// === impl WorkerConfig ===

impl WorkerConfig {
    /// With version `v1` and the usual bounds.
    pub fn new(
        trust_domain: TrustDomain,
        service: Service,
        principal: Principal,
        key: Arc<SigningKey>,
        store: PathBuf,
    ) -> WorkerConfig {
        WorkerConfig {
            trust_domain,
            service,
            version: Version::V1,
            principal,
            key,
            store,
            running_max: limits::WORKER_RUNNING_DEFAULT,
            drain_ms: limits::DRAIN_MS,
        }
    }
}

// === impl WorkerBuilder ===

impl WorkerBuilder {
    /// Offers a capability: an async function from the trusted context and a typed input to an output.
    #[must_use]
    pub fn capability<In, Out, F, Fut>(mut self, spec: CapabilitySpec, function: F) -> WorkerBuilder
    where
        In: DeserializeOwned + JsonSchema + Send + 'static,
        Out: Serialize + JsonSchema + Send + 'static,
        F: Fn(Context, In) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Out, ActionError>> + Send + 'static,
    {
        self.offered.push(Offered::new(spec, function));
        self
    }

    /// For workers that misbehave on purpose, so that others can be tested: each answer goes through this.
    #[doc(hidden)]
    #[must_use]
    pub fn tampering(mut self, tamper: Tamper) -> WorkerBuilder {
        self.tamper = Some(tamper);
        self
    }

    /// Opens the store, serves, and begins to register. It is called from inside a tokio runtime.
    ///
    /// # Errors
    /// A capability that cannot be offered, a store in use, or a subject that NATS does not let us serve.
    pub async fn start(self, bus: &Bus) -> Result<Worker, WorkerError> {
        let WorkerBuilder { config, offered, tamper } = self;
        let running_range = 1..=limits::WORKER_RUNNING_MAX;
        if !running_range.contains(&config.running_max) {
            let (running_max, max) = (config.running_max, limits::WORKER_RUNNING_MAX);
            return Err(WorkerError::RunningMax { running_max, max });
        }
        let mut by_id = HashMap::new();
        for offered in offered {
            let offered = offered?;
            let id = offered.capability.id.clone();
            if by_id.insert(id.clone(), offered).is_some() {
                return Err(WorkerError::Twice(id));
            }
        }
        let queued = by_id
            .values()
            .any(|offered| offered.supports(ActionMode::Async) || offered.supports(ActionMode::Streaming));
        let registrar = Registrar::new(bus.clone(), &config, by_id.values().map(|o| o.capability.clone()))?;
        let store = Arc::new(Store::open(&config.store)?);
        let stop_handlers = CancellationToken::new();
        let dispatcher = Dispatcher::new(&config, by_id, Arc::clone(&store), stop_handlers.clone(), tamper);
        let inner = Arc::clone(&dispatcher.inner);
        let action = aip_names::MessageType::new(MessageType::Action.as_str())?;
        let subject = Subject::message(&config.trust_domain, &config.service, config.version, &action);
        let registration = Registration {
            service: config.service.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            description: config.principal.display_name.clone().unwrap_or_default(),
            endpoints: vec![("action".to_owned(), subject.to_string())],
            running_max: config.running_max,
        };
        let serving = serve(bus, registration, Arc::new(dispatcher)).await?;
        let listening = cancel::listen(bus, &config, Arc::clone(&inner)).await?;
        let queue = Queue::new(bus.clone(), &config, inner, Reporter::new(bus.clone(), &config)?);
        let stop_queue = queue.stopper().drop_guard();
        if queued {
            tokio::spawn(queue.clone().run());
        }
        let (told, standing) = watch::channel(Standing::Pending);
        let (wanted, wants) = watch::channel(true);
        let stop_registering = CancellationToken::new();
        tokio::spawn(registrar.keep(told, wants, stop_registering.clone()));
        Ok(Worker {
            service: config.service,
            serving,
            queue: queued.then_some(queue),
            _stop_queue: stop_queue,
            listening,
            store,
            standing,
            wanted,
            stop_registering: stop_registering.drop_guard(),
            _stop_handlers: stop_handlers.clone().drop_guard(),
            stop_handlers,
            drain_ms: config.drain_ms,
        })
    }
}

// === impl Worker ===

impl Worker {
    pub fn builder(config: WorkerConfig) -> WorkerBuilder {
        WorkerBuilder { config, offered: Vec::new(), tamper: None }
    }

    /// Waits until the gateway has accepted the manifest; attempts go on until then.
    ///
    /// # Errors
    /// [`WorkerError::Rejected`] when the gateway said no for good.
    pub async fn registered(&self) -> Result<(), WorkerError> {
        self.stands(|standing| *standing == Standing::Accepted).await
    }

    /// Takes this service's capabilities back, for all its replicas: new actions find none any more. Not part of a
    /// drain, because the other replicas serve on.
    ///
    /// # Errors
    /// The gateway said no.
    pub async fn withdraw(&self) -> Result<(), WorkerError> {
        self.wanted.send_replace(false);
        self.stands(|standing| *standing == Standing::Withdrawn).await
    }

    async fn stands(&self, as_wanted: impl Fn(&Standing) -> bool) -> Result<(), WorkerError> {
        let mut standing = self.standing.clone();
        let settled = standing
            .wait_for(|standing| as_wanted(standing) || matches!(standing, Standing::Rejected(_)))
            .await;
        match settled.as_deref() {
            Ok(Standing::Rejected(error)) => Err(WorkerError::Rejected(error.clone())),
            Ok(_) => Ok(()),
            Err(_) => Err(WorkerError::NotRegistered),
        }
    }

    /// Serves until `shutdown`, then drains.
    ///
    /// # Errors
    /// The gateway refused the first registration, or the store failed.
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> Result<(), WorkerError> {
        tokio::pin!(shutdown);
        let mut ended = Ok(());
        tokio::select! {
            () = &mut shutdown => {}
            error = self.failed() => return Err(error),
            refused = self.refused_at_first() => ended = Err(refused),
        }
        self.drain().await;
        ended
    }

    async fn refused_at_first(&self) -> WorkerError {
        match self.registered().await {
            Ok(()) => std::future::pending().await,
            Err(error) => error,
        }
    }

    /// Returns when the worker cannot go on, because its store failed: what it would say is not kept, so it says
    /// nothing any more.
    pub async fn failed(&self) -> WorkerError {
        self.store.failed().await.into()
    }

    /// Takes no more actions, lets those that run come to their end, and sends their answers off. Handlers that still
    /// run near the end of the time are told to stop. Returns whether all came to an end.
    pub async fn drain(self) -> bool {
        drop(self.stop_registering);
        let grace = Duration::from_millis(self.drain_ms);
        let told_after = grace.saturating_sub(Duration::from_millis(2 * limits::WORKER_STOP_GRACE_MS));
        let stop = self.stop_handlers.clone();
        let teller = tokio::spawn(async move {
            tokio::time::sleep(told_after).await;
            stop.cancel();
        });
        let queue = async {
            match &self.queue {
                Some(queue) => queue.drain(grace).await,
                None => true,
            }
        };
        let (answered, worked) = tokio::join!(self.serving.drain(grace), queue);
        let clean = answered && worked;
        self.listening.abort();
        teller.abort();
        let closed = self.store.closed();
        drop((self.store, self.queue, self.stop_handlers, self._stop_handlers));
        // what is left behind may hold it; nobody waits for that
        let closed = tokio::time::timeout(Duration::from_millis(limits::WORKER_STOP_GRACE_MS), closed).await;
        let clean = clean && closed.is_ok();
        tracing::info!(service = %self.service, clean, "drained");
        clean
    }
}
