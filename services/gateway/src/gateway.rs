//! The gateway behind its doors: what it is made of, and the face that the doors see. Only the wire's rules are judged
//! here; what passes them goes its way in `road`.

use std::sync::Arc;

use secrecy::SecretString;
use serde_json::{Map, Value, json};

use aip_admission::Authenticator;
use aip_bus::{Bus, Seldom};
use aip_crypto::SigningKey;
use aip_ledger::{Ledger, Readiness};
use aip_names::TrustDomain;
use aip_wire::trusted::PrincipalRef;
use aip_wire::validate::{self, Checked};
use aip_wire::{AIP_VERSION, ActionId, MessageBody, MessageId, MessageType, Refusal, Timestamp, codes, read};

use crate::approve;
use crate::catalog::Catalog;
use crate::chunks::Chunks;
use crate::cursor::Cursors;
use crate::dispatch::Dispatcher;
use crate::edge::Front;
use crate::front::{Inbound, Live, Outbound};
use crate::machine::{Answer, Command, GatewayMachine};
use crate::native::Native;
use crate::operator::Operator;
use crate::queues::Queues;
use crate::reply::Voice;
use aip_service::{clock, fault};

/// A running gateway. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Gateway {
    inner: Arc<Inner>,
}

struct Inner {
    ledger: Ledger<GatewayMachine>,
    bus: Bus,
    trust_domain: TrustDomain,
    authenticator: Arc<Authenticator>,
    catalog: Arc<Catalog>,
    operator: Arc<Operator>,
    queues: Arc<Queues>,
    chunks: Arc<Chunks>,
    native: Arc<Native>,
    voice: Arc<Voice>,
    cursors: Cursors,
    /// Refusals are whatever strangers like to send.
    quiet: Seldom,
}

/// What a gateway is made of.
pub struct Parts {
    pub bus: Bus,
    pub authenticator: Arc<Authenticator>,
    /// Signs replies.
    pub key: SigningKey,
    pub ledger: aip_ledger::Config,
}

#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    #[error(transparent)]
    Ledger(#[from] aip_ledger::OpenError),
    #[error("the gateway's principal is not a name")]
    Principal(#[from] aip_wire::IdError),
    #[error("an operator verb is no capability")]
    Verb(#[from] serde_json::Error),
    #[error("the directory is of {directory}, the gateway of {gateway}")]
    TrustDomain { directory: String, gateway: String },
}

// === impl Gateway ===

impl Gateway {
    /// Opens the ledger and begins to learn; requests are served once it is ready.
    ///
    /// # Errors
    /// The store can't be used, or the directory is another trust domain's.
    pub fn open(parts: Parts) -> Result<Gateway, GatewayError> {
        let Parts { bus, authenticator, key, ledger: config } = parts;
        let trust_domain: &TrustDomain = &config.trust_domain;
        let directory = authenticator.directory().trust_domain().to_owned();
        if directory != trust_domain.as_str() {
            return Err(GatewayError::TrustDomain { directory, gateway: trust_domain.to_string() });
        }
        let cursors = Cursors::new(&key);
        let voice = Arc::new(Voice::new(trust_domain.as_str(), key)?);
        let catalog = Arc::new(Catalog::default());
        let queues = Arc::new(Queues::new(bus.clone(), trust_domain.clone(), config.stream_replicas));
        let chunks = Arc::new(Chunks::new(bus.clone(), trust_domain.clone(), config.stream_replicas));
        let native = Arc::new(Native::new(bus.clone(), trust_domain.clone(), Arc::clone(&voice)));
        let me = voice.principal().clone();
        let operator = Operator::new(Arc::clone(&authenticator), Arc::clone(&catalog), me)?;
        let operator = Arc::new(operator);
        let dispatcher = Arc::new(Dispatcher::new(
            bus.clone(),
            trust_domain.clone(),
            Arc::clone(&catalog),
            Arc::clone(&queues),
            Arc::clone(&chunks),
            Arc::clone(&native),
            Arc::clone(&operator),
        ));
        let performer: Arc<dyn aip_ledger::Performer<GatewayMachine>> = Arc::clone(&dispatcher) as _;
        let ledger = Ledger::open(GatewayMachine, bus.clone(), performer, &config)?;
        dispatcher.reads(ledger.clone());
        let quiet = Seldom::default();
        let inner = Inner {
            ledger,
            bus,
            trust_domain: trust_domain.clone(),
            authenticator,
            catalog,
            operator,
            queues,
            chunks,
            native,
            voice,
            cursors,
            quiet,
        };
        Ok(Gateway { inner: Arc::new(inner) })
    }

    /// Any envelope. An action is answered when it has ended.
    pub async fn message(&self, inbound: Inbound) -> Outbound {
        match validate::envelope(&inbound.bytes) {
            Ok(checked) => self.checked(checked, inbound.bearer, &inbound.bytes).await,
            Err(refusal) => self.voice().refuse_stranger(&inbound.bytes, refusal),
        }
    }

    /// An envelope with an action body, or an action alone, which may leave its id to us.
    pub async fn action(&self, inbound: Inbound) -> Outbound {
        match action_envelope(&inbound.bytes) {
            Ok(checked) => self.checked(checked, inbound.bearer, &inbound.bytes).await,
            Err(refusal) => self.voice().refuse_stranger(&inbound.bytes, refusal),
        }
    }

    /// A read without an envelope.
    ///
    /// # Errors
    /// The refusal as a whole envelope.
    pub async fn query(
        &self,
        bearer: Option<SecretString>,
        body: MessageBody,
    ) -> Result<MessageBody, Outbound> {
        let now = clock::now_ms();
        let answered = async {
            let caller = self.authenticator().caller(bearer.as_ref(), now).await?;
            let body = approve::of_token(body, &caller);
            self.read(&caller, &body, now).await
        };
        answered.await.map_err(|refusal| self.voice().refuse_stranger(b"", refusal))
    }

    /// Whether requests can be served now.
    pub fn readiness(&self) -> Readiness {
        if let aip_bus::Link::Down { reason } | aip_bus::Link::Unfit { reason } =
            &*self.inner.bus.link().borrow()
        {
            return Readiness::NotReady { reason: format!("no connection to nats-server: {reason}") };
        }
        self.ledger().readiness().borrow().clone()
    }

    /// Finishes what is in flight and makes it durable.
    pub async fn drain(&self) {
        self.inner.queues.stop();
        self.ledger().drain().await;
    }

    /// Resolves when the store has failed and the process has to end.
    pub async fn failed(&self) -> String {
        self.ledger().failed().await
    }

    pub(crate) async fn decide(&self, command: Command) -> Result<Answer, Refusal> {
        self.ledger().decide(command).await.map_err(|error| fault::of_ledger(&error))
    }

    pub(crate) fn ledger(&self) -> &Ledger<GatewayMachine> {
        &self.inner.ledger
    }

    pub(crate) fn bus(&self) -> &Bus {
        &self.inner.bus
    }

    pub(crate) fn trust_domain(&self) -> &TrustDomain {
        &self.inner.trust_domain
    }

    pub(crate) fn authenticator(&self) -> &Authenticator {
        &self.inner.authenticator
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.inner.catalog
    }

    pub(crate) fn operator(&self) -> &Operator {
        &self.inner.operator
    }

    pub(crate) fn cursors(&self) -> &Cursors {
        &self.inner.cursors
    }

    pub(crate) fn queues(&self) -> &Queues {
        &self.inner.queues
    }

    pub(crate) fn chunks(&self) -> &Arc<Chunks> {
        &self.inner.chunks
    }

    pub(crate) fn native(&self) -> &Native {
        &self.inner.native
    }

    pub(crate) fn quiet(&self) -> &Seldom {
        &self.inner.quiet
    }

    pub(crate) fn voice(&self) -> &Voice {
        &self.inner.voice
    }

    /// The gateway's own principal, as records name it.
    pub(crate) fn me(&self) -> PrincipalRef {
        PrincipalRef::of(self.voice().principal())
    }
}

impl Front for Gateway {
    async fn message(&self, inbound: Inbound) -> Outbound {
        Gateway::message(self, inbound).await
    }

    async fn action(&self, inbound: Inbound) -> Outbound {
        Gateway::action(self, inbound).await
    }

    async fn query(&self, bearer: Option<SecretString>, body: MessageBody) -> Result<MessageBody, Outbound> {
        Gateway::query(self, bearer, body).await
    }

    async fn follow(
        &self,
        bearer: Option<SecretString>,
        body: MessageBody,
        last: Option<String>,
    ) -> Result<Option<Live>, Outbound> {
        Gateway::follow(self, bearer, body, last).await
    }

    fn refuse(&self, received: &[u8], refusal: Refusal) -> Outbound {
        self.voice().refuse_stranger(received, refusal)
    }

    fn not_ready(&self) -> Option<String> {
        match self.readiness() {
            Readiness::Ready => None,
            Readiness::NotReady { reason } => Some(reason),
        }
    }
}

/// Reads an envelope with an action, or makes one around an action that stands alone (20.1).
fn action_envelope(bytes: &[u8]) -> Result<Checked, Refusal> {
    let received = read::strict(bytes)?;
    let is_envelope = ["aip_version", "message_type", "body"].iter().any(|name| received.get(name).is_some());
    let checked = validate::value(if is_envelope { received } else { around(received) })?;
    match checked.envelope().message_type {
        MessageType::Action => Ok(checked),
        _ => Err(Refusal::new(codes::ENVELOPE_NOT_SERVED, "/message_type", "this path takes actions only")),
    }
}

fn around(mut action: Value) -> Value {
    if let Some(members) = action.as_object_mut()
        && members.get("id").is_none_or(Value::is_null)
    {
        members.insert("id".to_owned(), Value::from(ActionId::generate().as_str()));
    }
    let body: Map<String, Value> = Map::from_iter([(MessageType::Action.body_key().to_owned(), action)]);
    json!({
        "aip_version": AIP_VERSION,
        "message_type": MessageType::Action,
        "message_id": MessageId::generate(),
        "sent_at": Timestamp::now(),
        "body": body,
    })
}
