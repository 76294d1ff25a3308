//! Questions over HTTP (20.1): every one is an envelope to `/aip/v1/messages`. Live streams are paths of their own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aip_names::limits::HTTP_RESPONSE_BYTES_MAX;
use aip_wire::read::{self, Bounds};
use aip_wire::validate::{self, Checked};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{RequestBuilder, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::ClientError;
use super::ask::Lost;

const PATH: &str = "/aip/v1/messages";
const MEDIA_TYPE: &str = "application/aip+json";
const EVENTS: &str = "text/event-stream";

#[derive(Debug)]
pub(super) struct Http {
    client: reqwest::Client,
    url: Url,
    others: Vec<Url>,
    /// Counts gateways that were left because they did not answer.
    left: AtomicUsize,
    bearer: Option<HeaderValue>,
}

impl Http {
    pub fn new(url: &str, bearer: Option<SecretString>) -> Result<Http, ClientError> {
        let invalid = |reason: String| ClientError::Invalid { reason };
        // whoever installed a provider before us chose the same
        let _ = rustls::crypto::ring::default_provider().install_default();
        let parsed = |url: &str| {
            let url = format!("{}{PATH}", url.trim().trim_end_matches('/'));
            Url::parse(&url).map_err(|error| invalid(format!("the gateway's address: {error}")))
        };
        let (url, others) = url.split_once(',').map_or((url, None), |(one, others)| (one, Some(others)));
        let others = others.into_iter().flat_map(|others| others.split(',')).map(parsed);
        let (url, others) = (parsed(url)?, others.collect::<Result<Vec<_>, _>>()?);
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build();
        let client = client.map_err(|error| invalid(error.to_string()))?;
        let bearer = bearer.map(|token| HeaderValue::from_str(&format!("Bearer {}", token.expose_secret())));
        let mut bearer = bearer
            .transpose()
            .map_err(|_| invalid("the bearer token holds control characters".to_owned()))?;
        if let Some(value) = &mut bearer {
            value.set_sensitive(true);
        }
        Ok(Http { client, url, others, left: AtomicUsize::new(0), bearer })
    }

    /// The request for a live stream, at any path of each gateway. None without a token, because there is nothing that
    /// could be signed.
    pub fn live(&self, path: &str, query: &[(&str, &str)]) -> Option<Vec<RequestBuilder>> {
        let bearer = self.bearer.as_ref()?;
        let request = |url: &Url| {
            let mut at = url.clone();
            at.set_path(&url.path().replace(PATH, path));
            if !query.is_empty() {
                at.query_pairs_mut().extend_pairs(query);
            }
            self.client.get(at).header(ACCEPT, EVENTS).header(AUTHORIZATION, bearer)
        };
        Some(std::iter::once(&self.url).chain(&self.others).map(request).collect())
    }

    pub async fn send(&self, envelope: &Value, timeout: Duration) -> Result<Checked, Lost> {
        let left = self.left.load(Ordering::Relaxed);
        let url = match left % (self.others.len() + 1) {
            0 => &self.url,
            other => self.others.get(other - 1).unwrap_or(&self.url),
        };
        let answered = self.send_to(url.clone(), envelope, timeout).await;
        if let Err(Lost::NotSent(_) | Lost::Unknown(_)) = answered {
            // of several that fail there at a time, one leaves it
            let _ = self.left.compare_exchange(left, left + 1, Ordering::Relaxed, Ordering::Relaxed);
        }
        answered
    }

    async fn send_to(&self, url: Url, envelope: &Value, timeout: Duration) -> Result<Checked, Lost> {
        let mut request = self.client.post(url).header(CONTENT_TYPE, MEDIA_TYPE);
        if let Some(bearer) = &self.bearer {
            request = request.header(AUTHORIZATION, bearer.clone());
        }
        let request = request.body(envelope.to_string()).timeout(timeout);
        let response = request.send().await.map_err(|error| {
            // only a connection that was never made is certain not to have carried the message
            if error.is_connect() || error.is_builder() {
                Lost::NotSent(chain(&error))
            } else {
                Lost::Unknown(chain(&error))
            }
        })?;
        let status = response.status();
        let body = body(response).await?;
        let bounds = Bounds { bytes_max: HTTP_RESPONSE_BYTES_MAX, ..Bounds::ENVELOPE };
        let read = read::strict_within(&body, &bounds).and_then(validate::value);
        // what is no envelope was said by something between us and the gateway
        read.map_err(|refusal| Lost::Unknown(format!("HTTP {status} without an envelope: {refusal}")))
    }
}

async fn body(mut response: Response) -> Result<Vec<u8>, Lost> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| Lost::Unknown(chain(&error)))? {
        if body.len() + chunk.len() > HTTP_RESPONSE_BYTES_MAX {
            return Err(Lost::Unknown(format!("an answer of more than {HTTP_RESPONSE_BYTES_MAX} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The error with what caused it: the outermost alone only says that something failed.
pub(super) fn chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
