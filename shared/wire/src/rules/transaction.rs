//! Transactions (section 13).

use super::check::{At, nonblank, nonblank_if};
use super::{Judged, action};
use crate::ids::TransactionId;
use crate::types::{
    ActionResultStatus, ActionTransaction, TransactionProtocolStatus, TransactionQueryRequest,
    TransactionRequest, TransactionResult, TransactionView,
};

pub(super) fn request(request: &TransactionRequest, at: &At<'_>) -> Judged {
    let place = at.member("action");
    let Some(transaction) = &request.action.transaction else {
        return Err(place.member("transaction").rule("a transaction request needs it"));
    };
    if transaction.transaction_id.as_ref().is_some_and(|id| *id != request.transaction_id) {
        return Err(place
            .member("transaction")
            .member("transaction_id")
            .disagree("names another transaction"));
    }
    action::action(&request.action, &place)
}

pub(super) fn result(result: &TransactionResult, at: &At<'_>) -> Judged {
    same_transaction(&result.transaction, &result.transaction_id, at)?;
    match result.status {
        TransactionProtocolStatus::Failed => {
            let explained = result.error.is_some()
                || result
                    .result
                    .as_ref()
                    .is_some_and(|inner| inner.status == ActionResultStatus::Failed && inner.error.is_some());
            if explained { Ok(()) } else { Err(at.member("error").rule("a failed transaction needs it")) }
        }
        TransactionProtocolStatus::Planned => {
            let place = at.member("plan");
            let Some(plan) = &result.plan else { return Err(place.rule("a planned transaction needs it")) };
            let differing = if plan.transaction_id != result.transaction_id {
                "transaction_id"
            } else if plan.action_id != result.action_id {
                "action_id"
            } else if plan.capability_id != result.capability_id {
                "capability_id"
            } else {
                return Ok(());
            };
            Err(place.member(differing).disagree("differs from the result's own"))
        }
        _ => Ok(()),
    }
}

pub(super) fn query(query: &TransactionQueryRequest, at: &At<'_>) -> Judged {
    let named = [query.transaction_id.is_some(), query.plan_id.is_some(), query.action_id.is_some()];
    if named.iter().filter(|given| **given).count() != 1 {
        return Err(at.rule("needs exactly one of transaction_id, plan_id and action_id"));
    }
    nonblank_if(at, "plan_id", query.plan_id.as_deref())?;
    nonblank_if(at, "tenant_id", query.tenant_id.as_deref())
}

pub(super) fn view(view: &TransactionView, at: &At<'_>) -> Judged {
    same_transaction(&view.transaction, &view.transaction_id, at)?;
    nonblank(at, "status", &view.status)
}

fn same_transaction(transaction: &ActionTransaction, id: &TransactionId, at: &At<'_>) -> Judged {
    let within = at.member("transaction");
    let place = within.member("transaction_id");
    match &transaction.transaction_id {
        None => Err(place.rule("must be given here")),
        Some(inner) if inner != id => Err(place.disagree("names another transaction")),
        Some(_) => Ok(()),
    }
}
