//! One question and its answer: an envelope goes out, an envelope comes back and is judged.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aip_crypto::{Did, SigningKey, sign_envelope, verify_envelope};
use aip_names::limits::{CLIENT_ATTEMPTS_MAX, CLIENT_BACKOFF_FIRST_MS, CLIENT_BACKOFF_MAX_MS};
use aip_wire::read::Bounds;
use aip_wire::validate::{self, Checked};
use aip_wire::{
    CorrelationId, Envelope, MessageBody, MessageId, MessageType, Principal, ProtocolError, Timestamp,
};
use serde_json::Value;
use tokio::time::Instant;

use super::http::Http;
use super::nats::Nats;
use super::{ClientError, untrusted};

/// Signs questions and knows who signs the answers.
#[derive(Debug)]
pub(super) struct Signer {
    principal: Principal,
    key: Arc<SigningKey>,
    /// Given, or pinned by the first answer.
    gateway: OnceLock<Did>,
}

/// How questions travel.
#[derive(Debug)]
pub(super) enum Road {
    Nats(Nats),
    Http(Http),
}

/// What became of a message that has no answer.
#[derive(Debug)]
pub(super) enum Lost {
    /// Nobody got it.
    NotSent(String),
    /// It may have been taken.
    Unknown(String),
    /// What came back cannot be believed. The message was taken.
    Bad(ClientError),
}

/// What an answer has to name.
struct Asked {
    message_id: MessageId,
    correlation_id: Option<CorrelationId>,
}

#[derive(Debug)]
pub(super) struct Asker {
    pub road: Road,
    pub signer: Option<Signer>,
}

// === impl Signer ===

impl Signer {
    pub fn new(principal: Principal, key: Arc<SigningKey>, gateway: Option<Did>) -> Signer {
        Signer { principal, key, gateway: gateway.map(OnceLock::from).unwrap_or_default() }
    }

    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Whether the gateway signed it.
    fn verify(&self, answer: &Value) -> Result<(), ClientError> {
        let signer = verify_envelope(answer).map_err(|error| untrusted(error.to_string()))?;
        let known = self.gateway.get_or_init(|| signer.clone());
        if *known == signer { Ok(()) } else { Err(untrusted(format!("{signer} signed it, not {known}"))) }
    }
}

// === impl Asker ===

impl Asker {
    /// Sends one message and returns what a believable answer says.
    pub async fn ask(
        &self,
        body: MessageBody,
        correlation_id: Option<CorrelationId>,
        timeout: Duration,
    ) -> Result<MessageBody, Lost> {
        let mut envelope = Envelope::new(body, Timestamp::now());
        envelope.correlation_id = correlation_id;
        envelope.from = self.signer.as_ref().map(|signer| signer.principal.clone());
        let message_type = envelope.message_type;
        let asked = Asked {
            message_id: envelope.message_id.clone(),
            correlation_id: envelope.correlation_id.clone(),
        };
        let value = self.sealed(&envelope).map_err(Lost::Bad)?;
        let answer = self.send(message_type, value, timeout).await?;
        asked.judge(self.signer.as_ref(), answer).map_err(Lost::Bad)
    }

    /// Asks something that changes nothing, again if that may help.
    pub async fn query(&self, body: MessageBody, timeout: Duration) -> Result<MessageBody, ClientError> {
        let until = Instant::now() + timeout;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let correlation = Some(CorrelationId::generate());
            let remaining = until.saturating_duration_since(Instant::now());
            let (failed, retry_after_ms) = match self.ask(body.clone(), correlation, remaining).await {
                Ok(MessageBody::Error(body)) if may_pass(&body.error) => {
                    let retry_after_ms = body.error.retry_after_ms;
                    (ClientError::Refused { error: Box::new(body.error) }, retry_after_ms)
                }
                Ok(MessageBody::Error(body)) => {
                    return Err(ClientError::Refused { error: Box::new(body.error) });
                }
                Ok(answer) => return Ok(answer),
                Err(Lost::Bad(error)) => return Err(error),
                Err(Lost::NotSent(reason)) => (ClientError::Unreachable { reason }, None),
                Err(Lost::Unknown(reason)) => (ClientError::NoAnswer { reason }, None),
            };
            if !pause(attempt, retry_after_ms, until).await {
                return Err(failed);
            }
        }
    }

    /// What was published without being asked for. None when the gateway did not sign it.
    pub fn pushed(&self, payload: &[u8]) -> Option<MessageBody> {
        let (checked, _) = validate::frame(payload, &Bounds::FRAME).ok()?;
        let signed = self.signer.as_ref().is_none_or(|signer| signer.verify(checked.value()).is_ok());
        signed.then(|| checked.into_parts().1.body)
    }

    fn sealed(&self, envelope: &Envelope) -> Result<Value, ClientError> {
        let invalid = |reason: String| ClientError::Invalid { reason };
        let mut value = serde_json::to_value(envelope).map_err(|error| invalid(error.to_string()))?;
        if let Some(signer) = &self.signer {
            sign_envelope(&mut value, &signer.key).map_err(|error| invalid(error.to_string()))?;
        }
        Ok(value)
    }

    async fn send(
        &self,
        message_type: MessageType,
        value: Value,
        timeout: Duration,
    ) -> Result<Checked, Lost> {
        match &self.road {
            Road::Nats(nats) => nats.send(message_type, value, timeout).await,
            Road::Http(http) => http.send(&value, timeout).await,
        }
    }
}

/// Whether the gateway says that asking again may help. A result that is not ready has been waited for already.
fn may_pass(error: &ProtocolError) -> bool {
    error.retryable == Some(true) && error.code != aip_wire::codes::ACTION_NOT_READY.name
}

/// Rests before the next attempt; false when there may be none.
pub(super) async fn pause(attempt: u32, retry_after_ms: Option<u64>, until: Instant) -> bool {
    if attempt >= CLIENT_ATTEMPTS_MAX {
        return false;
    }
    let doubled = CLIENT_BACKOFF_FIRST_MS << attempt.saturating_sub(1).min(16);
    let pause_ms = doubled.max(retry_after_ms.unwrap_or(0)).min(CLIENT_BACKOFF_MAX_MS);
    let resume = Instant::now() + Duration::from_millis(pause_ms);
    if resume >= until {
        return false;
    }
    tokio::time::sleep_until(resume).await;
    true
}

// === impl Asked ===

impl Asked {
    /// Whether the answer is the gateway's, and to this question. A refusal may come before the question was read;
    /// it then names nothing.
    fn judge(&self, signer: Option<&Signer>, answer: Checked) -> Result<MessageBody, ClientError> {
        if let Some(signer) = signer {
            signer.verify(answer.value())?;
        }
        let (_, envelope) = answer.into_parts();
        let names = |text: &str| {
            *self.message_id.as_str() == *text
                || self.correlation_id.as_ref().is_some_and(|id| id.as_str() == text)
        };
        match &envelope.in_response_to {
            Some(reference) if names(reference.as_str()) => {}
            None if matches!(envelope.body, MessageBody::Error(_)) => {}
            _ => return Err(untrusted("it answers another message")),
        }
        if envelope.correlation_id.is_some() && envelope.correlation_id != self.correlation_id {
            return Err(untrusted("it belongs to another correlation"));
        }
        Ok(envelope.body)
    }
}
