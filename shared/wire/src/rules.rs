//! The rules that a message has to obey beyond its shape (sections 6.4, 9 to 18). They judge a message only where the
//! protocol says so: mostly the object that is the body itself, not the same type nested elsewhere. No clock, no
//! identity, no policy: what needs more than the message is judged by whoever holds more.

mod action;
mod approval;
mod audit;
mod callback;
mod check;
mod delegation;
mod discovery;
mod identity;
mod query;
mod session;
mod transaction;

use crate::codes;
use crate::envelope::{AIP_VERSION, Envelope};
use crate::message::MessageBody;
use crate::refusal::Refusal;
use crate::types::{Action, CapabilityContract, IdentityContext, Manifest};

use check::At;

/// What judging yields.
pub type Judged = Result<(), Refusal>;

/// Judges an envelope. The first rule broken is the one reported.
pub fn envelope(envelope: &Envelope) -> Judged {
    let root = At::Root;
    if envelope.aip_version != AIP_VERSION {
        return Err(root
            .member("aip_version")
            .refuse(codes::ENVELOPE_VERSION, "this receiver speaks 1.0 only"));
    }
    let declared = envelope.message_type;
    if declared != envelope.body.message_type() {
        let text = format!("{declared} goes with the body {}", declared.body_key());
        return Err(root.member("message_type").refuse(codes::ENVELOPE_TYPE_MISMATCH, &text));
    }
    check::nonempty(&root, "message_id", envelope.message_id.as_str())?;
    check::nonempty_if(&root, "idempotency_key", envelope.idempotency_key.as_deref())?;
    let place = root.member("body");
    body(&envelope.body, &place.member(declared.body_key()))
}

/// Judges an action that stands alone, as on `POST /aip/v1/actions`.
pub fn bare_action(action: &Action) -> Judged {
    action::action(action, &At::Root)
}

/// Judges a manifest that stands alone.
pub fn bare_manifest(manifest: &Manifest) -> Judged {
    discovery::manifest(manifest, &At::Root)
}

/// Judges a capability contract that stands alone.
pub fn bare_contract(contract: &CapabilityContract) -> Judged {
    discovery::contract(contract, &At::Root)
}

/// Judges an identity context that stands alone.
pub fn bare_identity(context: &IdentityContext) -> Judged {
    identity::identity(context, &At::Root)
}

fn body(body: &MessageBody, at: &At<'_>) -> Judged {
    use MessageBody as B;
    match body {
        B::Handshake(it) => session::handshake(it, at),
        B::Action(it) => action::action(it, at),
        B::ActionResult(it) => action::result(it, at),
        B::ActionStatus(it) => action::status(it, at),
        B::ActionList(it) => check::rows(at, "actions", it.actions.len()),
        B::ActionEvents(it) => action::events(it, at),
        B::ActionStatusRequest(it) => query::action_status(it, at),
        B::ActionResultRequest(it) => query::action_result(it, at),
        B::ActionListRequest(it) => query::action_list(it, at),
        B::ActionEventsRequest(it) => query::action_events(it, at),
        B::Heartbeat(it) => session::heartbeat(it, at),
        B::SessionListRequest(it) => check::page(at, it.limit),
        B::SessionList(it) => check::rows(at, "sessions", it.sessions.len()),
        B::SessionCloseRequest(it) => check::nonblank_if(at, "reason", it.reason.as_deref()),
        B::SessionResumeRequest(it) => check::nonblank_if(at, "resume_token", it.resume_token.as_deref()),
        B::ApprovalRequest(it) => approval::request(it, at),
        B::ApprovalDecision(it) => approval::decision(it, at),
        B::ApprovalQueryRequest(it) => check::nonblank_if(at, "tenant_id", it.tenant_id.as_deref()),
        B::ApprovalListRequest(it) => approval::list_request(it, at),
        B::ApprovalRecordView(it) => approval::record_view(it, at),
        B::ApprovalList(it) => check::rows(at, "approvals", it.approvals.len()),
        B::CallbackDeliveryQueryRequest(it) => callback::query(it, at),
        B::CallbackDeliveryListRequest(it) => callback::list_request(it, at),
        B::CallbackDeliveryRecord(it) => callback::record(it, at),
        B::CallbackDeliveryList(it) => check::rows(at, "deliveries", it.deliveries.len()),
        B::DelegationRequest(it) => delegation::request(it, at),
        B::DelegationResult(it) => delegation::result(it, at),
        B::TransactionRequest(it) => transaction::request(it, at),
        B::TransactionResult(it) => transaction::result(it, at),
        B::TransactionQueryRequest(it) => transaction::query(it, at),
        B::TransactionView(it) => transaction::view(it, at),
        B::ManifestRequest(it) => discovery::request(it, at),
        B::Manifest(it) => discovery::manifest(it, at),
        B::EventStreamRequest(it) => check::page(at, it.limit),
        B::EventStream(it) => check::rows(at, "events", it.events.len()),
        B::ChannelMessage(it) => identity::identity_if(it.identity.as_ref(), at),
        B::Conversation(it) => identity::identity_if(it.identity.as_ref(), at),
        B::ReceiptChain(it) => audit::receipt_chain(it, at),
        B::ReceiptQueryRequest(it) => audit::receipt_query(it, at),
        B::AuditEvent(it) => audit::event(it, at),
        B::AuditQueryRequest(it) => audit::query(it, at),
        B::AuditQueryResult(it) => check::rows(at, "events", it.events.len()),
        B::ResourceListRequest(it) => query::resource_list(it, at),
        B::ResourceList(it) => check::rows(at, "resources", it.resources.len()),
        B::ResourceReadRequest(it) => query::resource_read(it, at),
        B::ResourceReadResult(it) => check::nonblank(&at.member("resource"), "id", &it.resource.id),
        B::BatchSettlement(it) => audit::settlement(it, at),
        B::HandshakeResponse(_)
        | B::Ack(_)
        | B::StreamChunk(_)
        | B::SessionRequest(_)
        | B::SessionView(_)
        | B::SessionResume(_)
        | B::Error(_)
        | B::Cancel(_)
        | B::HeartbeatAck(_)
        | B::Escalation(_)
        | B::EscalationResolution(_) => Ok(()),
    }
}
