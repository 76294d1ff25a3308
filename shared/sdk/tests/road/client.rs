use std::sync::Arc;
use std::time::Duration;

use aip_crypto::SigningKey;
use aip_sdk::{CallOptions, Client, ClientError, NatsConfig};
use aip_testkit::TestNats;
use aip_wire::{
    ActionId, ActionResult, ActionResultStatus, Envelope, ManifestRequest, MessageBody, MessageType,
    ProtocolError, ReceiptQueryRequest, Timestamp, codes,
};
use serde_json::json;

use crate::fake::{FakeGateway, Reply, SOON, capability_id, completed, principal};

const CAPABILITY: &str = "cap:test:do";

async fn client(nats: &TestNats, gateway: &FakeGateway, key: &Arc<SigningKey>) -> Client {
    let identity = TestNats::client("alice");
    let client = Client::nats(NatsConfig {
        trust_domain: TestNats::trust_domain(),
        url: nats.url(),
        seed_file: nats.seed_file(&identity),
        identity,
        principal: principal("agent:alice"),
        key: Arc::clone(key),
        gateway: Some(gateway.key.did().clone()),
    })
    .await
    .unwrap();
    client.ready(SOON).await.unwrap();
    client
}

fn key() -> Arc<SigningKey> {
    Arc::new(SigningKey::generate().unwrap())
}

fn action_id(envelope: &Envelope) -> ActionId {
    match &envelope.body {
        MessageBody::Action(action) => action.id.clone(),
        MessageBody::ActionResultRequest(request) => request.action_id.clone(),
        other => panic!("{other:?}"),
    }
}

fn done(envelope: &Envelope) -> Reply {
    Reply::Body(completed(&action_id(envelope), json!({"ok": true})))
}

fn keyed() -> CallOptions {
    CallOptions {
        idempotency_key: Some("k-1".to_owned()),
        timeout_ms: Some(10_000),
        ..CallOptions::default()
    }
}

fn types(gateway: &FakeGateway) -> Vec<MessageType> {
    gateway.seen().iter().map(|envelope| envelope.message_type).collect()
}

#[tokio::test]
async fn a_call_is_signed_and_its_result_returned() {
    let nats = TestNats::start().await;
    let gateway = FakeGateway::start(&nats, |_, envelope| done(envelope)).await;
    let key = key();
    let result =
        client(&nats, &gateway, &key).await.call(CAPABILITY, json!({"n": 1}), keyed()).await.unwrap();
    assert_eq!(result.output, Some(json!({"ok": true})));
    let seen = &gateway.seen()[0];
    assert_eq!(gateway.signers(), [Some(key.did().to_string())]);
    assert_eq!(seen.from.as_ref().unwrap().id, "agent:alice");
    let MessageBody::Action(action) = &seen.body else { panic!("{seen:?}") };
    assert_eq!(action.capability_id, capability_id(CAPABILITY));
    assert_eq!(action.idempotency_key.as_deref(), Some("k-1"));
    assert!((9_000..=10_000).contains(&action.timeout_ms.unwrap()));
}

#[tokio::test]
async fn a_retryable_refusal_is_tried_again_under_the_same_id_only_where_that_is_allowed() {
    let nats = TestNats::start().await;
    let gateway = FakeGateway::start(&nats, |before, envelope| match before % 3 {
        2 => done(envelope),
        _ => Reply::error(codes::SERVICE_OVERLOADED),
    })
    .await;
    let client = client(&nats, &gateway, &key()).await;
    client.call(CAPABILITY, json!({}), keyed()).await.unwrap();
    let reading = CallOptions { read_only: true, ..CallOptions::default() };
    client.call(CAPABILITY, json!({}), reading).await.unwrap();
    let seen = gateway.seen();
    assert_eq!(seen.len(), 6);
    for call in seen.chunks(3) {
        assert!(call.windows(2).all(|pair| action_id(&pair[0]) == action_id(&pair[1])));
        assert!(call.windows(2).all(|pair| pair[0].message_id != pair[1].message_id));
        assert!(call.windows(2).all(|pair| pair[0].correlation_id == pair[1].correlation_id));
    }
    assert_ne!(action_id(&seen[0]), action_id(&seen[3]));
    // neither key nor read: the caller is told
    let told = client.call(CAPABILITY, json!({}), CallOptions::default()).await.unwrap_err();
    assert_eq!(told.protocol_error().unwrap().code, "aip.service.overloaded");
    assert_eq!(gateway.seen().len(), 7);
}

#[tokio::test]
async fn a_final_refusal_and_a_failed_result_are_told_once() {
    let nats = TestNats::start().await;
    let gateway = FakeGateway::start(&nats, |before, envelope| match before {
        0 => Reply::error(codes::POLICY_DENIED),
        _ => Reply::Body(
            ActionResult {
                status: ActionResultStatus::Failed,
                error: Some(ProtocolError {
                    retryable: Some(true),
                    ..ProtocolError::of(codes::WORKER_FAILED, "no")
                }),
                ..serde_json::from_value(json!({"action_id": action_id(envelope), "status": "completed"}))
                    .unwrap()
            }
            .into(),
        ),
    })
    .await;
    let client = client(&nats, &gateway, &key()).await;
    let refused = client.call(CAPABILITY, json!({}), keyed()).await.unwrap_err();
    assert!(matches!(refused, ClientError::Refused { .. }), "{refused}");
    let failed = client.call(CAPABILITY, json!({}), keyed()).await.unwrap_err();
    assert!(matches!(failed, ClientError::Failed { .. }), "{failed}");
    assert!(failed.to_string().contains("aip.worker.failed") && !failed.is_uncertain(), "{failed}");
    assert_eq!(gateway.seen().len(), 2);
}

#[tokio::test]
async fn what_is_unknown_is_asked_for_before_it_is_sent_again() {
    let nats = TestNats::start().await;
    let gateway = FakeGateway::start(&nats, |before, envelope| match before {
        0 => Reply::error(codes::SERVICE_UNKNOWN),
        1 => Reply::error(codes::ACTION_NOT_FOUND),
        2 => Reply::error(codes::SERVICE_UNKNOWN),
        3 => Reply::error(codes::ACTION_NOT_READY),
        _ => done(envelope),
    })
    .await;
    let client = client(&nats, &gateway, &key()).await;
    // without a key: the id alone keeps it from being done twice
    client.call(CAPABILITY, json!({}), CallOptions::default()).await.unwrap();
    let (action, look) = (MessageType::Action, MessageType::ActionResultRequest);
    assert_eq!(types(&gateway), [action, look, action, look, look]);
    let ids: Vec<ActionId> = gateway.seen().iter().map(action_id).collect();
    assert!(ids.windows(2).all(|pair| pair[0] == pair[1]));
}

#[tokio::test]
async fn silence_ends_with_a_question_and_then_with_unknown() {
    let nats = TestNats::start().await;
    let gateway = FakeGateway::start(&nats, |_, envelope| match envelope.message_type {
        MessageType::Action => Reply::Silence,
        _ => done(envelope),
    })
    .await;
    let client = client(&nats, &gateway, &key()).await;
    let short = CallOptions { timeout_ms: Some(200), ..CallOptions::default() };
    let result = client.call(CAPABILITY, json!({}), short.clone()).await.unwrap();
    assert_eq!(result.status, ActionResultStatus::Completed);
    assert_eq!(types(&gateway), [MessageType::Action, MessageType::ActionResultRequest]);
    drop(gateway);
    let nobody = client.call(CAPABILITY, json!({}), short).await.unwrap_err();
    assert!(matches!(nobody, ClientError::Unreachable { .. } | ClientError::Unknown { .. }), "{nobody}");
}

#[tokio::test]
async fn an_answer_that_is_not_the_gateways_or_not_to_the_question_is_not_believed() {
    let nats = TestNats::start().await;
    let stranger = key();
    let gateway = FakeGateway::start(&nats, move |before, envelope| {
        let reply = |body: MessageBody| Envelope::reply_to(envelope, body, Timestamp::now());
        let good = completed(&action_id(envelope), json!({}));
        match before {
            0 => Reply::Envelope(Box::new(reply(good)), None),
            1 => Reply::Envelope(Box::new(reply(good)), Some(Arc::clone(&stranger))),
            2 => {
                let other = Envelope::new(ManifestRequest::default(), Timestamp::now());
                Reply::Signed(Box::new(Envelope::reply_to(&other, good, Timestamp::now())))
            }
            3 => Reply::Body(completed(&ActionId::generate(), json!({}))),
            _ => Reply::Body(ManifestRequest::default().into()),
        }
    })
    .await;
    let client = client(&nats, &gateway, &key()).await;
    for expected in ["security", "signed it", "another message", "another action", "no answer"] {
        let error = client.call(CAPABILITY, json!({}), CallOptions::default()).await.unwrap_err();
        assert!(matches!(error, ClientError::Untrusted { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert_eq!(gateway.seen().len(), 5);
}

#[tokio::test]
async fn under_a_key_the_first_actions_result_is_taken() {
    let nats = TestNats::start().await;
    let gateway =
        FakeGateway::start(&nats, |_, _| Reply::Body(completed(&ActionId::generate(), json!({})))).await;
    let client = client(&nats, &gateway, &key()).await;
    assert!(client.call(CAPABILITY, json!({}), keyed()).await.is_ok());
}

#[tokio::test]
async fn questions_are_asked_again_and_their_answers_checked() {
    let nats = TestNats::start().await;
    let gateway = FakeGateway::start(&nats, |before, envelope| match (before, &envelope.body) {
        (0, _) => Reply::error(codes::SERVICE_NOT_READY),
        (_, MessageBody::ManifestRequest(_)) => Reply::manifest(),
        (_, MessageBody::ActionResultRequest(request)) => {
            Reply::Body(completed(&request.action_id, json!(1)))
        }
        (_, MessageBody::ActionStatusRequest(_)) => Reply::Body(MessageBody::ActionStatus(Box::new(
            serde_json::from_value(json!({
                "action_id": "act_of_another", "state": "running", "updated_at": "2026-07-14T08:30:00Z",
            }))
            .unwrap(),
        ))),
        _ => Reply::error(codes::RECEIPT_NOT_FOUND),
    })
    .await;
    let client = client(&nats, &gateway, &key()).await;
    let manifest = client.manifest(ManifestRequest::default()).await.unwrap();
    assert_eq!(manifest.agent.id, "service:gateway");
    let id = ActionId::generate();
    assert_eq!(client.result(&id, None).await.unwrap().output, Some(json!(1)));
    assert!(matches!(client.status(&id, Some(5)).await, Err(ClientError::Untrusted { .. })));
    let chain = ReceiptQueryRequest { chain_id: Some("chain-1".to_owned()), receipt_id: None };
    let missing = client.receipts(chain).await.unwrap_err();
    assert_eq!(missing.protocol_error().unwrap().code, "aip.receipt.not_found");
    assert_eq!(gateway.seen().len(), 5);
}

#[tokio::test]
async fn without_a_server_nothing_is_sent() {
    let mut nats = TestNats::start().await;
    let gateway = FakeGateway::start(&nats, |_, envelope| done(envelope)).await;
    let client = client(&nats, &gateway, &key()).await;
    nats.server.kill().await.unwrap();
    let options = CallOptions { timeout_ms: Some(500), ..keyed() };
    let error = client.call(CAPABILITY, json!({}), options).await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. } | ClientError::Unknown { .. }), "{error}");
    assert!(matches!(client.ready(Duration::from_millis(50)).await, Err(ClientError::Bus(_))));
}
