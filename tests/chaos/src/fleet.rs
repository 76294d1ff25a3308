//! Three gateways, four workers and a nats-server, each a process of its own, each behind a network of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use aip_names::{Identity, Service, TrustDomain};
use aip_natsd::{Server, Settings};
use aip_testkit::{Scratch, binary, free_port, wait_for};
use futures_util::future::join_all;

use crate::member::Member;
use crate::provider::Provider;
use crate::proxy::Proxy;
use crate::site::{self, Site};

pub const GATEWAYS: usize = 3;
/// How long anything may take to come up again by itself, on a machine that does other things too.
pub const SOON: Duration = Duration::from_secs(60);

pub struct Fleet {
    pub gateways: Vec<Member>,
    /// `accounts`, `restaurant`, and two replicas of the bank.
    pub workers: Vec<Member>,
    pub server: Server,
    pub site: Site,
    pub http: reqwest::Client,
    scratch: Scratch,
}

/// Capabilities fall away where permissions are to bite; a file's bound is an error and no signal.
fn bounded(program: &Path) -> Vec<String> {
    let mut command = vec!["env".to_owned(), "--ignore-signal=XFSZ".to_owned()];
    let owner = std::fs::metadata("/proc/self").map(|own| std::os::unix::fs::MetadataExt::uid(&own));
    if owner.is_ok_and(|uid| uid == 0) {
        command.extend(["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--"].map(str::to_owned));
    }
    command.push(program.display().to_string());
    command
}

fn arguments(program: Vec<String>, more: &[&str]) -> Vec<String> {
    program.into_iter().chain(more.iter().map(|&more| more.to_owned())).collect()
}

// === impl Fleet ===

impl Fleet {
    /// Starts everything and waits until it serves.
    ///
    /// # Panics
    /// Something does not come up.
    pub async fn start() -> Fleet {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let scratch = Scratch::new();
        let settings = Settings {
            folder: scratch.join("nats"),
            port: None,
            monitor_port: None,
            trust_domain: TrustDomain::new(site::TRUST_DOMAIN).expect("a trust domain"),
            users: Site::users(),
        };
        let server =
            Server::start(settings).await.unwrap_or_else(|error| panic!("start nats-server: {error}"));
        let site = Site::new(scratch.path());
        let http = reqwest::Client::builder().timeout(Duration::from_secs(20)).build().expect("a client");
        let (gateways, workers) = (Vec::new(), Vec::new());
        let mut fleet = Fleet { gateways, workers, server, site, http, scratch };
        for i in 0..GATEWAYS {
            let gateway = fleet.gateway(i).await;
            fleet.gateways.push(gateway);
        }
        for (i, providers) in [["accounts"], ["restaurant"]].iter().enumerate() {
            let worker = fleet.sandbox(&format!("worker-{i}"), providers).await;
            fleet.workers.push(worker);
        }
        for i in 2..4 {
            let worker = fleet.bank(&format!("worker-{i}")).await;
            fleet.workers.push(worker);
        }
        for member in fleet.members_mut() {
            member.start().await;
        }
        fleet.healed().await;
        fleet
    }

    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// Leaves the folder, with all logs, to be looked at.
    pub fn keep(&mut self) -> PathBuf {
        let kept = std::mem::take(&mut self.scratch);
        let path = kept.path().to_owned();
        // its end would delete it
        std::mem::forget(kept);
        path
    }

    pub fn provider(&self) -> Provider {
        Provider::new(self.scratch.join(site::PROVIDER))
    }

    pub fn members_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.gateways.iter_mut().chain(&mut self.workers)
    }

    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.gateways.iter().chain(&self.workers)
    }

    /// Waits until every process runs, every gateway is ready and what workers offer can be called.
    ///
    /// # Panics
    /// It takes too long, or a process has ended.
    pub async fn healed(&self) {
        for member in self.members() {
            assert!(member.is_running(), "{} ended by itself: {}", member.name, member.last_words());
        }
        for i in 0..self.gateways.len() {
            self.ready(i).await;
        }
        for capability in
            ["cap:accounts:transfer:create", "cap:restaurant:booking:create", crate::worker::PAY]
        {
            wait_for(&format!("{capability} to be offered"), SOON, || async {
                self.page(0, "/aip/v1/manifest").await.is_some_and(|(_, page)| page.contains(capability))
            })
            .await;
        }
    }

    /// # Panics
    /// The gateway is not ready in time.
    pub async fn ready(&self, gateway: usize) {
        let last = std::sync::Mutex::new(String::new());
        let waited = tokio::time::timeout(SOON, async {
            loop {
                match self.page(gateway, "/ready").await {
                    Some((200, _)) => return,
                    said => *last.lock().unwrap() = format!("{said:?}"),
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let ready = waited.await.is_ok();
        let (member, last) = (&self.gateways[gateway], last.into_inner().unwrap());
        assert!(ready, "{} is not ready after {SOON:?}: {last}\n{}", member.name, member.last_words());
    }

    /// A page of a gateway: status and text. None if it does not answer.
    pub async fn page(&self, gateway: usize, path: &str) -> Option<(u16, String)> {
        let url = format!("{}{path}", self.url(gateway));
        let request = self.http.get(url).bearer_auth(site::api_key(site::TENANTS[0]));
        let page = request.timeout(Duration::from_secs(3)).send().await.ok()?;
        let status = page.status().as_u16();
        Some((status, page.text().await.ok()?))
    }

    pub fn url(&self, gateway: usize) -> String {
        format!("http://127.0.0.1:{}", self.gateways[gateway].port)
    }

    /// Stops the gateways as an operator would.
    ///
    /// # Panics
    /// One does not drain.
    pub async fn rest(&mut self) {
        let stopped = join_all(self.gateways.iter_mut().map(Member::stop)).await;
        assert_eq!(stopped, vec![true; GATEWAYS], "a gateway did not drain");
    }

    /// Starts the gateways again and waits until they serve.
    ///
    /// # Panics
    /// They do not come up.
    pub async fn wake(&mut self) {
        for gateway in &mut self.gateways {
            gateway.start().await;
        }
        self.healed().await;
    }

    /// Runs the command line.
    ///
    /// # Panics
    /// It can't be run.
    pub async fn aip(&self, args: &[&str]) -> Output {
        let mut command = tokio::process::Command::new(binary("aip"));
        command.current_dir(self.folder()).args(args).stdin(std::process::Stdio::null());
        command.output().await.expect("run aip")
    }

    async fn proxy(&self) -> Proxy {
        let address = self.server.url();
        let address: SocketAddr = address.trim_start_matches("nats://").parse().expect("an address");
        Proxy::start(address).await
    }

    fn seed(&self, identity: &Identity) -> PathBuf {
        self.server.seed_file(identity)
    }

    async fn gateway(&self, i: usize) -> Member {
        let (name, port, proxy) = (format!("gateway-{i}"), free_port(), self.proxy().await);
        let config = self.site.gateway(&name, port, &proxy.url(), &self.seed(&Identity::Gateway));
        let command = arguments(
            bounded(&binary("aip")),
            &["gateway", "--config", config.to_str().expect("a path in UTF-8")],
        );
        Member::new(&name, proxy, port, config, command)
    }

    async fn sandbox(&self, name: &str, providers: &[&str]) -> Member {
        let proxy = self.proxy().await;
        let identity = Identity::Worker(Service::new("sandbox").expect("a name"));
        let config = self.site.sandbox(name, providers, &proxy.url(), &self.seed(&identity));
        let command = vec![binary("aip").display().to_string()];
        let command = arguments(command, &["sandbox", "--config", config.to_str().expect("a path in UTF-8")]);
        Member::new(name, proxy, 0, config, command)
    }

    /// A replica of the bank, not yet started.
    pub async fn bank(&self, name: &str) -> Member {
        let proxy = self.proxy().await;
        let seed = self.seed(&Identity::Worker(Service::new(site::BANK).expect("a name")));
        let (folder, url) = (self.folder().display().to_string(), proxy.url());
        let seed = seed.display().to_string();
        let more = ["worker", "--dir", &folder, "--name", name, "--nats-url", &url, "--seed", &seed];
        let command = arguments(vec![binary("aip-chaos").display().to_string()], &more);
        Member::new(name, proxy, 0, self.folder().join(format!("{name}.toml")), command)
    }
}
