//! The calling side: asks the gateway over NATS or HTTP, as one principal, and believes only answers that are valid,
//! belong to the question and, where the question was signed, are signed by the gateway.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aip_bus::{Bus, BusError, Settings};
use aip_crypto::{Did, SigningKey};
use aip_names::limits::CLIENT_QUERY_TIMEOUT_MS;
use aip_names::{Identity, NameError, Service, TrustDomain, Version};
use aip_wire::{
    Ack, ActionId, ActionResult, ActionResultRequest, ActionStatus, ActionStatusRequest, Cancel,
    CancelTarget, Manifest, ManifestRequest, MessageBody, Principal, ProtocolError, ReceiptChain,
    ReceiptQueryRequest,
};
use secrecy::SecretString;

use crate::error;
use crate::manifest::manifest;

mod ask;
mod call;
mod follow;
mod http;
mod nats;
mod reads;
mod sse;
mod subject;

pub use call::CallOptions;
pub use follow::{Follow, Told};

use ask::Asker;
use http::Http;
use nats::Nats;

/// A native NATS client: an identity that the server knows, and a key that the gateway's directory knows.
#[derive(Debug, Clone)]
pub struct NatsConfig {
    pub trust_domain: TrustDomain,
    /// `nats://host:port`
    pub url: String,
    pub identity: Identity,
    /// The nkey seed of the identity.
    pub seed_file: PathBuf,
    pub principal: Principal,
    pub key: Arc<SigningKey>,
    /// Whose signature answers must carry. If absent, the first answer's signer is taken and no other after it.
    pub gateway: Option<Did>,
}

/// What proves the sender over HTTP.
// made once a client, so its size does not matter
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone)]
pub enum Proof {
    /// Each envelope is signed; answers are signed, too.
    Signed { principal: Principal, key: Arc<SigningKey>, gateway: Option<Did> },
    /// An API key or a JWT. Answers are not signed: the connection's TLS stands for the gateway.
    Bearer(SecretString),
}

/// A client over HTTP.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// `http://host:port` or `https://host`, without the path. Several gateways are separated by commas: who gets no answer
    /// from one goes on with the next.
    pub url: String,
    pub proof: Proof,
}

/// Why a question has no good answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The gateway's no. Nothing was begun because of this question.
    #[error("refused: {}: {}", error.code, error.message)]
    Refused { error: Box<ProtocolError> },
    /// The action ended without success.
    #[error("action {} failed{}", result.action_id, told(result))]
    Failed { result: Box<ActionResult> },
    /// The gateway cannot be reached; nothing was sent.
    #[error("the gateway cannot be reached: {reason}")]
    Unreachable { reason: String },
    /// The action may have been taken. It can be asked for, or sent again, under the same id.
    #[error("it is not known what became of action {action_id}: {reason}")]
    Unknown { action_id: ActionId, reason: String },
    /// There is no answer in time, to a question that changes nothing.
    #[error("no answer: {reason}")]
    NoAnswer { reason: String },
    /// An answer came that is not to be believed.
    #[error("the answer is not to be believed: {reason}")]
    Untrusted { reason: String },
    #[error("the question cannot be asked: {reason}")]
    Invalid { reason: String },
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error(transparent)]
    Name(#[from] NameError),
}

fn told(result: &ActionResult) -> String {
    result.error.as_ref().map(|error| format!(": {}: {}", error.code, error.message)).unwrap_or_default()
}

/// Calls capabilities and asks about actions. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    asker: Arc<Asker>,
}

// === impl ClientError ===

impl ClientError {
    /// What the protocol says about the failure, if an answer said anything.
    pub fn protocol_error(&self) -> Option<&ProtocolError> {
        match self {
            ClientError::Refused { error } => Some(error),
            ClientError::Failed { result } => result.error.as_ref(),
            _ => None,
        }
    }

    /// Whether something may have been done all the same, so that only asking helps and trying again may do it twice.
    pub fn is_uncertain(&self) -> bool {
        matches!(self, ClientError::Unknown { .. }) || self.protocol_error().is_some_and(error::is_uncertain)
    }
}

// === impl Client ===

impl Client {
    /// Asks to cancel an action. The answer says that the wish is recorded, not that anything stopped.
    ///
    /// # Errors
    /// The gateway refused it or could not be asked.
    pub async fn cancel(&self, action: &ActionId, reason: Option<String>) -> Result<Ack, ClientError> {
        let wish = Cancel { target: CancelTarget::Action(action.clone()), reason };
        let timeout = Duration::from_millis(CLIENT_QUERY_TIMEOUT_MS);
        match self.asker.query(wish.into(), timeout).await? {
            MessageBody::Ack(ack) => Ok(*ack),
            other => Err(unexpected(&other)),
        }
    }

    /// Takes back, as the worker's principal, all that a worker version has registered: new actions find nothing of it any
    /// more, and those that were admitted for it stay. Stop its processes first, because one that serves registers again.
    ///
    /// # Errors
    /// [`ClientError::Invalid`] for a client that does not sign; else the gateway refused it or could not be asked.
    pub async fn withdraw(&self, service: &Service, version: Version) -> Result<(), ClientError> {
        let signer = self.asker.signer.as_ref().ok_or_else(|| ClientError::Invalid {
            reason: "a registration is signed by its worker's key".to_owned(),
        })?;
        let empty = manifest(signer.principal(), service, version, Vec::new());
        self.query(empty.into(), None).await.map(|_| ())
    }

    /// Connects to NATS in the background; questions fail as unreachable until the connection stands.
    ///
    /// # Errors
    /// The nkey cannot be read, or the URL or a name is malformed.
    pub async fn nats(config: NatsConfig) -> Result<Client, ClientError> {
        let name = config.identity.to_string();
        let settings =
            Settings { url: config.url, identity: config.identity, seed_file: config.seed_file, name };
        let bus = Bus::connect(settings).await?;
        Client::on_bus(bus, &config.trust_domain, config.principal, config.key, config.gateway)
    }

    /// On a connection that is there already.
    ///
    /// # Errors
    /// None in practice: the names are well formed.
    pub fn on_bus(
        bus: Bus,
        trust_domain: &TrustDomain,
        principal: Principal,
        key: Arc<SigningKey>,
        gateway: Option<Did>,
    ) -> Result<Client, ClientError> {
        let signer = ask::Signer::new(principal, key, gateway);
        let road = ask::Road::Nats(Nats::new(bus, trust_domain.clone()));
        Ok(Client { asker: Arc::new(Asker { road, signer: Some(signer) }) })
    }

    /// # Errors
    /// The URL is malformed or the TLS set-up cannot be used.
    pub fn http(config: HttpConfig) -> Result<Client, ClientError> {
        let (bearer, signer) = match config.proof {
            Proof::Signed { principal, key, gateway } => {
                (None, Some(ask::Signer::new(principal, key, gateway)))
            }
            Proof::Bearer(token) => (Some(token), None),
        };
        let road = ask::Road::Http(Http::new(&config.url, bearer)?);
        Ok(Client { asker: Arc::new(Asker { road, signer }) })
    }

    /// Waits until the connection stands; at once over HTTP, which connects for each question.
    ///
    /// # Errors
    /// Not within `timeout`, or the server cannot carry our traffic.
    pub async fn ready(&self, timeout: Duration) -> Result<(), ClientError> {
        match &self.asker.road {
            ask::Road::Nats(nats) => Ok(nats.ready(timeout).await?),
            ask::Road::Http(_) => Ok(()),
        }
    }

    /// How an action stands, waiting up to `wait_ms` for its end.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn status(
        &self,
        action_id: &ActionId,
        wait_ms: Option<u64>,
    ) -> Result<ActionStatus, ClientError> {
        let request = ActionStatusRequest {
            action_id: action_id.clone(),
            tenant_id: None,
            include_result: true,
            include_receipts: false,
            include_chunks: false,
            wait_ms,
        };
        match self.query(request.into(), wait_ms).await? {
            MessageBody::ActionStatus(status) if status.action_id == *action_id => Ok(*status),
            MessageBody::ActionStatus(_) => Err(untrusted("the status is of another action")),
            other => Err(unexpected(&other)),
        }
    }

    /// The result of an action, waiting up to `wait_ms` for it. An action that failed has a result, too.
    ///
    /// # Errors
    /// See [`ClientError`]; refused with `aip.action.result_not_ready` while the action runs.
    pub async fn result(
        &self,
        action_id: &ActionId,
        wait_ms: Option<u64>,
    ) -> Result<ActionResult, ClientError> {
        let request = ActionResultRequest {
            action_id: action_id.clone(),
            tenant_id: None,
            wait_ms,
            include_receipt: true,
            include_terminal_events: false,
        };
        match self.query(request.into(), wait_ms).await? {
            MessageBody::ActionResult(result) if result.action_id == *action_id => Ok(*result),
            MessageBody::ActionResult(_) => Err(untrusted("the result is of another action")),
            other => Err(unexpected(&other)),
        }
    }

    /// The capabilities that the caller may see.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn manifest(&self, request: ManifestRequest) -> Result<Manifest, ClientError> {
        match self.query(request.into(), None).await? {
            MessageBody::Manifest(manifest) => Ok(*manifest),
            other => Err(unexpected(&other)),
        }
    }

    /// A receipt chain, by the chain's id or a receipt's.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn receipts(&self, request: ReceiptQueryRequest) -> Result<ReceiptChain, ClientError> {
        match self.query(request.into(), None).await? {
            MessageBody::ReceiptChain(chain) => Ok(*chain),
            other => Err(unexpected(&other)),
        }
    }

    async fn query(&self, body: MessageBody, wait_ms: Option<u64>) -> Result<MessageBody, ClientError> {
        let timeout_ms = CLIENT_QUERY_TIMEOUT_MS.saturating_add(wait_ms.unwrap_or(0));
        self.asker.query(body, Duration::from_millis(timeout_ms)).await
    }
}

fn untrusted(reason: impl Into<String>) -> ClientError {
    ClientError::Untrusted { reason: reason.into() }
}

fn unexpected(body: &MessageBody) -> ClientError {
    untrusted(format!("{} is no answer to the question", body.message_type()))
}
