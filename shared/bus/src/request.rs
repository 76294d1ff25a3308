//! Asking and telling: one message out, at most one back.

use std::time::Duration;

use aip_names::limits;
use async_nats::{Message, RequestErrorKind};

use crate::bus::Bus;
use crate::frame::Parcel;

/// Why there is no answer. Only [`NoResponders`](Self::NoResponders) and [`NotSent`](Self::NotSent) say that
/// nobody got the message.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("nobody serves {subject}")]
    NoResponders { subject: String },
    #[error("no answer from {subject} within {waited_ms} ms")]
    TimedOut { subject: String, waited_ms: u64 },
    #[error("the message was not sent: {reason}")]
    NotSent { reason: String },
    #[error("the connection failed while waiting for {subject}: {detail}")]
    Lost { subject: String, detail: String },
}

impl Bus {
    /// Sends and waits for one answer. While there is no connection nothing is sent: a message that waited
    /// in a buffer would arrive when nobody waits for its answer any more.
    ///
    /// # Errors
    /// See [`RequestError`]. After a time-out or a loss the message may have been taken.
    pub async fn request(
        &self,
        subject: &str,
        parcel: Parcel,
        timeout: Duration,
    ) -> Result<Message, RequestError> {
        self.check(&parcel)?;
        let request =
            async_nats::Request::new().payload(parcel.payload).headers(parcel.headers).timeout(None);
        let answer = self.client().send_request(subject.to_owned(), request);
        let timed_out = || RequestError::TimedOut {
            subject: subject.to_owned(),
            waited_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        };
        let answer = tokio::time::timeout(timeout, answer).await.map_err(|_| timed_out())?;
        answer.map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => RequestError::NoResponders { subject: subject.to_owned() },
            RequestErrorKind::TimedOut => timed_out(),
            RequestErrorKind::InvalidSubject | RequestErrorKind::MaxPayloadExceeded => {
                RequestError::NotSent { reason: error.to_string() }
            }
            RequestErrorKind::Other => {
                RequestError::Lost { subject: subject.to_owned(), detail: error.to_string() }
            }
        })
    }

    /// Sends without an answer; returns when the message has left this process.
    ///
    /// # Errors
    /// There is no connection, or it failed.
    pub async fn publish(&self, subject: &str, parcel: Parcel) -> Result<(), RequestError> {
        self.check(&parcel)?;
        let sent = self.client().publish_with_headers(subject.to_owned(), parcel.headers, parcel.payload);
        sent.await.map_err(|error| RequestError::NotSent { reason: error.to_string() })?;
        let lost = |error: async_nats::client::FlushError| RequestError::Lost {
            subject: subject.to_owned(),
            detail: error.to_string(),
        };
        self.client().flush().await.map_err(lost)
    }

    fn check(&self, parcel: &Parcel) -> Result<(), RequestError> {
        let bytes = parcel.payload.len();
        if bytes > limits::TRANSPORT_MESSAGE_BYTES_MAX {
            let reason = format!("it has {bytes} bytes, {} are allowed", limits::TRANSPORT_MESSAGE_BYTES_MAX);
            return Err(RequestError::NotSent { reason });
        }
        match &*self.link().borrow() {
            crate::Link::Up(_) => Ok(()),
            crate::Link::Down { reason } | crate::Link::Unfit { reason } => {
                Err(RequestError::NotSent { reason: reason.clone() })
            }
        }
    }
}
