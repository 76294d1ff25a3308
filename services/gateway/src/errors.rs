//! Errors as they go to the wire, from the one registry of codes. Nothing here invents a code, and nothing puts a value
//! from a request into a text.

use serde_json::Value;

use aip_wire::ProtocolError;
use aip_wire::codes::{self, Code};

use crate::machine;

/// The code of a lawful "no" of the machine.
pub fn of_refusal(refusal: machine::Refusal) -> &'static Code {
    match refusal {
        machine::Refusal::Replayed => codes::AUTH_REPLAY,
        machine::Refusal::ActionIdConflict => codes::ACTION_ID_CONFLICT,
        machine::Refusal::IdempotencyConflict => codes::IDEMPOTENCY_CONFLICT,
        machine::Refusal::CapabilityChanged => codes::CAPABILITY_UNKNOWN,
        machine::Refusal::DeadlinePassed => codes::ACTION_DEADLINE,
        machine::Refusal::NoSuchAction => codes::ACTION_NOT_FOUND,
        machine::Refusal::NotDeadLettered => codes::ACTION_NOT_DEAD,
        machine::Refusal::Superseded => codes::ACTION_SUPERSEDED,
        machine::Refusal::CorrelationInUse => codes::STREAM_CORRELATION,
        machine::Refusal::TooManyRegistrations => codes::LIMIT_REGISTRATIONS,
        machine::Refusal::ApprovalMismatch => codes::POLICY_APPROVAL_MISMATCH,
    }
}

/// An error in the code's own words.
pub fn of(code: &'static Code) -> ProtocolError {
    ProtocolError::of(code, code.meaning)
}

pub fn with_details(code: &'static Code, details: Value) -> ProtocolError {
    ProtocolError { details: Some(details), ..of(code) }
}

/// True when whoever failed says that it may have happened all the same (19.3).
pub fn is_uncertain(error: &ProtocolError) -> bool {
    let says = |value: &Option<Value>| {
        value.as_ref().and_then(|value| value.get("uncertain_outcome")).and_then(Value::as_bool)
    };
    says(&error.details).or_else(|| says(&error.source)).unwrap_or(error.code == codes::ACTION_UNCERTAIN.name)
}
