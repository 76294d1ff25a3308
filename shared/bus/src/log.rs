//! Logs of many subjects: JetStream streams in which each subject has messages of its own, in an order that everybody who
//! appends agrees on, because each names the message that it comes after.

use std::time::Duration;

use aip_names::{ConsumerSpec, limits};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use bytes::Bytes;
use futures_util::StreamExt;

use crate::bus::Bus;
use crate::stream::STREAM_NOT_FOUND;

/// A message of a log, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub place: u64,
    pub payload: Bytes,
}

/// Why a log did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("there is no stream {0}")]
    Missing(String),
    /// It was refused, most likely because another message came first: look again.
    #[error("the message is not kept under {subject}: {detail}")]
    NotKept { subject: String, detail: String },
    /// It may be kept, or not.
    #[error("it is not known whether the message is kept under {subject}: {detail}")]
    Unsure { subject: String, detail: String },
    #[error("{subject} cannot be read: {detail}")]
    Unreadable { subject: String, detail: String },
}

/// What stands and what will stand under one subject of a log, in order.
pub struct Tail {
    stream: Stream<()>,
    consumer: String,
    subject: String,
    messages: pull::Stream,
}

impl Bus {
    /// Appends under `subject`, if the last message there stands at `after`; 0 when there is none.
    ///
    /// # Errors
    /// Another one stands there, there is no such log, or it did not answer.
    pub async fn append(
        &self,
        log: &str,
        subject: &str,
        after: u64,
        payload: Bytes,
    ) -> Result<u64, LogError> {
        let message = PublishMessage::build()
            .payload(payload)
            .expected_stream(log)
            .expected_last_subject_sequence(after);
        let mut context = self.jetstream();
        context.set_timeout(Duration::from_millis(limits::CHUNK_APPEND_TIMEOUT_MS));
        let failed = |error: async_nats::jetstream::context::PublishError| match error.kind() {
            PublishErrorKind::StreamNotFound => LogError::Missing(log.to_owned()),
            PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe => {
                LogError::Unsure { subject: subject.to_owned(), detail: error.to_string() }
            }
            _ => LogError::NotKept { subject: subject.to_owned(), detail: error.to_string() },
        };
        let sent = context.send_publish(subject.to_owned(), message).await.map_err(failed)?;
        Ok(sent.await.map_err(failed)?.sequence)
    }

    /// The last message under `subject`.
    ///
    /// # Errors
    /// There is no such log, or it did not answer.
    pub async fn last_of(&self, log: &str, subject: &str) -> Result<Option<Kept>, LogError> {
        let unreadable = |detail: String| LogError::Unreadable { subject: subject.to_owned(), detail };
        let stream = self.jetstream().get_stream_no_info(log).await;
        let stream = stream.map_err(|error| unreadable(error.to_string()))?;
        match stream.get_last_raw_message_by_subject(subject).await {
            Ok(message) => Ok(Some(Kept { place: message.sequence, payload: message.payload })),
            Err(error) => match error.kind() {
                LastRawMessageErrorKind::NoMessageFound => Ok(None),
                LastRawMessageErrorKind::JetStream(why) if why.error_code().0 == STREAM_NOT_FOUND => {
                    Err(LogError::Missing(log.to_owned()))
                }
                _ => Err(unreadable(error.to_string())),
            },
        }
    }

    /// Reads on under `subject` from `place`, or from the first message when it is 0.
    ///
    /// # Errors
    /// There is no such log, or it did not answer.
    pub async fn tail_of(
        &self,
        log: &str,
        subject: &str,
        place: u64,
        spec: ConsumerSpec,
    ) -> Result<Tail, LogError> {
        let unreadable = |detail: String| LogError::Unreadable { subject: subject.to_owned(), detail };
        let stream = self.jetstream().get_stream_no_info(log).await;
        let stream = stream.map_err(|error| unreadable(error.to_string()))?;
        // permissions name the stream in the subject, which the server takes only with the consumer's name
        let name = format!("read-{}", uuid::Uuid::now_v7().simple());
        let config = pull::Config {
            name: Some(name.clone()),
            filter_subject: subject.to_owned(),
            ack_policy: AckPolicy::None,
            deliver_policy: match place {
                0 => DeliverPolicy::All,
                start_sequence => DeliverPolicy::ByStartSequence { start_sequence },
            },
            memory_storage: true,
            num_replicas: 1,
            inactive_threshold: Duration::from_millis(spec.inactive_ms),
            ..pull::Config::default()
        };
        let consumer = stream.create_consumer(config).await.map_err(|error| unreadable(error.to_string()))?;
        let messages = consumer
            .stream()
            .max_messages_per_batch(spec.batch)
            .expires(Duration::from_millis(spec.expires_ms))
            .heartbeat(Duration::from_millis(spec.heartbeat_ms))
            .messages()
            .await
            .map_err(|error| unreadable(error.to_string()))?;
        Ok(Tail { stream, consumer: name, subject: subject.to_owned(), messages })
    }
}

impl Tail {
    /// The next message, as soon as it is kept. Nothing is lost when the waiting is given up.
    ///
    /// # Errors
    /// The log cannot be read this way any more.
    pub async fn next(&mut self) -> Result<Kept, LogError> {
        let unreadable = |detail: String| LogError::Unreadable { subject: self.subject.clone(), detail };
        match self.messages.next().await {
            None => Err(unreadable("it ended".to_owned())),
            Some(Err(error)) => Err(unreadable(error.to_string())),
            Some(Ok(message)) => {
                let place = message.info().map_err(|error| unreadable(error.to_string()))?.stream_sequence;
                Ok(Kept { place, payload: message.message.payload })
            }
        }
    }
}

impl Drop for Tail {
    /// The server would forget its consumer by itself, later.
    fn drop(&mut self) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (stream, consumer) = (self.stream.clone(), std::mem::take(&mut self.consumer));
            runtime.spawn(async move { stream.delete_consumer(&consumer).await });
        }
    }
}

impl std::fmt::Debug for Tail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tail").field("subject", &self.subject).finish_non_exhaustive()
    }
}
