//! The HTTP door before a front that does as the test wants.

use std::time::Duration;

use aip_wire::codes::{self, Code};
use aip_wire::{ErrorBody, ProtocolError};
use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

use super::openapi;
use super::table::{Operation, Route, routes};
use crate::edge::fake::{self, Fake};
use crate::edge::{Edge, http};
use crate::front::{Outbound, Via};

mod bounds;
mod heads;
mod reads;
mod tcp;

/// An envelope, as far as a door reads it.
const ENVELOPE: &str = r#"{"message_type":"aip.core.v1.action","message_id":"msg_1"}"#;

fn edge(fake: &Fake) -> Edge<Fake> {
    fake.edge(Via::Http, fake::bounds())
}

fn router(fake: &Fake) -> Router {
    http::router(edge(fake), Duration::from_secs(5))
}

fn post(path: &str, text: impl Into<Body>) -> Request<Body> {
    Request::post(path).header("content-type", "application/aip+json").body(text.into()).unwrap()
}

fn get(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).unwrap()
}

/// What a client sees.
#[derive(Debug)]
struct Seen {
    status: StatusCode,
    headers: axum::http::HeaderMap,
    text: String,
}

impl Seen {
    async fn of(response: Response<Body>) -> Seen {
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Seen { status: head.status, headers: head.headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Holds a refusal to its code: status, whole envelope, content type, category, headers.
    #[track_caller]
    fn is_refused(&self, code: &Code) {
        let envelope = self.json();
        assert_eq!(fake::code(&envelope), code.name, "{self:?}");
        assert_eq!(self.status.as_u16(), code.http_status, "{code}");
        assert_eq!(self.header("content-type"), Some("application/aip+json"), "{code}");
        assert_eq!(envelope["message_type"], "aip.core.v1.error");
        assert_eq!(envelope["aip_version"], "1.0");
        let error = &envelope["body"]["error"]["error"];
        assert_eq!(error["category"], code.category.as_str());
        assert_eq!(error["retryable"], code.retryable);
        assert_eq!(self.header("retry-after").is_some(), code.retryable, "{code}");
        assert_eq!(error.get("retry_after_ms").is_some(), code.retryable, "{code}");
        assert_eq!(self.header("www-authenticate").is_some(), code.http_status == 401, "{code}");
    }
}

/// Asks, and holds the status to what the document lists for the route.
async fn ask(router: &Router, request: Request<Body>) -> Seen {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let seen = Seen::of(router.clone().oneshot(request).await.unwrap()).await;
    let route = routes().iter().find(|route| route.method == method && matches(route, &path));
    if let Some(route) = route.filter(|route| !matches!(route.operation, Operation::Later(_))) {
        let listed = openapi::statuses(method.as_str(), route.path);
        assert!(
            listed.contains(&seen.status.as_u16()),
            "{method} {} does not list {}",
            route.path,
            seen.status
        );
    }
    seen
}

fn matches(route: &Route, path: &str) -> bool {
    let (wanted, given): (Vec<&str>, Vec<&str>) =
        (route.path.split('/').collect(), path.split('/').collect());
    wanted.len() == given.len()
        && wanted.iter().zip(given).all(|(wanted, given)| wanted.starts_with('{') || *wanted == given)
}

fn refusal(code: &'static Code, retry_after_ms: Option<u64>) -> Outbound {
    let error = ProtocolError { retry_after_ms, ..ProtocolError::of(code, "no") };
    Outbound { retry_after_ms, ..fake::outbound(ErrorBody { error }, code.http_status) }
}

/// One of the codes of each status that the front may answer with.
fn a_code_of_each_status() -> Vec<&'static Code> {
    let mut found: Vec<&'static Code> = Vec::new();
    let messages = routes().iter().find(|route| route.operation == Operation::Message).unwrap();
    for code in messages.codes() {
        if found.iter().all(|other| other.http_status != code.http_status) {
            found.push(code);
        }
    }
    assert!(found.len() > 8, "{found:?}");
    assert!(codes::ALL.len() > found.len());
    found
}
