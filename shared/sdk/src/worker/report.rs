//! Says to the gateway what becomes of a queued attempt, signed, again and again until it is taken: by then it
//! stands in the ledger, and the message of the queue may go.

use std::sync::Arc;
use std::time::Duration;

use aip_bus::{Bus, Parcel};
use aip_crypto::{SigningKey, sign_envelope};
use aip_names::limits::{
    LOG_INTERVAL_MS, WORKER_REPORT_BACKOFF_FIRST_MS, WORKER_REPORT_BACKOFF_MAX_MS, WORKER_REPORT_TIMEOUT_MS,
};
use aip_names::{NameError, Service, Subject, Version};
use aip_wire::attempt::{EXTENSION, Phase, Report, Stream};
use aip_wire::read::Bounds;
use aip_wire::{
    ActionId, ActionResult, Envelope, Heartbeat, MessageBody, MessageId, MessageType, Principal,
    ProtocolError, StreamChunk, Timestamp, TransportMessage, validate,
};
use serde_json::json;
use tokio::time::Instant;

use super::WorkerConfig;

/// Speaks to the gateway as this process of the worker.
pub(super) struct Reporter {
    bus: Bus,
    principal: Principal,
    key: Arc<SigningKey>,
    /// Tells this process's attempts from those of every other.
    worker: String,
    heartbeats: String,
    chunks: String,
    results: String,
}

/// An attempt as its worker knows it.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    pub action: ActionId,
    pub number: u32,
}

/// What the gateway made of a report.
#[derive(Debug)]
pub(super) enum Taken {
    /// With how far the action's stream reaches, when that is said.
    Yes(Option<Stream>),
    /// It changes nothing: mostly because the attempt does not count any more, or never did.
    No(Box<ProtocolError>),
    /// It could not be told in time.
    Unheard(String),
}

// === impl Reporter ===

impl Reporter {
    pub fn new(bus: Bus, config: &WorkerConfig) -> Result<Reporter, NameError> {
        let subject = |told: MessageType| -> Result<String, NameError> {
            let told = aip_names::MessageType::new(told.as_str())?;
            Ok(Subject::message(&config.trust_domain, &Service::gateway(), Version::V1, &told).to_string())
        };
        Ok(Reporter {
            bus,
            principal: config.principal.clone(),
            key: Arc::clone(&config.key),
            // random, like a message's
            worker: format!("{}/{}", config.service, MessageId::generate()),
            heartbeats: subject(MessageType::Heartbeat)?,
            chunks: subject(MessageType::StreamChunk)?,
            results: subject(MessageType::ActionResult)?,
        })
    }

    /// Asks until `until` whether the attempt may begin.
    pub async fn started(&self, attempt: &Attempt, until: Instant) -> Taken {
        self.told(self.report(attempt, Phase::Started), beat(0).into(), until).await
    }

    /// Is heard of, once.
    pub async fn running(&self, attempt: &Attempt, sequence: u64) -> Taken {
        let once = Instant::now();
        self.told(self.report(attempt, Phase::Running), beat(sequence).into(), once).await
    }

    /// Says a chunk until `until`, behind the one with the number `after`. The same chunk said twice is one.
    pub async fn streamed(&self, attempt: &Attempt, chunk: StreamChunk, after: u64, until: Instant) -> Taken {
        let report = Report { after: Some(after), ..self.report(attempt, Phase::Streamed) };
        self.told(report, chunk.into(), until).await
    }

    /// Says until `until` that the attempt was not executed after all.
    pub async fn refused(&self, attempt: &Attempt, error: ProtocolError, until: Instant) -> Taken {
        let report = Report { error: Some(error), ..self.report(attempt, Phase::Refused) };
        self.told(report, beat(0).into(), until).await
    }

    /// Says the result until `until`.
    pub async fn ended(&self, attempt: &Attempt, result: ActionResult, until: Instant) -> Taken {
        self.told(self.report(attempt, Phase::Ended), result.into(), until).await
    }

    fn report(&self, attempt: &Attempt, phase: Phase) -> Report {
        Report {
            action_id: attempt.action.clone(),
            attempt: attempt.number,
            worker: self.worker.clone(),
            phase,
            after: None,
            error: None,
        }
    }

    async fn told(&self, report: Report, body: MessageBody, until: Instant) -> Taken {
        let mut pause_ms = WORKER_REPORT_BACKOFF_FIRST_MS;
        let mut said = Instant::now();
        loop {
            let why = match self.send(&report, &body).await {
                Ok(taken) => return taken,
                Err(why) => why,
            };
            let resume = Instant::now() + Duration::from_millis(pause_ms);
            if resume >= until {
                return Taken::Unheard(why);
            }
            let (action, phase) = (&report.action_id, &report.phase);
            if said.elapsed() >= Duration::from_millis(LOG_INTERVAL_MS) {
                said = Instant::now();
                tracing::warn!(%action, ?phase, why, "the gateway was not told for a while");
            } else {
                tracing::debug!(%action, ?phase, why, "the gateway was not told yet");
            }
            tokio::time::sleep_until(resume).await;
            pause_ms = (2 * pause_ms).min(WORKER_REPORT_BACKOFF_MAX_MS);
        }
    }

    /// One try. An error is what may be otherwise in a while.
    async fn send(&self, report: &Report, body: &MessageBody) -> Result<Taken, String> {
        // a new message each time: the gateway takes none twice
        let mut envelope = Envelope::new(body.clone(), Timestamp::now()).with_from(self.principal.clone());
        envelope.extensions = Some(json!({ EXTENSION: report }));
        let message_id = envelope.message_id.clone();
        let told = |error: &dyn std::fmt::Display| error.to_string();
        let mut envelope = serde_json::to_value(envelope).map_err(|error| told(&error))?;
        sign_envelope(&mut envelope, &self.key).map_err(|error| told(&error))?;
        let parcel =
            Parcel::new(&TransportMessage { envelope, metadata: None }).map_err(|error| told(&error))?;
        let subject = match report.phase {
            Phase::Started | Phase::Running | Phase::Refused => &self.heartbeats,
            Phase::Streamed => &self.chunks,
            Phase::Ended => &self.results,
        };
        let timeout = Duration::from_millis(WORKER_REPORT_TIMEOUT_MS);
        let answer = self.bus.request(subject, parcel, timeout).await.map_err(|error| told(&error))?;
        let (checked, _) = validate::frame(&answer.payload, &Bounds::FRAME).map_err(|error| told(&error))?;
        let (_, answer) = checked.into_parts();
        if answer.in_response_to.as_ref().is_none_or(|asked| asked.as_str() != message_id.as_str()) {
            return Err("the answer is to another message".to_owned());
        }
        match answer.body {
            MessageBody::Error(body) if body.error.retryable == Some(true) => {
                Err(format!("{}: {}", body.error.code, body.error.message))
            }
            MessageBody::Error(body) => Ok(Taken::No(Box::new(body.error))),
            _ => Ok(Taken::Yes(Stream::read(answer.extensions.as_ref())?)),
        }
    }
}

fn beat(sequence: u64) -> Heartbeat {
    Heartbeat { sequence, status: None, progress: None }
}
