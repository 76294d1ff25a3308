//! Approval requests, decisions and records (section 12).

use super::check::{At, nonblank, nonblank_if, page};
use super::{Judged, identity};
use crate::types::{
    ApprovalDecision, ApprovalListRequest, ApprovalRecordView, ApprovalRequest, EvidenceArtifact,
};

pub(super) fn request(request: &ApprovalRequest, at: &At<'_>) -> Judged {
    nonblank(at, "reason", &request.reason)?;
    identity::identity_if(request.identity.as_ref(), at)?;
    evidence(&request.evidence, at)
}

pub(super) fn decision(decision: &ApprovalDecision, at: &At<'_>) -> Judged {
    nonblank_if(at, "reason", decision.reason.as_deref())?;
    let constraints = at.member("constraints");
    for (index, constraint) in decision.constraints.iter().enumerate() {
        let place = constraints.item(index);
        nonblank(&place, "field", &constraint.field)?;
        nonblank(&place, "operator", &constraint.operator)?;
    }
    evidence(&decision.evidence, at)
}

pub(super) fn list_request(request: &ApprovalListRequest, at: &At<'_>) -> Judged {
    page(at, request.limit)?;
    nonblank_if(at, "status", request.status.as_deref())?;
    nonblank_if(at, "tenant_id", request.tenant_id.as_deref())
}

pub(super) fn record_view(view: &ApprovalRecordView, at: &At<'_>) -> Judged {
    request(&view.request, &at.member("request"))?;
    if let Some(made) = &view.decision {
        let place = at.member("decision");
        decision(made, &place)?;
        if made.approval_id != view.request.id {
            return Err(place.member("approval_id").disagree("decides another request"));
        }
    }
    nonblank(at, "status", &view.status)
}

fn evidence(artifacts: &[EvidenceArtifact], at: &At<'_>) -> Judged {
    let list = at.member("evidence");
    for (index, artifact) in artifacts.iter().enumerate() {
        let place = list.item(index);
        nonblank(&place, "id", &artifact.id)?;
        nonblank(&place, "kind", &artifact.kind)?;
    }
    Ok(())
}
