//! Path and query become exactly the request that an envelope would carry.

use aip_wire::MessageBody;
use serde_json::json;

use super::*;
use crate::edge::fake::Seen as Came;

async fn asked(path: &str) -> Value {
    let front = Fake::new();
    let mut request = get(path);
    request.headers_mut().insert("authorization", "Bearer key".parse().unwrap());
    let seen = ask(&router(&front), request).await;
    assert_eq!(seen.status, StatusCode::OK, "{seen:?}");
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!(seen.json(), serde_json::to_value(fake::status()).unwrap());
    match front.seen().as_slice() {
        [Came::Query { body, bearer }] => {
            assert_eq!(bearer.as_deref(), Some("key"));
            serde_json::to_value(body).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_read_route_asks_its_request() {
    assert_eq!(
        asked(
            "/aip/v1/actions/act%3A1?tenant_id=acme&include_result=true&include_receipts=true&wait_ms=30000"
        )
        .await,
        json!({ "action_status_request": {
            "action_id": "act:1", "tenant_id": "acme", "include_result": true, "include_receipts": true,
            "include_chunks": false, "wait_ms": 30000,
        } })
    );
    assert_eq!(
        asked("/aip/v1/actions/act_1/result?wait_ms=0&include_receipt=true&include_terminal_events=true")
            .await,
        json!({ "action_result_request": {
            "action_id": "act_1", "wait_ms": 0, "include_receipt": true, "include_terminal_events": true,
        } })
    );
    assert_eq!(
        asked("/aip/v1/receipts/action:act_1").await,
        json!({ "receipt_query_request": { "chain_id": "action:act_1" } })
    );
    assert_eq!(
        asked("/aip/v1/receipts/by-receipt/rcpt_1").await,
        json!({ "receipt_query_request": { "receipt_id": "rcpt_1" } })
    );
    assert_eq!(asked("/aip/v1/manifest").await, json!({ "manifest_request": {} }));
    assert_eq!(
        asked(
            "/aip/v1/manifest?capability_id=cap:a,cap:b&resource_kind=file&profile=aip.native.http.v1&risk=low,high\
             &side_effect=read&requires_approval=false&supports_streaming=true&supports_transactions=false"
        )
        .await,
        json!({ "manifest_request": { "filter": {
            "capability_ids": ["cap:a", "cap:b"], "resource_kinds": ["file"], "profiles": ["aip.native.http.v1"],
            "risk": ["low", "high"], "side_effects": ["read"], "requires_approval": false,
            "supports_streaming": true, "supports_transactions": false,
        } } })
    );
}

#[tokio::test]
async fn a_query_out_of_its_bounds_is_refused_and_never_clamped() {
    let front = Fake::new();
    let router = router(&front);
    for (path, code) in [
        ("/aip/v1/actions/act_1?wait_ms=30001", codes::LIMIT_WAIT),
        ("/aip/v1/actions/act_1/result?wait_ms=soon", codes::LIMIT_WAIT),
        ("/aip/v1/actions/act_1?limit=3", codes::QUERY_INVALID),
        ("/aip/v1/actions/act_1?tenant_id=", codes::QUERY_INVALID),
        ("/aip/v1/actions/act_1?include_result=yes", codes::QUERY_INVALID),
        ("/aip/v1/actions/%20", codes::QUERY_INVALID),
        ("/aip/v1/actions/%ff", codes::QUERY_INVALID),
        ("/aip/v1/actions/a%00b/result", codes::QUERY_INVALID),
        ("/aip/v1/manifest?risk=extreme", codes::QUERY_INVALID),
        ("/aip/v1/manifest?side_effect=none", codes::QUERY_INVALID),
        ("/aip/v1/manifest?capability_id=a,,b", codes::QUERY_INVALID),
        ("/aip/v1/receipts/chain_1?tenant_id=acme", codes::QUERY_INVALID),
    ] {
        ask(&router, get(path)).await.is_refused(code);
    }
    for path in ["/aip/v1/messages", "/aip/v1/actions"] {
        ask(&router, post(&format!("{path}?wait_ms=1"), ENVELOPE)).await.is_refused(codes::QUERY_INVALID);
    }
    assert_eq!(front.seen(), []);
}

#[tokio::test]
async fn a_read_that_is_refused_answers_a_whole_envelope() {
    for code in [codes::ACTION_NOT_FOUND, codes::ACTION_NOT_READY, codes::AUTH_MISSING, codes::POLICY_DENIED]
    {
        let retry_after_ms = code.retryable.then_some(1_000);
        let front = Fake::answering(refusal(code, retry_after_ms));
        ask(&router(&front), get("/aip/v1/actions/act_1/result")).await.is_refused(code);
    }
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let front = Fake::new();
    let request = Request::head("/aip/v1/actions/act_1").body(Body::empty()).unwrap();
    let seen = Seen::of(router(&front).oneshot(request).await.unwrap()).await;
    assert_eq!((seen.status, seen.text.as_str()), (StatusCode::OK, ""));
    assert!(matches!(
        front.seen().as_slice(),
        [Came::Query { body: MessageBody::ActionStatusRequest(_), .. }]
    ));
}
