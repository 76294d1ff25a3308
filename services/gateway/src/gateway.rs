//! The gateway behind its doors: one message in, one reply out, the same road whichever door it came through.
//!
//! The order is fixed (11.3): the wire's rules, who sent it, then what it asks. Whatever a signed message leads to, its
//! id is claimed in the ledger before it is answered.

use std::sync::Arc;

use bytes::Bytes;
use secrecy::SecretString;
use serde_json::{Map, Value, json};

use aip_admission::{Authentic, Authenticator, Valid};
use aip_bus::Bus;
use aip_crypto::SigningKey;
use aip_kernel::Millis;
use aip_ledger::{Ledger, Readiness};
use aip_names::TrustDomain;
use aip_wire::trusted::PrincipalRef;
use aip_wire::validate::{self, Checked};
use aip_wire::{
    AIP_VERSION, ActionId, ErrorCategory, MessageBody, MessageId, MessageType, Refusal, Timestamp, codes,
    read,
};

use crate::catalog::Catalog;
use crate::clock;
use crate::dispatch::Dispatcher;
use crate::edge::Front;
use crate::errors;
use crate::front::{Inbound, Outbound};
use crate::machine::{Answer, Command, GatewayMachine, Note, Refused, ReplayClaim};
use crate::reply::{Asked, Voice};
use crate::served;

/// A running gateway. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Gateway {
    inner: Arc<Inner>,
}

struct Inner {
    ledger: Ledger<GatewayMachine>,
    bus: Bus,
    authenticator: Arc<Authenticator>,
    catalog: Arc<Catalog>,
    voice: Voice,
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
    #[error("the directory is of {directory}, the gateway of {gateway}")]
    TrustDomain { directory: String, gateway: String },
}

/// Why a message came to no answer.
pub(crate) struct Stop {
    refusal: Refusal,
    /// The ledger knows already, or can't be told.
    noted: bool,
}

// === impl Stop ===

impl Stop {
    pub fn noted(refusal: Refusal) -> Stop {
        Stop { refusal, noted: true }
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop { refusal, noted: false }
    }
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
        let voice = Voice::new(trust_domain.as_str(), key)?;
        let catalog = Arc::new(Catalog::default());
        let dispatcher = Arc::new(Dispatcher::new(
            bus.clone(),
            trust_domain.clone(),
            voice.principal().clone(),
            Arc::clone(&catalog),
        ));
        let performer: Arc<dyn aip_ledger::Performer<GatewayMachine>> = Arc::clone(&dispatcher) as _;
        let ledger = Ledger::open(GatewayMachine, bus.clone(), performer, &config)?;
        dispatcher.reads(ledger.clone());
        Ok(Gateway { inner: Arc::new(Inner { ledger, bus, authenticator, catalog, voice }) })
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
        self.ledger().drain().await;
    }

    /// Resolves when the store has failed and the process has to end.
    pub async fn failed(&self) -> String {
        self.ledger().failed().await
    }

    async fn checked(&self, checked: Checked, bearer: Option<SecretString>, received: &Bytes) -> Outbound {
        let now = clock::now_ms();
        let valid = Valid::from(checked);
        let authentic = match self.authenticator().authenticate(valid, bearer.as_ref(), now).await {
            Ok(authentic) => authentic,
            Err(refusal) => {
                tracing::info!(code = refusal.code.name, "a request was not authenticated");
                return self.voice().refuse_stranger(received, refusal);
            }
        };
        let asked = Asked::of(&authentic);
        let about = About::of(&authentic);
        match self.respond(&asked, authentic, now).await {
            Ok(outbound) => outbound,
            Err(stop) => {
                let refusal = self.note_refusal(&asked, about, stop).await;
                tracing::info!(code = refusal.code.name, sender = %asked.sender.id, "a message was refused");
                self.voice().refuse(&asked, refusal)
            }
        }
    }

    async fn respond(&self, asked: &Asked, authentic: Authentic, now: Millis) -> Result<Outbound, Stop> {
        let envelope = authentic.envelope();
        if let Some(code) = served::refused_with(envelope.message_type) {
            return Err(Refusal::new(code, "/message_type", code.meaning).into());
        }
        let is_action = envelope.message_type == MessageType::Action;
        if envelope.session_id.is_some() && !is_action {
            let code = codes::UNSUPPORTED_SESSION;
            return Err(Refusal::new(code, "/session_id", code.meaning).into());
        }
        if is_action {
            let id = match &envelope.body {
                MessageBody::Action(action) => action.id.clone(),
                _ => return Err(Refusal::of(codes::ENVELOPE_TYPE_MISMATCH).into()),
            };
            let ended = self.act(authentic, now).await?;
            let body = MessageBody::from(ended.result);
            return Ok(match ended.cached {
                true => self.voice().answer_cached(asked, &id, body),
                false => self.voice().answer(asked, body),
            });
        }
        if let MessageBody::Manifest(manifest) = &envelope.body {
            let registration = self.register(&authentic, manifest).await?;
            return Ok(self.voice().answer(asked, self.registered(manifest, &registration)));
        }
        // a read leaves no record of its own
        self.note(asked, None).await.map_err(Stop::noted)?;
        let body = self.read(authentic.caller(), &envelope.body, now).await.map_err(Stop::noted)?;
        Ok(self.voice().answer(asked, body))
    }

    /// The worker's own manifest back, with what became of it.
    fn registered(
        &self,
        manifest: &aip_wire::Manifest,
        registration: &crate::register::Registration,
    ) -> MessageBody {
        let mut answer = manifest.clone();
        answer.extensions = Some(json!({
            "aip.registration": {"added": registration.added, "withdrawn": registration.withdrawn},
        }));
        answer.into()
    }

    /// Notes a refusal where it has to be: of a signed message always, of any other when it is a denial.
    async fn note_refusal(&self, asked: &Asked, about: About, stop: Stop) -> Refusal {
        let Stop { refusal, noted } = stop;
        let denial = matches!(refusal.code.category, ErrorCategory::Policy);
        if noted || !(asked.is_signed() || denial) {
            return refusal;
        }
        let refused = Refused {
            code: refusal.code.name.to_owned(),
            action_id: about.action_id,
            capability_id: about.capability_id,
        };
        match self.note(asked, Some(refused)).await {
            Ok(()) => refusal,
            Err(instead) => instead,
        }
    }

    /// Notes a message that leads to no other record. One that a token authenticated is noted only when it was refused.
    async fn note(&self, asked: &Asked, refused: Option<Refused>) -> Result<(), Refusal> {
        if !asked.is_signed() && refused.is_none() {
            return Ok(());
        }
        let claim = asked.replay.as_ref();
        let note = Note {
            actor: asked.sender.clone(),
            message_id: asked.message_id.clone(),
            claim: claim.map(|claim| ReplayClaim { name: claim.name.clone(), until: claim.expires_at_ms }),
            refused,
        };
        match self.decide(Command::Note(Box::new(note))).await? {
            Answer::Refused(refusal) => Err(Refusal::of(errors::of_refusal(refusal))),
            _ => Ok(()),
        }
    }

    pub(crate) async fn decide(&self, command: Command) -> Result<Answer, Refusal> {
        self.ledger().decide(command).await.map_err(|error| errors::of_ledger(&error))
    }

    pub(crate) fn ledger(&self) -> &Ledger<GatewayMachine> {
        &self.inner.ledger
    }

    pub(crate) fn authenticator(&self) -> &Authenticator {
        &self.inner.authenticator
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.inner.catalog
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

/// What a refused message was about, by ids.
#[derive(Default)]
struct About {
    action_id: Option<String>,
    capability_id: Option<String>,
}

// === impl About ===

impl About {
    fn of(authentic: &Authentic) -> About {
        // an id is noted only at a length that an id has
        let short = |id: &str| (id.len() <= aip_names::limits::ID_BYTES_MAX).then(|| id.to_owned());
        match &authentic.envelope().body {
            MessageBody::Action(action) => About {
                action_id: short(action.id.as_str()),
                capability_id: short(action.capability_id.as_str()),
            },
            _ => About::default(),
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
