//! The files of a fleet: keys, the directory of two tenants who may do the same things, and a configuration for each
//! process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aip_crypto::SigningKey;
use aip_names::User;
use sha2::{Digest, Sha256};

pub const TRUST_DOMAIN: &str = "aip.chaos";
pub const TENANTS: [&str; 2] = ["red", "blue"];
/// The service, and the NATS name, of the worker with several replicas.
pub const BANK: &str = "bank";
pub const BANK_PRINCIPAL: &str = "service:bank";
/// The file of the provider behind the bank.
pub const PROVIDER: &str = "provider.log";
const SANDBOX: &str = "sandbox";

/// One folder of keys and files.
#[derive(Debug)]
pub struct Site {
    folder: PathBuf,
    pub gateway_did: String,
    pub clients: [Arc<SigningKey>; 2],
}

/// A key that programs which can't sign send along.
pub fn api_key(tenant: &str) -> String {
    format!("aip_{tenant}_0123456789abcdef0123456789")
}

pub fn tenant_id(tenant: &str) -> String {
    format!("tenant:{tenant}")
}

pub fn principal(tenant: &str) -> String {
    format!("service:{tenant}-client")
}

// === impl Site ===

impl Site {
    /// Makes keys and the directory.
    ///
    /// # Panics
    /// The folder can't be written.
    pub fn new(folder: &Path) -> Site {
        std::fs::create_dir_all(folder.join("keys")).expect("a folder for keys");
        let key = |name: &str| {
            let key = SigningKey::generate().expect("a key");
            key.save(&folder.join(format!("keys/{name}.key"))).expect("save a key");
            key
        };
        let (gateway, sandbox, bank) = (key("gateway"), key(SANDBOX), key("bank"));
        let clients = TENANTS.map(|tenant| Arc::new(key(tenant)));
        let site = Site { folder: folder.to_owned(), gateway_did: gateway.did().to_string(), clients };
        let directory = site.directory(&sandbox.did().to_string(), &bank.did().to_string());
        std::fs::write(folder.join("directory.toml"), directory).expect("write the directory");
        site
    }

    /// Who connects to NATS.
    ///
    /// # Panics
    /// Never: the names are well formed.
    pub fn users() -> Vec<User> {
        let mut users = vec![
            User::gateway(),
            User::admin(),
            User::worker(SANDBOX, &aip_sandbox::SERVICES).expect("a worker"),
            User::worker(BANK, &[BANK]).expect("a worker"),
        ];
        users.extend(TENANTS.iter().map(|tenant| User::client(tenant).expect("a client")));
        users
    }

    /// Writes a gateway's configuration and returns its path.
    ///
    /// # Panics
    /// It can't be written.
    pub fn gateway(&self, name: &str, port: u16, nats_url: &str, seed: &Path) -> PathBuf {
        let text = format!(
            "trust_domain = \"{TRUST_DOMAIN}\"
replica = \"{name}\"
data_dir = {data:?}
directory = \"directory.toml\"
signing_key = \"keys/gateway.key\"

[nats]
url = \"{nats_url}\"
seed = {seed:?}

[http]
bind = \"127.0.0.1:{port}\"
",
            data = self.folder.join(name),
        );
        self.save(name, &text)
    }

    /// Writes the configuration of a sandbox with some of its providers, and returns its path.
    ///
    /// # Panics
    /// It can't be written.
    pub fn sandbox(&self, name: &str, providers: &[&str], nats_url: &str, seed: &Path) -> PathBuf {
        let text = format!(
            "trust_domain = \"{TRUST_DOMAIN}\"
principal = \"service:{SANDBOX}\"
signing_key = \"keys/{SANDBOX}.key\"
data_dir = {data:?}
providers = {providers:?}

[nats]
url = \"{nats_url}\"
identity = \"worker-{SANDBOX}\"
seed = {seed:?}
",
            data = self.folder.join(name),
        );
        self.save(name, &text)
    }

    fn save(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.join(format!("{name}.toml"));
        std::fs::write(&path, text).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
        path
    }

    fn directory(&self, sandbox: &str, bank: &str) -> String {
        let mut text = format!("trust_domain = \"{TRUST_DOMAIN}\"\n");
        for tenant in TENANTS {
            text += &format!("\n[[tenant]]\nid = \"{}\"\n", tenant_id(tenant));
        }
        for (tenant, key) in TENANTS.iter().zip(&self.clients) {
            text += &format!(
                "
[[principal]]
id = \"{}\"
kind = \"service\"
tenants = [\"{}\"]
scopes = [\"action:write\", \"action:read\", \"receipt:read\", \"events:read\", \"audit:read\", \"audit:export\"]
capabilities = [\"cap:*\"]
dids = [\"{}\"]
api_keys = [{{ id = \"{tenant}\", sha256 = \"{}\" }}]
",
                principal(tenant),
                tenant_id(tenant),
                key.did(),
                hex::encode(Sha256::digest(api_key(tenant))),
            );
        }
        for (id, did) in [(format!("service:{SANDBOX}"), sandbox), (BANK_PRINCIPAL.to_owned(), bank)] {
            text += &format!("\n[[principal]]\nid = \"{id}\"\nkind = \"service\"\ndids = [\"{did}\"]\n");
        }
        for (service, pattern) in aip_sandbox::REGISTRATIONS {
            text += &worker(&format!("service:{SANDBOX}"), service, pattern);
        }
        text + &worker(BANK_PRINCIPAL, BANK, "cap:bank:*")
    }
}

fn worker(principal: &str, service: &str, pattern: &str) -> String {
    format!(
        "\n[[worker]]\nprincipal = \"{principal}\"\nservice = \"{service}\"\ncapabilities = [\"{pattern}\"]\n"
    )
}
