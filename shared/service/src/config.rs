//! A service's configuration: a TOML file, then the environment, which wins. Everything is checked before anything is
//! started. Secrets are never in here, only the paths of their files.
//!
//! `nats.url` of the file is `AIP_<SERVICE>_NATS_URL` in the environment, and so on.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use aip_names::{Atom, NameError, OwnService, TrustDomain, limits};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A checked configuration; `settings` are the service's own.
#[derive(Debug, Clone)]
pub struct Config<S> {
    pub own: OwnService,
    pub trust_domain: TrustDomain,
    /// The name of this replica: unique among the replicas, kept over restarts.
    pub replica: String,
    /// Where the store stands.
    pub data_dir: PathBuf,
    /// Tenants, principals, keys and registrations.
    pub directory: PathBuf,
    /// The Ed25519 seed of the service's principal.
    pub signing_key: PathBuf,
    pub nats: Nats,
    /// Where `/live`, `/ready` and `/metrics` are served: on loopback, or on a network of the system's own.
    pub health: SocketAddr,
    /// Requests under way.
    pub in_flight: usize,
    /// How long a stopping service waits for what is under way.
    pub drain_ms: u64,
    pub settings: S,
}

/// How the service reaches NATS.
#[derive(Debug, Clone)]
pub struct Nats {
    pub url: String,
    /// The nkey seed of the service's identity.
    pub seed: PathBuf,
    /// JetStream replicas of the ledger's stream: 1 on a single server, 3 on a cluster.
    pub stream_replicas: usize,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read the configuration file {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("the configuration of {own} is not valid")]
    Parse { own: OwnService, source: toml::de::Error },
    #[error("{place} is not a usable name")]
    Name { place: &'static str, source: NameError },
    #[error("{place} must be from {min} to {max}, not {value}")]
    Range { place: &'static str, min: u64, max: u64, value: u64 },
}

/// The file, as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File<S> {
    trust_domain: String,
    replica: String,
    data_dir: PathBuf,
    directory: PathBuf,
    signing_key: PathBuf,
    nats: NatsTable,
    health: HealthTable,
    #[serde(default)]
    limits: LimitsTable,
    #[serde(default)]
    settings: S,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NatsTable {
    url: String,
    seed: PathBuf,
    stream_replicas: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HealthTable {
    bind: SocketAddr,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LimitsTable {
    in_flight: Option<u64>,
    drain_ms: Option<u64>,
}

/// What the environment may say instead of the file.
const PLACES: [&str; 8] = [
    "trust_domain",
    "replica",
    "data_dir",
    "directory",
    "signing_key",
    "nats.url",
    "nats.seed",
    "health.bind",
];

// === impl Config ===

impl<S: DeserializeOwned + Default> Config<S> {
    /// Reads the file and lays the process's environment over it. Relative paths of the file are relative to it.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is missing, unknown or out of range.
    pub fn load(own: OwnService, path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        let base = path.parent().unwrap_or(Path::new(""));
        Self::read(own, &text, base, |variable| std::env::var(variable).ok())
    }

    fn read(
        own: OwnService,
        text: &str,
        base: &Path,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let parse = |source| ConfigError::Parse { own, source };
        let mut table: toml::Table = toml::from_str(text).map_err(parse)?;
        for place in PLACES {
            if let Some(value) = environment(&variable(own, place)) {
                put(&mut table, place, value);
            }
        }
        let file: File<S> = table.try_into().map_err(parse)?;
        // a replica's name becomes part of names in NATS and on the disk
        Atom::new(&file.replica).map_err(|source| ConfigError::Name { place: "replica", source })?;
        let replicas = file.nats.stream_replicas.unwrap_or(1);
        let in_flight = file.limits.in_flight.unwrap_or(limits::DOOR_IN_FLIGHT_MAX as u64);
        let drain_ms = file.limits.drain_ms.unwrap_or(limits::DRAIN_MS);
        Ok(Config {
            own,
            trust_domain: TrustDomain::new(&file.trust_domain)
                .map_err(|source| ConfigError::Name { place: "trust_domain", source })?,
            replica: file.replica,
            data_dir: base.join(file.data_dir),
            directory: base.join(file.directory),
            signing_key: base.join(file.signing_key),
            nats: Nats {
                url: file.nats.url,
                seed: base.join(file.nats.seed),
                stream_replicas: count("nats.stream_replicas", replicas, limits::STREAM_REPLICAS_MAX)?,
            },
            health: file.health.bind,
            in_flight: count("limits.in_flight", in_flight, limits::DOOR_IN_FLIGHT_MAX)?,
            drain_ms: within("limits.drain_ms", drain_ms, 0, limits::DRAIN_MS_MAX)?,
            settings: file.settings,
        })
    }
}

fn variable(own: OwnService, place: &str) -> String {
    format!("AIP_{own}_{place}").to_uppercase().replace(['-', '.'], "_")
}

fn put(table: &mut toml::Table, place: &str, value: String) {
    match place.split_once('.') {
        None => {
            table.insert(place.to_owned(), value.into());
        }
        Some((outer, inner)) => {
            let inside = table.entry(outer).or_insert_with(|| toml::Table::new().into());
            // what is no table is refused when it is read
            if let Some(inside) = inside.as_table_mut() {
                inside.insert(inner.to_owned(), value.into());
            }
        }
    }
}

fn within(place: &'static str, value: u64, min: u64, max: u64) -> Result<u64, ConfigError> {
    if (min..=max).contains(&value) { Ok(value) } else { Err(ConfigError::Range { place, min, max, value }) }
}

fn count(place: &'static str, value: u64, max: usize) -> Result<usize, ConfigError> {
    let checked = within(place, value, 1, max as u64)?;
    Ok(usize::try_from(checked).unwrap_or(max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Own {
        loopback: bool,
    }

    const TEXT: &str = "trust_domain = \"aip.local\"
replica = \"a\"
data_dir = \"/data/a\"
directory = \"directory.toml\"
signing_key = \"keys/a.key\"
[nats]
url = \"nats://127.0.0.1:4222\"
seed = \"a.nk\"
[health]
bind = \"127.0.0.1:0\"
";

    fn read(text: &str, environment: &[(&str, &str)]) -> Result<Config<Own>, ConfigError> {
        Config::read(OwnService::CallbackOutbox, text, Path::new("/etc/aip"), |variable| {
            environment.iter().find(|(name, _)| *name == variable).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn paths_stand_beside_the_file_and_the_environment_wins() {
        let config = read(TEXT, &[]).unwrap();
        assert_eq!(config.directory, Path::new("/etc/aip/directory.toml"));
        assert_eq!(config.data_dir, Path::new("/data/a"));
        assert_eq!((config.nats.stream_replicas, config.settings), (1, Own::default()));
        let environment = [
            ("AIP_CALLBACK_OUTBOX_REPLICA", "b"),
            ("AIP_CALLBACK_OUTBOX_NATS_URL", "nats://nats:4222"),
            ("AIP_TRANSACTION_REPLICA", "c"),
        ];
        let config = read(&format!("{TEXT}[settings]\nloopback = true\n"), &environment).unwrap();
        assert_eq!((config.replica.as_str(), config.nats.url.as_str()), ("b", "nats://nats:4222"));
        assert!(config.settings.loopback);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            (TEXT.replace("seed = \"a.nk\"\n", ""), "seed"),
            (format!("{TEXT}[settings]\nlopback = true\n"), "lopback"),
            (TEXT.replace("replica = \"a\"", "replica = \"a.b\""), "replica"),
            (format!("{TEXT}[limits]\nin_flight = 0\n"), "limits.in_flight"),
            (TEXT.replace("[nats]", "[nats]\nstream_replicas = 9"), "nats.stream_replicas"),
        ] {
            let error = read(&text, &[]).unwrap_err();
            let told = format!(
                "{error} {}",
                std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default()
            );
            assert!(told.contains(named), "{told}");
        }
    }
}
