//! A nats-server for one measurement, and connections to it.

use std::error::Error;
use std::time::Duration;

use aip_bus::{Bus, Settings};
use aip_names::{Identity, Service, TrustDomain, User};
use aip_natsd::Server;
use tempfile::TempDir;

pub const SERVICE: &str = "bench";
const CONNECT: Duration = Duration::from_secs(10);

pub struct Stage {
    pub server: Server,
    pub folder: TempDir,
    pub trust_domain: TrustDomain,
}

// === impl Stage ===

impl Stage {
    /// Where files are: on the disk that the folder of the build is on, not on one in memory.
    pub async fn start() -> Result<Stage, Box<dyn Error>> {
        let folder = tempfile::Builder::new().prefix("aip-bench-").tempdir_in(std::env::current_dir()?)?;
        let trust_domain = TrustDomain::new("aip.bench")?;
        let users =
            vec![User::gateway(), User::admin(), User::worker(SERVICE, &[SERVICE])?, User::client(SERVICE)?];
        let settings = aip_natsd::Settings {
            folder: folder.path().join("nats"),
            port: None,
            monitor_port: None,
            trust_domain: trust_domain.clone(),
            users,
        };
        Ok(Stage { server: Server::start(settings).await?, folder, trust_domain })
    }

    pub fn worker() -> Result<Identity, Box<dyn Error>> {
        Ok(Identity::Worker(Service::new(SERVICE)?))
    }

    pub fn client() -> Result<Identity, Box<dyn Error>> {
        Ok(Identity::Client(Service::new(SERVICE)?))
    }

    pub async fn bus(&self, identity: Identity) -> Result<Bus, Box<dyn Error>> {
        let seed_file = self.server.seed_file(&identity);
        let name = identity.to_string();
        let bus = Bus::connect(Settings { url: self.server.url(), identity, seed_file, name }).await?;
        bus.ready(CONNECT).await?;
        Ok(bus)
    }

    /// The process id of the server.
    pub fn pid(&self) -> i32 {
        let pid = std::fs::read_to_string(self.server.folder().join("nats-server.pid")).unwrap_or_default();
        pid.trim().parse().unwrap_or(0)
    }
}
