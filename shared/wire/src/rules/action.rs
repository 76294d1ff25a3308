//! Actions and what is said about them (section 11, 16.5).

use aip_names::limits::DELEGATION_HOPS_MAX;

use super::check::{At, nonempty_if, positive_if, rows};
use super::{Judged, approval, identity};
use crate::codes;
use crate::types::{
    Action, ActionEvents, ActionLifecycleState, ActionResult, ActionResultStatus, ActionStatus,
    ApprovalDecisionKind, TransactionMode,
};

pub(super) fn action(action: &Action, at: &At<'_>) -> Judged {
    if action.input.is_null() {
        return Err(at.member("input").rule("must not be null"));
    }
    nonempty_if(at, "idempotency_key", action.idempotency_key.as_deref())?;
    positive_if(at, "timeout_ms", action.timeout_ms)?;
    if action.delegation_chain.len() > DELEGATION_HOPS_MAX {
        let place = at.member("delegation_chain");
        return Err(place.refuse(codes::LIMIT_DELEGATION_HOPS, "must not have more than ten hops"));
    }
    identity::identity_if(action.identity.as_ref(), at)?;
    if let Some(decision) = &action.approval {
        let place = at.member("approval");
        approval::decision(decision, &place)?;
        if decision.decision != ApprovalDecisionKind::Approved {
            return Err(place.member("decision").rule("must be approved"));
        }
    }
    let Some(transaction) = &action.transaction else { return Ok(()) };
    let place = at.member("transaction");
    match transaction.mode {
        TransactionMode::Commit if transaction.plan_id.is_none() => {
            Err(place.member("plan_id").rule("a commit needs it"))
        }
        TransactionMode::Compensate if transaction.compensation_for.is_none() => {
            Err(place.member("compensation_for").rule("a compensation needs it"))
        }
        _ => Ok(()),
    }
}

pub(super) fn result(result: &ActionResult, at: &At<'_>) -> Judged {
    if result.status == ActionResultStatus::Failed && result.error.is_none() {
        return Err(at.member("error").rule("a failed result needs it"));
    }
    Ok(())
}

pub(super) fn status(status: &ActionStatus, at: &At<'_>) -> Judged {
    let explained =
        status.result_status.is_some() || status.result.as_ref().is_some_and(|result| result.error.is_some());
    if status.state == ActionLifecycleState::Failed && !explained {
        return Err(at.member("result_status").rule("a failed action needs it, or a result with an error"));
    }
    Ok(())
}

pub(super) fn events(page: &ActionEvents, at: &At<'_>) -> Judged {
    rows(at, "events", page.events.len())?;
    rows(at, "chunks", page.chunks.len())?;
    let events = at.member("events");
    for (index, event) in page.events.iter().enumerate() {
        let event_at = events.item(index);
        let place = event_at.member("action_id");
        match &event.action_id {
            None => return Err(place.rule("an event of an action needs it")),
            Some(id) if *id != page.action_id => return Err(place.disagree("names another action")),
            Some(_) => {}
        }
    }
    let chunks = at.member("chunks");
    match page.chunks.iter().position(|chunk| chunk.action_id != page.action_id) {
        Some(index) => Err(chunks.item(index).member("action_id").disagree("names another action")),
        None => Ok(()),
    }
}
