//! The folder of `aip dev`: which processes run from it, when all is ready, and what a person is told. What stands in
//! its files is the matter of [`Site`].

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aip_names::TrustDomain;
use aip_natsd::Server;
use nix::fcntl::{Flock, FlockArg};

use crate::output::{Failure, because, say};
use crate::site::{API_KEY, APPROVER_KEY, Gateway, Plaintext, Plan, SERVICES, Site};

const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

pub struct Layout {
    site: Site,
    http: SocketAddr,
    gateways: u16,
    client: reqwest::Client,
}

// === impl Layout ===

impl Layout {
    pub fn new(folder: PathBuf, http: SocketAddr, gateways: u16) -> Result<Layout, Failure> {
        let client = reqwest::Client::builder()
            .timeout(PROBE_TIMEOUT)
            .build()
            .map_err(|error| because("can't set up HTTP", &error))?;
        Ok(Layout { site: Site::new(folder)?, http, gateways, client })
    }

    pub fn folder(&self) -> &Path {
        self.site.folder()
    }

    pub fn trust_domain(&self) -> &TrustDomain {
        self.site.trust_domain()
    }

    /// One `aip dev` a folder.
    pub fn lock(&self) -> Result<Flock<File>, Failure> {
        let path = self.site.file("lock");
        let file = File::create(&path)
            .map_err(|error| because(&format!("can't write {}", path.display()), &error))?;
        Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| {
            Failure::new(format!("another `aip dev` runs in {}", self.folder().display()))
                .hint("stop it, or give this one a folder of its own with --data-dir")
        })
    }

    /// Name, subcommand and configuration of each process, in the order of their start.
    pub fn services(&self) -> Vec<(String, &'static str, PathBuf)> {
        let gateway =
            |i: u16| (format!("gateway-{i}"), "gateway", self.site.file(&format!("gateway-{i}.toml")));
        let mut all: Vec<_> = (0..self.gateways).map(gateway).collect();
        all.extend(
            SERVICES
                .iter()
                .map(|own| (own.to_string(), own.as_str(), self.site.file(&format!("{own}.toml")))),
        );
        all.push(("sandbox".to_owned(), "sandbox", self.site.file("sandbox.toml")));
        all
    }

    /// Writes every file that the services and the command line need.
    pub fn write(&self, server: &Server) -> Result<(), Failure> {
        let gateway = |i| Gateway { name: format!("gateway-{i}"), bind: self.address(i) };
        let plan = Plan {
            nats_url: server.url(),
            http_url: format!("http://{}", self.http),
            gateways: (0..self.gateways).map(gateway).collect(),
            health_bind: SocketAddr::new(self.http.ip(), 0),
            data_dir: self.folder().to_owned(),
            plaintext: Plaintext::default(),
        };
        self.site.write(&plan, |identity| server.seed_file(identity))
    }

    /// Ready when each gateway is, and when the capabilities of the services and the sandbox can be called.
    pub async fn probe(&self) -> Result<(), String> {
        for i in 0..self.gateways {
            let response = self.get(i, "/ready").await?;
            if !response.status().is_success() {
                return Err(response.text().await.unwrap_or_default());
            }
        }
        let manifest = self.get(0, "/aip/v1/manifest").await?.text().await.unwrap_or_default();
        if let Some(own) = SERVICES.iter().find(|own| !manifest.contains(&own.verbs())) {
            return Err(format!("{own} has not registered its capabilities yet"));
        }
        let shown = |pattern: &str| manifest.contains(pattern.trim_end_matches('*'));
        match aip_sandbox::REGISTRATIONS.iter().find(|(_, pattern)| !shown(pattern)) {
            None => Ok(()),
            Some((service, _)) => Err(format!("{service} has not registered its capabilities yet")),
        }
    }

    pub fn say(&self, server: &Server) {
        let http = self.http;
        let key = display(&self.site.file(API_KEY));
        let (profile, approver) =
            (display(&self.site.file("approver.toml")), display(&self.site.file(APPROVER_KEY)));
        let logs = display(&self.folder().join("*.log"));
        say!(
            "AIP is running on this machine.

  HTTP      http://{http}        (health /ready, metrics /metrics, API /aip/v1/openapi.json)
  NATS      {}    (trust domain {}, nats-server {})
  data      {}
  logs      {logs}

Try, in another terminal in this folder:

  aip manifest
  aip action call cap:restaurant:table:search '{{\"date\": \"2027-03-14\", \"time\": \"19:00\", \"party\": 2}}'
  curl -s http://{http}/aip/v1/actions -H \"Authorization: Bearer $(cat {key})\" -H 'Content-Type: application/json' \\
    -d '{{\"capability_id\": \"cap:restaurant:table:search\", \"input\": {{\"date\": \"2027-03-14\", \"time\": \"19:00\", \"party\": 2}}}}'

What has to be approved waits for another person, who is made as well:

  aip action call cap:accounts:payout:create '{{\"from\": \"checking\", \"to\": \"savings\", \"amount_minor\": 700}}' --key rent
  aip approval list --profile {profile}
  http://{http}/console/approvals        (the token is in {approver})

Ctrl-C stops it; the next start finds everything again.",
            server.url(),
            self.trust_domain(),
            server.binary().version,
            display(self.folder()),
        );
    }

    async fn get(&self, gateway: u16, path: &str) -> Result<reqwest::Response, String> {
        let key = std::fs::read_to_string(self.site.file(API_KEY)).map_err(|error| error.to_string())?;
        let url = format!("http://{}{path}", self.address(gateway));
        self.client.get(url).bearer_auth(key.trim()).send().await.map_err(|error| error.to_string())
    }

    fn address(&self, gateway: u16) -> SocketAddr {
        SocketAddr::new(self.http.ip(), self.http.port().saturating_add(gateway))
    }
}

/// A path for people: relative to where they are, where that is shorter.
fn display(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    let relative = here.and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned));
    relative.unwrap_or_else(|| path.to_owned()).display().to_string()
}
