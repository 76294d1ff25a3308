//! Questions over NATS (20.4).

use std::time::Duration;

use aip_bus::{Bus, BusError, Parcel, RequestError};
use aip_names::{Atom, Service, Subject, TrustDomain, Version};
use aip_wire::read::Bounds;
use aip_wire::validate::{self, Checked};
use aip_wire::{CorrelationId, MessageType, TransportMessage};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde_json::Value;

use super::ask::Lost;
use super::{ClientError, untrusted};

#[derive(Debug)]
pub(super) struct Nats {
    bus: Bus,
    trust_domain: TrustDomain,
}

impl Nats {
    pub fn new(bus: Bus, trust_domain: TrustDomain) -> Nats {
        Nats { bus, trust_domain }
    }

    pub async fn ready(&self, timeout: Duration) -> Result<(), BusError> {
        self.bus.ready(timeout).await
    }

    /// What is published on the subject of a correlation id, from now on.
    pub async fn listen(
        &self,
        correlation_id: &CorrelationId,
    ) -> Result<BoxStream<'static, Bytes>, ClientError> {
        let correlation = Atom::new(correlation_id.as_str())?;
        let subject = Subject::stream(&self.trust_domain, &Service::gateway(), Version::V1, correlation);
        let subject = subject.to_string();
        let subscribed = self.bus.client().subscribe(subject.clone()).await;
        let subscribed = subscribed.map_err(|error| BusError::Subscribe {
            action: "listen to",
            subject,
            detail: error.to_string(),
        })?;
        Ok(subscribed.map(|message| message.payload).boxed())
    }

    pub async fn send(
        &self,
        message_type: MessageType,
        envelope: Value,
        timeout: Duration,
    ) -> Result<Checked, Lost> {
        let invalid = |reason: String| Lost::Bad(ClientError::Invalid { reason });
        let parcel = Parcel::new(&TransportMessage { envelope, metadata: None })
            .map_err(|error| invalid(error.to_string()))?;
        let name =
            aip_names::MessageType::new(message_type.as_str()).map_err(|error| invalid(error.to_string()))?;
        let subject =
            Subject::message(&self.trust_domain, &Service::gateway(), Version::V1, &name).to_string();
        let answer = self.bus.request(&subject, parcel, timeout).await.map_err(|error| match error {
            RequestError::NoResponders { .. } | RequestError::NotSent { .. } => {
                Lost::NotSent(error.to_string())
            }
            error => Lost::Unknown(error.to_string()),
        })?;
        let read = validate::frame(&answer.payload, &Bounds::FRAME);
        read.map(|(checked, _)| checked).map_err(|refusal| Lost::Bad(untrusted(refusal.to_string())))
    }
}
