//! Turns answers into HTTP responses: status, content type and the headers that go with a status.

use aip_names::limits;
use aip_wire::{Refusal, codes};
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{Response, StatusCode};
use serde_json::Value;

use super::head;
use crate::front::Outbound;

/// A whole envelope. `with_bearer` says that the request carried a token, so a 401 means that it was no good.
pub(super) fn envelope(outbound: &Outbound, with_bearer: bool) -> Result<Response<Body>, Refusal> {
    // the front's statuses come from the code registry; one that HTTP does not know is a bug and must look like one
    let status = StatusCode::from_u16(outbound.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = respond(status, head::ENVELOPE, bounded(&outbound.envelope)?);
    let headers = response.headers_mut();
    if status == StatusCode::UNAUTHORIZED {
        let challenge = if with_bearer {
            r#"Bearer realm="aip", error="invalid_token""#
        } else {
            r#"Bearer realm="aip""#
        };
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    if let Some(delay_ms) = outbound.retry_after_ms {
        headers.insert(RETRY_AFTER, HeaderValue::from(delay_ms.div_ceil(1_000).max(1)));
    }
    Ok(response)
}

/// A body without its envelope.
pub(super) fn json(status: StatusCode, body: &Value) -> Result<Response<Body>, Refusal> {
    Ok(respond(status, head::JSON, bounded(body)?))
}

pub(super) fn respond(
    status: StatusCode,
    content_type: &'static str,
    text: impl Into<Body>,
) -> Response<Body> {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    // answers depend on who asks and on the moment
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn bounded(value: &Value) -> Result<String, Refusal> {
    let text = value.to_string();
    let fits = text.len() <= limits::HTTP_RESPONSE_BYTES_MAX;
    fits.then_some(text).ok_or_else(|| Refusal::of(codes::SERVICE_REPLY_TOO_LARGE))
}
