//! Errors as they go to the wire, from the one registry of codes. Nothing here invents a code, and nothing puts a value
//! from a request into a text.

use serde_json::Value;

use aip_ledger::LedgerError;
use aip_wire::codes::{self, Code};
use aip_wire::{ProtocolError, Refusal};

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
    }
}

/// What a caller is told when the ledger has no answer. The causes stay with us.
pub fn of_ledger(error: &LedgerError) -> Refusal {
    match error {
        LedgerError::NotReady { .. } => Refusal::of(codes::SERVICE_NOT_READY),
        LedgerError::Overloaded | LedgerError::Busy => Refusal::of(codes::SERVICE_OVERLOADED),
        LedgerError::Unknown => Refusal::of(codes::SERVICE_UNKNOWN),
        LedgerError::TooLarge => Refusal::of(codes::LIMIT_ENVELOPE_BYTES),
        LedgerError::Closed => Refusal::of(codes::SERVICE_STOPPING),
        LedgerError::Store(why) => {
            tracing::error!(why, "the store could not answer");
            // this replica's fault: another one may have taken it, and will answer
            Refusal::of(codes::SERVICE_UNKNOWN)
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_failure_of_a_replica_is_a_no_for_good() {
        let failures = [
            LedgerError::NotReady { reason: String::new() },
            LedgerError::Overloaded,
            LedgerError::Busy,
            LedgerError::Unknown,
            LedgerError::Closed,
            LedgerError::Store("Previous I/O error occurred".to_owned()),
        ];
        for failure in failures {
            assert!(of_ledger(&failure).code.retryable, "{failure}");
        }
    }
}
