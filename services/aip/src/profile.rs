//! Who the command line speaks as, and to whom: a small file that `aip dev` writes and people may write themselves.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aip_crypto::{Did, SigningKey};
use aip_names::{Identity, TrustDomain};
use aip_sdk::{Client, HttpConfig, NatsConfig, Proof};
use aip_wire::{Principal, PrincipalId, PrincipalKind};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::output::{Failure, because};

/// Where `aip dev` leaves its profile, below the working folder.
pub const DEFAULT: &str = ".aip/client.toml";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The file. Paths are relative to it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    pub trust_domain: String,
    pub principal: PrincipalId,
    pub kind: PrincipalKind,
    /// The Ed25519 key that signs.
    pub key: PathBuf,
    /// Whose signature answers must carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_did: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<Http>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nats: Option<Nats>,
    #[serde(skip)]
    base: PathBuf,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    pub url: String,
    /// A file with an API key, for programs that can't sign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<PathBuf>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nats {
    pub url: String,
    pub identity: String,
    pub seed: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Via {
    Nats,
    Http,
}

/// The options of every command that speaks to a gateway.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// The profile to speak with
    #[arg(long, env = "AIP_PROFILE", default_value = DEFAULT, global = true)]
    pub profile: PathBuf,
    /// The road to the gateway
    #[arg(long, value_enum, default_value = "nats", global = true)]
    pub via: Via,
    /// Answer in JSON, for programs
    #[arg(long, global = true)]
    pub json: bool,
}

// === impl Profile ===

impl Profile {
    pub fn new(
        trust_domain: &TrustDomain,
        principal: PrincipalId,
        kind: PrincipalKind,
        key: PathBuf,
    ) -> Profile {
        Profile {
            trust_domain: trust_domain.to_string(),
            principal,
            kind,
            key,
            gateway_did: None,
            http: None,
            nats: None,
            base: PathBuf::new(),
        }
    }

    pub fn load(path: &Path) -> Result<Profile, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            because(&format!("can't read the profile {}", path.display()), &error)
                .hint("start `aip dev` in this folder, or name a profile with --profile or AIP_PROFILE")
        })?;
        let mut profile: Profile = toml::from_str(&text)
            .map_err(|error| because(&format!("the profile {} is not valid", path.display()), &error))?;
        profile.base = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(profile)
    }

    pub fn file(&self, path: &Path) -> PathBuf {
        self.base.join(path)
    }

    pub fn trust_domain(&self) -> Result<TrustDomain, Failure> {
        TrustDomain::new(&self.trust_domain).map_err(|error| because("the profile's trust domain", &error))
    }

    async fn client(&self, via: Via) -> Result<Client, Failure> {
        let key = self.file(&self.key);
        let key = SigningKey::load(&key)
            .map_err(|error| because(&format!("can't use the key {}", key.display()), &error))?;
        let gateway = match &self.gateway_did {
            Some(did) => {
                Some(did.parse::<Did>().map_err(|error| because("the profile's gateway_did", &error))?)
            }
            None => None,
        };
        let mut principal = Principal::new(self.principal.clone(), self.kind);
        principal.trust_domain = Some(self.trust_domain.clone());
        match via {
            Via::Nats => self.nats_client(principal, key, gateway).await,
            Via::Http => {
                let http = self.http.as_ref().ok_or_else(|| Failure::new("the profile has no [http]"))?;
                let proof = Proof::Signed { principal, key: Arc::new(key), gateway };
                Client::http(HttpConfig { url: http.url.clone(), proof })
                    .map_err(|error| because("can't set up HTTP", &error))
            }
        }
    }

    /// The profile's API key over HTTP, the road of live streams.
    fn live_client(&self) -> Result<Client, Failure> {
        let missing = || Failure::new("the profile has no [http] with an api_key, which live streams need");
        let http = self.http.as_ref().ok_or_else(missing)?;
        let key = self.file(http.api_key.as_ref().ok_or_else(missing)?);
        let token = std::fs::read_to_string(&key)
            .map_err(|error| because(&format!("can't read {}", key.display()), &error))?;
        let proof = Proof::Bearer(token.trim().into());
        Client::http(HttpConfig { url: http.url.clone(), proof })
            .map_err(|error| because("can't set up HTTP", &error))
    }

    async fn nats_client(
        &self,
        principal: Principal,
        key: SigningKey,
        gateway: Option<Did>,
    ) -> Result<Client, Failure> {
        let nats = self.nats.as_ref().ok_or_else(|| Failure::new("the profile has no [nats]"))?;
        let identity: Identity =
            nats.identity.parse().map_err(|error| because("the profile's identity", &error))?;
        let client = Client::nats(NatsConfig {
            trust_domain: self.trust_domain()?,
            url: nats.url.clone(),
            identity,
            seed_file: self.file(&nats.seed),
            principal,
            key: Arc::new(key),
            gateway,
        })
        .await
        .map_err(|error| because("can't set up NATS", &error))?;
        client.ready(CONNECT_TIMEOUT).await.map_err(|error| {
            because(&format!("no connection to NATS at {}", nats.url), &error)
                .hint("is `aip dev` running? `aip doctor` says what is wrong")
        })?;
        Ok(client)
    }
}

// === impl Options ===

impl Options {
    pub async fn client(&self) -> Result<Client, Failure> {
        let profile = Profile::load(&self.profile).map_err(|failure| failure.json(self.json))?;
        profile.client(self.via).await.map_err(|failure| failure.json(self.json))
    }

    pub fn live_client(&self) -> Result<Client, Failure> {
        let profile = Profile::load(&self.profile).map_err(|failure| failure.json(self.json))?;
        profile.live_client().map_err(|failure| failure.json(self.json))
    }
}
