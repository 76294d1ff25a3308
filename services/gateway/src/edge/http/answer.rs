//! Answers one request of one route.

use std::time::Duration;

use aip_wire::codes::{self, Code};
use aip_wire::{AIP_VERSION, Envelope, MessageBody, MessageType, Refusal, Timestamp, decode, events, rules};
use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONNECTION};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Request, Response, StatusCode};
use serde_json::{Map, Value, json};

use super::table::{Operation, Route};
use super::{body, cancel, decide, head, query, reply, sse};
use crate::edge::peek::Peek;
use crate::edge::{Edge, Front, meter};
use crate::front::{Inbound, Via};

/// The committed description of the routes.
pub(super) const DOCUMENT: &str = include_str!("../../../openapi.json");

/// An answer, and what the meters say of it.
pub(super) struct Answer {
    pub response: Response<Body>,
    pub message_type: Option<MessageType>,
    pub code: &'static str,
}

/// What varies in a route's path, by name.
pub(super) type PathMembers = Vec<(String, String)>;

pub(super) async fn answer<F: Front>(
    edge: Edge<F>,
    route: &'static Route,
    path: Result<PathMembers, Refusal>,
    request: Request<Body>,
    body_read: Duration,
) -> Response<Body> {
    let metered = meter::Request::start(Via::Http);
    let (head, mut content) = request.into_parts();
    let with_bearer = head.headers.contains_key(AUTHORIZATION);
    let answered = match route.operation {
        Operation::Message | Operation::Action | Operation::Cancel => {
            carry(&edge, route, path, &head, &mut content, body_read).await
        }
        Operation::Follow(asked) if head::wants_events(&head.headers) => {
            sse::follow(&edge, route, asked, path, &head).await
        }
        Operation::Read(asked) | Operation::Follow(asked) => read(&edge, route, asked, path, &head).await,
        Operation::Decide => decide(&edge, route, path, &head, &mut content, body_read).await,
        Operation::Later(code) => Err(Refusal::of(code)),
        aside => asides(&edge, aside, &head).map(|response| Answer {
            response,
            message_type: None,
            code: meter::OK,
        }),
    };
    let answer = match answered {
        Ok(answer) => answer,
        Err(refusal) => {
            let mut answer = refused(&edge, refusal, with_bearer);
            if body::drain(&edge.draining, &head.headers, &mut content).await {
                // what is left of the body is no next request
                answer.response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            answer
        }
    };
    metered.end(answer.message_type, answer.code);
    answer.response
}

/// A posted envelope or action.
async fn carry<F: Front>(
    edge: &Edge<F>,
    route: &Route,
    path: Result<PathMembers, Refusal>,
    head: &Parts,
    content: &mut Body,
    body_read: Duration,
) -> Result<Answer, Refusal> {
    query::read(head.uri.query(), route.parameters)?;
    if !(route.operation == Operation::Cancel && body::declared(content)? == 0) {
        head::accept_json(&head.headers)?;
    }
    let bearer = head::bearer(&head.headers)?;
    let with_bearer = bearer.is_some();
    let seat = edge.room.seat(body::declared(content)?, bearer.as_ref())?;
    let mut received = body::read(content, body_read).await?;
    if route.operation == Operation::Cancel {
        received = cancel::envelope(path?, &received)?;
    }
    let claimed = match route.operation {
        Operation::Action => Some(MessageType::Action),
        _ => Peek::at(&received).message_type(),
    };
    let inbound = Inbound { bytes: received.clone(), bearer, via: Via::Http };
    let front = edge.front.clone();
    let bare = route.operation == Operation::Action;
    let work = async move { if bare { front.action(inbound).await } else { front.message(inbound).await } };
    // the panic itself is reported where it happened
    let broken = || edge.front.refuse(&received, Refusal::of(codes::SERVICE_INTERNAL));
    let outbound = edge.carry(seat, work).await.unwrap_or_else(broken);
    Ok(Answer {
        code: meter::code(&outbound.envelope),
        response: reply::envelope(&outbound, with_bearer)?,
        message_type: claimed,
    })
}

/// A decision about an approval, made of the path, what was posted and whoever the token is of.
async fn decide<F: Front>(
    edge: &Edge<F>,
    route: &Route,
    path: Result<PathMembers, Refusal>,
    head: &Parts,
    content: &mut Body,
    body_read: Duration,
) -> Result<Answer, Refusal> {
    query::read(head.uri.query(), route.parameters)?;
    head::accept_json(&head.headers)?;
    let bearer = head::bearer(&head.headers)?;
    let with_bearer = bearer.is_some();
    let seat = edge.room.seat(body::declared(content)?, bearer.as_ref())?;
    let received = body::read(content, body_read).await?;
    let decision = decide::decision(path?, &received)?;
    let (front, asked) = (edge.front.clone(), decision.message_type());
    let work = async move {
        match front.query(bearer, decision).await {
            Ok(body) => Ok(serde_json::to_value(body).unwrap_or_default()),
            Err(outbound) => Err(outbound),
        }
    };
    let decided = edge.work.track_future(work).await;
    drop(seat);
    let (response, code) = match decided {
        Ok(body) => (reply::json(StatusCode::OK, &body)?, meter::OK),
        Err(outbound) => (reply::envelope(&outbound, with_bearer)?, meter::code(&outbound.envelope)),
    };
    Ok(Answer { response, message_type: Some(asked), code })
}

/// A read request made of path and query.
async fn read<F: Front>(
    edge: &Edge<F>,
    route: &Route,
    asked: MessageType,
    path: Result<PathMembers, Refusal>,
    head: &Parts,
) -> Result<Answer, Refusal> {
    let members = query::read(head.uri.query(), route.parameters)?;
    let body = question(route, asked, path?, members)?;
    let bearer = head::bearer(&head.headers)?;
    let with_bearer = bearer.is_some();
    let seat = edge.room.seat(0, bearer.as_ref())?;
    // a read admits nothing, so it may end with its connection and give its seat back
    let answered = edge.work.track_future(edge.front.query(bearer, body)).await;
    drop(seat);
    let (response, code) = match answered {
        // a body that was decided behind the front has no member that JSON cannot hold
        Ok(body) => {
            (reply::json(StatusCode::OK, &serde_json::to_value(body).unwrap_or_default())?, meter::OK)
        }
        Err(outbound) => (reply::envelope(&outbound, with_bearer)?, meter::code(&outbound.envelope)),
    };
    Ok(Answer { response, message_type: Some(asked), code })
}

/// The body of a read request, of the same type that an envelope would carry and held to the same rules.
pub(super) fn question(
    route: &Route,
    asked: MessageType,
    path: PathMembers,
    mut members: Map<String, Value>,
) -> Result<MessageBody, Refusal> {
    if route.chunks_only {
        members.insert("include_chunks".to_owned(), json!(true));
        members.insert("kinds".to_owned(), json!([events::STREAM_CHUNK.name]));
    }
    for (name, text) in path {
        members.insert(name, Value::String(text));
    }
    if asked == MessageType::ManifestRequest && !members.is_empty() {
        members = Map::from_iter([("filter".to_owned(), Value::Object(members))]);
    }
    let tagged = Map::from_iter([(asked.body_key().to_owned(), Value::Object(members))]);
    let body: MessageBody = decode(&Value::Object(tagged))
        .map_err(|refusal| Refusal { code: codes::QUERY_INVALID, ..refusal })?;
    let envelope = Envelope::new(body, Timestamp::now());
    rules::envelope(&envelope)?;
    Ok(envelope.body)
}

/// What is answered without the front and without knowing who asks.
fn asides<F: Front>(edge: &Edge<F>, operation: Operation, head: &Parts) -> Result<Response<Body>, Refusal> {
    query::read(head.uri.query(), &[])?;
    Ok(match operation {
        Operation::Metrics => {
            reply::respond(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", (edge.exposition)())
        }
        Operation::Page(page) => page.respond(),
        Operation::Document => reply::respond(StatusCode::OK, head::JSON, DOCUMENT),
        Operation::Ready => match edge.front.not_ready() {
            None => reply::json(StatusCode::OK, &json!({ "status": "ready" }))?,
            Some(reason) => {
                let body = json!({ "status": "not_ready", "reason": reason });
                reply::json(StatusCode::SERVICE_UNAVAILABLE, &body)?
            }
        },
        _ => {
            let uptime_ms = u64::try_from(edge.started.elapsed().as_millis()).unwrap_or(u64::MAX);
            let body =
                json!({ "status": "ok", "protocol": "AIP", "version": AIP_VERSION, "uptime_ms": uptime_ms });
            reply::json(StatusCode::OK, &body)?
        }
    })
}

/// Answers a request that no route takes.
pub(super) async fn none<F: Front>(
    edge: Edge<F>,
    request: Request<Body>,
    code: &'static Code,
) -> Response<Body> {
    let metered = meter::Request::start(Via::Http);
    let (head, mut content) = request.into_parts();
    let mut answer = refused(&edge, Refusal::of(code), head.headers.contains_key(AUTHORIZATION));
    if body::drain(&edge.draining, &head.headers, &mut content).await {
        answer.response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    metered.end(None, answer.code);
    answer.response
}

fn refused<F: Front>(edge: &Edge<F>, refusal: Refusal, with_bearer: bool) -> Answer {
    let code = refusal.code.name;
    let response = reply::envelope(&edge.front.refuse(b"", refusal), with_bearer);
    // a refusal always fits
    let response =
        response.unwrap_or_else(|_| reply::respond(StatusCode::INTERNAL_SERVER_ERROR, head::JSON, "{}"));
    Answer { response, message_type: None, code }
}
