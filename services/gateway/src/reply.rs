//! The gateway's own voice: replies that keep the request's correlation (6.2), name who is speaking, and are signed
//! when the request was (22.2). Nothing is decided here.

use serde::Deserialize;
use serde_json::{Value, json};

use aip_admission::{Authentic, ReplayClaim};
use aip_crypto::{SigningKey, sign_envelope};
use aip_wire::trusted::PrincipalRef;
use aip_wire::{
    ActionId, CorrelationId, Envelope, ErrorBody, MessageBody, MessageId, Principal, PrincipalId,
    PrincipalKind, ProtocolError, Refusal, SessionId, Timestamp, codes,
};

use crate::front::Outbound;

/// The principal that a gateway speaks as. Replicas are one principal.
pub const PRINCIPAL: &str = aip_names::GATEWAY_PRINCIPAL;
/// The envelope extension that says how an action was acknowledged when its result is the reply (11.4).
pub const ACK_EXTENSION: &str = "aip.ack";
/// The envelope extension that names the approval which an action waits for.
pub const APPROVAL_EXTENSION: &str = "aip.approval";

/// Who speaks and with which key.
#[derive(Debug)]
pub struct Voice {
    principal: Principal,
    key: SigningKey,
}

/// What a reply has to know of its request. Taken from a request whose sender is proven.
#[derive(Debug, Clone)]
pub struct Asked {
    pub message_id: MessageId,
    pub correlation_id: Option<CorrelationId>,
    pub session_id: Option<SessionId>,
    pub sender: PrincipalRef,
    pub replay: Option<ReplayClaim>,
}

/// What of an envelope can still be read when it was refused.
#[derive(Debug, Default, Deserialize)]
struct Remains {
    message_id: Option<MessageId>,
    correlation_id: Option<CorrelationId>,
}

// === impl Asked ===

impl Asked {
    pub fn of(authentic: &Authentic) -> Asked {
        let envelope = authentic.envelope();
        Asked {
            message_id: envelope.message_id.clone(),
            correlation_id: envelope.correlation_id.clone(),
            session_id: envelope.session_id.clone(),
            sender: PrincipalRef::of(authentic.caller().principal()),
            replay: authentic.replay().cloned(),
        }
    }

    pub fn is_signed(&self) -> bool {
        self.replay.is_some()
    }
}

// === impl Voice ===

impl Voice {
    /// # Errors
    /// Never: the principal's name is a constant that is not empty.
    pub fn new(trust_domain: &str, key: SigningKey) -> Result<Voice, aip_wire::IdError> {
        let mut principal = Principal::new(PrincipalId::parse(PRINCIPAL)?, PrincipalKind::Service);
        principal.trust_domain = Some(trust_domain.to_owned());
        principal.did = Some(key.did().to_string());
        Ok(Voice { principal, key })
    }

    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Tells a reader something, unasked for by any envelope.
    pub fn tell(
        &self,
        reader: &Principal,
        correlation_id: Option<CorrelationId>,
        body: MessageBody,
    ) -> Value {
        let mut envelope = Envelope::new(body, Timestamp::now())
            .with_from(self.principal.clone())
            .with_to(Principal::new(reader.id.clone(), reader.kind));
        envelope.correlation_id = correlation_id;
        self.outbound(envelope, false, 200, None).envelope
    }

    /// Says something to native readers, under an id that a second saying has too.
    pub fn publish(
        &self,
        reader: &PrincipalRef,
        correlation_id: CorrelationId,
        message_id: MessageId,
        body: MessageBody,
    ) -> Value {
        let mut envelope = Envelope::new(body, Timestamp::now())
            .with_from(self.principal.clone())
            .with_to(Principal::new(reader.id.clone(), reader.kind));
        envelope.message_id = message_id;
        envelope.correlation_id = Some(correlation_id);
        self.outbound(envelope, true, 200, None).envelope
    }

    /// Answers a request.
    pub fn answer(&self, asked: &Asked, body: MessageBody) -> Outbound {
        self.answer_with(asked, body, None)
    }

    /// Answers a request, with extensions beside the body.
    pub fn answer_with(&self, asked: &Asked, body: MessageBody, extensions: Option<Value>) -> Outbound {
        let mut envelope = self.envelope(asked, body);
        envelope.extensions = extensions;
        self.outbound(envelope, asked.is_signed(), 200, None)
    }

    /// Answers an action from the outcome of an earlier one.
    pub fn answer_cached(&self, asked: &Asked, action: &ActionId, body: MessageBody) -> Outbound {
        let acknowledged = json!({ACK_EXTENSION: {"action_id": action, "status": "cached"}});
        self.answer_with(asked, body, Some(acknowledged))
    }

    /// Refuses a request whose sender is proven.
    pub fn refuse(&self, asked: &Asked, refusal: Refusal) -> Outbound {
        let (status, retry_after_ms) = (refusal.code.http_status, retry_after_ms(&refusal));
        let envelope = self.envelope(asked, error_body(refusal));
        self.outbound(envelope, asked.is_signed(), status, retry_after_ms)
    }

    /// Refuses what came from nobody who is known: never signed, so that nobody can have things signed.
    pub fn refuse_stranger(&self, received: &[u8], refusal: Refusal) -> Outbound {
        let remains: Remains = serde_json::from_slice(received).unwrap_or_default();
        let (status, retry_after_ms) = (refusal.code.http_status, retry_after_ms(&refusal));
        let mut envelope =
            Envelope::new(error_body(refusal), Timestamp::now()).with_from(self.principal.clone());
        envelope.in_response_to = remains.message_id.map(Into::into);
        envelope.correlation_id = remains.correlation_id;
        self.outbound(envelope, false, status, retry_after_ms)
    }

    fn envelope(&self, asked: &Asked, body: MessageBody) -> Envelope {
        let mut envelope = Envelope::new(body, Timestamp::now())
            .with_from(self.principal.clone())
            .with_to(Principal::new(asked.sender.id.clone(), asked.sender.kind));
        envelope.in_response_to = Some(asked.message_id.clone().into());
        envelope.correlation_id.clone_from(&asked.correlation_id);
        envelope.session_id.clone_from(&asked.session_id);
        envelope
    }

    fn outbound(
        &self,
        envelope: Envelope,
        signed: bool,
        status: u16,
        retry_after_ms: Option<u64>,
    ) -> Outbound {
        // an envelope of our own making has no member that JSON cannot hold
        let mut envelope = serde_json::to_value(envelope).unwrap_or_default();
        if signed && let Err(error) = sign_envelope(&mut envelope, &self.key) {
            tracing::error!(%error, "a reply could not be signed");
            let refusal = Refusal::of(codes::SERVICE_INTERNAL);
            return self.refuse_stranger(b"", refusal);
        }
        Outbound { envelope, status, retry_after_ms }
    }
}

fn error_body(refusal: Refusal) -> MessageBody {
    let retry_after_ms = retry_after_ms(&refusal);
    let error = ProtocolError { retry_after_ms, ..ProtocolError::from(refusal) };
    ErrorBody { error }.into()
}

/// What may pass by itself comes with a time to ask again.
fn retry_after_ms(refusal: &Refusal) -> Option<u64> {
    let usual = refusal.code.retryable.then_some(aip_names::limits::DOOR_RETRY_AFTER_MS);
    refusal.retry_after_ms.or(usual)
}
