//! Starts the providers, serves until told to stop, and drains them.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aip_bus::{Bus, BusError, Settings};
use aip_crypto::{KeyError, SigningKey};
use aip_names::{NameError, Service};
use aip_sdk::{Worker, WorkerConfig, WorkerError};
use aip_wire::{Principal, PrincipalKind};
use futures_util::future::{join_all, select_all, try_join_all};

use crate::book::{Book, Seed};
use crate::config::{Config, Provider};
use crate::{accounts, chaos, report, restaurant, slow};

/// Why the sandbox does not run.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("the data folder {} cannot be made", path.display())]
    Folder { path: PathBuf, source: std::io::Error },
    #[error("the signing key {} cannot be used", path.display())]
    Key { path: PathBuf, source: KeyError },
    #[error("the store {} cannot be opened", path.display())]
    Store { path: PathBuf, source: Box<redb::Error> },
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("{service} does not run")]
    Worker { service: &'static str, source: WorkerError },
}

/// Runs the providers until `shutdown`, then drains them.
///
/// # Errors
/// Something that a provider needs is missing or in use, the gateway refused a manifest, or a store failed.
pub async fn run(config: Config, shutdown: impl Future<Output = ()>) -> Result<(), SandboxError> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&config.data_dir)
        .map_err(|source| SandboxError::Folder { path: config.data_dir.clone(), source })?;
    let key = SigningKey::load(&config.signing_key)
        .map_err(|source| SandboxError::Key { path: config.signing_key.clone(), source })?;
    let key = Arc::new(key);
    let bus = Bus::connect(Settings {
        url: config.nats.url.clone(),
        identity: config.nats.identity.clone(),
        seed_file: config.nats.seed.clone(),
        name: "sandbox".to_owned(),
    })
    .await?;
    let mut workers = Vec::new();
    for provider in &config.providers {
        match start(*provider, &config, &key, &bus).await {
            Ok(worker) => workers.push((provider.service(), worker)),
            Err(error) => return drain(workers, Err(error)).await,
        }
    }
    if workers.is_empty() {
        return Ok(());
    }
    let failures = workers.iter().map(|(service, worker)| {
        Box::pin(async move { SandboxError::Worker { service, source: worker.failed().await } })
    });
    let ended = tokio::select! {
        () = shutdown => Ok(()),
        error = refused(&workers) => Err(error),
        (error, ..) = select_all(failures) => Err(error),
    };
    drain(workers, ended).await
}

/// Registers all together: none waits for another's registration with its work.
async fn refused(workers: &[(&'static str, Worker)]) -> SandboxError {
    let registered = workers.iter().map(|(service, worker)| async move {
        worker.registered().await.map_err(|source| SandboxError::Worker { service, source })
    });
    if let Err(error) = try_join_all(registered).await {
        return error;
    }
    tracing::info!(providers = workers.len(), "the sandbox is ready");
    std::future::pending().await
}

async fn drain(
    workers: Vec<(&'static str, Worker)>,
    ended: Result<(), SandboxError>,
) -> Result<(), SandboxError> {
    join_all(workers.into_iter().map(|(_, worker)| worker.drain())).await;
    ended
}

async fn start(
    provider: Provider,
    config: &Config,
    key: &Arc<SigningKey>,
    bus: &Bus,
) -> Result<Worker, SandboxError> {
    let service = provider.service();
    let (seed, offer): (Seed, fn(_, &Book) -> _) = match provider {
        Provider::Restaurant => (restaurant::seed, restaurant::offer),
        Provider::Accounts => (accounts::seed, accounts::offer),
        Provider::Report => (report::seed, report::offer),
        Provider::Slow => (slow::seed, slow::offer),
        Provider::Chaos => (chaos::seed, chaos::offer),
    };
    let book = open(&config.data_dir.join(format!("{service}.redb")), seed)?;
    let mut principal = Principal::new(config.principal.clone(), PrincipalKind::Service);
    principal.display_name = Some(format!("{service} of the sandbox"));
    let results = config.data_dir.join(format!("{service}-results.redb"));
    let worker = WorkerConfig {
        version: config.version,
        running_max: config.running_max,
        drain_ms: config.drain_ms,
        ..WorkerConfig::new(
            config.trust_domain.clone(),
            Service::new(service)?,
            principal,
            Arc::clone(key),
            results,
        )
    };
    let builder = offer(Worker::builder(worker), &book);
    builder.start(bus).await.map_err(|source| SandboxError::Worker { service, source })
}

fn open(path: &Path, seed: Seed) -> Result<Book, SandboxError> {
    Book::open(path, seed)
        .map_err(|source| SandboxError::Store { path: path.to_owned(), source: Box::new(source) })
}
