//! The native NATS door (profile `aip.native.nats.v1`, 20.4): all replicas in one queue group, listed by the services
//! API. Only signed envelopes come through here; subject access is no authority.

use std::sync::Arc;

use aip_bus::{Answer, Bus, BusError, Handler, Incoming, Parcel, Registration, Serving};
use aip_names::{Service, Subject, TrustDomain, Version};
use aip_wire::{MessageType, Refusal, TransportMessage, codes};

use super::peek::Peek;
use super::{Bounds, Edge, Front, meter};
use crate::front::{Inbound, Outbound, Via};

mod frame;
#[cfg(test)]
mod tests;

/// Serves every message to the gateway of a trust domain.
///
/// # Errors
/// The subscriptions could not be made.
pub async fn serve<F: Front>(
    bus: &Bus,
    trust_domain: &TrustDomain,
    edge: Edge<F>,
    bounds: Bounds,
) -> Result<Serving, BusError> {
    let service = Service::gateway();
    let subject = Subject::all_messages(trust_domain, &service, Version::V1);
    let registration = Registration {
        service,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        description: "AIP 1.0 messages to the gateway".to_owned(),
        endpoints: vec![("messages".to_owned(), subject)],
        running_max: bounds.in_flight,
    };
    aip_bus::serve(bus, registration, Arc::new(Door { edge })).await
}

struct Door<F> {
    edge: Edge<F>,
}

impl<F: Front> Handler for Door<F> {
    async fn handle(&self, request: Incoming) -> Option<Answer> {
        let metered = meter::Request::start(Via::Nats);
        let (message_type, outbound) = match self.carry(&request).await {
            Ok((message_type, outbound)) => (message_type, outbound),
            Err(refusal) => (None, self.edge.front.refuse(b"", refusal)),
        };
        let (answer, code) = self.answer(outbound);
        metered.end(message_type, code);
        if !request.wants_answer {
            meter::unanswered();
        }
        answer
    }

    fn busy(&self, _: &Incoming) -> Option<Answer> {
        let metered = meter::Request::start(Via::Nats);
        let overloaded = self.edge.front.refuse(b"", Refusal::of(codes::SERVICE_OVERLOADED));
        let (answer, code) = self.answer(overloaded);
        metered.end(None, code);
        answer
    }
}

// === impl Door ===

impl<F: Front> Door<F> {
    async fn carry(&self, request: &Incoming) -> Result<(Option<MessageType>, Outbound), Refusal> {
        let front = &self.edge.front;
        let seat = self.edge.room.seat(request.payload.len(), None)?;
        let received = frame::envelope(&request.payload)?;
        let peek = Peek::at(&received);
        let message_type = peek.message_type();
        if let Err(refusal) = frame::agree(&request.subject, &request.headers, &peek) {
            return Ok((message_type, front.refuse(&received, refusal)));
        }
        let inbound = Inbound { bytes: received.clone(), bearer: None, via: Via::Nats };
        let work = front.clone();
        let outbound = self.edge.carry(seat, async move { work.message(inbound).await }).await;
        // the panic itself is reported where it happened
        let broken = || front.refuse(&received, Refusal::of(codes::SERVICE_INTERNAL));
        Ok((message_type, outbound.unwrap_or_else(broken)))
    }

    /// The reply and the code of its outcome. A reply that does not fit is an error, never a silence.
    fn answer(&self, outbound: Outbound) -> (Option<Answer>, &'static str) {
        let framed = |envelope| Parcel::new(&TransportMessage { envelope, metadata: None });
        let code = meter::code(&outbound.envelope);
        let (parcel, code) = match framed(outbound.envelope) {
            Ok(parcel) => (Ok(parcel), code),
            Err(_) => {
                let refusal = Refusal::of(codes::SERVICE_REPLY_TOO_LARGE);
                let code = refusal.code.name;
                (framed(self.edge.front.refuse(b"", refusal).envelope), code)
            }
        };
        let error = (code != meter::OK).then(|| code.to_owned());
        // a refusal always fits
        (parcel.ok().map(|parcel| Answer { parcel, error }), code)
    }
}
