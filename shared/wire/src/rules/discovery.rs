//! Manifests and capability contracts (section 9).

use std::collections::BTreeSet;

use super::Judged;
use super::check::{At, no_blank_entry, nonblank, positive_if};
use crate::types::{Capability, CapabilityContract, CompensationMode, Manifest, ManifestRequest};

pub(super) fn request(request: &ManifestRequest, at: &At<'_>) -> Judged {
    match &request.filter {
        Some(filter) => no_blank_entry(&at.member("filter"), "resource_kinds", &filter.resource_kinds),
        None => Ok(()),
    }
}

pub(super) fn manifest(manifest: &Manifest, at: &At<'_>) -> Judged {
    if manifest.manifest_version != Manifest::VERSION {
        return Err(at.member("manifest_version").rule("must be aip-manifest/v1"));
    }
    if manifest.profiles.is_empty() {
        return Err(at.member("profiles").rule("must not be empty"));
    }
    let list = at.member("capabilities");
    let mut seen = BTreeSet::new();
    for (index, offered) in manifest.capabilities.iter().enumerate() {
        let place = list.item(index);
        capability(offered, &place)?;
        if !seen.insert(&offered.id) {
            return Err(place.member("id").disagree("stands twice in this manifest"));
        }
    }
    Ok(())
}

fn capability(capability: &Capability, at: &At<'_>) -> Judged {
    nonblank(at, "name", &capability.name)?;
    if !capability.input_schema.is_object() {
        return Err(at.member("input_schema").rule("must be an object"));
    }
    match &capability.contract {
        Some(declared) => contract(declared, &at.member("contract")),
        None => Ok(()),
    }
}

pub(super) fn contract(contract: &CapabilityContract, at: &At<'_>) -> Judged {
    if contract.side_effects.is_empty() {
        return Err(at.member("side_effects").rule("must name at least one"));
    }
    positive_if(&at.member("idempotency"), "ttl_ms", contract.idempotency.ttl_ms)?;
    let execution = &contract.execution;
    if !(execution.supports_sync || execution.supports_async || execution.supports_streaming) {
        return Err(at.member("execution").rule("must support sync, async or streaming"));
    }
    if let Some(sla) = &contract.sla {
        let place = at.member("sla");
        positive_if(&place, "expected_latency_ms", sla.expected_latency_ms)?;
        positive_if(&place, "timeout_ms", sla.timeout_ms)?;
        positive_if(&place, "max_queue_delay_ms", sla.max_queue_delay_ms)?;
    }
    if let Some(policy) = &contract.credentials {
        let place = at.member("credentials");
        no_blank_entry(&place, "accepted_issuers", &policy.accepted_issuers)?;
        no_blank_entry(&place, "required_scopes", &policy.required_scopes)?;
    }
    if let Some(policy) = &contract.approval {
        positive_if(&at.member("approval"), "ttl_ms", policy.ttl_ms)?;
    }
    if contract.transaction.as_ref().is_some_and(|declared| declared.supported_modes.is_empty()) {
        return Err(at.member("transaction").member("supported_modes").rule("must name at least one"));
    }
    let Some(compensation) = &contract.compensation else { return Ok(()) };
    let place = at.member("compensation");
    if compensation.mode == CompensationMode::Supported && compensation.compensation_capability_id.is_none() {
        return Err(place.member("compensation_capability_id").rule("supported compensation needs it"));
    }
    positive_if(&place, "compensation_window_ms", compensation.compensation_window_ms)
}
