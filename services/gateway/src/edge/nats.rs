//! The native NATS door (profile `aip.native.nats.v1`, 20.4): all replicas in one queue group, listed by the services
//! API. Only signed envelopes come through here; subject access is no authority.

use std::sync::Arc;

use aip_bus::{Answer, Bus, BusError, Handler, Incoming, Parcel, Registration, Serving};
use aip_names::{Service, Subject, TrustDomain, Version};
use aip_wire::{MessageType, Refusal, TransportMessage, codes};

use super::{Bounds, Edge, Front, meter, refusal};
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
            Err(refused) => (None, refusal::outbound(refused)),
        };
        let (answer, code) = answer(outbound);
        metered.end(message_type, code);
        if !request.wants_answer {
            meter::unanswered();
        }
        answer
    }

    fn busy(&self, _: &Incoming) -> Option<Answer> {
        let metered = meter::Request::start(Via::Nats);
        let (answer, code) = answer(refusal::outbound(Refusal::of(codes::SERVICE_OVERLOADED)));
        metered.end(None, code);
        answer
    }
}

// === impl Door ===

impl<F: Front> Door<F> {
    async fn carry(&self, request: &Incoming) -> Result<(Option<MessageType>, Outbound), Refusal> {
        let seat = self.edge.room.seat(request.payload.len(), None)?;
        let opened = frame::open(&request.subject, &request.headers, &request.payload)?;
        let inbound = Inbound { bytes: opened.envelope, bearer: None, via: Via::Nats };
        let front = self.edge.front.clone();
        let outbound = self.edge.carry(seat, async move { front.message(inbound).await }).await;
        // the panic itself is reported where it happened
        let outbound = outbound.unwrap_or_else(|| refusal::outbound(Refusal::of(codes::SERVICE_INTERNAL)));
        Ok((opened.message_type, outbound))
    }
}

/// The reply and the code of its outcome. A reply that does not fit is an error, never a silence.
fn answer(outbound: Outbound) -> (Option<Answer>, &'static str) {
    let framed = |envelope| Parcel::new(&TransportMessage { envelope, metadata: None });
    let code = meter::code(&outbound.envelope);
    let (parcel, code) = match framed(outbound.envelope) {
        Ok(parcel) => (Ok(parcel), code),
        Err(_) => {
            let refused = Refusal::of(codes::SERVICE_REPLY_TOO_LARGE);
            let code = refused.code.name;
            (framed(refusal::outbound(refused).envelope), code)
        }
    };
    let error = (code != meter::OK).then(|| code.to_owned());
    // a refusal of our own making always fits
    (parcel.ok().map(|parcel| Answer { parcel, error }), code)
}
