//! Refusals that a door itself gives, as whole envelopes (19.1). They are not signed: a door refuses before anybody
//! knows who sent the request.

use aip_names::limits;
use aip_wire::codes::Code;
use aip_wire::{Envelope, ErrorBody, ProtocolError, Refusal, Timestamp};

use crate::front::Outbound;

/// A refusal of the whole request.
pub(super) fn refuse(code: &'static Code, message: impl Into<String>) -> Refusal {
    Refusal::new(code, "", message)
}

/// The refusal as a reply.
pub(super) fn outbound(refusal: Refusal) -> Outbound {
    let code = refusal.code;
    let retry_after_ms = code.retryable.then_some(limits::DOOR_RETRY_AFTER_MS);
    let error = ProtocolError { retry_after_ms, ..ProtocolError::from(refusal) };
    let envelope = Envelope::new(ErrorBody { error }, Timestamp::now());
    Outbound {
        // an envelope of our own making has no member that JSON cannot hold
        envelope: serde_json::to_value(envelope).unwrap_or_default(),
        status: code.http_status,
        retry_after_ms,
    }
}
