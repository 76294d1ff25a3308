//! The gateway asks another service, over a real nats-server with the permissions of the registry.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::Arc;
use std::time::Duration;

use aip_admission::Caller;
use aip_bus::{Bus, Parcel, Settings};
use aip_crypto::SigningKey;
use aip_ledger::Readiness;
use aip_names::{Identity, OwnService, User};
use aip_service::config::{Config, Nats};
use aip_service::{Request, RunError, Service, Teller, ask};
use aip_testkit::{TestNats, wait_for, wait_for_some};
use aip_wire::trusted::{Method, Scopes, TrustedCaller};
use aip_wire::{
    Envelope, MessageBody, MessageType, Principal, PrincipalId, PrincipalKind, Refusal, Timestamp,
    TransactionQueryRequest, TransportMessage, codes,
};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

const SOON: Duration = Duration::from_secs(20);
const OWN: OwnService = OwnService::Transaction;

/// Refuses with the name of whoever asks.
#[derive(Clone)]
struct Echo {
    readiness: watch::Receiver<Readiness>,
}

impl Service for Echo {
    const ANSWERS: &'static [MessageType] = &[MessageType::TransactionQueryRequest];

    async fn answer(&self, request: Request) -> Result<MessageBody, Refusal> {
        let Request { caller, envelope } = request;
        assert_eq!(envelope.from.unwrap().id, *caller.id());
        let own = caller.tenant(Some("tenant:a")).map(|_| ());
        own.and(Err(
            Refusal::new(codes::ACTION_NOT_FOUND, "/body", "none").detail("who", caller.id().as_str())
        ))
    }

    fn readiness(&self) -> watch::Receiver<Readiness> {
        self.readiness.clone()
    }

    async fn drain(&self) {}

    async fn failed(&self) -> String {
        std::future::pending().await
    }
}

fn caller(tenant: &str) -> Caller {
    let word = TrustedCaller {
        version: 1,
        principal: Principal::new(PrincipalId::parse("agent:alice").unwrap(), PrincipalKind::Agent),
        authentication: Method::ApiKey { id: "one".to_owned() },
        scopes: Scopes::default(),
        tenants: vec![tenant.to_owned()],
        until_ms: Some(7),
    };
    let caller = Caller::vouched(word.clone()).unwrap();
    assert_eq!(caller.vouch(), word);
    caller
}

fn question() -> MessageBody {
    let request: TransactionQueryRequest =
        serde_json::from_value(json!({"transaction_id": "txn_1"})).unwrap();
    request.into()
}

async fn connect(nats: &TestNats, identity: Identity) -> Bus {
    let settings = Settings {
        url: nats.url(),
        seed_file: nats.server.seed_file(&identity),
        identity,
        name: "test".to_owned(),
    };
    let bus = Bus::connect(settings).await.unwrap();
    bus.ready(SOON).await.unwrap();
    bus
}

fn config(nats: &TestNats) -> Config<()> {
    Config {
        own: OWN,
        trust_domain: TestNats::trust_domain(),
        replica: "t-1".to_owned(),
        data_dir: "data".into(),
        directory: "directory.toml".into(),
        signing_key: "key".into(),
        nats: Nats { url: nats.url(), seed: nats.server.seed_file(&Identity::Own(OWN)), stream_replicas: 1 },
        health: "127.0.0.1:0".parse().unwrap(),
        in_flight: 4,
        drain_ms: 5_000,
        settings: (),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_is_the_gateways_word_and_a_refusal_arrives_as_it_was_said() {
    let nats = TestNats::start_with(&[User::own(OWN)]).await;
    let gateway = connect(&nats, Identity::Gateway).await;
    let td = TestNats::trust_domain();
    let asked_within = |tenant: &'static str, patience: Duration| {
        let (gateway, td) = (gateway.clone(), td.clone());
        async move { ask(&gateway, &td, OWN, &caller(tenant), question(), patience).await.unwrap_err() }
    };
    let asked = |tenant: &'static str| asked_within(tenant, SOON);
    assert_eq!(asked("tenant:a").await.code, codes::SERVICE_ABSENT);

    let (said, readiness) = watch::channel(Readiness::NotReady { reason: "it learns".to_owned() });
    let (stop, stopped) = oneshot::channel::<()>();
    let bus = connect(&nats, Identity::Own(OWN)).await;
    let config = config(&nats);
    let running = tokio::spawn(async move {
        let exposition: aip_service::Exposition = Arc::new(String::new);
        let shutdown = async { stopped.await.unwrap() };
        aip_service::run(&config, bus, Echo { readiness }, exposition, shutdown).await
    });
    assert_eq!(asked("tenant:a").await.code, codes::SERVICE_ABSENT, "not ready, so not in the group");
    said.send(Readiness::Ready).unwrap();
    let refusal = wait_for_some("an answer", SOON, || async {
        let refusal = asked("tenant:a").await;
        (refusal.code != codes::SERVICE_ABSENT).then_some(refusal)
    })
    .await;
    let told = Refusal::new(codes::ACTION_NOT_FOUND, "/body", "none").detail("who", "agent:alice");
    assert_eq!(refusal, told);
    assert_eq!(asked("tenant:b").await.code, codes::TENANT_MISMATCH);

    said.send(Readiness::NotReady { reason: "a blink".to_owned() }).unwrap();
    // a question that comes while it leaves may stay without an answer, and is asked again
    let brief = Duration::from_millis(500);
    wait_for("the group to be empty", SOON, || async {
        asked_within("tenant:a", brief).await.code == codes::SERVICE_ABSENT
    })
    .await;
    stop.send(()).unwrap();
    let ended: Result<(), RunError> = running.await.unwrap();
    ended.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_reaches_it_and_without_a_word_nobody_asks() {
    let nats = TestNats::start_with(&[User::own(OWN)]).await;
    let (gateway, alice) =
        (connect(&nats, Identity::Gateway).await, connect(&nats, TestNats::client("alice")).await);
    let bus = connect(&nats, Identity::Own(OWN)).await;
    let (_said, readiness) = watch::channel(Readiness::Ready);
    let service = Echo { readiness };
    let _serving = aip_service::door::serve(&bus, &TestNats::trust_domain(), OWN, 4, service).await.unwrap();

    let envelope = serde_json::to_value(Envelope::new(question(), Timestamp::now())).unwrap();
    let subject = "aip.v1.aip_local.transaction.v1.aip_transaction_v1_query_request";
    let send = |metadata| Parcel::new(&TransportMessage { envelope: envelope.clone(), metadata }).unwrap();
    assert!(alice.request(subject, send(None), Duration::from_millis(500)).await.is_err(), "no permission");
    let word = json!({"aip.trusted_caller": {"version": 2}}).as_object().cloned();
    for metadata in [None, word] {
        let reply = gateway.request(subject, send(metadata), SOON).await.unwrap();
        let reply: Value = serde_json::from_slice(&reply.payload).unwrap();
        assert_eq!(
            reply.pointer("/envelope/body/error/error/code").unwrap(),
            codes::AUTH_MISSING.name,
            "{reply}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_service_tells_the_gateway_is_signed_by_its_principal() {
    let nats = TestNats::start_with(&[User::own(OWN)]).await;
    let (gateway, bus) = (connect(&nats, Identity::Gateway).await, connect(&nats, Identity::Own(OWN)).await);
    let key = Arc::new(SigningKey::generate().unwrap());
    let teller = Teller::new(bus, TestNats::trust_domain(), OWN, Arc::clone(&key)).unwrap();
    let refused = teller.tell(question(), SOON).await.unwrap_err();
    assert_eq!(refused.code, codes::SERVICE_ABSENT);

    let subject = "aip.v1.aip_local.gateway.v1.*".to_owned();
    let mut heard = gateway.client().queue_subscribe(subject, "gateway".to_owned()).await.unwrap();
    gateway.client().flush().await.unwrap();
    let telling = tokio::spawn(async move { teller.tell(question(), SOON).await });
    let message = futures_util::StreamExt::next(&mut heard).await.unwrap();
    let said: TransportMessage = serde_json::from_slice(&message.payload).unwrap();
    let did = aip_crypto::verify_envelope(&said.envelope).unwrap();
    assert_eq!(did.to_string(), key.did().to_string());
    assert_eq!(said.envelope["from"]["id"], "service:transaction");
    gateway.client().publish(message.reply.unwrap(), message.payload).await.unwrap();
    assert_eq!(telling.await.unwrap().unwrap(), question());
}
