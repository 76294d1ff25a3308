//! The configuration files under `nats-config/`: the same text that a launched server gets, with keys and
//! paths left to the environment. A test writes them anew and compares.

use std::path::PathBuf;

use aip_names::{Identity, OwnService, TrustDomain, User};

use crate::config::{Config, Listen, UserKey};
use crate::error::NatsdError;

/// The trust domain of the shipped files and of `aip dev`.
pub const TRUST_DOMAIN: &str = "aip.local";

/// One server with its data under `/data`. Every key is read from `AIP_NKEY_<IDENTITY>`.
///
/// # Errors
/// A name in here is malformed.
pub fn single() -> Result<String, NatsdError> {
    let users = [
        User::gateway(),
        User::admin(),
        User::own(OwnService::PolicyApproval),
        User::worker("sandbox", &["sandbox-restaurant"])?,
        User::client("app")?.hearing_streams(),
    ];
    let config = Config {
        server_name: "aip".to_owned(),
        listen: Listen { host: "0.0.0.0".to_owned(), port: Some(4222) },
        monitor_port: Some(8222),
        store_dir: PathBuf::from("/data"),
        run_dir: None,
        trust_domain: TrustDomain::new(TRUST_DOMAIN)?,
        users: users.map(|user| (user.clone(), UserKey::Environment(variable(&user.identity)))).to_vec(),
    };
    config.render()
}

/// The environment variable that holds an identity's public key.
pub fn variable(identity: &Identity) -> String {
    format!("AIP_NKEY_{}", identity.to_string().to_uppercase().replace('-', "_"))
}
