//! Receipts (18.1) follow from records: nobody writes one, so none can be missing or say something else than the
//! record. They hold ids, decisions and hashes, never a payload. The state keeps where the chain stands; the chain
//! itself is told again from the history, and has to end where the state says.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use aip_crypto::{canonical, receipt};
use aip_kernel::{Bug, Header, Millis, Past};
use aip_wire::trusted::PrincipalRef;
use aip_wire::{
    ApprovalDecisionKind, Principal, Receipt, ReceiptChain, ReceiptId, ReceiptRef, ReceiptType, Timestamp,
};

use crate::errors;

use super::action::{self, Accepted, ActionEvent, ActionState};
use super::{Event, stamp};

/// How many receipts an action has, and the last of them.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Chain {
    pub count: u32,
    pub head: Option<ReceiptRef>,
}

/// A receipt before it is linked: who, what, about what.
struct Draft {
    receipt_type: ReceiptType,
    actor: PrincipalRef,
    data: Value,
}

/// The chain of an action's receipts has this id.
pub fn chain_id(action: &str) -> String {
    format!("{CHAIN_PREFIX}{action}")
}

/// The action that a chain id names.
pub fn action_of(chain_id: &str) -> Option<&str> {
    chain_id.strip_prefix(CHAIN_PREFIX)
}

const CHAIN_PREFIX: &str = "action:";

/// The receipts of one event, linked behind those before them; `state` is what the event left.
///
/// # Errors
/// A receipt can't be written as JSON, which no receipt is so far from as to expect.
pub(super) fn of(
    state: &mut ActionState,
    event: &ActionEvent,
    header: &Header,
    log_time: Millis,
) -> Result<Vec<Value>, Bug> {
    let mut sealed = Vec::new();
    for (place, draft) in drafts(state, event).into_iter().enumerate() {
        let place = u8::try_from(place + 1).map_err(|error| Bug(error.to_string()))?;
        let id = format!("{}{}", ReceiptId::PREFIX, stamp::stamp(log_time, &header.id, place));
        let id = ReceiptId::opaque(id);
        let receipt = Receipt {
            id: id.clone(),
            receipt_type: draft.receipt_type,
            actor: Principal::new(draft.actor.id, draft.actor.kind),
            occurred_at: Timestamp::from_ms(log_time),
            correlation_id: state.correlation_id.clone(),
            data: Some(draft.data),
            previous_hash: None,
            hash: None,
        };
        let mut receipt = serde_json::to_value(receipt).map_err(|error| Bug(error.to_string()))?;
        let previous = state.receipts.head.as_ref().map(|head| head.hash.as_str());
        let hash = receipt::seal(&mut receipt, previous).map_err(|error| Bug(error.to_string()))?;
        state.receipts.count += 1;
        state.receipts.head = Some(ReceiptRef { id, hash });
        sealed.push(receipt);
    }
    Ok(sealed)
}

fn drafts(state: &ActionState, event: &ActionEvent) -> Vec<Draft> {
    let returned =
        |data: Value| Draft { receipt_type: ReceiptType::ResultReturned, actor: state.gateway.clone(), data };
    let executed = |data: Value| Draft {
        receipt_type: ReceiptType::ToolExecuted,
        actor: state.pinned.provider.clone(),
        data,
    };
    match event {
        ActionEvent::Accepted(accepted) => admission(accepted),
        ActionEvent::Dispatched { .. }
        | ActionEvent::Enqueued { .. }
        | ActionEvent::Started { .. }
        | ActionEvent::Leased { .. }
        | ActionEvent::Streaming { .. }
        | ActionEvent::StreamClosed { .. }
        | ActionEvent::CancelRequested { .. }
        | ActionEvent::ApprovalAsked { .. }
        | ActionEvent::ApprovalWithdrawn { .. }
        | ActionEvent::RevokedLate { .. }
        | ActionEvent::LateAnswer(_)
        | ActionEvent::AttemptFailed { .. } => Vec::new(),
        ActionEvent::PendingApproval(pending) => vec![Draft {
            receipt_type: ReceiptType::ApprovalRequested,
            actor: state.gateway.clone(),
            data: json!({
                "action_id": state.id,
                "approval_id": pending.request.id,
                "policy_hash": pending.request.policy_hash,
                "contract_hash": state.pinned.contract_hash,
                "stale": pending.stale,
            }),
        }],
        ActionEvent::ApprovalResolved(resolved) => vec![Draft {
            receipt_type: match resolved.kind {
                ApprovalDecisionKind::Approved => ReceiptType::ApprovalGranted,
                ApprovalDecisionKind::Denied => ReceiptType::ApprovalDenied,
                ApprovalDecisionKind::Expired => ReceiptType::ApprovalExpired,
                ApprovalDecisionKind::Revoked => ReceiptType::ApprovalRevoked,
            },
            actor: state.gateway.clone(),
            data: json!({
                "action_id": state.id,
                "approval_id": resolved.approval,
                "decision_id": resolved.decision.as_ref().and_then(|decision| decision.decision_id.as_ref()),
                // the approval's own chain, by its last receipt
                "approval_receipt": resolved.receipt,
            }),
        }],
        ActionEvent::Cancelled { by_worker } => vec![returned(json!({
            "action_id": state.id,
            "state": state.lifecycle,
            "status": "cancelled",
            "by_worker": by_worker,
        }))],
        ActionEvent::DeadLettered { error } => vec![returned(json!({
            "action_id": state.id,
            "state": state.lifecycle,
            "status": "failed",
            "code": error.code,
            "uncertain_outcome": errors::is_uncertain(error),
        }))],
        ActionEvent::Completed { attempt, result } => {
            let output_hash = result.output.as_ref().map(canonical::hash);
            vec![
                executed(json!({
                    "action_id": state.id,
                    "capability_id": state.capability_id,
                    "contract_hash": state.pinned.contract_hash,
                    "attempt": attempt,
                    "status": result.status,
                    "output_hash": output_hash,
                })),
                returned(json!({"action_id": state.id, "state": state.lifecycle, "status": result.status})),
            ]
        }
        ActionEvent::Failed { by_worker, uncertain, error } => {
            let mut drafts = Vec::new();
            if *by_worker {
                drafts.push(executed(json!({
                    "action_id": state.id,
                    "capability_id": state.capability_id,
                    "contract_hash": state.pinned.contract_hash,
                    "attempt": state.attempt,
                    "status": "failed",
                    "code": error.code,
                })));
            }
            drafts.push(returned(json!({
                "action_id": state.id,
                "state": state.lifecycle,
                "status": "failed",
                "code": error.code,
                "uncertain_outcome": uncertain,
            })));
            drafts
        }
        ActionEvent::Expired { error } => vec![returned(json!({
            "action_id": state.id,
            "state": state.lifecycle,
            "status": "failed",
            "code": error.code,
            "uncertain_outcome": false,
        }))],
    }
}

fn admission(accepted: &Accepted) -> Vec<Draft> {
    let action = &accepted.action;
    let mut asked = json!({
        "action_id": action.id,
        "capability_id": action.capability_id,
        "message_id": accepted.message_id,
        "input_hash": accepted.input_hash,
    });
    let mut actor = &accepted.context.principal;
    if let (Some(redrives), Some(asked)) = (&accepted.redrives, asked.as_object_mut()) {
        // its principal asked once; an operator had it taken up again
        actor = &redrives.by;
        asked.insert("redrive_of".to_owned(), json!(redrives.of));
        asked.insert("ordered_by".to_owned(), json!(redrives.order));
    }
    vec![
        Draft { receipt_type: ReceiptType::RequestReceived, actor: actor.clone(), data: asked },
        Draft {
            receipt_type: ReceiptType::PolicyDecision,
            actor: accepted.gateway.clone(),
            data: json!({
                "action_id": action.id,
                "decision": "allow",
                "policy_version": accepted.context.policy.directory,
                "rule": accepted.context.policy.rule,
                "tenant_id": accepted.context.tenant,
            }),
        },
        Draft {
            receipt_type: ReceiptType::ActionAccepted,
            actor: accepted.gateway.clone(),
            data: json!({
                "action_id": action.id,
                "capability_id": action.capability_id,
                "contract_hash": accepted.pinned.contract_hash,
                "provider": accepted.pinned.provider.id,
                "deadline": Timestamp::from_ms(accepted.context.deadline_ms),
                "reserved": accepted.reservations.iter().map(|held| &held.claim).collect::<Vec<_>>(),
            }),
        },
    ]
}

/// Tells an action's chain again from its history.
///
/// # Errors
/// The history does not lead to `expected`: evidence was changed.
pub fn chain(past: &[Past<Event>], expected: &ActionState) -> Result<ReceiptChain, Bug> {
    let mut state = None;
    let mut receipts = Vec::new();
    for (record, _, log_time) in past {
        for event in &record.events {
            let Event::Action(event) = event else { continue };
            let (next, sealed) = action::step(state.take(), event, &record.header, *log_time)?;
            state = Some(next);
            receipts.extend(sealed);
        }
    }
    if state.as_ref().map(|state| &state.receipts) != Some(&expected.receipts) {
        return Err(Bug("the receipts told from the history are not those that the state counts".to_owned()));
    }
    let root = receipt::root(receipts.iter().filter_map(|receipt| receipt.get("hash")?.as_str()));
    let receipts = receipts.into_iter().map(serde_json::from_value).collect::<Result<Vec<Receipt>, _>>();
    Ok(ReceiptChain {
        chain_id: chain_id(expected.id.as_str()),
        receipts: receipts.map_err(|error| Bug(error.to_string()))?,
        root_hash: Some(root),
    })
}
