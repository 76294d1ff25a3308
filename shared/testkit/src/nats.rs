//! A real nats-server for one test, with the identities that tests speak as.

use std::path::PathBuf;

use aip_names::{Identity, Service, TrustDomain, User};
use aip_natsd::{Server, Settings};

use crate::scratch::Scratch;

/// A server with the users `gateway`, `admin`, `worker-restaurant` (serving `sandbox-restaurant`),
/// `client-alice` and `client-bob`, and those a test adds.
#[derive(Debug)]
pub struct TestNats {
    /// Stop, kill, pause, restart: as the test likes.
    pub server: Server,
    // dropped after the server, which writes into it
    scratch: Scratch,
}

impl TestNats {
    /// # Panics
    /// The server does not start.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// With more users than the usual ones.
    ///
    /// # Panics
    /// The server does not start.
    pub async fn start_with(more: &[User]) -> Self {
        let scratch = Scratch::new();
        let mut users = vec![
            User::gateway(),
            User::admin(),
            User::worker("restaurant", &["sandbox-restaurant"]).expect("a worker"),
            User::client("alice").expect("a client").hearing_streams(),
            User::client("bob").expect("a client"),
        ];
        users.extend_from_slice(more);
        let settings = Settings {
            folder: scratch.join("nats"),
            port: None,
            monitor_port: None,
            trust_domain: Self::trust_domain(),
            users,
        };
        let server =
            Server::start(settings).await.unwrap_or_else(|error| panic!("start nats-server: {error}"));
        Self { server, scratch }
    }

    /// `aip.local`.
    pub fn trust_domain() -> TrustDomain {
        TrustDomain::new("aip.local").expect("a trust domain")
    }

    pub fn worker(name: &str) -> Identity {
        Identity::Worker(Service::new(name).expect("a worker's name"))
    }

    pub fn client(name: &str) -> Identity {
        Identity::Client(Service::new(name).expect("a client's name"))
    }

    pub fn url(&self) -> String {
        self.server.url()
    }

    /// The key file with which a test connects as `identity`.
    pub fn seed_file(&self, identity: &Identity) -> PathBuf {
        self.server.seed_file(identity)
    }

    /// A folder beside the server's, for stores and files of the same test.
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }
}
