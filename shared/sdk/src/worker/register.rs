//! Tells the gateway what this worker offers, by sending its signed manifest: until it is accepted, after each
//! reconnect, and now and then, because a gateway may have been set up anew.

use std::sync::Arc;
use std::time::Duration;

use aip_bus::{Bus, Link, Parcel};
use aip_crypto::{SigningKey, sign_envelope};
use aip_names::limits::{
    WORKER_REGISTER_BACKOFF_FIRST_MS, WORKER_REGISTER_BACKOFF_MAX_MS, WORKER_REGISTER_INTERVAL_MS,
    WORKER_REGISTER_TIMEOUT_MS,
};
use aip_names::{NameError, Service, Subject, Version, metrics as names};
use aip_wire::read::Bounds;
use aip_wire::{
    Capability, Envelope, Manifest, MessageBody, MessageType, ProtocolError, Timestamp, TransportMessage,
    validate,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::WorkerConfig;
use crate::manifest::manifest;

/// What the gateway has said last.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Standing {
    Pending,
    Accepted,
    Rejected(Box<ProtocolError>),
    Withdrawn,
}

/// Why an attempt came to nothing.
#[derive(Debug)]
enum Failed {
    /// The gateway's no.
    Rejected(Box<ProtocolError>),
    /// It may be otherwise in a while.
    Later(String),
}

pub(super) struct Registrar {
    bus: Bus,
    key: Arc<SigningKey>,
    service: Service,
    subject: String,
    full: Manifest,
    empty: Manifest,
}

// === impl Registrar ===

impl Registrar {
    pub fn new(
        bus: Bus,
        config: &WorkerConfig,
        capabilities: impl Iterator<Item = Capability>,
    ) -> Result<Registrar, NameError> {
        let mut capabilities: Vec<Capability> = capabilities.collect();
        // the same manifest says the same thing each time
        capabilities.sort_by(|one, other| one.id.cmp(&other.id));
        let message_type = aip_names::MessageType::new(MessageType::Manifest.as_str())?;
        let subject = Subject::message(&config.trust_domain, &Service::gateway(), Version::V1, &message_type)
            .to_string();
        let of = |capabilities| manifest(&config.principal, &config.service, config.version, capabilities);
        Ok(Registrar {
            bus,
            key: Arc::clone(&config.key),
            service: config.service.clone(),
            subject,
            full: of(capabilities),
            empty: of(Vec::new()),
        })
    }

    /// Keeps the gateway informed: of everything while `wants` is true, of nothing when it is false.
    pub async fn keep(
        self,
        standing: watch::Sender<Standing>,
        mut wants: watch::Receiver<bool>,
        stop: CancellationToken,
    ) {
        let mut link = self.bus.link();
        let mut attempt = 0;
        loop {
            let epoch = epoch(&link.borrow());
            let all = *wants.borrow_and_update();
            let manifest = if all { &self.full } else { &self.empty };
            let sent = tokio::select! {
                sent = self.send(manifest) => sent,
                () = stop.cancelled() => return,
            };
            let pause_ms = match sent {
                Ok(()) => {
                    attempt = 0;
                    self.accepted(&standing, if all { Standing::Accepted } else { Standing::Withdrawn });
                    WORKER_REGISTER_INTERVAL_MS
                }
                Err(Failed::Rejected(error)) => {
                    tracing::error!(service = %self.service, code = error.code, message = error.message,
                        "the gateway refused the manifest");
                    metrics::gauge!(names::WORKER_REGISTERED, "service" => self.service.to_string()).set(0.0);
                    standing.send_replace(Standing::Rejected(error));
                    WORKER_REGISTER_INTERVAL_MS
                }
                Err(Failed::Later(reason)) => {
                    attempt += 1;
                    let pause_ms = backoff_ms(attempt);
                    tracing::info!(service = %self.service, reason, pause_ms, "not registered yet");
                    pause_ms
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(Duration::from_millis(pause_ms)) => {}
                changed = wants.changed() => if changed.is_err() { return },
                connected = link.wait_for(|link| self::epoch(link).is_some_and(|now| Some(now) != epoch)) =>
                    if connected.is_err() { return },
            }
        }
    }

    fn accepted(&self, standing: &watch::Sender<Standing>, now: Standing) {
        let serves = if now == Standing::Accepted { 1.0 } else { 0.0 };
        metrics::gauge!(names::WORKER_REGISTERED, "service" => self.service.to_string()).set(serves);
        let before = standing.send_replace(now.clone());
        if before != now {
            let capabilities = self.full.capabilities.len();
            tracing::info!(service = %self.service, capabilities, standing = ?now, "the gateway took the manifest");
        }
    }

    async fn send(&self, manifest: &Manifest) -> Result<(), Failed> {
        let later = |error: &dyn std::fmt::Display| Failed::Later(error.to_string());
        // a new message each time: the gateway takes none twice
        let envelope = Envelope::new(manifest.clone(), Timestamp::now()).with_from(manifest.agent.clone());
        let message_id = envelope.message_id.clone();
        let mut envelope = serde_json::to_value(envelope).map_err(|error| later(&error))?;
        sign_envelope(&mut envelope, &self.key).map_err(|error| later(&error))?;
        let parcel =
            Parcel::new(&TransportMessage { envelope, metadata: None }).map_err(|error| later(&error))?;
        let timeout = Duration::from_millis(WORKER_REGISTER_TIMEOUT_MS);
        let answer = self.bus.request(&self.subject, parcel, timeout).await.map_err(|error| later(&error))?;
        let (checked, _) = validate::frame(&answer.payload, &Bounds::FRAME).map_err(|error| later(&error))?;
        let (_, answer) = checked.into_parts();
        if answer.in_response_to.as_ref().is_none_or(|asked| asked.as_str() != message_id.as_str()) {
            return Err(Failed::Later("the answer is to another message".to_owned()));
        }
        match answer.body {
            MessageBody::Error(body) if body.error.retryable == Some(true) => {
                Err(Failed::Later(format!("{}: {}", body.error.code, body.error.message)))
            }
            MessageBody::Error(body) => Err(Failed::Rejected(Box::new(body.error))),
            _ => Ok(()),
        }
    }
}

fn epoch(link: &Link) -> Option<u64> {
    match link {
        Link::Up(up) => Some(up.epoch),
        Link::Down { .. } | Link::Unfit { .. } => None,
    }
}

fn backoff_ms(attempt: u32) -> u64 {
    let doublings = attempt.saturating_sub(1).min(16);
    (WORKER_REGISTER_BACKOFF_FIRST_MS << doublings).min(WORKER_REGISTER_BACKOFF_MAX_MS)
}
