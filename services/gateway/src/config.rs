//! The gateway's configuration: a TOML file, then the environment, then flags; the later wins. Everything is checked
//! before anything is started, and what is wrong is named with the place where it stands.
//!
//! Secrets are never in here, only the paths of their files.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use aip_names::{NameError, TrustDomain, limits};
use serde::Deserialize;

use crate::edge::Bounds;

#[cfg(test)]
mod tests;

/// A checked configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The trust domain whose messages the gateway takes.
    pub trust_domain: TrustDomain,
    /// The name of this replica: unique among the replicas, kept over restarts.
    pub replica: String,
    /// Where the store stands.
    pub data_dir: PathBuf,
    /// Tenants, principals, keys and registrations.
    pub directory: PathBuf,
    /// The Ed25519 seed that signs replies.
    pub signing_key: PathBuf,
    pub nats: Nats,
    pub http: Http,
    pub limits: Limits,
}

/// How the gateway reaches NATS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nats {
    pub url: String,
    /// The nkey seed of the gateway's identity.
    pub seed: PathBuf,
    /// JetStream replicas of the ledger's stream: 1 on a single server, 3 on a cluster.
    pub stream_replicas: usize,
}

/// Where HTTP is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    pub bind: SocketAddr,
}

/// Bounds that a deployment may tighten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of each door.
    pub door: Bounds,
    /// Open HTTP connections.
    pub http_connections: usize,
    /// How long a stopping gateway waits for what is under way.
    pub drain_ms: u64,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read the configuration file {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("the configuration file {} is not valid", path.display())]
    Parse { path: PathBuf, source: toml::de::Error },
    #[error("{place} is missing: set it in the file, as {variable} or as {flag}")]
    Missing { place: &'static str, variable: &'static str, flag: &'static str },
    #[error("{place} is not a usable name")]
    Name { place: &'static str, source: NameError },
    #[error("{place} must be from {min} to {max}, not {value}")]
    Range { place: &'static str, min: u64, max: u64, value: u64 },
    #[error(
        "http.bind {bind} is outside loopback and HTTP is plaintext: say both http.outside_loopback = true and \
         http.without_tls = true if TLS ends before the gateway"
    )]
    Plaintext { bind: SocketAddr },
}

/// The environment and the flags. What is left out is taken from the file.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Flags {
    /// The trust domain whose messages the gateway takes
    #[arg(long, env = "AIP_GATEWAY_TRUST_DOMAIN")]
    pub trust_domain: Option<String>,
    /// The name of this replica
    #[arg(long, env = "AIP_GATEWAY_REPLICA")]
    pub replica: Option<String>,
    /// Where the store stands
    #[arg(long, env = "AIP_GATEWAY_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// The directory file
    #[arg(long, env = "AIP_GATEWAY_DIRECTORY")]
    pub directory: Option<PathBuf>,
    /// The file with the key that signs replies
    #[arg(long, env = "AIP_GATEWAY_SIGNING_KEY")]
    pub signing_key: Option<PathBuf>,
    /// Where NATS is
    #[arg(long, env = "AIP_GATEWAY_NATS_URL")]
    pub nats_url: Option<String>,
    /// The file with the gateway's nkey seed
    #[arg(long, env = "AIP_GATEWAY_NATS_SEED")]
    pub nats_seed: Option<PathBuf>,
    /// The address to serve HTTP on
    #[arg(long, env = "AIP_GATEWAY_HTTP_BIND")]
    pub http_bind: Option<SocketAddr>,
}

/// The file, as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    trust_domain: Option<String>,
    replica: Option<String>,
    data_dir: Option<PathBuf>,
    directory: Option<PathBuf>,
    signing_key: Option<PathBuf>,
    nats: NatsTable,
    http: HttpTable,
    limits: LimitsTable,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct NatsTable {
    url: Option<String>,
    seed: Option<PathBuf>,
    stream_replicas: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct HttpTable {
    bind: Option<SocketAddr>,
    /// First half of the permission to serve plaintext to others.
    outside_loopback: bool,
    /// Second half.
    without_tls: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LimitsTable {
    in_flight: Option<u64>,
    in_flight_per_sender: Option<u64>,
    in_flight_bytes: Option<u64>,
    http_connections: Option<u64>,
    drain_ms: Option<u64>,
}

// === impl Config ===

impl Config {
    /// Reads the file, if one is named, and lays the flags over it. Relative paths of the file are relative to it.
    ///
    /// # Errors
    /// The file cannot be read, or something in it or in the flags is missing, unknown or out of range.
    pub fn load(file: Option<&Path>, flags: Flags) -> Result<Config, ConfigError> {
        let mut read = match file {
            None => File::default(),
            Some(path) => File::read(path)?,
        };
        if let Some(base) = file.and_then(Path::parent) {
            read.resolve(base);
        }
        Config::check(read, flags)
    }

    fn check(file: File, flags: Flags) -> Result<Config, ConfigError> {
        let trust_domain = given("trust_domain", flags.trust_domain, file.trust_domain)?;
        let config = Config {
            trust_domain: TrustDomain::new(&trust_domain)
                .map_err(|source| ConfigError::Name { place: "trust_domain", source })?,
            replica: given("replica", flags.replica, file.replica)?,
            data_dir: given("data_dir", flags.data_dir, file.data_dir)?,
            directory: given("directory", flags.directory, file.directory)?,
            signing_key: given("signing_key", flags.signing_key, file.signing_key)?,
            nats: Nats {
                url: given("nats.url", flags.nats_url, file.nats.url)?,
                seed: given("nats.seed", flags.nats_seed, file.nats.seed)?,
                stream_replicas: count(
                    "nats.stream_replicas",
                    file.nats.stream_replicas.or(Some(1)),
                    1,
                    limits::STREAM_REPLICAS_MAX,
                )?,
            },
            http: Http { bind: file.http.checked(flags.http_bind)? },
            limits: file.limits.checked()?,
        };
        // a replica's name becomes part of names in NATS and on the disk
        aip_names::Atom::new(&config.replica)
            .map_err(|source| ConfigError::Name { place: "replica", source })?;
        Ok(config)
    }
}

// === impl File ===

impl File {
    fn read(path: &Path) -> Result<File, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        toml::from_str(&text).map_err(|source| ConfigError::Parse { path: path.to_owned(), source })
    }

    fn resolve(&mut self, base: &Path) {
        let paths = [&mut self.data_dir, &mut self.directory, &mut self.signing_key, &mut self.nats.seed];
        for path in paths.into_iter().flatten() {
            *path = base.join(&*path);
        }
    }
}

impl HttpTable {
    fn checked(&self, flag: Option<SocketAddr>) -> Result<SocketAddr, ConfigError> {
        let bind = given("http.bind", flag, self.bind)?;
        if bind.ip().is_loopback() || (self.outside_loopback && self.without_tls) {
            Ok(bind)
        } else {
            Err(ConfigError::Plaintext { bind })
        }
    }
}

impl LimitsTable {
    fn checked(&self) -> Result<Limits, ConfigError> {
        let bytes_min = limits::ENVELOPE_BYTES_MAX;
        Ok(Limits {
            door: Bounds {
                in_flight: count("limits.in_flight", self.in_flight, 1, limits::DOOR_IN_FLIGHT_MAX)?,
                in_flight_per_sender: count(
                    "limits.in_flight_per_sender",
                    self.in_flight_per_sender,
                    1,
                    limits::SENDER_IN_FLIGHT_MAX,
                )?,
                // at least one envelope of the largest size has to fit
                bytes: count(
                    "limits.in_flight_bytes",
                    self.in_flight_bytes,
                    bytes_min,
                    limits::DOOR_IN_FLIGHT_BYTES_MAX,
                )?,
            },
            http_connections: count(
                "limits.http_connections",
                self.http_connections,
                1,
                limits::HTTP_CONNECTIONS_MAX,
            )?,
            drain_ms: within("limits.drain_ms", self.drain_ms, limits::DRAIN_MS, 0, limits::DRAIN_MS_MAX)?,
        })
    }
}

fn given<T>(place: &'static str, flag: Option<T>, file: Option<T>) -> Result<T, ConfigError> {
    let (variable, name) = spellings(place);
    flag.or(file).ok_or(ConfigError::Missing { place, variable, flag: name })
}

/// How a place of the file is spelled in the environment and as a flag. A test holds it to what the flags say.
fn spellings(place: &'static str) -> (&'static str, &'static str) {
    match place {
        "trust_domain" => ("AIP_GATEWAY_TRUST_DOMAIN", "--trust-domain"),
        "replica" => ("AIP_GATEWAY_REPLICA", "--replica"),
        "data_dir" => ("AIP_GATEWAY_DATA_DIR", "--data-dir"),
        "directory" => ("AIP_GATEWAY_DIRECTORY", "--directory"),
        "signing_key" => ("AIP_GATEWAY_SIGNING_KEY", "--signing-key"),
        "nats.url" => ("AIP_GATEWAY_NATS_URL", "--nats-url"),
        "nats.seed" => ("AIP_GATEWAY_NATS_SEED", "--nats-seed"),
        _ => ("AIP_GATEWAY_HTTP_BIND", "--http-bind"),
    }
}

fn within(
    place: &'static str,
    value: Option<u64>,
    fallback: u64,
    min: u64,
    max: u64,
) -> Result<u64, ConfigError> {
    let value = value.unwrap_or(fallback);
    if (min..=max).contains(&value) { Ok(value) } else { Err(ConfigError::Range { place, min, max, value }) }
}

/// A bound that a deployment may only tighten: left out, it is the largest.
fn count(place: &'static str, value: Option<u64>, min: usize, max: usize) -> Result<usize, ConfigError> {
    let checked = within(place, value, max as u64, min as u64, max as u64)?;
    Ok(usize::try_from(checked).unwrap_or(max))
}
