//! The registry of message types (section 7): which type string goes with which body key and payload. The table below is
//! the only place that pairs them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shape::wire_enum;
use crate::types::*;

macro_rules! messages {
    ($($variant:ident($payload:ident) = $name:literal / $key:literal,)+) => {
        wire_enum! {
            /// A registered message type (section 7).
            pub enum MessageType {
                $($variant = $name,)+
            }
        }

        impl MessageType {
            /// The one key that a body of this type has.
            pub const fn body_key(self) -> &'static str {
                match self { $(MessageType::$variant => $key,)+ }
            }

            /// The name of the payload's type, as the schemas spell it.
            pub const fn payload(self) -> &'static str {
                match self { $(MessageType::$variant => stringify!($payload),)+ }
            }

            pub fn from_body_key(key: &str) -> Option<MessageType> {
                match key { $($key => Some(MessageType::$variant),)+ _ => None }
            }
        }

        /// What a message says: an object with exactly one member (section 6.1). Boxed, so that an envelope stays small.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        pub enum MessageBody {
            $(#[serde(rename = $key)] $variant(Box<$payload>),)+
        }

        impl MessageBody {
            /// The type that an envelope with this body has to declare.
            pub const fn message_type(&self) -> MessageType {
                match self { $(MessageBody::$variant(_) => MessageType::$variant,)+ }
            }
        }

        $(impl From<$payload> for MessageBody {
            fn from(payload: $payload) -> MessageBody {
                MessageBody::$variant(Box::new(payload))
            }
        })+
    };
}

messages! {
    Handshake(Handshake) = "aip.core.v1.handshake" / "handshake",
    HandshakeResponse(HandshakeResponse) = "aip.core.v1.handshake_response" / "handshake_response",
    Action(Action) = "aip.core.v1.action" / "action",
    Ack(Ack) = "aip.core.v1.ack" / "ack",
    StreamChunk(StreamChunk) = "aip.core.v1.stream_chunk" / "stream_chunk",
    ActionResult(ActionResult) = "aip.core.v1.action_result" / "action_result",
    ActionStatusRequest(ActionStatusRequest) = "aip.lifecycle.v1.action_status_request" / "action_status_request",
    ActionStatus(ActionStatus) = "aip.lifecycle.v1.action_status" / "action_status",
    ActionResultRequest(ActionResultRequest) = "aip.lifecycle.v1.action_result_request" / "action_result_request",
    ActionListRequest(ActionListRequest) = "aip.lifecycle.v1.action_list_request" / "action_list_request",
    ActionList(ActionList) = "aip.lifecycle.v1.action_list" / "action_list",
    ActionEventsRequest(ActionEventsRequest) = "aip.lifecycle.v1.action_events_request" / "action_events_request",
    ActionEvents(ActionEvents) = "aip.lifecycle.v1.action_events" / "action_events",
    ApprovalRequest(ApprovalRequest) = "aip.policy.v1.approval_request" / "approval_request",
    ApprovalDecision(ApprovalDecision) = "aip.policy.v1.approval_decision" / "approval_decision",
    ApprovalQueryRequest(ApprovalQueryRequest) = "aip.policy.v1.approval_query_request" / "approval_query_request",
    ApprovalListRequest(ApprovalListRequest) = "aip.policy.v1.approval_list_request" / "approval_list_request",
    ApprovalRecordView(ApprovalRecordView) = "aip.policy.v1.approval_record_view" / "approval_record_view",
    ApprovalList(ApprovalList) = "aip.policy.v1.approval_list" / "approval_list",
    CallbackDeliveryQueryRequest(CallbackDeliveryQueryRequest) = "aip.callback.v1.delivery_query_request" / "callback_delivery_query_request",
    CallbackDeliveryListRequest(CallbackDeliveryListRequest) = "aip.callback.v1.delivery_list_request" / "callback_delivery_list_request",
    CallbackDeliveryRecord(CallbackDeliveryRecord) = "aip.callback.v1.delivery_record" / "callback_delivery_record",
    CallbackDeliveryList(CallbackDeliveryList) = "aip.callback.v1.delivery_list" / "callback_delivery_list",
    SessionRequest(SessionRequest) = "aip.session.v1.session_request" / "session_request",
    SessionView(SessionView) = "aip.session.v1.session_view" / "session_view",
    SessionListRequest(SessionListRequest) = "aip.session.v1.session_list_request" / "session_list_request",
    SessionList(SessionList) = "aip.session.v1.session_list" / "session_list",
    SessionCloseRequest(SessionCloseRequest) = "aip.session.v1.session_close_request" / "session_close_request",
    SessionResumeRequest(SessionResumeRequest) = "aip.session.v1.session_resume_request" / "session_resume_request",
    SessionResume(SessionResume) = "aip.session.v1.session_resume" / "session_resume",
    DelegationRequest(DelegationRequest) = "aip.agent.v1.delegation_request" / "delegation_request",
    DelegationResult(DelegationResult) = "aip.agent.v1.delegation_result" / "delegation_result",
    TransactionRequest(TransactionRequest) = "aip.transaction.v1.request" / "transaction_request",
    TransactionResult(TransactionResult) = "aip.transaction.v1.result" / "transaction_result",
    TransactionQueryRequest(TransactionQueryRequest) = "aip.transaction.v1.query_request" / "transaction_query_request",
    TransactionView(TransactionView) = "aip.transaction.v1.view" / "transaction_view",
    Error(ErrorBody) = "aip.core.v1.error" / "error",
    Cancel(Cancel) = "aip.core.v1.cancel" / "cancel",
    Heartbeat(Heartbeat) = "aip.core.v1.heartbeat" / "heartbeat",
    HeartbeatAck(HeartbeatAck) = "aip.core.v1.heartbeat_ack" / "heartbeat_ack",
    Escalation(Escalation) = "aip.core.v1.escalation" / "escalation",
    EscalationResolution(EscalationResolution) = "aip.core.v1.escalation_resolution" / "escalation_resolution",
    ManifestRequest(ManifestRequest) = "aip.discovery.v1.manifest_request" / "manifest_request",
    Manifest(Manifest) = "aip.discovery.v1.manifest_response" / "manifest",
    EventStreamRequest(EventStreamRequest) = "aip.discovery.v1.event_stream_request" / "event_stream_request",
    EventStream(EventStream) = "aip.discovery.v1.event_stream_response" / "event_stream",
    ChannelMessage(ChannelMessage) = "aip.channel.v1.message_created" / "channel_message",
    Conversation(ConversationUpdated) = "aip.channel.v1.conversation_updated" / "conversation",
    ReceiptChain(ReceiptChain) = "aip.audit.v1.receipt_chain" / "receipt_chain",
    ReceiptQueryRequest(ReceiptQueryRequest) = "aip.audit.v1.receipt_query_request" / "receipt_query_request",
    AuditEvent(AuditEvent) = "aip.audit.v1.audit_event" / "audit_event",
    AuditQueryRequest(AuditQueryRequest) = "aip.audit.v1.audit_query_request" / "audit_query_request",
    AuditQueryResult(AuditQueryResult) = "aip.audit.v1.audit_query_result" / "audit_query_result",
    ResourceListRequest(ResourceListRequest) = "aip.resource.v1.resource_list_request" / "resource_list_request",
    ResourceList(ResourceList) = "aip.resource.v1.resource_list" / "resource_list",
    ResourceReadRequest(ResourceReadRequest) = "aip.resource.v1.resource_read_request" / "resource_read_request",
    ResourceReadResult(ResourceReadResult) = "aip.resource.v1.resource_read_result" / "resource_read_result",
    BatchSettlement(BatchSettlement) = "aip.economic.v1.batch_settlement" / "batch_settlement",
}
