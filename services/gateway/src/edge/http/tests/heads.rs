//! Paths, methods, content types and what the statuses carry with them.

use super::*;
use crate::edge::fake::Seen as Came;

#[tokio::test]
async fn an_envelope_goes_in_as_it_came_and_the_reply_comes_out_whole() {
    for content_type in
        ["application/aip+json", "application/json; charset=utf-8", "application/vnd.acme+json"]
    {
        let front = Fake::new();
        let request = Request::post("/aip/v1/messages")
            .header("content-type", content_type)
            .header("authorization", "Bearer a.b-c_d")
            .body(Body::from(" {\"x\" : 1.0 } "))
            .unwrap();
        let seen = ask(&router(&front), request).await;
        assert_eq!(seen.status, StatusCode::OK);
        assert_eq!(seen.header("content-type"), Some("application/aip+json"));
        assert_eq!(seen.header("cache-control"), Some("no-store"));
        assert_eq!(seen.json(), front.reply.lock().unwrap().envelope);
        let came =
            Came::Message { text: " {\"x\" : 1.0 } ".into(), bearer: Some("a.b-c_d".into()), via: Via::Http };
        assert_eq!(front.seen(), [came]);
    }
}

#[tokio::test]
async fn an_action_goes_to_its_own_verb() {
    let front = Fake::new();
    let seen = ask(&router(&front), post("/aip/v1/actions", "{}")).await;
    assert_eq!(seen.status, StatusCode::OK);
    assert_eq!(front.seen(), [Came::Action { text: "{}".into(), bearer: None }]);
}

#[tokio::test]
async fn statuses_of_the_front_reach_the_client_with_their_headers() {
    for code in a_code_of_each_status() {
        let front = Fake::answering(refusal(code, None));
        let seen = ask(&router(&front), post("/aip/v1/messages", ENVELOPE)).await;
        assert_eq!((seen.status.as_u16(), fake::code(&seen.json())), (code.http_status, code.name));
        assert_eq!(seen.header("content-type"), Some("application/aip+json"));
        assert_eq!(seen.header("retry-after"), None);
        let challenge = (code.http_status == 401).then_some(r#"Bearer realm="aip""#);
        assert_eq!(seen.header("www-authenticate"), challenge);
    }
}

#[tokio::test]
async fn a_delay_is_said_in_whole_seconds_and_never_too_short() {
    for (delay_ms, seconds) in [(0, "1"), (1, "1"), (1_000, "1"), (1_001, "2"), (90_000, "90")] {
        let front = Fake::answering(refusal(codes::SERVICE_NOT_READY, Some(delay_ms)));
        let seen = ask(&router(&front), post("/aip/v1/actions", ENVELOPE)).await;
        assert_eq!(seen.header("retry-after"), Some(seconds), "{delay_ms}");
    }
}

#[tokio::test]
async fn a_token_that_was_no_good_is_told_apart_from_none() {
    let front = Fake::answering(refusal(codes::AUTH_TOKEN, None));
    let mut request = post("/aip/v1/actions", ENVELOPE);
    request.headers_mut().insert("authorization", "Bearer abc".parse().unwrap());
    let seen = ask(&router(&front), request).await;
    assert_eq!(seen.header("www-authenticate"), Some(r#"Bearer realm="aip", error="invalid_token""#));
}

#[tokio::test]
async fn what_is_not_json_is_refused_before_the_front() {
    let front = Fake::new();
    for (name, value) in [("content-type", "text/plain"), ("content-encoding", "gzip")] {
        for path in ["/aip/v1/messages", "/aip/v1/actions"] {
            let mut request = post(path, "{}");
            request.headers_mut().insert(name, value.parse().unwrap());
            ask(&router(&front), request).await.is_refused(codes::HTTP_MEDIA_TYPE);
        }
    }
    let request = Request::post("/aip/v1/messages").body(Body::from("{}")).unwrap();
    ask(&router(&front), request).await.is_refused(codes::HTTP_MEDIA_TYPE);
    assert_eq!(front.seen(), []);
}

#[tokio::test]
async fn a_malformed_bearer_is_refused_on_every_guarded_route() {
    let front = Fake::new();
    for route in routes() {
        let mut request = match route.operation {
            Operation::Message | Operation::Action => post(route.path, "{}"),
            Operation::Read(_) => get(&route.path.replace(['{', '}'], "")),
            _ => continue,
        };
        request.headers_mut().insert("authorization", "Basic eDp5".parse().unwrap());
        ask(&router(&front), request).await.is_refused(codes::AUTH_TOKEN);
    }
    assert_eq!(front.seen(), []);
}

#[tokio::test]
async fn paths_and_methods_that_are_not_served_say_so() {
    let front = Fake::new();
    for path in [
        "/",
        "/aip/v1",
        "/aip/v1/nothing",
        "/aip/v1/messages/",
        "/aip/v2/messages",
        "/aip/v1/actions//result/x",
    ] {
        ask(&router(&front), get(path)).await.is_refused(codes::HTTP_ROUTE);
    }
    for (method, path, allowed) in [
        ("GET", "/aip/v1/messages", "POST"),
        ("DELETE", "/aip/v1/actions/act_1", "GET,HEAD"),
        ("POST", "/health", "GET,HEAD"),
        ("OPTIONS", "/aip/v1/manifest", "GET,HEAD"),
    ] {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        let seen = ask(&router(&front), request).await;
        seen.is_refused(codes::HTTP_METHOD);
        assert_eq!(seen.header("allow"), Some(allowed), "{method} {path}");
    }
}

#[tokio::test]
async fn paths_of_later_releases_are_known_and_refused() {
    let front = Fake::new();
    let mut tried = 0;
    for route in routes() {
        let Operation::Later(code) = route.operation else { continue };
        let path = route.path.replace(['{', '}'], "");
        let request = Request::builder().method(&route.method).uri(&path).body(Body::empty()).unwrap();
        ask(&router(&front), request).await.is_refused(code);
        tried += 1;
    }
    assert!(tried >= 13, "{tried}");
    let close = Request::post("/aip/v1/sessions/sess_1:close").body(Body::empty()).unwrap();
    ask(&router(&front), close).await.is_refused(codes::UNSUPPORTED_SESSION);
}

#[tokio::test]
async fn the_open_routes_answer_without_the_front() {
    let front = Fake { reason: Some("the ledger is behind".into()), ..Fake::held() };
    let router = router(&front);
    let health = ask(&router, get("/health")).await;
    assert_eq!((health.status, &health.json()["status"]), (StatusCode::OK, &Value::from("ok")));
    let ready = ask(&router, get("/ready")).await;
    assert_eq!(
        (ready.status, &ready.json()["reason"]),
        (StatusCode::SERVICE_UNAVAILABLE, &"the ledger is behind".into())
    );
    let metrics = ask(&router, get("/metrics")).await;
    assert_eq!((metrics.status, metrics.text.as_str()), (StatusCode::OK, "aip_up 1\n"));
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    let document = ask(&router, get("/aip/v1/openapi.json")).await;
    assert_eq!((document.status, document.json()), (StatusCode::OK, openapi::document()));
    for path in ["/health", "/ready", "/metrics", "/aip/v1/openapi.json"] {
        ask(&router, get(&format!("{path}?x=1"))).await.is_refused(codes::QUERY_INVALID);
    }
    let ready = ask(&super::router(&Fake::new()), get("/ready")).await;
    assert_eq!((ready.status, ready.text.as_str()), (StatusCode::OK, r#"{"status":"ready"}"#));
}
