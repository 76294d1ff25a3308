//! Where messages from the other services of the system come in. Who may publish here is the matter of NATS; who asks
//! is the gateway's word beside the envelope.

use std::sync::Arc;

use aip_admission::Caller;
use aip_bus::{Answer, Bus, BusError, FrameError, Handler, Incoming, Parcel, Registration, Serving};
use aip_ledger::Readiness;
use aip_names::{OwnService, Subject, TrustDomain, Version};
use aip_wire::read::Bounds;
use aip_wire::trusted::CALLER_KEY;
use aip_wire::{
    Envelope, ErrorBody, MessageBody, MessageType, Refusal, Timestamp, TransportMessage, codes, validate,
};
use tokio::sync::watch;

/// One message, and who asks.
#[derive(Debug)]
pub struct Request {
    pub caller: Caller,
    /// As the sender wrote it; its signature was the gateway's to verify.
    pub envelope: Envelope,
}

/// What a service is, behind its door. Cheap to clone; all clones are one.
pub trait Service: Clone + Send + Sync + 'static {
    /// The message types that it answers; nothing else reaches it.
    const ANSWERS: &'static [MessageType];

    /// Answers one message.
    ///
    /// # Errors
    /// A refusal, which goes to the caller as it is.
    fn answer(&self, request: Request) -> impl Future<Output = Result<MessageBody, Refusal>> + Send;
    /// Whether it may answer.
    fn readiness(&self) -> watch::Receiver<Readiness>;
    /// Finishes what is in flight and makes it durable.
    fn drain(&self) -> impl Future<Output = ()> + Send;
    /// Resolves when the store has failed and the process has to end.
    fn failed(&self) -> impl Future<Output = String> + Send;
}

/// Joins the queue group of the service.
///
/// # Errors
/// The subscriptions could not be made.
pub async fn serve<S: Service>(
    bus: &Bus,
    trust_domain: &TrustDomain,
    own: OwnService,
    running_max: usize,
    service: S,
) -> Result<Serving, BusError> {
    let endpoint = |message_type: &MessageType| {
        let name = aip_names::MessageType::new(message_type.as_str()).ok()?;
        let subject = Subject::message(trust_domain, &own.service(), Version::V1, &name);
        Some((name.token().to_owned(), subject.to_string()))
    };
    let registration = Registration {
        service: own.service(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        description: format!("AIP 1.0 messages to {own}"),
        endpoints: S::ANSWERS.iter().filter_map(endpoint).collect(),
        running_max,
    };
    aip_bus::serve(bus, registration, Arc::new(Door { service })).await
}

struct Door<S> {
    service: S,
}

impl<S: Service> Handler for Door<S> {
    async fn handle(&self, request: Incoming) -> Option<Answer> {
        let answered = match open(&request) {
            Ok(request) => self.service.answer(request).await,
            Err(refusal) => Err(refusal),
        };
        say(answered)
    }

    fn busy(&self, _: &Incoming) -> Option<Answer> {
        say(Err(Refusal::of(codes::SERVICE_OVERLOADED)))
    }
}

fn open(request: &Incoming) -> Result<Request, Refusal> {
    let (checked, mut metadata) = validate::frame(&request.payload, &Bounds::FRAME)?;
    let word = metadata.remove(CALLER_KEY).ok_or_else(|| Refusal::of(codes::AUTH_MISSING))?;
    let word = serde_json::from_value(word).map_err(|_| Refusal::of(codes::AUTH_MISSING))?;
    Ok(Request { caller: Caller::vouched(word)?, envelope: checked.into_parts().1 })
}

/// An answer that does not fit is an error, never a silence.
fn say(answered: Result<MessageBody, Refusal>) -> Option<Answer> {
    let code =
        |answered: &Result<MessageBody, Refusal>| answered.as_ref().err().map(|refusal| refusal.code.name);
    let mut error = code(&answered);
    let framed = parcel(answered).or_else(|_| {
        let refused = Err(Refusal::of(codes::SERVICE_REPLY_TOO_LARGE));
        error = code(&refused);
        parcel(refused)
    });
    // a refusal always fits
    framed.ok().map(|parcel| Answer { parcel, error: error.map(str::to_owned) })
}

fn parcel(answered: Result<MessageBody, Refusal>) -> Result<Parcel, FrameError> {
    let body = answered.unwrap_or_else(|refusal| ErrorBody { error: refusal.into() }.into());
    let envelope = serde_json::to_value(Envelope::new(body, Timestamp::now()))?;
    Parcel::new(&TransportMessage { envelope, metadata: None })
}
