//! Reads of actions and resources (section 16).

use super::Judged;
use super::check::{At, no_blank_entry, nonblank, nonblank_if, page, wait};
use crate::types::{
    ActionEventsRequest, ActionListRequest, ActionResultRequest, ActionStatusRequest, ResourceListRequest,
    ResourceReadRequest,
};

pub(super) fn action_status(request: &ActionStatusRequest, at: &At<'_>) -> Judged {
    nonblank_if(at, "tenant_id", request.tenant_id.as_deref())?;
    wait(at, request.wait_ms)
}

pub(super) fn action_result(request: &ActionResultRequest, at: &At<'_>) -> Judged {
    nonblank_if(at, "tenant_id", request.tenant_id.as_deref())?;
    wait(at, request.wait_ms)
}

pub(super) fn action_list(request: &ActionListRequest, at: &At<'_>) -> Judged {
    nonblank_if(at, "tenant_id", request.tenant_id.as_deref())?;
    page(at, request.limit)
}

pub(super) fn action_events(request: &ActionEventsRequest, at: &At<'_>) -> Judged {
    nonblank_if(at, "tenant_id", request.tenant_id.as_deref())?;
    no_blank_entry(at, "kinds", &request.kinds)?;
    page(at, request.limit)
}

pub(super) fn resource_list(request: &ResourceListRequest, at: &At<'_>) -> Judged {
    nonblank_if(at, "tenant_id", request.tenant_id.as_deref())?;
    page(at, request.limit)?;
    nonblank_if(at, "kind", request.kind.as_deref())
}

pub(super) fn resource_read(request: &ResourceReadRequest, at: &At<'_>) -> Judged {
    nonblank(at, "resource_id", &request.resource_id)?;
    nonblank_if(at, "tenant_id", request.tenant_id.as_deref())?;
    nonblank_if(at, "version", request.version.as_deref())
}
