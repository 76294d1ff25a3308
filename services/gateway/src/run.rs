//! The gateway as a process: configuration → build → run → drain. Everything that can be found wrong at the start is
//! found in `build`; afterwards only a failed store ends the process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aip_admission::{Authenticator, AuthenticatorError, Directory, DirectoryError};
use aip_bus::{Bus, BusError, Serving};
use aip_crypto::{KeyError, SigningKey};
use aip_names::{Identity, Service as ServiceName, TrustDomain, limits};
use aip_service::Exposition;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, ConfigError};
use crate::edge::http::{HttpBounds, HttpDoor};
use crate::edge::{Bounds, Edge, Front, nats};
use crate::front::Via;
use crate::gateway::{Gateway, GatewayError, Parts};

#[cfg(test)]
mod tests;

/// Why a gateway did not start, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the signing key {} cannot be used", path.display())]
    Key { path: PathBuf, source: KeyError },
    #[error("the directory {} cannot be used", path.display())]
    Directory { path: PathBuf, source: DirectoryError },
    #[error("key sets of token issuers cannot be fetched")]
    Authenticator(#[from] AuthenticatorError),
    #[error("cannot serve HTTP on {address}")]
    Bind { address: SocketAddr, source: std::io::Error },
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error(transparent)]
    Gateway(#[from] GatewayError),
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
            RunError::Config(_) | RunError::Key { .. } | RunError::Directory { .. } => 2,
            RunError::Gateway(GatewayError::Principal(_) | GatewayError::TrustDomain { .. }) => 2,
            RunError::Bus(BusError::Seed { .. } | BusError::NotASeed { .. }) => 2,
            RunError::Authenticator(_) | RunError::Bind { .. } | RunError::Bus(_) | RunError::Gateway(_) => 3,
            RunError::Store(_) => 4,
            RunError::Undrained(_) => 5,
        }
    }
}

/// Builds a gateway and runs it until `shutdown`.
///
/// # Errors
/// See [`RunError`].
pub async fn run(
    config: Config,
    exposition: Exposition,
    shutdown: impl Future<Output = ()>,
) -> Result<(), RunError> {
    Service::build(config, exposition).await?.run(shutdown).await
}

/// A gateway with its port taken and its store open, that serves nobody yet.
pub struct Service {
    config: Config,
    bus: Bus,
    gateway: Gateway,
    door: HttpDoor,
    exposition: Exposition,
}

// === impl Service ===

impl Service {
    /// Takes the port first, so that a second gateway on it ends before it touches anything else. NATS need not be
    /// there yet: until it is, the gateway is not ready and says so.
    ///
    /// # Errors
    /// See [`RunError`].
    pub async fn build(config: Config, exposition: Exposition) -> Result<Service, RunError> {
        let bounds = HttpBounds { connections: config.limits.http_connections, ..HttpBounds::default() };
        let address = config.http.bind;
        let door =
            HttpDoor::bind(address, bounds).await.map_err(|source| RunError::Bind { address, source })?;
        let key = SigningKey::load(&config.signing_key)
            .map_err(|source| RunError::Key { path: config.signing_key.clone(), source })?;
        let directory = Directory::load(&config.directory)
            .map_err(|source| RunError::Directory { path: config.directory.clone(), source })?;
        let settings = aip_bus::Settings {
            url: config.nats.url.clone(),
            identity: Identity::Gateway,
            seed_file: config.nats.seed.clone(),
            name: config.replica.clone(),
        };
        let bus = Bus::connect(settings).await?;
        let authenticator = Arc::new(Authenticator::new(Arc::new(directory))?);
        let ledger = aip_ledger::Config {
            trust_domain: config.trust_domain.clone(),
            service: ServiceName::gateway(),
            shard: 0,
            replica: config.replica.clone(),
            data_dir: config.data_dir.clone(),
            stream_replicas: config.nats.stream_replicas,
        };
        let gateway = Gateway::open(Parts { bus: bus.clone(), authenticator, key, ledger })?;
        Ok(Service { config, bus, gateway, door, exposition })
    }

    /// Where HTTP is served: the port that was given, when the configuration left it open.
    ///
    /// # Errors
    /// The system does not say.
    pub fn http_address(&self) -> std::io::Result<SocketAddr> {
        self.door.address()
    }

    /// Serves until `shutdown`, then drains.
    ///
    /// # Errors
    /// [`RunError::Store`] at once when the store fails, [`RunError::Undrained`] when work outlived the drain bound.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
        let Service { config, bus, gateway, door, exposition } = self;
        let (bounds, drain) = (config.limits.door, Duration::from_millis(config.limits.drain_ms));
        let edge = |via| Edge::new(via, gateway.clone(), bounds, exposition.clone());
        let (http_edge, nats_edge) = (edge(Via::Http), edge(Via::Nats));
        let stop = CancellationToken::new();
        let http = tokio::spawn(door.serve(http_edge.clone(), stop.clone(), drain));
        let join = join(bus, config.trust_domain.clone(), nats_edge.clone(), bounds);
        let nats = tokio::spawn(aip_service::attend(gateway.ledger().readiness(), stop.clone(), join));
        tracing::info!(replica = config.replica, address = %config.http.bind, "the gateway runs");
        tokio::select! {
            () = shutdown => {}
            why = gateway.failed() => {
                // what is in memory must not be answered any more
                http.abort();
                nats.abort();
                return Err(RunError::Store(why));
            }
        }
        tracing::info!("the gateway drains");
        stop.cancel();
        let until = Instant::now() + drain;
        // a reply can only leave over a connection that stands, so what is late here may just be waiting for one
        timeout_at(until, async { tokio::join!(http, nats) }).await.ok();
        let left = until.saturating_duration_since(Instant::now());
        let (by_http, by_nats) = tokio::join!(http_edge.drain(left), nats_edge.drain(left));
        // making the store durable is no client's work: it has a bound of its own, however little clients are given
        let keeping = Duration::from_millis(limits::DRAIN_MS);
        let kept = timeout(keeping, gateway.drain()).await.is_ok();
        if by_http && by_nats && kept { Ok(()) } else { Err(RunError::Undrained(config.limits.drain_ms)) }
    }
}

/// How this replica joins the gateway's queue group.
fn join<F: Front>(
    bus: Bus,
    trust_domain: TrustDomain,
    edge: Edge<F>,
    bounds: Bounds,
) -> impl Fn() -> BoxFuture<'static, Result<Serving, BusError>> {
    move || {
        let (bus, trust_domain, edge) = (bus.clone(), trust_domain.clone(), edge.clone());
        async move { nats::serve(&bus, &trust_domain, edge, bounds).await }.boxed()
    }
}
