//! The sandbox's configuration file. Paths in it are relative to the file; secrets are only named by their paths.

use std::path::{Path, PathBuf};

use aip_names::{Identity, NameError, TrustDomain, Version, limits};
use aip_wire::{IdError, PrincipalId};
use serde::Deserialize;

/// A checked configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub trust_domain: TrustDomain,
    /// The principal that the gateway's directory binds to the signing key.
    pub principal: PrincipalId,
    /// The Ed25519 seed that signs the manifests.
    pub signing_key: PathBuf,
    /// Where the providers keep their data.
    pub data_dir: PathBuf,
    pub nats: Nats,
    /// Of the workers: another one runs beside it, and gets the new actions when it registers later.
    pub version: Version,
    /// Which providers run in this process.
    pub providers: Vec<Provider>,
    /// Actions that each provider runs at a time.
    pub running_max: usize,
    /// How long a stopping sandbox waits for what runs.
    pub drain_ms: u64,
}

/// How the sandbox reaches NATS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nats {
    pub url: String,
    pub identity: Identity,
    /// The nkey seed of the identity.
    pub seed: PathBuf,
}

/// One of the sandbox's providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    Restaurant,
    Accounts,
    Report,
    Slow,
    Chaos,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} is not valid", path.display())]
    Parse { path: PathBuf, source: toml::de::Error },
    #[error("{place} is not a usable name")]
    Name { place: &'static str, source: NameError },
    #[error("principal is not a usable id")]
    Principal(#[source] IdError),
    #[error("{place} must be from {min} to {max}, not {value}")]
    Range { place: &'static str, min: u64, max: u64, value: u64 },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    trust_domain: String,
    principal: String,
    signing_key: PathBuf,
    data_dir: PathBuf,
    nats: NatsFile,
    version: Option<String>,
    providers: Option<Vec<Provider>>,
    running_max: Option<u64>,
    drain_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NatsFile {
    url: String,
    identity: String,
    seed: PathBuf,
}

// === impl Config ===

impl Config {
    /// # Errors
    /// The file cannot be read, is not what it should be, or names something unusable.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        let file: File =
            toml::from_str(&text).map_err(|source| ConfigError::Parse { path: path.to_owned(), source })?;
        Config::check(file, path.parent().unwrap_or(Path::new("")))
    }

    fn check(file: File, folder: &Path) -> Result<Config, ConfigError> {
        let name = |place| move |source| ConfigError::Name { place, source };
        let running_max = within(
            "running_max",
            file.running_max,
            limits::WORKER_RUNNING_DEFAULT as u64,
            1,
            limits::WORKER_RUNNING_MAX as u64,
        )?;
        let least = 2 * limits::WORKER_STOP_GRACE_MS;
        Ok(Config {
            trust_domain: TrustDomain::new(&file.trust_domain).map_err(name("trust_domain"))?,
            principal: PrincipalId::parse(file.principal).map_err(ConfigError::Principal)?,
            signing_key: folder.join(file.signing_key),
            data_dir: folder.join(file.data_dir),
            nats: Nats {
                url: file.nats.url,
                identity: file.nats.identity.parse().map_err(name("nats.identity"))?,
                seed: folder.join(file.nats.seed),
            },
            version: file
                .version
                .map_or(Ok(Version::V1), |version| Version::new(&version))
                .map_err(name("version"))?,
            providers: file.providers.unwrap_or_else(|| Provider::ALL.to_vec()),
            running_max: usize::try_from(running_max).unwrap_or(limits::WORKER_RUNNING_DEFAULT),
            drain_ms: within("drain_ms", file.drain_ms, limits::DRAIN_MS, least, limits::DRAIN_MS_MAX)?,
        })
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

// === impl Provider ===

impl Provider {
    /// In the order of [`crate::SERVICES`].
    pub const ALL: [Provider; 5] =
        [Provider::Restaurant, Provider::Accounts, Provider::Report, Provider::Slow, Provider::Chaos];

    pub fn service(self) -> &'static str {
        match self {
            Provider::Restaurant => "sandbox-restaurant",
            Provider::Accounts => "sandbox-accounts",
            Provider::Report => "sandbox-report",
            Provider::Slow => "sandbox-slow",
            Provider::Chaos => "sandbox-chaos",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str = r#"
        trust_domain = "aip.local"
        principal = "service:sandbox"
        signing_key = "keys/sandbox.key"
        data_dir = "/var/data"
        [nats]
        url = "nats://127.0.0.1:4222"
        identity = "worker-sandbox"
        seed = "keys/worker-sandbox.nk"
    "#;

    fn load(text: &str) -> Result<Config, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sandbox.toml");
        std::fs::write(&path, text).unwrap();
        let mut config = Config::load(&path)?;
        config.signing_key = config.signing_key.strip_prefix(folder.path()).unwrap().to_owned();
        Ok(config)
    }

    #[test]
    fn paths_are_relative_to_the_file_and_all_providers_run() {
        let config = load(MINIMAL).unwrap();
        assert_eq!(config.signing_key, Path::new("keys/sandbox.key"));
        assert_eq!(config.data_dir, Path::new("/var/data"));
        assert_eq!(config.providers, Provider::ALL);
        assert_eq!(Provider::ALL.map(Provider::service), crate::SERVICES);
        assert_eq!(crate::REGISTRATIONS.map(|(service, _)| service), crate::SERVICES);
        let some = load(&format!("providers = [\"chaos\"]\n{MINIMAL}")).unwrap();
        assert_eq!(some.providers, [Provider::Chaos]);
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let told = |text: &str| load(text).unwrap_err().to_string();
        assert!(told(&format!("typo = 1\n{MINIMAL}")).contains("not valid"));
        assert!(told(&MINIMAL.replace("aip.local", "")).contains("trust_domain"));
        assert!(told(&MINIMAL.replace("worker-sandbox\"", "sandbox\"")).contains("nats.identity"));
        assert!(told(&MINIMAL.replace("service:sandbox", "")).contains("principal"));
        assert!(told(&format!("version = \"two\"\n{MINIMAL}")).contains("version"));
        assert!(told(&format!("running_max = 0\n{MINIMAL}")).contains("running_max"));
    }
}
