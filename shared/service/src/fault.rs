//! What a caller is told of a fault, from the one registry of codes. The causes stay with us.

use aip_bus::RequestError;
use aip_ledger::LedgerError;
use aip_wire::{Refusal, codes};

/// The ledger has no answer.
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

/// Another service of the system has no answer.
pub fn of_request(error: &RequestError) -> Refusal {
    match error {
        RequestError::NoResponders { .. } => Refusal::of(codes::SERVICE_ABSENT),
        RequestError::NotSent { .. } => Refusal::of(codes::SERVICE_UNREACHED),
        RequestError::TimedOut { .. } | RequestError::Lost { .. } => Refusal::of(codes::SERVICE_UNKNOWN),
    }
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
        let subject = String::new;
        for failure in [
            RequestError::NoResponders { subject: subject() },
            RequestError::NotSent { reason: subject() },
            RequestError::TimedOut { subject: subject(), waited_ms: 1 },
        ] {
            assert!(of_request(&failure).code.retryable, "{failure}");
        }
    }
}
