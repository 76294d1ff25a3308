//! An approval as the wire shows it.

use aip_kernel::{Fault, View};
use aip_names::limits::APPROVAL_RECORDS_MAX;
use aip_wire::{ApprovalRecordView, ReceiptChain, Timestamp};

use crate::machine::{ApprovalState, PolicyMachine, keys, receipts};

/// Without the governed input, and without how its action stands: both are for others to add.
pub fn of(state: &ApprovalState, receipt_chain: Option<ReceiptChain>) -> ApprovalRecordView {
    ApprovalRecordView {
        request: state.request.clone(),
        decision: state.decision(),
        status: state.status.as_str().to_owned(),
        action_status: None,
        receipt_chain,
        evidence_payload: None,
        created_at: Timestamp::from_ms(state.created_at),
        updated_at: Timestamp::from_ms(state.updated_at),
    }
}

/// The approval's receipts, told again from its history.
///
/// # Errors
/// The store can't answer, or the history does not lead to what stands.
pub fn chain(view: &dyn View<PolicyMachine>, state: &ApprovalState) -> Result<ReceiptChain, Fault> {
    let past = view.history(&keys::approval(&state.request.id), 1, APPROVAL_RECORDS_MAX)?;
    receipts::chain(&past, state).map_err(|bug| Fault(bug.0))
}
