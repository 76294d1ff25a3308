//! Answering: subjects in a queue group, bounded, listed by the services API, drained on shutdown.
//!
//! The client library's own services are not used: their endpoints forget requests that are on the wire when
//! they stop, and cannot count an error whose answer has a body. What they put on `$SRV` is the same.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aip_names::{Identity, Service, metrics as names, queue_group};
use async_nats::{Client, HeaderMap, Message, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::join_all;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::bus::Bus;
use crate::frame::Parcel;
use crate::seldom::Seldom;
use crate::settings::BusError;

mod discovery;
mod stats;

use stats::Endpoint;

/// What is served, and under which name it is found.
#[derive(Debug, Clone)]
pub struct Registration {
    /// Names the queue group and the entry in `$SRV`.
    pub service: Service,
    /// Version of the program, `major.minor.patch`.
    pub version: String,
    pub description: String,
    /// A short name and a subject or pattern, each.
    pub endpoints: Vec<(String, String)>,
    /// Requests handled at a time, over all endpoints. What comes above is answered by [`Handler::busy`].
    pub running_max: usize,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Incoming {
    pub subject: String,
    /// As it came; see [`crate::Frame`].
    pub payload: Bytes,
    pub headers: HeaderMap,
    /// Whether somebody waits for an answer.
    pub wants_answer: bool,
    pub received: Instant,
}

/// What is said to a request.
#[derive(Debug, Clone)]
pub struct Answer {
    pub parcel: Parcel,
    /// The code of an answer that is an error, for the statistics.
    pub error: Option<String>,
}

/// Answers requests.
pub trait Handler: Send + Sync + 'static {
    /// Handles one request. Without an answer the sender waits until its time is up.
    fn handle(&self, request: Incoming) -> impl Future<Output = Option<Answer>> + Send;

    /// Answers a request for which there is no room. It must be cheap: it runs in the reading loop.
    fn busy(&self, request: &Incoming) -> Option<Answer>;
}

/// A served registration. Dropping it stops at once; [`drain`](Self::drain) is the polite way.
#[derive(Debug)]
pub struct Serving {
    client: Client,
    stop: CancellationToken,
    loops: Vec<JoinHandle<()>>,
    discovery: JoinHandle<()>,
}

/// Starts serving.
///
/// # Errors
/// A subscription could not be made.
pub async fn serve<H: Handler>(
    bus: &Bus,
    registration: Registration,
    handler: Arc<H>,
) -> Result<Serving, BusError> {
    let client = bus.client().clone();
    let group = queue_group(&registration.service).to_owned();
    let stop = CancellationToken::new();
    let room = Arc::new(Semaphore::new(registration.running_max));
    let mut endpoints = Vec::new();
    let mut loops = Vec::new();
    for (name, subject) in &registration.endpoints {
        let subscriber = client.queue_subscribe(subject.clone(), group.clone()).await;
        let subscriber = subscriber.map_err(|error| refused(subject, &error))?;
        let endpoint = Arc::new(Endpoint::new(name, subject, &group));
        endpoints.push(Arc::clone(&endpoint));
        let door = Door {
            client: client.clone(),
            identity: bus.identity().clone(),
            service: registration.service.clone(),
            endpoint,
            room: Arc::clone(&room),
            handler: Arc::clone(&handler),
            log: Seldom::default(),
        };
        loops.push(tokio::spawn(door.run(subscriber, stop.clone())));
    }
    let discovery = discovery::start(bus, &registration, endpoints).await?;
    Ok(Serving { client, stop, loops, discovery })
}

fn refused(subject: &str, error: &impl ToString) -> BusError {
    BusError::Subscribe { action: "subscribe to", subject: subject.to_owned(), detail: error.to_string() }
}

impl Serving {
    /// Takes no more requests, lets those that run come to their end, and sends their answers off. What still
    /// runs after `grace` is dropped; returns whether nothing was.
    pub async fn drain(mut self, grace: Duration) -> bool {
        self.discovery.abort();
        self.stop.cancel();
        let until = tokio::time::Instant::now() + grace;
        let ended = tokio::time::timeout_at(until, join_all(&mut self.loops)).await.is_ok();
        // a flush waits for the connection, which may not come back in time
        let flushed =
            tokio::time::timeout_at(until, self.client.flush()).await.is_ok_and(|flushed| flushed.is_ok());
        ended && flushed
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.discovery.abort();
        self.loops.iter().for_each(JoinHandle::abort);
    }
}

/// One endpoint and what its requests share.
struct Door<H> {
    client: Client,
    identity: Identity,
    service: Service,
    endpoint: Arc<Endpoint>,
    room: Arc<Semaphore>,
    handler: Arc<H>,
    log: Seldom,
}

impl<H: Handler> Door<H> {
    async fn run(self, mut subscriber: Subscriber, stop: CancellationToken) {
        let door = Arc::new(self);
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                message = subscriber.next() => match message {
                    Some(message) => door.clone().take(message, &mut running).await,
                    None => break,
                },
                Some(ended) = running.join_next() => door.judge(&ended),
            }
        }
        // what the server has sent us already is ours to answer
        if subscriber.drain().await.is_ok() {
            while let Some(message) = subscriber.next().await {
                door.clone().take(message, &mut running).await;
            }
        }
        while let Some(ended) = running.join_next().await {
            door.judge(&ended);
        }
    }

    async fn take(self: Arc<Self>, message: Message, running: &mut JoinSet<()>) {
        let Message { subject, reply, payload, headers, .. } = message;
        if let Some(elsewhere) = reply.as_ref().filter(|reply| !self.identity.may_answer(reply)) {
            if let Some(suppressed) = self.log.admit("reply subject") {
                let service = &self.service;
                tracing::warn!(%elsewhere, %service, suppressed, "a request names no inbox for its answer");
            }
            self.endpoint.taken(Instant::now(), Some("reply subject"));
            self.count("reply_subject");
            return;
        }
        let request = Incoming {
            subject: subject.to_string(),
            payload,
            headers: headers.unwrap_or_default(),
            wants_answer: reply.is_some(),
            received: Instant::now(),
        };
        match Arc::clone(&self.room).try_acquire_owned() {
            Ok(permit) => {
                running.spawn(self.answer(request, reply, permit));
            }
            Err(_) => {
                let answer = self.handler.busy(&request);
                self.endpoint.taken(request.received, Some("busy"));
                self.count("busy");
                self.send(reply, answer).await;
            }
        }
    }

    async fn answer(
        self: Arc<Self>,
        request: Incoming,
        reply: Option<async_nats::Subject>,
        _permit: OwnedSemaphorePermit,
    ) {
        let _running = Running::new(&self.service);
        let received = request.received;
        let answer = self.handler.handle(request).await;
        let error = answer.as_ref().and_then(|answer| answer.error.clone());
        self.send(reply, answer).await;
        self.endpoint.taken(received, error.as_deref());
        self.count(if error.is_some() { "error" } else { "answered" });
        let service = self.service.to_string();
        metrics::histogram!(names::BUS_REQUEST_SECONDS, "service" => service)
            .record(received.elapsed().as_secs_f64());
    }

    async fn send(&self, reply: Option<async_nats::Subject>, answer: Option<Answer>) {
        let (Some(reply), Some(Answer { parcel, .. })) = (reply, answer) else { return };
        if let Err(error) = self.client.publish_with_headers(reply, parcel.headers, parcel.payload).await
            && let Some(suppressed) = self.log.admit("not sent")
        {
            let (service, endpoint) = (&self.service, self.endpoint.name());
            tracing::warn!(%error, %service, endpoint, suppressed, "an answer was not sent");
        }
    }

    /// A handler that panicked is a bug: its sender hears nothing, we say so.
    fn judge(&self, ended: &Result<(), tokio::task::JoinError>) {
        if let Err(error) = ended {
            self.endpoint.taken(Instant::now(), Some("bug"));
            self.count("bug");
            tracing::error!(%error, service = %self.service, endpoint = self.endpoint.name(), "a handler failed");
        }
    }

    fn count(&self, outcome: &'static str) {
        let service = self.service.to_string();
        metrics::counter!(names::BUS_REQUESTS, "service" => service, "outcome" => outcome).increment(1);
    }
}

/// One more request running, until it is dropped, however that happens.
struct Running(metrics::Gauge);

impl Running {
    fn new(service: &Service) -> Self {
        let gauge = metrics::gauge!(names::BUS_REQUESTS_RUNNING, "service" => service.to_string());
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}
