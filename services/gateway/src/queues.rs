//! The work queues of asynchronous actions: made when somebody needs one, made again when it is lost, and watched for
//! what they give up. What is in them follows from the ledger and is decided there.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use aip_bus::{Bus, Parcel, QueueError};
use aip_ledger::Ledger;
use aip_names::limits::{LEDGER_TRIES_MAX, QUEUE_RETRY_MS};
use aip_names::{
    NameError, Service, Subject, TrustDomain, Version, queue_consumer, queue_given_up, queue_group,
    queue_stream, queue_stream_name,
};
use aip_wire::read::Bounds;
use aip_wire::trusted::{METADATA_KEY, TrustedContext};
use aip_wire::{MessageType, validate};
use futures_util::StreamExt;
use serde::Deserialize;
use tokio::task::AbortHandle;

use crate::machine::{Command, GatewayMachine};

/// The queues of all workers.
pub struct Queues {
    bus: Bus,
    trust_domain: TrustDomain,
    replicas: usize,
    /// Who listens to what a service's queue gives up.
    watched: Mutex<HashMap<Service, AbortHandle>>,
}

/// One version of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    pub service: Service,
    pub version: Version,
}

// === impl Worker ===

impl Worker {
    /// # Errors
    /// The names were not those of a registration.
    pub fn new(service: &str, version: &str) -> Result<Worker, NameError> {
        Ok(Worker { service: Service::new(service)?, version: Version::new(version)? })
    }
}

// === impl Queues ===

impl Queues {
    pub fn new(bus: Bus, trust_domain: TrustDomain, replicas: usize) -> Queues {
        Queues { bus, trust_domain, replicas, watched: Mutex::default() }
    }

    /// Has the worker's queue exist, and listens to what it gives up.
    ///
    /// # Errors
    /// JetStream refuses or does not answer.
    pub async fn ensure(&self, worker: &Worker, ledger: &Ledger<GatewayMachine>) -> Result<(), QueueError> {
        let stream = queue_stream(&self.trust_domain, &worker.service, self.replicas);
        let consumer = queue_consumer(&self.trust_domain, &worker.service, worker.version, &action());
        self.bus.ensure_queue(&stream, &consumer).await?;
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if watched.get(&worker.service).is_none_or(AbortHandle::is_finished) {
            let watch = Watch {
                bus: self.bus.clone(),
                subject: queue_given_up(&self.trust_domain, &worker.service),
                stream: queue_stream_name(&self.trust_domain, &worker.service),
                ledger: ledger.clone(),
            };
            watched.insert(worker.service.clone(), tokio::spawn(watch.run()).abort_handle());
        }
        Ok(())
    }

    /// Puts an attempt into its worker's queue; a queue that is lost is made again first.
    ///
    /// # Errors
    /// It is not known to be in there.
    pub async fn put(
        &self,
        worker: &Worker,
        id: &str,
        parcel: Parcel,
        ledger: &Ledger<GatewayMachine>,
    ) -> Result<(), QueueError> {
        let subject = Subject::queue(&self.trust_domain, &worker.service, worker.version, &action());
        let subject = subject.to_string();
        let watched = {
            let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            watched.contains_key(&worker.service)
        };
        if !watched {
            self.ensure(worker, ledger).await?;
        }
        match self.bus.enqueue(&subject, id, parcel.clone()).await {
            Ok(()) => Ok(()),
            Err(error) => {
                tracing::warn!(%error, service = %worker.service, "work was not queued: looking after its queue");
                self.ensure(worker, ledger).await?;
                self.bus.enqueue(&subject, id, parcel).await
            }
        }
    }

    /// Listens to nothing any more.
    pub fn stop(&self) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.drain().for_each(|(_, task)| task.abort());
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        self.stop();
    }
}

fn action() -> aip_names::MessageType {
    // a constant of the protocol
    #[allow(clippy::expect_used)]
    aip_names::MessageType::new(MessageType::Action.as_str()).expect("a well formed name")
}

/// Listens for messages that were handed out as often as they may be.
struct Watch {
    bus: Bus,
    subject: String,
    stream: String,
    ledger: Ledger<GatewayMachine>,
}

#[derive(Deserialize)]
struct GivenUp {
    stream_seq: u64,
}

// === impl Watch ===

impl Watch {
    async fn run(self) {
        let group = queue_group(&Service::gateway()).to_owned();
        let listening = self.bus.client().queue_subscribe(self.subject.clone(), group).await;
        let mut advisories = match listening {
            Ok(advisories) => advisories,
            Err(error) => {
                tracing::warn!(%error, queue = self.stream, "cannot listen to what a queue gives up");
                return;
            }
        };
        while let Some(message) = advisories.next().await {
            match serde_json::from_slice::<GivenUp>(&message.payload) {
                Ok(given_up) => self.given_up(given_up.stream_seq).await,
                Err(error) => tracing::warn!(%error, queue = self.stream, "an advisory cannot be read"),
            }
        }
    }

    /// Dead-letters the action of a message that no worker began, then takes the message away.
    async fn given_up(&self, sequence: u64) {
        let Ok(stream) = self.bus.jetstream().get_stream_no_info(&self.stream).await else { return };
        let Ok(message) = stream.get_raw_message(sequence).await else { return };
        let Some(context) = context(&message.payload) else {
            tracing::error!(queue = self.stream, sequence, "a queue gave up a message that cannot be read");
            return;
        };
        let action = context.action_id.to_string();
        tracing::warn!(action, attempt = context.attempt, queue = self.stream, "a queue gave up an action");
        for _ in 0..LEDGER_TRIES_MAX {
            let command = Command::GiveUp { action: action.clone(), attempt: context.attempt };
            match self.ledger.decide(command).await {
                Ok(_) => break,
                Err(error) => {
                    tracing::debug!(%error, action, "an action cannot be given up now");
                    tokio::time::sleep(std::time::Duration::from_millis(QUEUE_RETRY_MS)).await;
                }
            }
        }
        if let Err(error) = stream.delete_message(sequence).await {
            tracing::debug!(%error, queue = self.stream, "a message that was given up stays");
        }
    }
}

fn context(payload: &[u8]) -> Option<TrustedContext> {
    let (_, metadata) = validate::frame(payload, &Bounds::FRAME).ok()?;
    TrustedContext::read(metadata.get(METADATA_KEY)?).ok()
}
