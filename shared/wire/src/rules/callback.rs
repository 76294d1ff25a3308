//! Callback deliveries (section 17).

use super::Judged;
use super::check::{At, nonblank, nonblank_if, page};
use crate::types::{CallbackDeliveryListRequest, CallbackDeliveryQueryRequest, CallbackDeliveryRecord};

pub(super) fn query(query: &CallbackDeliveryQueryRequest, at: &At<'_>) -> Judged {
    nonblank(at, "delivery_id", &query.delivery_id)?;
    nonblank_if(at, "tenant_id", query.tenant_id.as_deref())
}

pub(super) fn list_request(request: &CallbackDeliveryListRequest, at: &At<'_>) -> Judged {
    nonblank_if(at, "tenant_id", request.tenant_id.as_deref())?;
    page(at, request.limit)?;
    nonblank_if(at, "target", request.target.as_deref())
}

pub(super) fn record(record: &CallbackDeliveryRecord, at: &At<'_>) -> Judged {
    nonblank(at, "delivery_id", &record.delivery_id)?;
    nonblank(at, "message_type", &record.message_type)?;
    if record.policy.delivery_id != record.delivery_id {
        return Err(at.member("policy").member("delivery_id").disagree("names another delivery"));
    }
    Ok(())
}
