//! Gateways, services and a worker on one nats-server, and people with roles.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aip_admission::{Authenticator, Directory};
use aip_bus::{Bus, Serving, Settings};
use aip_crypto::SigningKey;
use aip_gateway::edge::http::{HttpBounds, HttpDoor};
use aip_gateway::edge::{Bounds, Edge, nats as door};
use aip_gateway::front::{Inbound, Outbound, Via};
use aip_gateway::{Gateway, Parts};
use aip_ledger::Readiness;
use aip_names::{Identity, OwnService, Service as Token, User, Version};
use aip_policy_approval::service::PolicyApproval;
use aip_sdk::{ActionError, CapabilitySpec, Context, Worker, WorkerConfig};
use aip_service::{Exposition, Service};
use aip_testkit::{TestNats, wait_for, wait_for_some};
use aip_wire::{
    ActionId, ApprovalPolicy, MessageBody, MessageType, Principal, PrincipalId, PrincipalKind, RetrySafety,
    RiskLevel, SideEffect,
};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

pub const SOON: Duration = Duration::from_secs(30);
pub const PAY: &str = "cap:test:pay";
const BOUNDS: Bounds = Bounds { in_flight: 64, in_flight_per_sender: 64, bytes: 1 << 26 };
const SERVICE: &str = "sandbox-restaurant";

pub struct World {
    pub nats: TestNats,
    pub gateways: Vec<(Gateway, Arc<Authenticator>, Serving)>,
    pub services: Vec<(PolicyApproval, Serving)>,
    /// How often each action was done.
    pub done: Arc<Mutex<HashMap<String, u32>>>,
    pub workers: Vec<Worker>,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Pay {
    amount: u64,
}

#[derive(Serialize, schemars::JsonSchema)]
struct Paid {
    paid: u64,
}

fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(&[seed; 32])
}

/// The token of a person is the name of the person.
pub fn token(who: &str) -> String {
    format!("{who}-token-0123456789")
}

/// ann, bob, cay and the requester are approvers, ann also the chief's delegate, dan a delegate whose grant is over, olga
/// an officer of the tenant, zoe an approver of another tenant.
pub fn directory_text() -> String {
    let person = |who: &str, tenant: &str, more: &str| {
        let digest = hex::encode(Sha256::digest(token(who).as_bytes()));
        format!(
            "[[principal]]\nid = \"human:{who}\"\nkind = \"human\"\ntenants = [\"{tenant}\"]\n\
             api_keys = [{{ id = \"{who}\", sha256 = \"{digest}\" }}]\n{more}\n\n"
        )
    };
    let approver = "roles = [\"approver\"]\nscopes = [\"approval:read\", \"approval:decide\"]";
    let decides = "scopes = [\"approval:read\", \"approval:decide\"]";
    let mut text = format!(
        "trust_domain = \"aip.local\"\n\n[[tenant]]\nid = \"acme\"\n\n[[tenant]]\nid = \"beta\"\n\n\
         [[principal]]\nid = \"service:policy-approval\"\nkind = \"service\"\ndids = [\"{}\"]\n\n\
         [[principal]]\nid = \"agent:restaurant\"\nkind = \"agent\"\ndids = [\"{}\"]\n\n",
        key(8).did(),
        key(2).did(),
    );
    for version in ["v1", "v2"] {
        text.push_str(&format!(
            "[[worker]]\nprincipal = \"agent:restaurant\"\nservice = \"{SERVICE}\"\nversion = \"{version}\"\n\
             capabilities = [\"cap:test:*\"]\n\n"
        ));
    }
    let asks = "roles = [\"approver\"]\ncapabilities = [\"cap:test:*\"]\n\
                scopes = [\"action:write\", \"action:read\", \"receipt:read\", \"approval:read\", \"approval:decide\"]";
    text.push_str(&person("req", "acme", asks));
    for who in ["ann", "bob", "cay"] {
        text.push_str(&person(who, "acme", approver));
    }
    text.push_str(&person("zoe", "beta", approver));
    for who in ["dan", "eve"] {
        text.push_str(&person(who, "acme", decides));
    }
    text.push_str(&person("chief", "acme", "scopes = [\"payments:approve\"]"));
    let officer =
        "scopes = [\"approval:read:any\", \"approval:export\", \"approval:sensitive\", \"action:read:any\"]";
    text.push_str(&person("olga", "acme", officer));
    for (delegate, until) in [("eve", "2099-01-01T00:00:00Z"), ("dan", "2020-01-01T00:00:00Z")] {
        text.push_str(&format!(
            "[[grant]]\ndelegate = \"human:{delegate}\"\nprincipal = \"human:chief\"\ntenant = \"acme\"\n\
             scopes = [\"payments:approve\"]\ncapabilities = [\"cap:test:*\"]\nexpires_at = {until}\n\n"
        ));
    }
    text
}

pub fn directory(text: &str) -> Directory {
    Directory::parse(text, Path::new("/nowhere")).unwrap()
}

/// Two of the three who have the role, and not who asks.
pub fn two_of_three() -> Value {
    let role = json!({"operator": "role", "name": "approver"});
    json!({
        "required": true, "approver_selector": {"type": "role", "name": "approver"},
        "rule": {"operator": "quorum", "required": 2, "rules": [role, role, role]},
        "separation_of_duties": {"requester_must_differ": true},
    })
}

pub fn one(selector: Value) -> Value {
    json!({"required": true, "approver_selector": selector})
}

pub fn by_role() -> Value {
    one(json!({"type": "role", "name": "approver"}))
}

async fn connect(nats: &TestNats, identity: Identity) -> Bus {
    let (seed_file, name) = (nats.seed_file(&identity), identity.to_string());
    let bus = Bus::connect(Settings { url: nats.url(), seed_file, identity, name }).await.unwrap();
    bus.ready(Duration::from_secs(10)).await.unwrap();
    bus
}

impl World {
    /// With one replica of everything.
    pub async fn new(policy: Value) -> World {
        World::with(policy, 1).await
    }

    pub async fn with(policy: Value, replicas: usize) -> World {
        let nats = TestNats::start_with(&[User::own(OwnService::PolicyApproval)]).await;
        let mut world = World {
            nats,
            gateways: Vec::new(),
            services: Vec::new(),
            done: Arc::default(),
            workers: Vec::new(),
        };
        for replica in 0..replicas {
            world.start_gateway(replica).await;
            world.start_service(replica).await;
        }
        world.start_worker(policy, Version::V1).await;
        world
    }

    pub async fn start_gateway(&mut self, replica: usize) {
        let bus = connect(&self.nats, Identity::Gateway).await;
        let authenticator = Arc::new(Authenticator::new(Arc::new(directory(&directory_text()))).unwrap());
        let ledger = self.ledger(Token::gateway(), format!("gateway-{replica}"));
        let parts = Parts { bus: bus.clone(), authenticator: authenticator.clone(), key: key(9), ledger };
        let gateway = Gateway::open(parts).unwrap();
        wait_for("the gateway", SOON, || async { gateway.readiness() == Readiness::Ready }).await;
        let exposition: Exposition = Arc::new(String::new);
        let edge = Edge::new(Via::Nats, gateway.clone(), BOUNDS, exposition);
        let serving = door::serve(&bus, &TestNats::trust_domain(), edge, BOUNDS).await.unwrap();
        self.gateways.push((gateway, authenticator, serving));
    }

    pub async fn start_service(&mut self, replica: usize) {
        let bus = connect(&self.nats, Identity::Own(OwnService::PolicyApproval)).await;
        let ledger = self.ledger(OwnService::PolicyApproval.service(), format!("policy-approval-{replica}"));
        let parts = aip_service::run::Parts {
            bus: bus.clone(),
            key: Arc::new(key(8)),
            directory: Arc::new(directory(&directory_text())),
            ledger,
        };
        let service = PolicyApproval::open(parts).unwrap();
        let mut readiness = service.readiness();
        readiness.wait_for(|readiness| *readiness == Readiness::Ready).await.unwrap();
        let own = OwnService::PolicyApproval;
        let serving = aip_service::door::serve(&bus, &TestNats::trust_domain(), own, 64, service.clone())
            .await
            .unwrap();
        self.services.push((service, serving));
    }

    fn ledger(&self, service: Token, replica: String) -> aip_ledger::Config {
        aip_ledger::Config {
            trust_domain: TestNats::trust_domain(),
            service,
            shard: 0,
            data_dir: self.nats.scratch().join(&replica),
            replica,
            stream_replicas: 1,
        }
    }

    /// Offers `cap:test:pay` under this approval policy.
    pub async fn start_worker(&mut self, policy: Value, version: Version) {
        let bus = connect(&self.nats, TestNats::worker("restaurant")).await;
        let agent = Principal::new(PrincipalId::parse("agent:restaurant").unwrap(), PrincipalKind::Agent);
        let store = self.nats.scratch().join(&format!("worker-{version}.redb"));
        let config = WorkerConfig {
            version,
            ..WorkerConfig::new(
                TestNats::trust_domain(),
                Token::new(SERVICE).unwrap(),
                agent,
                Arc::new(key(2)),
                store,
            )
        };
        let policy: ApprovalPolicy = serde_json::from_value(policy).unwrap();
        let spec = CapabilitySpec::write(PAY, "Pay", "Pays.", SideEffect::Financial, RetrySafety::Unsafe)
            .risk(RiskLevel::High)
            .approval(policy);
        let done = self.done.clone();
        let worker = Worker::builder(config)
            .capability(spec, move |context: Context, input: Pay| {
                let done = done.clone();
                async move {
                    *done.lock().unwrap().entry(context.action_id().to_string()).or_default() += 1;
                    Ok::<_, ActionError>(Paid { paid: input.amount })
                }
            })
            .start(&bus)
            .await
            .unwrap();
        worker.registered().await.unwrap();
        self.workers.push(worker);
    }

    /// HTTP of the first gateway.
    pub async fn serve_http(&self) -> String {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let door = HttpDoor::bind("127.0.0.1:0".parse().unwrap(), HttpBounds::default()).await.unwrap();
        let address = door.address().unwrap();
        let exposition: Exposition = Arc::new(String::new);
        let edge = Edge::new(Via::Http, self.gateways[0].0.clone(), BOUNDS, exposition);
        tokio::spawn(door.serve(edge, CancellationToken::new(), SOON));
        format!("http://{address}")
    }

    pub fn gateway(&self, at: usize) -> &Gateway {
        &self.gateways[at % self.gateways.len()].0
    }

    pub async fn send(&self, action: &Value) -> Outbound {
        let bytes = serde_json::to_vec(action).unwrap().into();
        let bearer = Some(SecretString::from(token("req")));
        self.gateway(0).action(Inbound { bytes, bearer, via: Via::Http }).await
    }

    /// Asks for an action, and gives its approval.
    pub async fn ask(&self, action: &Value) -> String {
        let reply = self.send(action).await;
        let result = &reply.envelope["body"]["action_result"];
        assert_eq!(result["status"], "pending_approval", "{}", reply.envelope);
        reply.envelope["extensions"]["aip.approval"]["approval_id"].as_str().unwrap().to_owned()
    }

    async fn query(&self, at: usize, who: &str, kind: MessageType, body: Value) -> Result<Value, Value> {
        let body: MessageBody = serde_json::from_value(json!({kind.body_key(): body})).unwrap();
        match self.gateway(at).query(Some(SecretString::from(token(who))), body).await {
            Ok(body) => Ok(serde_json::to_value(body).unwrap()),
            Err(refused) => Err(refused.envelope["body"]["error"]["error"].clone()),
        }
    }

    pub async fn view_as(&self, who: &str, approval: &str) -> Result<Value, Value> {
        let body = json!({"approval_id": approval, "include_receipts": true});
        let answer = self.query(0, who, MessageType::ApprovalQueryRequest, body).await?;
        Ok(answer["approval_record_view"].clone())
    }

    /// The approval, once the service has it.
    pub async fn view(&self, approval: &str) -> Value {
        wait_for_some("the approval", SOON, || async { self.view_as("req", approval).await.ok() }).await
    }

    pub async fn evidence(&self, who: &str, approval: &str) -> Result<Value, Value> {
        let body = json!({"approval_id": approval, "include_evidence_payload": true});
        let answer = self.query(0, who, MessageType::ApprovalQueryRequest, body).await?;
        Ok(answer["approval_record_view"]["evidence_payload"].clone())
    }

    /// The ids in somebody's list.
    pub async fn list(&self, who: &str, request: Value) -> Vec<String> {
        let answer = self.query(0, who, MessageType::ApprovalListRequest, request).await.unwrap();
        let found = answer["approval_list"]["approvals"].as_array().unwrap().clone();
        found.iter().map(|view| view["request"]["id"].as_str().unwrap().to_owned()).collect()
    }

    /// Decides by way of one of the gateways.
    pub async fn decide_at(
        &self,
        at: usize,
        who: &str,
        approval: &str,
        members: Value,
    ) -> Result<Value, Value> {
        let view = self.view(approval).await;
        let mut decision = json!({
            "approval_id": approval, "approver": {"id": format!("human:{who}"), "kind": "human"},
            "decided_at": "2026-07-14T08:30:00Z", "policy_hash": view["request"]["policy_hash"],
            "decision_id": format!("{who}-{approval}"), "decision": "approved",
        });
        decision.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let answer = self.query(at, who, MessageType::ApprovalDecision, decision).await?;
        Ok(answer["approval_record_view"].clone())
    }

    pub async fn decide(&self, who: &str, approval: &str, members: Value) -> Result<Value, Value> {
        self.decide_at(0, who, approval, members).await
    }

    pub async fn approve(&self, who: &str, approval: &str) -> Value {
        self.decide(who, approval, json!({})).await.unwrap()
    }

    pub async fn refused(&self, who: &str, approval: &str, members: Value) -> String {
        let refused = self.decide(who, approval, members).await.unwrap_err();
        refused["code"].as_str().unwrap().to_owned()
    }

    pub async fn status(&self, action: &Value) -> Value {
        self.status_as("req", action).await
    }

    async fn status_as(&self, who: &str, action: &Value) -> Value {
        let body = json!({"action_id": action["id"], "include_result": true});
        let answer = self.query(0, who, MessageType::ActionStatusRequest, body).await.unwrap();
        answer["action_status"].clone()
    }

    /// The action's result, when it has ended.
    pub async fn result(&self, action: &Value) -> Value {
        self.result_as("req", action).await
    }

    pub async fn result_as(&self, who: &str, action: &Value) -> Value {
        wait_for_some("the end of the action", SOON, || async {
            let status = self.status_as(who, action).await;
            status.get("completed_at").is_some_and(|at| !at.is_null()).then(|| status["result"].clone())
        })
        .await
    }

    /// What happened to the action, by its kinds of events.
    pub async fn kinds(&self, action: &Value) -> Vec<String> {
        let body = json!({"action_id": action["id"]});
        let answer = self.query(0, "req", MessageType::ActionEventsRequest, body).await.unwrap();
        let events = answer["action_events"]["events"].as_array().unwrap().clone();
        events.iter().map(|event| event["kind"].as_str().unwrap().to_owned()).collect()
    }

    pub async fn cancel(&self, action: &Value) {
        let body = json!({
            "aip_version": "1.0", "message_type": MessageType::Cancel, "message_id": aip_wire::MessageId::generate(),
            "sent_at": aip_wire::Timestamp::now(), "body": {"cancel": {"target": {"action": action["id"]}}},
        });
        let bytes = serde_json::to_vec(&body).unwrap().into();
        let bearer = Some(SecretString::from(token("req")));
        let reply = self.gateway(0).message(Inbound { bytes, bearer, via: Via::Http }).await;
        assert_eq!(reply.status, 200, "{}", reply.envelope);
    }

    /// Decides without looking first as the requester.
    pub async fn decide_for(&self, who: &str, approval: &str) -> Result<Value, Value> {
        let view = self.view_as(who, approval).await?;
        let decision = json!({
            "approval_id": approval, "approver": {"id": format!("human:{who}"), "kind": "human"},
            "decided_at": "2026-07-14T08:30:00Z", "policy_hash": view["request"]["policy_hash"],
            "decision_id": format!("{who}-{approval}"), "decision": "approved",
        });
        self.query(0, who, MessageType::ApprovalDecision, decision).await
    }

    pub async fn refused_while_away(&self, who: &str, approval: &str) -> String {
        let refused = self.view_as(who, approval).await.unwrap_err();
        refused["code"].as_str().unwrap().to_owned()
    }

    pub fn times(&self, action: &Value) -> u32 {
        self.done.lock().unwrap().get(action["id"].as_str().unwrap()).copied().unwrap_or(0)
    }
}

pub fn pay(amount: u64) -> Value {
    let id = ActionId::generate();
    json!({"id": id, "capability_id": PAY, "idempotency_key": id, "input": {"amount": amount}})
}
