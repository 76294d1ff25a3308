//! What one installation consists of: its keys and the files that its processes and its command line read. Keys are
//! made once and kept; configuration is written anew each time, from what was asked for. `aip dev` and `aip setup`
//! write the same files here and differ in their [`Plan`] only.

use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use aip_crypto::SigningKey;
use aip_names::{Identity, OwnService, Service, TrustDomain, User};
use aip_wire::{PrincipalId, PrincipalKind};

use crate::keys;
use crate::output::{Failure, because};
use crate::profile::{Http, Nats, Profile};

/// The tenant of the sample data.
const TENANT: &str = "tenant:demo";
const CLIENT: &str = "service:dev-client";
/// Agrees to what the developer asks for: nobody approves their own.
const APPROVER: &str = "human:dev-approver";
const SANDBOX: &str = "service:sandbox";
const PYTHON: &str = "agent:python";

/// The services besides the gateway that an installation runs.
pub const SERVICES: &[OwnService] = &[OwnService::PolicyApproval];

/// Where the API key stands, below the installation's folder.
pub const API_KEY: &str = "keys/api-key";
/// Where the approver's stands, which the console takes.
pub const APPROVER_KEY: &str = "keys/approver-api-key";

/// Somebody who speaks by the command line.
struct Person {
    /// The profile.
    file: &'static str,
    id: &'static str,
    kind: PrincipalKind,
    key: &'static str,
    api_key: &'static str,
}

const DEVELOPER: Person = Person {
    file: "client.toml",
    id: CLIENT,
    kind: PrincipalKind::Service,
    key: "keys/client.key",
    api_key: API_KEY,
};
const PERSON: Person = Person {
    file: "approver.toml",
    id: APPROVER,
    kind: PrincipalKind::Human,
    key: "keys/approver.key",
    api_key: APPROVER_KEY,
};

/// One folder of keys and files.
pub struct Site {
    folder: PathBuf,
    trust_domain: TrustDomain,
}

/// Where the parts find each other and keep their data.
pub struct Plan {
    /// Where the services and the command line find NATS.
    pub nats_url: String,
    /// Where the command line finds the first gateway.
    pub http_url: String,
    /// Each gets the file `<name>.toml`, and so does each of [`SERVICES`].
    pub gateways: Vec<Gateway>,
    /// Where the other services serve their health pages.
    pub health_bind: SocketAddr,
    /// Holds a folder for each service.
    pub data_dir: PathBuf,
    /// What an operator said about HTTP outside loopback, handed on to the gateway, which judges it.
    pub plaintext: Plaintext,
}

/// One replica.
pub struct Gateway {
    pub name: String,
    pub bind: SocketAddr,
}

/// The two halves of the permission to serve plaintext HTTP to others.
#[derive(Default)]
pub struct Plaintext {
    pub outside_loopback: bool,
    pub without_tls: bool,
}

// === impl Site ===

impl Site {
    pub fn new(folder: PathBuf) -> Result<Site, Failure> {
        let trust_domain = TrustDomain::new(aip_natsd::shipped::TRUST_DOMAIN)
            .map_err(|error| because("the trust domain", &error))?;
        // What is kept here is people's data and keys: nobody else looks in.
        let private = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder.join("keys"));
        let folder = private
            .and_then(|()| folder.canonicalize())
            .map_err(|error| because(&format!("can't use the folder {}", folder.display()), &error))?;
        Ok(Site { folder, trust_domain })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn trust_domain(&self) -> &TrustDomain {
        &self.trust_domain
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Who connects to NATS.
    pub fn users() -> Result<Vec<User>, Failure> {
        let worker = |name: &str, serves: &[&str]| {
            User::worker(name, serves).map_err(|error| because("a worker's name", &error))
        };
        let mut users = vec![
            User::gateway(),
            User::admin(),
            worker("sandbox", &aip_sandbox::SERVICES)?,
            worker("python", &["python"])?,
            User::client("dev")
                .map(User::hearing_streams)
                .map_err(|error| because("a client's name", &error))?,
        ];
        users.extend(SERVICES.iter().copied().map(User::own));
        Ok(users)
    }

    /// Writes every file that the services and the command line need; `seed` says where an identity's nkey stands.
    pub fn write(&self, plan: &Plan, seed: impl Fn(&Identity) -> PathBuf) -> Result<(), Failure> {
        let gateway = self.key("gateway")?;
        let (sandbox, python, client) = (self.key("sandbox")?, self.key("python")?, self.key("client")?);
        let approver = self.key("approver")?;
        let digest = self.api_key(API_KEY)?;
        let dids = [sandbox.did(), python.did(), client.did()].map(ToString::to_string);
        // relative to the files: the folder may be mounted elsewhere
        let seed = |identity: &Identity| {
            let path = seed(identity);
            path.strip_prefix(&self.folder).map(Path::to_owned).unwrap_or(path)
        };
        let mut own = String::new();
        for service in SERVICES {
            own.push_str(&principal_of(*service, &self.key(service.as_str())?.did().to_string()));
            let text = self.service(plan, *service, &seed(&Identity::Own(*service)));
            self.save(&format!("{service}.toml"), &text)?;
        }
        let approves = approver_of(&approver.did().to_string(), &self.api_key(APPROVER_KEY)?);
        let text = directory(&self.trust_domain, &dids, &digest) + &approves + &own;
        self.save("directory.toml", &text)?;
        for one in &plan.gateways {
            self.save(&format!("{}.toml", one.name), &self.gateway(plan, one, &seed(&Identity::Gateway)))?;
        }
        let worker = Identity::Worker(service("sandbox")?);
        self.save("sandbox.toml", &self.sandbox(plan, &worker, &seed(&worker)))?;
        let client = Identity::Client(service("dev")?);
        for person in [&DEVELOPER, &PERSON] {
            let profile = self.profile(plan, person, gateway.did().to_string(), &client, seed(&client))?;
            let text =
                toml::to_string(&profile).map_err(|error| because("can't write the profile", &error))?;
            self.save(person.file, &text)?;
        }
        Ok(())
    }

    /// Replaces a file in one step: a service that starts meanwhile reads the old text or the new one.
    pub fn save(&self, name: &str, text: &str) -> Result<(), Failure> {
        let (path, new) = (self.file(name), self.file(&format!("{name}.new")));
        std::fs::write(&new, text)
            .and_then(|()| std::fs::rename(&new, &path))
            .map_err(|error| because(&format!("can't write {}", path.display()), &error))
    }

    fn gateway(&self, plan: &Plan, gateway: &Gateway, seed: &Path) -> String {
        let Gateway { name, bind } = gateway;
        let Plaintext { outside_loopback, without_tls } = plan.plaintext;
        format!(
            "trust_domain = \"{}\"
replica = \"{name}\"
data_dir = {:?}
directory = \"directory.toml\"
signing_key = \"keys/gateway.key\"

[nats]
url = \"{}\"
seed = {seed:?}

[http]
bind = \"{bind}\"
outside_loopback = {outside_loopback}
without_tls = {without_tls}
",
            self.trust_domain,
            plan.data_dir.join(name),
            plan.nats_url,
        )
    }

    fn service(&self, plan: &Plan, own: OwnService, seed: &Path) -> String {
        format!(
            "trust_domain = \"{}\"
replica = \"{own}\"
data_dir = {:?}
directory = \"directory.toml\"
signing_key = \"keys/{own}.key\"

[nats]
url = \"{}\"
seed = {seed:?}

[health]
bind = \"{}\"
{}",
            self.trust_domain,
            plan.data_dir.join(own.as_str()),
            plan.nats_url,
            plan.health_bind,
            settings(own),
        )
    }

    fn sandbox(&self, plan: &Plan, identity: &Identity, seed: &Path) -> String {
        format!(
            "trust_domain = \"{}\"
principal = \"{SANDBOX}\"
signing_key = \"keys/sandbox.key\"
data_dir = {:?}

[nats]
url = \"{}\"
identity = \"{identity}\"
seed = {seed:?}
",
            self.trust_domain,
            plan.data_dir.join("sandbox"),
            plan.nats_url,
        )
    }

    fn profile(
        &self,
        plan: &Plan,
        person: &Person,
        gateway_did: String,
        identity: &Identity,
        seed: PathBuf,
    ) -> Result<Profile, Failure> {
        let mut profile = Profile::new(
            &self.trust_domain,
            PrincipalId::parse(person.id).map_err(|error| because("the client's id", &error))?,
            person.kind,
            PathBuf::from(person.key),
        );
        profile.gateway_did = Some(gateway_did);
        profile.http =
            Some(Http { url: plan.http_url.clone(), api_key: Some(PathBuf::from(person.api_key)) });
        profile.nats = Some(Nats { url: plan.nats_url.clone(), identity: identity.to_string(), seed });
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

    fn api_key(&self, name: &str) -> Result<String, Failure> {
        let path = self.file(name);
        match std::fs::read_to_string(&path) {
            // one that a crash left empty must not become a key: making it anew then fails and names the file
            Ok(key) if !key.trim().is_empty() => Ok(keys::digest(key.trim())),
            _ => keys::new_api_key(&path),
        }
    }
}

fn service(name: &str) -> Result<Service, Failure> {
    Service::new(name).map_err(|error| because("a name in NATS", &error))
}

/// What a service's own table of settings says.
fn settings(own: OwnService) -> &'static str {
    match own {
        OwnService::PolicyApproval | OwnService::Transaction | OwnService::CallbackOutbox => "",
    }
}

/// A service as a principal, and as the worker that performs its operator verbs.
fn principal_of(own: OwnService, did: &str) -> String {
    let (principal, verbs) = (own.principal(), own.verbs());
    format!(
        "
[[principal]]
id = \"{principal}\"
kind = \"service\"
dids = [\"{did}\"]

[[worker]]
principal = \"{principal}\"
service = \"{own}\"
capabilities = [\"{verbs}*\"]
"
    )
}

/// Somebody who may approve, and nothing else.
fn approver_of(did: &str, api_key_digest: &str) -> String {
    format!(
        "
[[principal]]
id = \"{APPROVER}\"
kind = \"human\"
display_name = \"Approves what the developer asks for\"
tenants = [\"{TENANT}\"]
roles = [\"approver\"]
scopes = [\"approval:read\", \"approval:decide\", \"action:read\", \"receipt:read\"]
dids = [\"{did}\"]
api_keys = [{{ id = \"approver\", sha256 = \"{api_key_digest}\" }}]
"
    )
}

/// Who is known: the developer, who is the operator as well, the sandbox and a worker in Python.
fn directory(trust_domain: &TrustDomain, dids: &[String; 3], api_key_digest: &str) -> String {
    let [sandbox, python, client] = dids;
    let workers: String = aip_sandbox::REGISTRATIONS
        .iter()
        .map(|(service, pattern)| {
            format!("\n[[worker]]\nprincipal = \"{SANDBOX}\"\nservice = \"{service}\"\ncapabilities = [\"{pattern}\"]\n")
        })
        .collect();
    format!(
        "# Written anew by each `aip dev` or `aip setup`: who is known, and what each may do.
trust_domain = \"{trust_domain}\"

[[tenant]]
id = \"{TENANT}\"

[[principal]]
id = \"{CLIENT}\"
kind = \"service\"
display_name = \"The developer at this machine\"
tenants = [\"{TENANT}\"]
scopes = [
    \"action:write\", \"action:read\", \"receipt:read\", \"events:read\", \"audit:read\", \"audit:export\",
    \"approval:read\",
]
capabilities = [\"cap:*\", \"cap:aip:*\"]
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
