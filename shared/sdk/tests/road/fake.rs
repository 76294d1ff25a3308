//! A gateway that answers what a test tells it to, and dispatches actions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aip_bus::{Answer, Bus, Handler, Incoming, Parcel, Registration, RequestError, Serving, Settings, serve};
use aip_crypto::{SigningKey, sign_envelope, verify_envelope};
use aip_names::{Identity, MessageType, Service, Subject, Version};
use aip_testkit::TestNats;
use aip_wire::read::Bounds;
use aip_wire::trusted::{
    CONTEXT_VERSION, IdentityClaims, METADATA_KEY, Method, PolicyResult, PrincipalRef, Scopes, TraceContext,
    TrustedContext,
};
use aip_wire::{
    Action, ActionId, ActionResult, ActionResultStatus, CapabilityId, Envelope, ErrorBody, Manifest,
    MessageBody, Principal, PrincipalId, PrincipalKind, ProtocolError, Timestamp, TransportMessage, codes,
    validate,
};
use serde_json::{Value, json};

pub const SOON: Duration = Duration::from_secs(20);

/// What the gateway says to a message.
pub enum Reply {
    Body(MessageBody),
    /// A whole envelope, signed by the gateway.
    Signed(Box<Envelope>),
    /// A whole envelope, signed by this key or not at all.
    Envelope(Box<Envelope>, Option<Arc<SigningKey>>),
    Silence,
}

impl Reply {
    pub fn error(code: &'static codes::Code) -> Reply {
        Reply::Body(ErrorBody { error: ProtocolError::of(code, code.meaning) }.into())
    }

    pub fn manifest() -> Reply {
        Reply::Body(MessageBody::Manifest(Box::new(empty_manifest())))
    }
}

type Script = dyn Fn(usize, &Envelope) -> Reply + Send + Sync;

/// What came, with who signed it.
type Seen = Arc<Mutex<Vec<(Envelope, Option<String>)>>>;

struct Scripted {
    key: Arc<SigningKey>,
    script: Box<Script>,
    seen: Seen,
}

pub struct FakeGateway {
    pub bus: Bus,
    pub key: Arc<SigningKey>,
    seen: Seen,
    _serving: Serving,
}

impl FakeGateway {
    /// The script gets how many messages came before, and the message.
    pub async fn start(
        nats: &TestNats,
        script: impl Fn(usize, &Envelope) -> Reply + Send + Sync + 'static,
    ) -> FakeGateway {
        let bus = bus(nats, Identity::Gateway).await;
        let key = Arc::new(SigningKey::generate().unwrap());
        let seen = Seen::default();
        let scripted = Scripted { key: Arc::clone(&key), script: Box::new(script), seen: Arc::clone(&seen) };
        let pattern = Subject::all_messages(&TestNats::trust_domain(), &Service::gateway(), Version::V1);
        let registration = Registration {
            service: Service::gateway(),
            version: "0.0.1".to_owned(),
            description: String::new(),
            endpoints: vec![("messages".to_owned(), pattern)],
            running_max: 64,
        };
        let serving = serve(&bus, registration, Arc::new(scripted)).await.unwrap();
        FakeGateway { bus, key, seen, _serving: serving }
    }

    pub fn seen(&self) -> Vec<Envelope> {
        self.seen.lock().unwrap().iter().map(|(envelope, _)| envelope.clone()).collect()
    }

    /// Of the capability as it was registered last.
    pub fn contract_hash(&self, id: &CapabilityId) -> Option<String> {
        let registered = self.seen().into_iter().rev().find_map(|envelope| match envelope.body {
            MessageBody::Manifest(manifest) => Some(manifest.capabilities),
            _ => None,
        })?;
        let capability = registered.into_iter().find(|capability| capability.id == *id)?;
        Some(aip_crypto::canonical::hash(&serde_json::to_value(capability).unwrap()))
    }

    pub fn signers(&self) -> Vec<Option<String>> {
        self.seen.lock().unwrap().iter().map(|(_, signer)| signer.clone()).collect()
    }

    /// Publishes on the subject of a correlation id.
    pub async fn publish(&self, correlation_id: &str, body: MessageBody, key: &SigningKey) {
        let correlation = aip_names::Atom::new(correlation_id).unwrap();
        let subject =
            Subject::stream(&TestNats::trust_domain(), &Service::gateway(), Version::V1, correlation);
        let mut envelope = serde_json::to_value(Envelope::new(body, Timestamp::now())).unwrap();
        sign_envelope(&mut envelope, key).unwrap();
        let parcel = Parcel::new(&TransportMessage { envelope, metadata: None }).unwrap();
        self.bus.client().publish(subject.to_string(), parcel.payload).await.unwrap();
    }

    /// Sends an action to the worker, as the gateway does.
    pub async fn dispatch(&self, action: &Action, deadline_ms: u64) -> Result<Envelope, RequestError> {
        let mut context = context(action, deadline_ms);
        if let Some(hash) = self.contract_hash(&action.capability_id) {
            context.contract_hash = hash;
        }
        let context = serde_json::to_value(context).unwrap();
        self.send(action, Some(context)).await
    }

    pub async fn send(&self, action: &Action, context: Option<Value>) -> Result<Envelope, RequestError> {
        let envelope = Envelope::new(action.clone(), Timestamp::now());
        let id = envelope.message_id.clone();
        let metadata = context.map(|context| [(METADATA_KEY.to_owned(), context)].into_iter().collect());
        let message = TransportMessage { envelope: serde_json::to_value(&envelope).unwrap(), metadata };
        let name = MessageType::new("aip.core.v1.action").unwrap();
        let service = Service::new("sandbox-restaurant").unwrap();
        let subject = Subject::message(&TestNats::trust_domain(), &service, Version::V1, &name).to_string();
        let answer = self.bus.request(&subject, Parcel::new(&message).unwrap(), SOON).await?;
        let (checked, _) = validate::frame(&answer.payload, &Bounds::WORKER_ANSWER).unwrap();
        let answer = checked.into_parts().1;
        assert_eq!(answer.in_response_to.as_ref().unwrap().as_str(), id.as_str());
        Ok(answer)
    }
}

impl Handler for Scripted {
    async fn handle(&self, request: Incoming) -> Option<Answer> {
        let (checked, _) = validate::frame(&request.payload, &Bounds::FRAME).unwrap();
        let signer = verify_envelope(checked.value()).ok().map(|did| did.to_string());
        let envelope = checked.into_parts().1;
        let before = {
            let mut seen = self.seen.lock().unwrap();
            seen.push((envelope.clone(), signer));
            seen.len() - 1
        };
        let (reply, key) = match (self.script)(before, &envelope) {
            Reply::Body(body) => {
                (Envelope::reply_to(&envelope, body, Timestamp::now()), Some(Arc::clone(&self.key)))
            }
            Reply::Signed(envelope) => (*envelope, Some(Arc::clone(&self.key))),
            Reply::Envelope(envelope, key) => (*envelope, key),
            Reply::Silence => return None,
        };
        let mut envelope = serde_json::to_value(reply).unwrap();
        if let Some(key) = key {
            sign_envelope(&mut envelope, &key).unwrap();
        }
        let parcel = Parcel::new(&TransportMessage { envelope, metadata: None }).unwrap();
        Some(Answer { parcel, error: None })
    }

    fn busy(&self, _: &Incoming) -> Option<Answer> {
        None
    }
}

pub async fn bus(nats: &TestNats, identity: Identity) -> Bus {
    let settings =
        Settings { url: nats.url(), seed_file: nats.seed_file(&identity), name: "test".to_owned(), identity };
    let bus = Bus::connect(settings).await.unwrap();
    bus.ready(SOON).await.unwrap();
    bus
}

pub fn principal(id: &str) -> Principal {
    Principal::new(PrincipalId::parse(id).unwrap(), PrincipalKind::Service)
}

pub fn action(capability: &str, input: Value) -> Action {
    serde_json::from_value(json!({
        "id": ActionId::generate(), "capability_id": capability, "input": input, "idempotency_key": "key-1",
    }))
    .unwrap()
}

pub fn context(action: &Action, deadline_ms: u64) -> TrustedContext {
    TrustedContext {
        version: CONTEXT_VERSION,
        trust_domain: "aip.local".to_owned(),
        action_id: action.id.clone(),
        capability_id: action.capability_id.clone(),
        contract_hash: "0".repeat(64),
        attempt: 3,
        principal: PrincipalRef {
            id: PrincipalId::parse("agent:alice").unwrap(),
            kind: PrincipalKind::Agent,
        },
        authentication: Method::ApiKey { id: "k".to_owned() },
        scopes: Scopes::new(["table:book".to_owned()]),
        authority: None,
        tenant: Some("acme".to_owned()),
        external_account: None,
        credential: None,
        claims: IdentityClaims::default(),
        deadline_ms: Timestamp::now().as_ms() + deadline_ms,
        trace: TraceContext::default(),
        delegation_chain: Vec::new(),
        policy: PolicyResult { directory: "d".to_owned(), rule: "r".to_owned() },
    }
}

pub fn completed(id: &ActionId, output: Value) -> MessageBody {
    ActionResult {
        action_id: id.clone(),
        status: ActionResultStatus::Completed,
        output: Some(output),
        message: Vec::new(),
        memory_update: None,
        usage: None,
        receipt: None,
        error: None,
    }
    .into()
}

pub fn empty_manifest() -> Manifest {
    serde_json::from_value(json!({
        "manifest_version": "aip-manifest/v1", "agent": principal("service:gateway"),
        "profiles": ["aip.native.nats.v1"],
    }))
    .unwrap()
}

pub fn capability_id(id: &str) -> CapabilityId {
    CapabilityId::parse(id).unwrap()
}
