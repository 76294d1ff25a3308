//! A service as a process: configuration → parts → run → drain. Everything that can be found wrong at the start is found
//! before it serves anybody; afterwards only a failed store ends it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aip_admission::{Directory, DirectoryError};
use aip_bus::{Bus, BusError};
use aip_crypto::{KeyError, SigningKey};
use aip_names::{Identity, limits};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::door::{self, Service};
use crate::health;
use crate::member;

/// The text of `/metrics`, made when it is asked for.
pub type Exposition = Arc<dyn Fn() -> String + Send + Sync>;

/// Why a service did not start, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("the signing key {} cannot be used", path.display())]
    Key { path: PathBuf, source: KeyError },
    #[error("the directory {} cannot be used", path.display())]
    Directory { path: PathBuf, source: DirectoryError },
    #[error("cannot serve the health pages on {address}")]
    Bind { address: SocketAddr, source: std::io::Error },
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error(transparent)]
    Ledger(#[from] aip_ledger::OpenError),
    /// A part of the service's own.
    #[error("{0}")]
    Own(String),
    #[error("the store failed, nothing can be kept any more: {0}")]
    Store(String),
    #[error(
        "work was still under way when the drain bound of {0} ms passed; it is taken up at the next start"
    )]
    Undrained(u64),
}

// === impl RunError ===

impl RunError {
    /// What the process says to its supervisor: 2 for a configuration that has to be changed, 3 for something outside
    /// that cannot be used, 4 for a failed store, 5 for an end that did not wait for all work.
    pub fn exit_code(&self) -> u8 {
        match self {
            RunError::Key { .. } | RunError::Directory { .. } | RunError::Own(_) => 2,
            RunError::Bus(BusError::Seed { .. } | BusError::NotASeed { .. }) => 2,
            RunError::Bind { .. } | RunError::Bus(_) | RunError::Ledger(_) => 3,
            RunError::Store(_) => 4,
            RunError::Undrained(_) => 5,
        }
    }
}

/// What a service is made of.
pub struct Parts {
    pub bus: Bus,
    pub key: Arc<SigningKey>,
    pub directory: Arc<Directory>,
    /// Opens the service's own ledger.
    pub ledger: aip_ledger::Config,
}

// === impl Parts ===

impl Parts {
    /// NATS need not be there yet: until it is, the service is not ready and says so.
    ///
    /// # Errors
    /// A file cannot be used.
    pub async fn load<S>(config: &Config<S>) -> Result<Parts, RunError> {
        let path = || config.signing_key.clone();
        let key =
            SigningKey::load(&config.signing_key).map_err(|source| RunError::Key { path: path(), source })?;
        let directory = Directory::load(&config.directory)
            .map_err(|source| RunError::Directory { path: config.directory.clone(), source })?;
        let settings = aip_bus::Settings {
            url: config.nats.url.clone(),
            identity: Identity::Own(config.own),
            seed_file: config.nats.seed.clone(),
            name: config.replica.clone(),
        };
        let ledger = aip_ledger::Config {
            trust_domain: config.trust_domain.clone(),
            service: config.own.service(),
            shard: 0,
            replica: config.replica.clone(),
            data_dir: config.data_dir.clone(),
            stream_replicas: config.nats.stream_replicas,
        };
        Ok(Parts {
            bus: Bus::connect(settings).await?,
            key: Arc::new(key),
            directory: Arc::new(directory),
            ledger,
        })
    }
}

/// Serves until `shutdown`, then drains.
///
/// # Errors
/// [`RunError::Store`] at once when the store fails, [`RunError::Undrained`] when work outlived the drain bound.
pub async fn run<S: Service, T>(
    config: &Config<T>,
    bus: Bus,
    service: S,
    exposition: Exposition,
    shutdown: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let address = config.health;
    let bind = |source| RunError::Bind { address, source };
    let listener = TcpListener::bind(address).await.map_err(bind)?;
    let address = listener.local_addr().map_err(bind)?;
    let pages = tokio::spawn(health::serve(listener, service.readiness(), exposition));
    let stop = CancellationToken::new();
    let member = {
        let (trust_domain, own, running_max) = (config.trust_domain.clone(), config.own, config.in_flight);
        let (readiness, service, stop) = (service.readiness(), service.clone(), stop.clone());
        tokio::spawn(async move {
            let join = || door::serve(&bus, &trust_domain, own, running_max, service.clone());
            member::attend(readiness, stop, join).await;
        })
    };
    tracing::info!(replica = config.replica, %address, "{} runs", config.own);
    tokio::select! {
        () = shutdown => {}
        why = service.failed() => {
            // what is in memory must not be answered any more
            member.abort();
            pages.abort();
            return Err(RunError::Store(why));
        }
    }
    tracing::info!("{} drains", config.own);
    stop.cancel();
    let served = timeout(Duration::from_millis(config.drain_ms), member).await.is_ok();
    // making the store durable is no caller's work: it has a bound of its own, however little callers are given
    let kept = timeout(Duration::from_millis(limits::DRAIN_MS), service.drain()).await.is_ok();
    pages.abort();
    if served && kept { Ok(()) } else { Err(RunError::Undrained(config.drain_ms)) }
}
