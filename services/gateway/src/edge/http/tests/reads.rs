//! Path and query become exactly the request that an envelope would carry.

use aip_wire::MessageBody;
use futures_util::StreamExt;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::*;
use crate::edge::fake::Seen as Came;
use crate::front::{Frame, Live};

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
    assert_eq!(
        asked(
            "/aip/v1/actions?state=running&capability_id=cap:a&session_id=sess_1&principal_id=agent:a&tenant_id=acme\
             &approval_id=appr_1&transaction_id=txn_1&cursor=c&limit=1000&include_results=true&include_receipts=true"
        )
        .await,
        json!({ "action_list_request": {
            "state": "running", "capability_id": "cap:a", "session_id": "sess_1", "principal_id": "agent:a",
            "tenant_id": "acme", "approval_id": "appr_1", "transaction_id": "txn_1", "cursor": "c", "limit": 1000,
            "include_results": true, "include_receipts": true,
        } })
    );
    assert_eq!(
        asked(
            "/aip/v1/actions/act_1/events?tenant_id=acme&cursor=c&limit=1&kinds=a.b,c.d&include_chunks=true"
        )
        .await,
        json!({ "action_events_request": {
            "action_id": "act_1", "tenant_id": "acme", "cursor": "c", "limit": 1, "kinds": ["a.b", "c.d"],
            "include_chunks": true, "follow": false,
        } })
    );
    assert_eq!(
        asked("/aip/v1/actions/act_1/chunks?limit=1").await,
        json!({ "action_events_request": {
            "action_id": "act_1", "limit": 1, "kinds": ["aip.stream.chunk"], "include_chunks": true,
            "follow": false,
        } })
    );
    assert_eq!(
        asked("/aip/v1/events?kinds=a.b&limit=7").await,
        json!({ "event_stream_request": { "kinds": ["a.b"], "limit": 7 } })
    );
    assert_eq!(
        asked(
            "/aip/v1/audit/events?action_id=act_1&principal_id=agent:a&from=2026-07-14T08:30:00Z\
             &to=2026-07-14T08:31:00Z&limit=5&include_receipts=true&export=true"
        )
        .await,
        json!({ "audit_query_request": {
            "action_id": "act_1", "principal_id": "agent:a", "from": "2026-07-14T08:30:00Z",
            "to": "2026-07-14T08:31:00Z", "limit": 5, "include_receipts": true, "export": true,
        } })
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
        ("/aip/v1/actions?limit=0", codes::LIMIT_PAGE_ROWS),
        ("/aip/v1/actions?limit=1001", codes::LIMIT_PAGE_ROWS),
        ("/aip/v1/actions?state=sleeping", codes::QUERY_INVALID),
        ("/aip/v1/events?limit=all", codes::LIMIT_PAGE_ROWS),
        ("/aip/v1/audit/events?from=yesterday", codes::QUERY_INVALID),
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

fn live(frames: Vec<Frame>) -> (Live, oneshot::Sender<Frame>) {
    let (sender, receiver) = mpsc::channel(8);
    for frame in frames {
        sender.try_send(frame).unwrap();
    }
    let (cutter, cut) = oneshot::channel();
    (Live { frames: receiver, cut }, cutter)
}

fn frame(id: Option<&str>, name: &'static str) -> Frame {
    Frame { id: id.map(str::to_owned), name, envelope: json!({"said": name}) }
}

async fn followed(front: &Fake, last: Option<&str>) -> Seen {
    let mut request = get("/aip/v1/actions/act_1/events?kinds=a.b");
    request.headers_mut().insert("accept", "text/event-stream, */*;q=0.1".parse().unwrap());
    if let Some(last) = last {
        request.headers_mut().insert("last-event-id", last.parse().unwrap());
    }
    Seen::of(router(front).oneshot(request).await.unwrap()).await
}

#[tokio::test]
async fn a_client_that_takes_server_sent_events_is_told_frame_by_frame() {
    let front = Fake::new();
    let (told, _cutter) = live(vec![frame(Some("1"), "message"), frame(None, "error")]);
    *front.live.lock().unwrap() = Some(told);
    let seen = followed(&front, Some("0")).await;
    assert_eq!(seen.header("content-type"), Some("text/event-stream"));
    let expected = "retry: 1000\n\n\
        id: 1\nevent: message\ndata: {\"said\":\"message\"}\n\n\
        event: error\ndata: {\"said\":\"error\"}\n\n";
    assert_eq!(seen.text, expected);
    match front.seen().as_slice() {
        [Came::Follow { body: MessageBody::ActionEventsRequest(request), last, .. }] => {
            assert_eq!((request.kinds.as_slice(), last.as_deref()), (&["a.b".to_owned()][..], Some("0")));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_says_why_and_drops_the_rest() {
    let front = Fake::new();
    let (told, cutter) = live(vec![frame(Some("1"), "message")]);
    cutter.send(frame(None, "error")).unwrap();
    *front.live.lock().unwrap() = Some(told);
    let seen = followed(&front, None).await;
    assert_eq!(seen.text, "retry: 1000\n\nevent: error\ndata: {\"said\":\"error\"}\n\n");
}

#[tokio::test]
async fn a_follower_with_nothing_left_to_hear_is_told_to_stay_away() {
    let seen = followed(&Fake::new(), Some("end")).await;
    assert_eq!((seen.status, seen.text.as_str()), (StatusCode::NO_CONTENT, ""));
    let front = Fake::answering(refusal(codes::QUERY_CURSOR_EXPIRED, None));
    followed(&front, Some("old")).await.is_refused(codes::QUERY_CURSOR_EXPIRED);
}

#[tokio::test]
async fn silence_is_broken_by_a_heartbeat() {
    let front = Fake::new();
    let (sender, receiver) = mpsc::channel(1);
    let (_cutter, cut) = oneshot::channel();
    *front.live.lock().unwrap() = Some(Live { frames: receiver, cut });
    let edge = Edge { heartbeat: Duration::from_millis(1), ..edge(&front) };
    let mut request = get("/aip/v1/events");
    request.headers_mut().insert("accept", "text/event-stream".parse().unwrap());
    let response = http::router(edge, Duration::from_secs(5)).oneshot(request).await.unwrap();
    let mut pieces = response.into_body().into_data_stream();
    for expected in ["retry: 1000\n\n", ": heartbeat\n\n", ": heartbeat\n\n"] {
        assert_eq!(pieces.next().await.unwrap().unwrap(), expected);
    }
    drop(sender);
    assert!(pieces.next().await.is_none());
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
