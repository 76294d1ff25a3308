//! Audit events (18.3) follow from records as receipts do: the record of a decision is the audit of it. The index
//! [`keys::INDEX_AUDIT`](super::keys::INDEX_AUDIT) orders the records by time.

use serde_json::{Value, json};

use aip_kernel::Past;
use aip_wire::events::{self as kinds, Kind};
use aip_wire::trusted::PrincipalRef;
use aip_wire::{ApprovalDecisionKind, AuditEvent, Principal, Timestamp};

use super::action::ActionEvent;
use super::manifest::{ManifestEvent, Registered};
use super::note::MessageEvent;
use super::{Event, stamp};

/// What a record says for the audit, in order. The actor of what the gateway does on its own is `gateway`.
/// Holds ids, decisions and hashes only, so there is nothing in it to be redacted.
pub fn events(past: &Past<Event>, gateway: &PrincipalRef) -> Vec<AuditEvent> {
    let (record, _, log_time) = past;
    let said = record.events.iter().flat_map(|event| said(event, &record.header.key, gateway));
    let numbered = said.zip(0_u8..);
    numbered
        .map(|((kind, actor, data), place)| AuditEvent {
            id: format!("audit_{}", stamp::stamp(*log_time, &record.header.id, place)),
            actor: Principal::new(actor.id, actor.kind),
            identity: None,
            action: kind.name.to_owned(),
            occurred_at: Timestamp::from_ms(*log_time),
            data: Some(data),
        })
        .collect()
}

fn said(event: &Event, key: &str, gateway: &PrincipalRef) -> Vec<(&'static Kind, PrincipalRef, Value)> {
    match event {
        Event::Action(ActionEvent::Accepted(accepted)) => {
            let data = json!({
                "action_id": key,
                "capability_id": accepted.action.capability_id,
                "tenant_id": accepted.context.tenant,
                "input_hash": accepted.input_hash,
                "policy_version": accepted.context.policy.directory,
            });
            let mut said = vec![(kinds::ACTION_ADMITTED, accepted.context.principal.clone(), data)];
            said.extend(accepted.redrives.as_ref().map(|redrives| {
                let data = json!({"action_id": key, "redrive_of": redrives.of, "ordered_by": redrives.order});
                (kinds::ACTION_REDRIVEN, redrives.by.clone(), data)
            }));
            said
        }
        Event::Action(ActionEvent::Dispatched { attempt, .. }) => {
            let data = json!({"action_id": key, "attempt": attempt});
            vec![(kinds::ACTION_DISPATCHED, gateway.clone(), data)]
        }
        Event::Action(
            ActionEvent::Leased { .. }
            | ActionEvent::StreamClosed { .. }
            | ActionEvent::ApprovalAsked { .. }
            | ActionEvent::ApprovalWithdrawn { .. },
        ) => Vec::new(),
        Event::Action(ActionEvent::PendingApproval(pending)) => {
            let data = json!({
                "action_id": key,
                "approval_id": pending.request.id,
                "policy_hash": pending.request.policy_hash,
                "stale": pending.stale,
            });
            let stale = pending.stale.is_some();
            let kind = if stale { kinds::ACTION_APPROVAL_STALE } else { kinds::ACTION_PENDING_APPROVAL };
            vec![(kind, gateway.clone(), data)]
        }
        Event::Action(ActionEvent::ApprovalResolved(resolved)) => {
            // an end that is none of approval is told by the event behind it
            let data =
                json!({"action_id": key, "approval_id": resolved.approval, "receipt": resolved.receipt});
            let approved = resolved.kind == ApprovalDecisionKind::Approved;
            approved.then(|| (kinds::ACTION_APPROVED, gateway.clone(), data)).into_iter().collect()
        }
        Event::Action(ActionEvent::RevokedLate { decision }) => {
            let data = json!({
                "action_id": key, "approval_id": decision.approval_id, "decision_id": decision.decision_id,
            });
            vec![(kinds::ACTION_LATE_REVOCATION, PrincipalRef::of(&decision.approver), data)]
        }
        Event::Action(ActionEvent::Streaming { attempt, .. }) => {
            vec![(kinds::ACTION_STREAMING, gateway.clone(), json!({"action_id": key, "attempt": attempt}))]
        }
        Event::Action(ActionEvent::Enqueued { attempt }) => {
            vec![(kinds::ACTION_QUEUED, gateway.clone(), json!({"action_id": key, "attempt": attempt}))]
        }
        Event::Action(ActionEvent::Started { attempt, worker, .. }) => {
            let data = json!({"action_id": key, "attempt": attempt, "worker": worker});
            vec![(kinds::ACTION_STARTED, gateway.clone(), data)]
        }
        Event::Action(ActionEvent::AttemptFailed { attempt, code, delivered, .. }) => {
            let data = json!({"action_id": key, "attempt": attempt, "code": code, "delivered": delivered});
            vec![(kinds::ACTION_ATTEMPT_LOST, gateway.clone(), data)]
        }
        Event::Action(ActionEvent::CancelRequested { by, .. }) => {
            vec![(kinds::ACTION_CANCELLING, by.clone(), json!({"action_id": key}))]
        }
        Event::Action(ActionEvent::Cancelled { by_worker }) => {
            let data = json!({"action_id": key, "by_worker": by_worker});
            vec![(kinds::ACTION_CANCELLED, gateway.clone(), data)]
        }
        Event::Action(ActionEvent::DeadLettered { error }) => {
            let data = json!({"action_id": key, "code": error.code});
            vec![(kinds::ACTION_DEAD_LETTERED, gateway.clone(), data)]
        }
        Event::Action(ActionEvent::LateAnswer(late)) => {
            let data = json!({
                "action_id": key,
                "attempt": late.attempt,
                "worker": late.worker,
                "said": late.said,
                "output_hash": late.output_hash,
            });
            vec![(kinds::ACTION_LATE_ANSWER, gateway.clone(), data)]
        }
        Event::Action(ActionEvent::Completed { attempt, .. }) => {
            vec![(kinds::ACTION_COMPLETED, gateway.clone(), json!({"action_id": key, "attempt": attempt}))]
        }
        Event::Action(ActionEvent::Failed { uncertain, error, .. }) => {
            let data = json!({"action_id": key, "code": error.code, "uncertain_outcome": uncertain});
            vec![(kinds::ACTION_FAILED, gateway.clone(), data)]
        }
        Event::Action(ActionEvent::Expired { error }) => {
            let data = json!({"action_id": key, "code": error.code});
            vec![(kinds::ACTION_EXPIRED, gateway.clone(), data)]
        }
        Event::Manifest(ManifestEvent::Registered(registered)) => manifest(registered),
        Event::Message(MessageEvent::Noted { actor, message_id, refused }) => {
            let data = json!({"message_id": message_id, "refused": refused});
            let kind = if refused.is_some() { kinds::ACTION_REFUSED } else { kinds::AUTH_CLAIMED };
            vec![(kind, actor.clone(), data)]
        }
    }
}

fn manifest(registered: &Registered) -> Vec<(&'static Kind, PrincipalRef, Value)> {
    let actor = PrincipalRef::of(&registered.manifest.agent);
    let mut said = Vec::new();
    for key in &registered.added {
        let data = json!({
            "capability_id": key.capability_id,
            "contract_hash": key.contract_hash,
            "service": key.service,
            "version": key.version,
        });
        said.push((kinds::MANIFEST_REGISTERED, actor.clone(), data));
    }
    for row in &registered.withdrawn {
        let data = json!({
            "capability_id": row.capability_id,
            "contract_hash": row.contract_hash,
            "service": row.service,
            "version": row.version,
        });
        said.push((kinds::MANIFEST_WITHDRAWN, actor.clone(), data));
    }
    said
}
