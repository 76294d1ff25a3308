//! Work queues: JetStream streams from which each message is taken by one worker and kept until that worker says what
//! became of it. A queue is a way to hand work out, never the truth of it: it may be lost, and be filled again.

use std::time::Duration;

use aip_names::{StreamSpec, WorkConsumerSpec, limits};
use async_nats::header;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::{self, AckKind};
use bytes::Bytes;
use futures_util::StreamExt;

use crate::bus::Bus;
use crate::frame::Parcel;
use crate::stream::StreamError;

/// Why a queue could not be used.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("the consumer {consumer} of queue {queue} cannot be kept: {detail}")]
    Consumer { queue: String, consumer: String, detail: String },
    #[error("nothing was kept under {subject}: {detail}")]
    NotKept { subject: String, detail: String },
    #[error("queue {queue} cannot be asked: {detail}")]
    NotTaken { queue: String, detail: String },
}

/// A way to a queue's messages.
#[derive(Debug)]
pub struct Taker {
    consumer: PullConsumer,
    queue: String,
}

/// One asking for messages.
pub struct Batch {
    messages: pull::Batch,
    queue: String,
}

/// A message of a queue, ours until something is said of it or no sign of life was given for a while.
#[derive(Debug)]
pub struct Job {
    message: jetstream::Message,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worked {
    /// It is not needed any more.
    Done,
    /// Somebody else may have it, after this time.
    GivenBack { after: Duration },
}

/// The queue was not told.
#[derive(Debug, thiserror::Error)]
#[error("the queue was not told what became of a message: {0}")]
pub struct JobError(String);

impl Bus {
    /// Has the queue and a consumer of it exist as declared. Several replicas may do so at once.
    ///
    /// # Errors
    /// JetStream refuses or does not answer.
    pub async fn ensure_queue(
        &self,
        queue: &StreamSpec,
        consumer: &WorkConsumerSpec,
    ) -> Result<(), QueueError> {
        self.ensure_stream(queue).await?;
        let config = pull::Config {
            durable_name: Some(consumer.name.clone()),
            name: Some(consumer.name.clone()),
            filter_subject: consumer.filter.clone(),
            ack_policy: AckPolicy::Explicit,
            ack_wait: Duration::from_millis(consumer.ack_wait_ms),
            max_deliver: consumer.deliveries_max,
            max_ack_pending: consumer.held_max,
            ..pull::Config::default()
        };
        let made = self.jetstream().create_consumer_on_stream(config, &queue.name).await;
        made.map(|_| ()).map_err(|error| QueueError::Consumer {
            queue: queue.name.clone(),
            consumer: consumer.name.clone(),
            detail: error.to_string(),
        })
    }

    /// Puts a message into the queue that takes `subject`. A second one with this id is dropped, if the queue still
    /// knows of the first.
    ///
    /// # Errors
    /// It is not known to be kept: there is no such queue, it is full, or it did not answer.
    pub async fn enqueue(&self, subject: &str, id: &str, parcel: Parcel) -> Result<(), QueueError> {
        let failed = |detail: String| QueueError::NotKept { subject: subject.to_owned(), detail };
        let Parcel { payload, mut headers } = parcel;
        headers.insert(header::NATS_MESSAGE_ID, id);
        let mut context = self.jetstream();
        context.set_timeout(Duration::from_millis(limits::QUEUE_PUBLISH_TIMEOUT_MS));
        let sent = context.publish_with_headers(subject.to_owned(), headers, payload).await;
        let kept = sent.map_err(|error| failed(error.to_string()))?.await;
        kept.map(|_| ()).map_err(|error| failed(error.to_string()))
    }

    /// Gets hold of a consumer of a queue.
    ///
    /// # Errors
    /// There is no such queue or consumer now, or it did not answer.
    pub async fn taker(&self, queue: &str, consumer: &str) -> Result<Taker, QueueError> {
        let found = self.jetstream().get_consumer_from_stream(consumer, queue).await;
        let consumer = found.map_err(|error| not_taken(queue, &error))?;
        Ok(Taker { consumer, queue: queue.to_owned() })
    }
}

fn not_taken(queue: &str, error: &dyn std::fmt::Display) -> QueueError {
    QueueError::NotTaken { queue: queue.to_owned(), detail: error.to_string() }
}

impl Taker {
    /// Asks for up to `max` messages, which come as they come; the asking is over after a while.
    ///
    /// # Errors
    /// The queue cannot be asked.
    pub async fn ask(&self, max: usize) -> Result<Batch, QueueError> {
        let expires = Duration::from_millis(limits::QUEUE_EXPIRES_MS);
        let asked = self.consumer.batch().max_messages(max).expires(expires).messages().await;
        let messages = asked.map_err(|error| not_taken(&self.queue, &error))?;
        Ok(Batch { messages, queue: self.queue.clone() })
    }
}

impl Batch {
    /// The next message; none when the asking is over.
    ///
    /// # Errors
    /// The queue is gone, or the connection.
    pub async fn next(&mut self) -> Option<Result<Job, QueueError>> {
        let next = self.messages.next().await?;
        Some(match next {
            Ok(message) => Ok(Job { message }),
            Err(error) => Err(not_taken(&self.queue, &error)),
        })
    }
}

impl Job {
    pub fn payload(&self) -> &Bytes {
        &self.message.payload
    }

    /// Shows that the message is still worked on.
    ///
    /// # Errors
    /// There is no connection.
    pub async fn progress(&self) -> Result<(), JobError> {
        self.message.ack_with(AckKind::Progress).await.map_err(|error| JobError(error.to_string()))
    }

    /// Says what became of it. A word that is lost is one more delivery.
    ///
    /// # Errors
    /// There is no connection.
    pub async fn end(&self, worked: Worked) -> Result<(), JobError> {
        let kind = match worked {
            Worked::Done => AckKind::Ack,
            Worked::GivenBack { after } => AckKind::Nak(Some(after)),
        };
        self.message.ack_with(kind).await.map_err(|error| JobError(error.to_string()))
    }
}
