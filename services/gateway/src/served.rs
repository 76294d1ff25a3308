//! Which message types this release answers, and what it says to the others: never silence, never something that looks
//! like an answer.

use aip_wire::MessageType::{self, *};
use aip_wire::codes::{self, Code};

/// The code by which a valid message of this type is refused; none for those that are served.
pub fn refused_with(message_type: MessageType) -> Option<&'static Code> {
    match message_type {
        Action | ActionStatusRequest | ActionResultRequest | ManifestRequest | Manifest
        | ReceiptQueryRequest | ActionListRequest | ActionEventsRequest | EventStreamRequest
        | AuditQueryRequest | Cancel | ApprovalDecision | ApprovalQueryRequest | ApprovalListRequest
        | ApprovalRecordView => None,
        Handshake => Some(codes::UNSUPPORTED_HANDSHAKE),
        Heartbeat | SessionRequest | SessionListRequest | SessionCloseRequest | SessionResumeRequest => {
            Some(codes::UNSUPPORTED_SESSION)
        }
        Escalation | EscalationResolution => Some(codes::UNSUPPORTED_ESCALATION),
        // derived from the admitted action, never taken from anybody (12.2)
        ApprovalRequest => Some(codes::ENVELOPE_NOT_SERVED),
        TransactionRequest | TransactionQueryRequest => Some(codes::UNSUPPORTED_TRANSACTION),
        DelegationRequest => Some(codes::UNSUPPORTED_DELEGATION),
        CallbackDeliveryQueryRequest | CallbackDeliveryListRequest => Some(codes::UNSUPPORTED_CALLBACK),
        ResourceListRequest | ResourceReadRequest => Some(codes::UNSUPPORTED_RESOURCE),
        ChannelMessage | Conversation => Some(codes::UNSUPPORTED_CONVERSATION),
        // answers, which nobody asked for
        HandshakeResponse
        | Ack
        | StreamChunk
        | ActionResult
        | Error
        | HeartbeatAck
        | ActionStatus
        | ActionList
        | ActionEvents
        | ApprovalList
        | CallbackDeliveryRecord
        | CallbackDeliveryList
        | SessionView
        | SessionList
        | SessionResume
        | DelegationResult
        | TransactionResult
        | TransactionView
        | EventStream
        | ReceiptChain
        | AuditEvent
        | AuditQueryResult
        | ResourceList
        | ResourceReadResult
        | BatchSettlement => Some(codes::ENVELOPE_NOT_SERVED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_answer_is_served() {
        assert_eq!(refused_with(Action), None);
        for answer in [Ack, ActionResult, Error, ActionStatus, ReceiptChain, StreamChunk] {
            assert_eq!(refused_with(answer), Some(codes::ENVELOPE_NOT_SERVED), "{answer}");
        }
    }
}
