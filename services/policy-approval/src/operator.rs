//! The service's operator verbs: capabilities that it offers itself as a worker, called as any other.

use std::path::Path;
use std::sync::Arc;

use aip_bus::Bus;
use aip_crypto::SigningKey;
use aip_names::operator::POLICY_APPROVAL_EXPIRE;
use aip_names::{OwnService, TrustDomain};
use aip_sdk::{ActionError, CapabilitySpec, Context, Worker, WorkerConfig, WorkerError};
use aip_wire::{ApprovalId, Principal, RetrySafety, RiskLevel, SideEffect, codes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::service::PolicyApproval;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Expire {
    #[schemars(length(min = 1, max = 256))]
    approval_id: String,
}

#[derive(Serialize, JsonSchema)]
struct Expired {
    approval_id: String,
    status: String,
}

/// Offers the verbs until it is dropped.
///
/// # Errors
/// The worker's store is in use, or NATS does not let it serve.
pub async fn serve(
    service: &PolicyApproval,
    bus: &Bus,
    trust_domain: &TrustDomain,
    principal: Principal,
    key: Arc<SigningKey>,
    data_dir: &Path,
) -> Result<Worker, WorkerError> {
    let own = OwnService::PolicyApproval.service();
    let store = data_dir.join("verbs.redb");
    let config = WorkerConfig::new(trust_domain.clone(), own, principal, key, store);
    let spec = CapabilitySpec::write(
        POLICY_APPROVAL_EXPIRE,
        "Let an approval expire",
        "Ends an approval that waits, as if its time were over: its action ends unapproved.",
        SideEffect::Write,
        RetrySafety::Safe,
    )
    .risk(RiskLevel::High);
    let service = service.clone();
    Worker::builder(config)
        .capability(spec, move |context, input| expire(service.clone(), context, input))
        .start(bus)
        .await
}

async fn expire(service: PolicyApproval, context: Context, input: Expire) -> Result<Expired, ActionError> {
    let told = |refusal: aip_wire::Refusal| ActionError::registered(refusal.code, refusal.message);
    let id = ApprovalId::opaque(input.approval_id);
    let state = service.expire(id, context.tenant()).await.map_err(told)?;
    let state = state.ok_or_else(|| {
        ActionError::registered(codes::APPROVAL_NOT_FOUND, codes::APPROVAL_NOT_FOUND.meaning)
    })?;
    Ok(Expired { approval_id: state.request.id.to_string(), status: state.status.as_str().to_owned() })
}
