//! Delegation (section 14).

use super::check::{At, nonblank};
use super::{Judged, action};
use crate::types::{DelegationRequest, DelegationResult, DelegationStatus};

pub(super) fn request(request: &DelegationRequest, at: &At<'_>) -> Judged {
    nonblank(at, "scope", &request.scope)?;
    let child = at.member("child_action");
    if request.parent_action_id == request.child_action.id {
        return Err(child.member("id").disagree("must differ from the parent's"));
    }
    action::action(&request.child_action, &child)
}

pub(super) fn result(result: &DelegationResult, at: &At<'_>) -> Judged {
    let running = matches!(result.status, DelegationStatus::Accepted | DelegationStatus::Running);
    if !running && result.result.is_none() && result.error.is_none() {
        return Err(at.member("result").rule("a delegation that ended needs a result or an error"));
    }
    Ok(())
}
