//! One service of the system asks another.

use std::time::Duration;

use aip_admission::Caller;
use aip_bus::{Bus, Parcel};
use aip_names::{OwnService, Service, Subject, TrustDomain, Version};
use aip_wire::read::Bounds;
use aip_wire::trusted::CALLER_KEY;
use aip_wire::{Envelope, MessageBody, MessageType, Refusal, Timestamp, TransportMessage, codes, validate};
use serde_json::{Map, Value};

/// Asks `own` on behalf of a caller whom the asker authenticated, and waits for at most `timeout`.
///
/// # Errors
/// What the service refused; `aip.service.absent` and `aip.service.not_reached` when nobody got the question;
/// `aip.service.outcome_unknown` when it may have been taken.
pub async fn ask(
    bus: &Bus,
    trust_domain: &TrustDomain,
    own: OwnService,
    caller: &Caller,
    body: MessageBody,
    timeout: Duration,
) -> Result<MessageBody, Refusal> {
    let word = serde_json::to_value(caller.vouch()).map_err(|_| Refusal::of(codes::SERVICE_INTERNAL))?;
    let metadata = Map::from_iter([(CALLER_KEY.to_owned(), word)]);
    let envelope = Envelope::new(body, Timestamp::now()).with_from(caller.principal().clone());
    let message_type = envelope.message_type;
    let envelope = serde_json::to_value(envelope).map_err(|_| Refusal::of(codes::SERVICE_INTERNAL))?;
    let subject = subject(trust_domain, &own.service(), message_type)?;
    send(bus, &subject, envelope, Some(metadata), timeout).await
}

pub(crate) fn subject(
    trust_domain: &TrustDomain,
    service: &Service,
    message_type: MessageType,
) -> Result<String, Refusal> {
    // every registered type is a token
    let name = aip_names::MessageType::new(message_type.as_str())
        .map_err(|_| Refusal::of(codes::SERVICE_INTERNAL))?;
    Ok(Subject::message(trust_domain, service, Version::V1, &name).to_string())
}

/// Sends one envelope and reads the answer's body.
pub(crate) async fn send(
    bus: &Bus,
    subject: &str,
    envelope: Value,
    metadata: Option<Map<String, Value>>,
    timeout: Duration,
) -> Result<MessageBody, Refusal> {
    let parcel = Parcel::new(&TransportMessage { envelope, metadata })
        .map_err(|_| Refusal::of(codes::LIMIT_ENVELOPE_BYTES))?;
    let answer =
        bus.request(subject, parcel, timeout).await.map_err(|error| crate::fault::of_request(&error))?;
    // an answer that cannot be read says nothing about what was done
    let (checked, _) = validate::frame(&answer.payload, &Bounds::FRAME).map_err(|refusal| {
        tracing::error!(%refusal, subject, "a service's answer cannot be read");
        Refusal::of(codes::SERVICE_UNKNOWN)
    })?;
    match checked.into_parts().1.body {
        MessageBody::Error(told) => Err(Refusal::told(told.error)),
        body => Ok(body),
    }
}
