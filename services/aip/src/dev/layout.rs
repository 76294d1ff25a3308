//! The folder of `aip dev`: which files there are and what stands in them. Keys are made once and kept;
//! configuration is written anew at each start, from what was asked for.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aip_crypto::SigningKey;
use aip_names::{Identity, Service, TrustDomain};
use aip_natsd::Server;
use aip_wire::{PrincipalId, PrincipalKind};
use nix::fcntl::{Flock, FlockArg};

use crate::keys;
use crate::output::{Failure, because};
use crate::profile::{Http, Nats, Profile};

const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// The tenant of the sample data.
const TENANT: &str = "tenant:demo";
const CLIENT: &str = "service:dev-client";
const SANDBOX: &str = "service:sandbox";
const PYTHON: &str = "agent:python";

pub struct Layout {
    folder: PathBuf,
    http: SocketAddr,
    gateways: u16,
    trust_domain: TrustDomain,
    client: reqwest::Client,
}

// === impl Layout ===

impl Layout {
    pub fn new(
        folder: PathBuf,
        http: SocketAddr,
        gateways: u16,
        trust_domain: TrustDomain,
    ) -> Result<Layout, Failure> {
        std::fs::create_dir_all(folder.join("keys"))
            .and_then(|()| folder.canonicalize())
            .map_err(|error| because(&format!("can't use the folder {}", folder.display()), &error))
            .and_then(|folder| {
                let client = reqwest::Client::builder()
                    .timeout(PROBE_TIMEOUT)
                    .build()
                    .map_err(|error| because("can't set up HTTP", &error))?;
                Ok(Layout { folder, http, gateways, trust_domain, client })
            })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn trust_domain(&self) -> &TrustDomain {
        &self.trust_domain
    }

    /// One `aip dev` a folder.
    pub fn lock(&self) -> Result<Flock<File>, Failure> {
        let path = self.file("lock");
        let file = File::create(&path)
            .map_err(|error| because(&format!("can't write {}", path.display()), &error))?;
        Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| {
            Failure::new(format!("another `aip dev` runs in {}", self.folder.display()))
                .hint("stop it, or give this one a folder of its own with --data-dir")
        })
    }

    /// Name, subcommand and configuration of each process, in the order of their start.
    pub fn services(&self) -> Vec<(String, &'static str, PathBuf)> {
        let gateway = |i: u16| (format!("gateway-{i}"), "gateway", self.file(&format!("gateway-{i}.toml")));
        let mut all: Vec<_> = (0..self.gateways).map(gateway).collect();
        all.push(("sandbox".to_owned(), "sandbox", self.file("sandbox.toml")));
        all
    }

    /// Writes every file that the services and the command line need.
    pub fn write(&mut self, server: &Server) -> Result<(), Failure> {
        let gateway = self.key("gateway")?;
        let (sandbox, python, client) = (self.key("sandbox")?, self.key("python")?, self.key("client")?);
        let digest = self.api_key()?;
        let dids = [sandbox.did(), python.did(), client.did()].map(ToString::to_string);
        self.save("directory.toml", &directory(&self.trust_domain, &dids, &digest))?;
        for i in 0..self.gateways {
            self.save(&format!("gateway-{i}.toml"), &self.gateway(i, server))?;
        }
        self.save("sandbox.toml", &self.sandbox(server))?;
        let profile = self.profile(server, gateway.did().to_string())?;
        let text = toml::to_string(&profile).map_err(|error| because("can't write the profile", &error))?;
        self.save("client.toml", &text)
    }

    /// Ready when each gateway is, and when the sandbox's capabilities can be called.
    pub async fn probe(&self) -> Result<(), String> {
        for i in 0..self.gateways {
            let response = self.get(i, "/ready").await?;
            if !response.status().is_success() {
                return Err(response.text().await.unwrap_or_default());
            }
        }
        let manifest = self.get(0, "/aip/v1/manifest").await?.text().await.unwrap_or_default();
        match manifest.contains(aip_sandbox::LAST_CAPABILITY) {
            true => Ok(()),
            false => Err("the sandbox has not registered its capabilities yet".to_owned()),
        }
    }

    pub fn say(&self, server: &Server) {
        let http = self.http;
        let key = display(&self.file("keys/api-key"));
        let logs = display(&self.folder.join("*.log"));
        println!(
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

Ctrl-C stops it; the next start finds everything again.",
            server.url(),
            self.trust_domain,
            server.binary().version,
            display(&self.folder),
        );
    }

    async fn get(&self, gateway: u16, path: &str) -> Result<reqwest::Response, String> {
        let key = std::fs::read_to_string(self.file("keys/api-key")).map_err(|error| error.to_string())?;
        let url = format!("http://{}{path}", self.address(gateway));
        self.client.get(url).bearer_auth(key.trim()).send().await.map_err(|error| error.to_string())
    }

    fn address(&self, gateway: u16) -> SocketAddr {
        SocketAddr::new(self.http.ip(), self.http.port().saturating_add(gateway))
    }

    fn gateway(&self, i: u16, server: &Server) -> String {
        let seed = server.seed_file(&Identity::Gateway);
        format!(
            "trust_domain = \"{}\"
replica = \"gateway-{i}\"
data_dir = {:?}
directory = \"directory.toml\"
signing_key = \"keys/gateway.key\"

[nats]
url = \"{}\"
seed = {seed:?}

[http]
bind = \"{}\"
",
            self.trust_domain,
            self.file(&format!("gateway-{i}")),
            server.url(),
            self.address(i),
        )
    }

    fn sandbox(&self, server: &Server) -> String {
        let seed =
            Service::new("sandbox").map(|name| server.seed_file(&Identity::Worker(name))).unwrap_or_default();
        format!(
            "trust_domain = \"{}\"
principal = \"{SANDBOX}\"
signing_key = \"keys/sandbox.key\"
data_dir = {:?}

[nats]
url = \"{}\"
identity = \"worker-sandbox\"
seed = {seed:?}
",
            self.trust_domain,
            self.file("sandbox"),
            server.url(),
        )
    }

    fn profile(&self, server: &Server, gateway_did: String) -> Result<Profile, Failure> {
        let dev = Service::new("dev").map_err(|error| because("a client's name", &error))?;
        let identity = Identity::Client(dev);
        let mut profile = Profile::new(
            &self.trust_domain,
            PrincipalId::parse(CLIENT).map_err(|error| because("the client's id", &error))?,
            PrincipalKind::Service,
            PathBuf::from("keys/client.key"),
        );
        profile.gateway_did = Some(gateway_did);
        profile.http =
            Some(Http { url: format!("http://{}", self.http), api_key: Some(PathBuf::from("keys/api-key")) });
        profile.nats = Some(Nats {
            url: server.url(),
            identity: identity.to_string(),
            seed: server.seed_file(&identity),
        });
        Ok(profile)
    }

    fn key(&self, name: &str) -> Result<SigningKey, Failure> {
        let path = self.file(&format!("keys/{name}.key"));
        let because = |error| because(&format!("the key {}", path.display()), &error);
        if path.exists() {
            return SigningKey::load(&path).map_err(because);
        }
        let key = SigningKey::generate().map_err(because)?;
        key.save(&path).map_err(because)?;
        Ok(key)
    }

    fn api_key(&self) -> Result<String, Failure> {
        let path = self.file("keys/api-key");
        match std::fs::read_to_string(&path) {
            Ok(key) => Ok(keys::digest(key.trim())),
            Err(_) => keys::new_api_key(&path),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn save(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.file(name);
        std::fs::write(&path, text)
            .map_err(|error| because(&format!("can't write {}", path.display()), &error))
    }
}

/// Who is known on this machine: the developer, the sandbox and a worker in Python.
fn directory(trust_domain: &TrustDomain, dids: &[String; 3], api_key_digest: &str) -> String {
    let [sandbox, python, client] = dids;
    let workers: String = aip_sandbox::REGISTRATIONS
        .iter()
        .map(|(service, pattern)| {
            format!("\n[[worker]]\nprincipal = \"{SANDBOX}\"\nservice = \"{service}\"\ncapabilities = [\"{pattern}\"]\n")
        })
        .collect();
    format!(
        "# Written by `aip dev` at each start: who is known, and what each may do.
trust_domain = \"{trust_domain}\"

[[tenant]]
id = \"{TENANT}\"

[[principal]]
id = \"{CLIENT}\"
kind = \"service\"
display_name = \"The developer at this machine\"
tenants = [\"{TENANT}\"]
scopes = [\"action:write\", \"action:read\", \"receipt:read\"]
capabilities = [\"cap:*\"]
dids = [\"{client}\"]
api_keys = [{{ id = \"dev\", sha256 = \"{api_key_digest}\" }}]

[[principal]]
id = \"{SANDBOX}\"
kind = \"service\"
dids = [\"{sandbox}\"]

[[principal]]
id = \"{PYTHON}\"
kind = \"agent\"
dids = [\"{python}\"]
{workers}
[[worker]]
principal = \"{PYTHON}\"
service = \"python\"
capabilities = [\"cap:python:*\"]
"
    )
}

/// A path for people: relative to where they are, where that is shorter.
fn display(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    let relative = here.and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned));
    relative.unwrap_or_else(|| path.to_owned()).display().to_string()
}
