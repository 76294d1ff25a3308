//! What the head of a request says: content type, encoding, bearer. Strict where leniency would let two readers
//! understand one request differently.

use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderName};
use secrecy::SecretString;

use aip_names::limits;
use aip_wire::{Refusal, codes};

/// The one content type of a whole envelope (20.1).
pub(super) const ENVELOPE: &str = "application/aip+json";
/// Of a body without its envelope.
pub(super) const JSON: &str = "application/json";
/// Of a live stream.
pub(super) const EVENTS: &str = "text/event-stream";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Refuses a body that is not plain JSON.
pub(super) fn accept_json(headers: &HeaderMap) -> Result<(), Refusal> {
    let unsupported = |what: &str| Refusal::new(codes::HTTP_MEDIA_TYPE, "", what);
    if headers.contains_key(CONTENT_ENCODING) {
        return Err(unsupported("a content encoding is not accepted"));
    }
    let wanted =
        "the content type must be application/aip+json, application/json or application/*+json in UTF-8";
    match single(headers, &CONTENT_TYPE) {
        Some(Ok(text)) if is_json(text) => Ok(()),
        _ => Err(unsupported(wanted)),
    }
}

/// Whether the client asks for server-sent events (20.2).
pub(super) fn wants_events(headers: &HeaderMap) -> bool {
    let asked = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    asked.flat_map(|text| text.split(',')).any(|range| {
        let essence = range.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case(EVENTS)
    })
}

/// The id of the last frame that the client got, when it comes back.
pub(super) fn last_event_id(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    match single(headers, &LAST_EVENT_ID) {
        None => Ok(None),
        Some(Ok("")) => Ok(None),
        Some(Ok(id)) => Ok(Some(id.to_owned())),
        Some(Err(())) => Err(Refusal::of(codes::QUERY_CURSOR)),
    }
}

/// The token of `Authorization: Bearer <token>`, if there is one.
pub(super) fn bearer(headers: &HeaderMap) -> Result<Option<SecretString>, Refusal> {
    match single(headers, &AUTHORIZATION) {
        None => Ok(None),
        Some(Ok(text)) => match text.split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") && is_token(token) => {
                Ok(Some(SecretString::from(token)))
            }
            _ => Err(malformed()),
        },
        Some(Err(())) => Err(malformed()),
    }
}

fn malformed() -> Refusal {
    // the value is never repeated: it may hold a secret
    Refusal::new(codes::AUTH_TOKEN, "", "the authorization header must be given once, as \"Bearer <token>\"")
}

/// None without the header, an error when it is there twice or is not text.
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<Result<&'h str, ()>> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    if values.next().is_some() {
        return Some(Err(()));
    }
    Some(first.to_str().map_err(|_| ()))
}

/// `application/json` or `application/<something>+json`, with no parameter but `charset=utf-8`.
fn is_json(text: &str) -> bool {
    let mut parts = text.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default().to_ascii_lowercase();
    let subtype = essence.strip_prefix("application/").unwrap_or_default();
    let json = subtype == "json"
        || subtype.strip_suffix("+json").is_some_and(|name| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".+-_".contains(&byte))
        });
    json && parts.all(|parameter| {
        let parameter = parameter.to_ascii_lowercase();
        parameter == "charset=utf-8" || parameter == "charset=\"utf-8\""
    })
}

/// The `b64token` of RFC 6750, which API keys and JWTs both are.
fn is_token(token: &str) -> bool {
    let body = token.trim_end_matches('=');
    !body.is_empty()
        && token.len() <= limits::TOKEN_BYTES_MAX
        && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use secrecy::ExposeSecret;

    fn headers(name: HeaderName, values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name.clone(), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn json_in_utf_8_is_accepted_and_nothing_else() {
        for text in [
            "application/aip+json",
            "application/json",
            "application/vnd.acme.v2+json",
            "APPLICATION/JSON; charset=UTF-8",
            "application/json;charset=\"utf-8\"",
        ] {
            assert!(accept_json(&headers(CONTENT_TYPE, &[text])).is_ok(), "{text}");
        }
        for text in [
            "text/json",
            "application/+json",
            "application/jsonx",
            "application/x json+json",
            "application/json; charset=latin1",
            "application/json; profile=x",
            "text/plain",
            "",
        ] {
            let refusal = accept_json(&headers(CONTENT_TYPE, &[text])).unwrap_err();
            assert_eq!(refusal.code, codes::HTTP_MEDIA_TYPE, "{text}");
        }
        assert!(accept_json(&headers(CONTENT_TYPE, &[])).is_err());
        assert!(accept_json(&headers(CONTENT_TYPE, &["application/json", "application/json"])).is_err());
        let mut encoded = headers(CONTENT_TYPE, &["application/json"]);
        encoded.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        assert!(accept_json(&encoded).is_err());
    }

    #[test]
    fn a_bearer_is_read_strictly() {
        assert!(bearer(&HeaderMap::new()).unwrap().is_none());
        for text in ["Bearer abc.DEF-1_~+/==", "bearer x"] {
            let token = bearer(&headers(AUTHORIZATION, &[text])).unwrap().unwrap();
            assert_eq!(token.expose_secret(), text.split_once(' ').unwrap().1);
        }
        for text in [
            "Bearer",
            "Bearer ",
            "Bearer  two-spaces",
            "Bearer a b",
            "Bearer a,b",
            "Bearer ==",
            "Basic eDp5",
            "abc",
        ] {
            let refusal = bearer(&headers(AUTHORIZATION, &[text])).unwrap_err();
            assert_eq!(refusal.code, codes::AUTH_TOKEN, "{text}");
        }
        assert!(bearer(&headers(AUTHORIZATION, &["Bearer a", "Bearer a"])).is_err());
        let mut long = HeaderMap::new();
        let text = format!("Bearer {}", "a".repeat(limits::TOKEN_BYTES_MAX + 1));
        long.insert(AUTHORIZATION, HeaderValue::from_str(&text).unwrap());
        assert!(bearer(&long).is_err());
    }
}
