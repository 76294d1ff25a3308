//! A small world: a nats-server, a gateway, two clients and a worker whose behaviour each input names.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aip_admission::{Authenticator, Directory};
use aip_bus::{Answer, Bus, Handler, Incoming, Parcel, Registration, Serving, Settings, serve};
use aip_crypto::{SigningKey, sign_envelope};
use aip_gateway::front::{Inbound, Outbound, Via};
use aip_gateway::{Gateway, Parts};
use aip_ledger::Readiness;
use aip_names::{Identity, Service, Subject, Version};
use aip_testkit::{TestNats, wait_for, wait_for_some};
use aip_wire::read::Bounds;
use aip_wire::trusted::{METADATA_KEY, TrustedContext};
use aip_wire::{
    ActionId, ActionResult, Envelope, ErrorBody, MessageBody, MessageId, MessageType, ProtocolError,
    Timestamp, TransportMessage, codes, validate,
};
use secrecy::SecretString;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub const CLIENT_TOKEN: &str = "client-token-0123456789";
pub const OTHER_TOKEN: &str = "other-token-0123456789";
/// May redrive, and read everything in acme.
pub const OPERATOR_TOKEN: &str = "operator-token-0123456789";
/// The same in beta.
pub const BETA_OPERATOR_TOKEN: &str = "beta-operator-token-0123456789";
/// May redrive, and read what the client granted it.
pub const DELEGATE_TOKEN: &str = "delegate-token-0123456789";
pub const SERVICE: &str = "sandbox-restaurant";

pub struct World {
    /// Stopped when the world ends; none when the test has it.
    nats: Option<Arc<TestNats>>,
    pub gateway: Gateway,
    pub authenticator: Arc<Authenticator>,
    pub worker_key: SigningKey,
    pub client_key: SigningKey,
    pub bus: Bus,
}

/// Counts dispatches by action and does what the input says.
#[derive(Default)]
pub struct Worker {
    pub seen: Mutex<HashMap<String, Vec<TrustedContext>>>,
}

fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(&[seed; 32])
}

fn directory_text() -> String {
    let digest = |token: &str| hex::encode(Sha256::digest(token.as_bytes()));
    format!(
        r#"
trust_domain = "aip.local"
tenant = [{{ id = "acme" }}, {{ id = "beta" }}]

[[principal]]
id = "service:client"
kind = "service"
tenants = ["acme"]
scopes = ["action:write", "action:read", "receipt:read", "events:read", "audit:read"]
capabilities = ["cap:test:*"]
dids = ["{client}"]
api_keys = [{{ id = "c", sha256 = "{client_token}" }}]

[[principal]]
id = "service:other"
kind = "service"
tenants = ["beta"]
scopes = [
    "action:write", "action:read:any", "receipt:read:any", "events:read:any", "audit:read:any", "audit:export:any",
]
capabilities = ["cap:test:say"]
api_keys = [{{ id = "o", sha256 = "{other_token}" }}]

[[principal]]
id = "service:operator"
kind = "service"
tenants = ["acme"]
scopes = ["action:write", "action:read:any"]
capabilities = ["cap:aip:gateway:redrive"]
api_keys = [{{ id = "op", sha256 = "{operator_token}" }}]

[[principal]]
id = "service:beta-operator"
kind = "service"
tenants = ["beta"]
scopes = ["action:write", "action:read:any"]
capabilities = ["cap:aip:*"]
api_keys = [{{ id = "op-b", sha256 = "{beta_operator_token}" }}]

[[principal]]
id = "service:delegate"
kind = "service"
tenants = ["acme"]
scopes = ["action:write", "action:read"]
capabilities = ["cap:aip:gateway:redrive"]
api_keys = [{{ id = "d", sha256 = "{delegate_token}" }}]

[[grant]]
delegate = "service:delegate"
principal = "service:client"
scopes = ["action:read"]
capabilities = ["cap:test:*"]
tenant = "acme"
expires_at = 2100-01-01T00:00:00Z

[[principal]]
id = "agent:restaurant"
kind = "agent"
dids = ["{worker}"]

[[worker]]
principal = "agent:restaurant"
service = "{SERVICE}"
capabilities = ["cap:test:*"]
"#,
        client = key(1).did(),
        worker = key(2).did(),
        client_token = digest(CLIENT_TOKEN),
        other_token = digest(OTHER_TOKEN),
        operator_token = digest(OPERATOR_TOKEN),
        beta_operator_token = digest(BETA_OPERATOR_TOKEN),
        delegate_token = digest(DELEGATE_TOKEN),
    )
}

fn directory() -> Directory {
    let text = directory_text();
    Directory::parse(&text, Path::new("/nowhere")).unwrap()
}

/// This principal is not known any more.
pub fn directory_without(principal: &str) -> Directory {
    let text = directory_text();
    let kept = text.split("\n\n").filter(|part| !{
        ["id", "principal"].iter().any(|member| part.contains(&format!("\n{member} = \"{principal}\"")))
    });
    Directory::parse(&kept.collect::<Vec<_>>().join("\n\n"), Path::new("/nowhere")).unwrap()
}

/// Nobody is known any more.
pub fn directory_without_clients() -> Directory {
    Directory::parse("trust_domain = \"aip.local\"", Path::new("/nowhere")).unwrap()
}

/// A contract with these members replaced.
pub fn contract(members: Value) -> Value {
    let mut contract = json!({
        "side_effects": ["write"],
        "idempotency": {
            "requirement": "optional", "collision_behavior": "reject_conflict", "key_scope": "principal",
        },
        "execution": {
            "supports_sync": true, "supports_async": false, "supports_streaming": false, "supports_cancel": false,
            "supports_retry": false, "expected_completion": "sync", "retry_safety": "unsafe",
        },
        "data": {"sensitivity": "internal", "contains_pii": false, "redaction_required": false},
    });
    for (name, member) in members.as_object().unwrap() {
        contract[name] = member.clone();
    }
    contract
}

/// A capability that says what it was told to say.
pub fn say(id: &str, contract: Value) -> Value {
    json!({
        "id": id, "name": "say", "kind": "tool", "risk": "low",
        "input_schema": {
            "type": "object", "required": ["do"],
            "properties": {"do": {"type": "string"}, "card": {"type": "string", "x-aip-redact": true}},
        },
        "output_schema": {"type": "object", "required": ["said"]},
        "contract": contract,
    })
}

pub fn safe() -> Value {
    let execution = json!({
        "supports_sync": true, "supports_async": false, "supports_streaming": false, "supports_cancel": false,
        "supports_retry": true, "expected_completion": "sync", "retry_safety": "safe",
    });
    contract(json!({"execution": execution}))
}

pub fn manifest(capabilities: &[Value]) -> Value {
    let handlers: Vec<Value> = capabilities
        .iter()
        .map(|capability| json!({"capability_id": capability["id"], "modes": ["sync"]}))
        .collect();
    json!({
        "manifest_version": "aip-manifest/v1",
        "agent": {"id": "agent:restaurant", "kind": "agent"},
        "capabilities": capabilities,
        "profiles": ["aip.native.nats.v1"],
        "extensions": {"aip.worker": {"service": SERVICE, "version": "v1", "handlers": handlers}},
    })
}

/// The manifest of `cap:test:say`, which may be repeated and queued.
pub fn queueable() -> Value {
    let mut capability = say("cap:test:say", safe());
    capability["contract"]["execution"]["supports_async"] = json!(true);
    let mut manifest = manifest(&[capability]);
    manifest["extensions"]["aip.worker"]["handlers"][0]["modes"] = json!(["sync", "async"]);
    manifest
}

pub fn action(members: Value) -> Value {
    let mut action = json!({
        "id": ActionId::generate(), "capability_id": "cap:test:say", "input": {"do": "complete"}, "mode": "sync",
    });
    for (name, member) in members.as_object().unwrap() {
        action[name] = member.clone();
    }
    action
}

pub fn envelope(message_type: MessageType, body: Value) -> Value {
    json!({
        "aip_version": "1.0",
        "message_type": message_type,
        "message_id": MessageId::generate(),
        "correlation_id": "corr_1",
        "sent_at": Timestamp::now(),
        "body": {message_type.body_key(): body},
    })
}

pub fn signed(mut envelope: Value, key: &SigningKey) -> Value {
    sign_envelope(&mut envelope, key).unwrap();
    envelope
}

pub fn code(reply: &Outbound) -> &str {
    reply.envelope["body"]["error"]["error"]["code"].as_str().unwrap_or("no error")
}

pub fn result_code(reply: &Outbound) -> &str {
    reply.envelope["body"]["action_result"]["error"]["code"].as_str().unwrap_or("no error")
}

pub async fn connect(nats: &TestNats, identity: Identity) -> Bus {
    let (seed_file, name) = (nats.seed_file(&identity), identity.to_string());
    let bus = Bus::connect(Settings { url: nats.url(), seed_file, identity, name }).await.unwrap();
    bus.ready(Duration::from_secs(10)).await.unwrap();
    bus
}

/// A bare action over HTTP.
pub async fn call_on(gateway: &Gateway, token: &str, action: &Value) -> Outbound {
    let bytes = serde_json::to_vec(action).unwrap().into();
    let bearer = Some(SecretString::from(token));
    gateway.action(Inbound { bytes, bearer, via: Via::Http }).await
}

pub async fn serve_on(bus: &Bus) -> (Arc<Worker>, Serving) {
    let worker = Arc::new(Worker::default());
    let action = aip_names::MessageType::new(MessageType::Action.as_str()).unwrap();
    let service = Service::new(SERVICE).unwrap();
    let subject = Subject::message(&TestNats::trust_domain(), &service, Version::V1, &action);
    let registration = Registration {
        service,
        version: "0.1.0".to_owned(),
        description: "does as it is told".to_owned(),
        endpoints: vec![("action".to_owned(), subject.to_string())],
        running_max: 512,
    };
    let serving = serve(bus, registration, Arc::clone(&worker)).await.unwrap();
    (worker, serving)
}

impl World {
    /// With `cap:test:say` registered: a mutation that may not be repeated.
    pub async fn new() -> World {
        let world = World::empty().await;
        world.registered(&[say("cap:test:say", contract(json!({})))]).await;
        world
    }

    pub async fn empty() -> World {
        World::on(Arc::new(TestNats::start().await)).await
    }

    /// A gateway on this server, with the store that an earlier one left there.
    pub async fn on(nats: Arc<TestNats>) -> World {
        let world = World::near(&nats).await;
        World { nats: Some(nats), ..world }
    }

    /// The same on a server that the test keeps.
    pub async fn near(nats: &TestNats) -> World {
        World::replica(nats, "gateway-0").await
    }

    /// One of several gateways on a server.
    pub async fn replica(nats: &TestNats, replica: &str) -> World {
        let gateway_bus = connect(nats, Identity::Gateway).await;
        let bus = connect(nats, TestNats::worker("restaurant")).await;
        let config = aip_ledger::Config {
            trust_domain: TestNats::trust_domain(),
            service: Service::gateway(),
            shard: 0,
            replica: replica.to_owned(),
            data_dir: nats.scratch().join(replica),
            stream_replicas: 1,
        };
        let authenticator = Arc::new(Authenticator::new(Arc::new(directory())).unwrap());
        // the store's lock goes with the last handle of the gateway before
        let gateway = wait_for_some("the store to be free", Duration::from_secs(20), || async {
            let (bus, ledger, authenticator) = (gateway_bus.clone(), config.clone(), authenticator.clone());
            Gateway::open(Parts { bus, authenticator, key: key(9), ledger }).ok()
        })
        .await;
        wait_for("the gateway to be ready", Duration::from_secs(20), || async {
            gateway.readiness() == Readiness::Ready
        })
        .await;
        World { nats: None, gateway, authenticator, worker_key: key(2), client_key: key(1), bus }
    }

    pub fn nats(&self) -> &TestNats {
        self.nats.as_deref().expect("the test's own server")
    }

    pub async fn serve(&self) -> (Arc<Worker>, Serving) {
        serve_on(&self.bus).await
    }

    pub async fn register(&self, manifest: Value) -> Outbound {
        self.send(&signed(envelope(MessageType::Manifest, manifest), &self.worker_key)).await
    }

    pub async fn registered(&self, capabilities: &[Value]) {
        let reply = self.register(manifest(capabilities)).await;
        assert_eq!(reply.status, 200, "{}", reply.envelope);
    }

    pub async fn send(&self, envelope: &Value) -> Outbound {
        let bytes = serde_json::to_vec(envelope).unwrap().into();
        self.gateway.message(Inbound { bytes, bearer: None, via: Via::Nats }).await
    }

    /// A bare action over HTTP.
    pub async fn call_as(&self, token: &str, action: &Value) -> Outbound {
        call_on(&self.gateway, token, action).await
    }

    pub async fn call(&self, action: &Value) -> Outbound {
        self.call_as(CLIENT_TOKEN, action).await
    }

    pub async fn ask_as(
        &self,
        token: &str,
        message_type: MessageType,
        body: Value,
    ) -> Result<Value, Outbound> {
        let body: MessageBody = serde_json::from_value(json!({message_type.body_key(): body})).unwrap();
        let answer = self.gateway.query(Some(SecretString::from(token)), body).await?;
        Ok(serde_json::to_value(answer).unwrap())
    }

    pub async fn ask(&self, message_type: MessageType, body: Value) -> Result<Value, Outbound> {
        self.ask_as(CLIENT_TOKEN, message_type, body).await
    }
}

impl Worker {
    pub fn dispatches(&self, id: &str) -> Vec<TrustedContext> {
        self.seen.lock().unwrap().get(id).cloned().unwrap_or_default()
    }
}

impl Handler for Worker {
    async fn handle(&self, request: Incoming) -> Option<Answer> {
        let (checked, metadata) = validate::frame(&request.payload, &Bounds::FRAME).unwrap();
        let (_, envelope) = checked.into_parts();
        let context = TrustedContext::read(&metadata[METADATA_KEY]).unwrap();
        let MessageBody::Action(action) = &envelope.body else { panic!("not an action") };
        let times = {
            let mut seen = self.seen.lock().unwrap();
            let contexts = seen.entry(action.id.to_string()).or_default();
            contexts.push(context);
            contexts.len()
        };
        let done = |output: Value| MessageBody::from(ActionResult::completed(action.id.clone(), output));
        let error = |error: ProtocolError| MessageBody::from(ErrorBody { error });
        let body = match (action.input["do"].as_str().unwrap(), times) {
            ("complete", _) | ("refuse first" | "be silent first", 2..) => done(json!({"said": "it"})),
            ("fail", _) => {
                let mut failure = ProtocolError::of(codes::WORKER_FAILED, "no");
                failure.details =
                    Some(json!({"card": action.input["card"], "seat": 4, "uncertain_outcome": false}));
                ActionResult::failed(action.id.clone(), failure).into()
            }
            ("refuse first", _) => error(ProtocolError::of(codes::WORKER_UNAVAILABLE, "not now")),
            ("refuse", _) => error(ProtocolError::of(codes::CAPABILITY_UNKNOWN, "never")),
            ("break its promise", _) => done(json!({"other": 1})),
            ("answer for another", _) => {
                ActionResult::completed(ActionId::generate(), json!({"said": "it"})).into()
            }
            ("answer too much", _) => {
                done(json!({"said": ["x".repeat(200_000), "y".repeat(200_000), "z".repeat(200_000)]}))
            }
            ("answer nonsense", _) => {
                let payload = b"{\"envelope\": nonsense".as_slice().into();
                return Some(Answer { parcel: Parcel { payload, headers: Default::default() }, error: None });
            }
            // also "be silent first", the first time
            _ => return None,
        };
        let reply = Envelope::reply_to(&envelope, body, Timestamp::now());
        let message = TransportMessage { envelope: serde_json::to_value(reply).unwrap(), metadata: None };
        Some(Answer { parcel: Parcel::new(&message).unwrap(), error: None })
    }

    fn busy(&self, _request: &Incoming) -> Option<Answer> {
        None
    }
}
