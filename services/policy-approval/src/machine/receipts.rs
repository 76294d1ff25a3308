//! Receipts of an approval (12.6) follow from its records, as an action's do. They hold ids, decisions and hashes, never
//! a text of anybody or anything of the governed input.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use aip_crypto::{canonical, receipt};
use aip_kernel::{Bug, Header, Millis, Past, stamp};
use aip_wire::trusted::PrincipalRef;
use aip_wire::{
    ApprovalDecision, ApprovalId, Principal, PrincipalKind, Receipt, ReceiptChain, ReceiptId, ReceiptRef,
    ReceiptType, Timestamp,
};

use super::Event;
use super::approval::{self, ApprovalEvent, ApprovalState};

/// How many receipts an approval has, and the last of them.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Chain {
    pub count: u32,
    pub head: Option<ReceiptRef>,
}

const CHAIN_PREFIX: &str = "approval:";

/// The chain of an approval's receipts has this id.
pub fn chain_id(approval: &ApprovalId) -> String {
    format!("{CHAIN_PREFIX}{approval}")
}

/// The approval that a chain id names.
pub fn approval_of(chain_id: &str) -> Option<ApprovalId> {
    chain_id.strip_prefix(CHAIN_PREFIX).map(ApprovalId::opaque)
}

/// The receipt of one event, linked behind those before it; `state` is what the event left.
///
/// # Errors
/// A receipt can't be written as JSON, which no receipt is so far from as to expect.
pub(super) fn of(
    state: &mut ApprovalState,
    event: &ApprovalEvent,
    header: &Header,
    log_time: Millis,
) -> Result<Vec<Value>, Bug> {
    let Some((receipt_type, actor, place, data)) = draft(state, event) else { return Ok(Vec::new()) };
    let id = format!("{}{}", ReceiptId::PREFIX, stamp::stamp(log_time, &header.id, place));
    let id = ReceiptId::opaque(id);
    let receipt = Receipt {
        id: id.clone(),
        receipt_type,
        actor: Principal::new(actor.id, actor.kind),
        occurred_at: Timestamp::from_ms(log_time),
        correlation_id: None,
        data: Some(data),
        previous_hash: None,
        hash: None,
    };
    let mut receipt = serde_json::to_value(receipt).map_err(|error| Bug(error.to_string()))?;
    let previous = state.receipts.head.as_ref().map(|head| head.hash.as_str());
    let hash = receipt::seal(&mut receipt, previous).map_err(|error| Bug(error.to_string()))?;
    state.receipts.count += 1;
    state.receipts.head = Some(ReceiptRef { id, hash });
    Ok(vec![receipt])
}

/// Of what kind, by whom, at which place in its record, about what.
fn draft(state: &ApprovalState, event: &ApprovalEvent) -> Option<(ReceiptType, PrincipalRef, u8, Value)> {
    let gateway = || state.gateway.clone();
    let own = json!({
        "approval_id": state.request.id,
        "action_id": state.request.action_id,
        "policy_hash": state.request.policy_hash,
    });
    let with = |more: Value| {
        let mut data = own.clone();
        if let (Some(data), Value::Object(more)) = (data.as_object_mut(), more) {
            data.extend(more);
        }
        data
    };
    Some(match event {
        ApprovalEvent::Requested(requested) => (
            ReceiptType::ApprovalRequested,
            gateway(),
            1,
            with(json!({
                "capability_id": state.request.capability_id,
                "contract_hash": requested.governed.contract_hash,
                "input_hash": requested.governed.input_hash,
                "requester": state.request.requester.id,
                "expires_at": state.request.expires_at,
            })),
        ),
        ApprovalEvent::Approved(decision) => {
            let human = decision.approver.kind == PrincipalKind::Human;
            let receipt_type = if human { ReceiptType::HumanApproved } else { ReceiptType::PolicyDecision };
            (receipt_type, PrincipalRef::of(&decision.approver), 1, with(said(decision)))
        }
        ApprovalEvent::Granted => {
            let decisions: Vec<_> = state.approvals.iter().map(|one| &one.decision_id).collect();
            (ReceiptType::ApprovalGranted, gateway(), 2, with(json!({"decisions": decisions})))
        }
        ApprovalEvent::Denied(decision) => {
            (ReceiptType::ApprovalDenied, PrincipalRef::of(&decision.approver), 1, with(said(decision)))
        }
        ApprovalEvent::Revoked(decision) => {
            (ReceiptType::ApprovalRevoked, PrincipalRef::of(&decision.approver), 1, with(said(decision)))
        }
        ApprovalEvent::Expired => (ReceiptType::ApprovalExpired, gateway(), 2, own),
        ApprovalEvent::Withdrawn { why } => {
            (ReceiptType::ApprovalRevoked, gateway(), 1, with(json!({"withdrawn": why})))
        }
        ApprovalEvent::Stepped { .. } | ApprovalEvent::Told { .. } | ApprovalEvent::Noticed { .. } => {
            return None;
        }
    })
}

/// A decision by its ids and hashes.
fn said(decision: &ApprovalDecision) -> Value {
    let hash = |value: Value| canonical::hash(&value);
    json!({
        "decision": decision.decision,
        "decision_id": decision.decision_id,
        "authority_path": decision.authority_path,
        "reason_hash": decision.reason.as_ref().map(|reason| hash(json!(reason))),
        "constraints_hash": (!decision.constraints.is_empty()).then(|| hash(json!(decision.constraints))),
        "evidence_hash": (!decision.evidence.is_empty()).then(|| hash(json!(decision.evidence))),
        "target_decision_id": decision.target_decision_id,
    })
}

/// Tells an approval's chain again from its history.
///
/// # Errors
/// The history does not lead to `expected`: evidence was changed.
pub fn chain(past: &[Past<Event>], expected: &ApprovalState) -> Result<ReceiptChain, Bug> {
    let mut state = None;
    let mut receipts = Vec::new();
    for (record, _, log_time) in past {
        for event in &record.events {
            let Event::Approval(event) = event else { continue };
            let (next, sealed) = approval::step(state.take(), event, &record.header, *log_time)?;
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
        chain_id: chain_id(&expected.request.id),
        receipts: receipts.map_err(|error| Bug(error.to_string()))?,
        root_hash: Some(root),
    })
}
