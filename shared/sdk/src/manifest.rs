//! What a worker tells the gateway of itself (9.1): its capabilities, where they are reached, and what stands behind their
//! contracts.

use aip_names::{Service, Version};
use aip_wire::{Capability, Manifest, Principal, ProfileId};
use serde_json::json;

/// The form of a manifest (9.1).
const MANIFEST_VERSION: &str = "aip-manifest/v1";
/// The profile that a worker speaks (20.4).
const PROFILE: &str = "aip.native.nats.v1";
/// The manifest extension that tells the gateway where handlers are reached and what they do.
const EXTENSION: &str = "aip.worker";

/// The manifest of all that a worker version offers. Without capabilities it takes back what was offered before.
pub(crate) fn manifest(
    agent: &Principal,
    service: &Service,
    version: Version,
    capabilities: Vec<Capability>,
) -> Manifest {
    let handlers: Vec<_> = capabilities.iter().map(handler).collect();
    let worker = json!({
        "service": service.as_str(),
        "version": version.to_string(),
        "handlers": handlers,
    });
    Manifest {
        manifest_version: MANIFEST_VERSION.to_owned(),
        agent: agent.clone(),
        capabilities,
        profiles: ProfileId::parse(PROFILE).into_iter().collect(),
        resources: Vec::new(),
        channels: Vec::new(),
        security: None,
        governance: None,
        limits: None,
        compatibility: None,
        extensions: Some(json!({ EXTENSION: worker })),
    }
}

fn handler(capability: &Capability) -> serde_json::Value {
    let execution = capability.contract.as_ref().map(|contract| &contract.execution);
    let modes = [
        ("sync", execution.is_none_or(|execution| execution.supports_sync)),
        ("async", execution.is_some_and(|execution| execution.supports_async)),
        ("streaming", execution.is_some_and(|execution| execution.supports_streaming)),
    ];
    let modes: Vec<_> = modes.into_iter().filter_map(|(mode, offered)| offered.then_some(mode)).collect();
    let cancel = execution.is_some_and(|execution| execution.supports_cancel);
    json!({ "capability_id": capability.id, "modes": modes, "cancel": cancel })
}
