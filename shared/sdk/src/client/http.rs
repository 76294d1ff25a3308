//! Questions over HTTP (20.1): every one is an envelope to `/aip/v1/messages`.

use std::time::Duration;

use aip_names::limits::HTTP_RESPONSE_BYTES_MAX;
use aip_wire::read::{self, Bounds};
use aip_wire::validate::{self, Checked};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Response, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::ClientError;
use super::ask::Lost;

const PATH: &str = "/aip/v1/messages";
const MEDIA_TYPE: &str = "application/aip+json";

#[derive(Debug)]
pub(super) struct Http {
    client: reqwest::Client,
    url: Url,
    bearer: Option<HeaderValue>,
}

impl Http {
    pub fn new(url: &str, bearer: Option<SecretString>) -> Result<Http, ClientError> {
        let invalid = |reason: String| ClientError::Invalid { reason };
        // whoever installed a provider before us chose the same
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = format!("{}{PATH}", url.trim_end_matches('/'));
        let url = Url::parse(&url).map_err(|error| invalid(format!("the gateway's address: {error}")))?;
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build();
        let client = client.map_err(|error| invalid(error.to_string()))?;
        let bearer = bearer.map(|token| HeaderValue::from_str(&format!("Bearer {}", token.expose_secret())));
        let mut bearer = bearer
            .transpose()
            .map_err(|_| invalid("the bearer token holds control characters".to_owned()))?;
        if let Some(value) = &mut bearer {
            value.set_sensitive(true);
        }
        Ok(Http { client, url, bearer })
    }

    pub async fn send(&self, envelope: &Value, timeout: Duration) -> Result<Checked, Lost> {
        let mut request = self.client.post(self.url.clone()).header(CONTENT_TYPE, MEDIA_TYPE);
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
fn chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
