//! The gateway's own manifest: the union of what is registered, as its reader may see it (9.8). What a reader could not
//! invoke does not exist for it.

use serde_json::json;

use aip_admission::{Caller, ContractView, may_discover};
use aip_kernel::Millis;
use aip_names::limits::{
    ACTION_TIMEOUT_MAX_MS, ENVELOPE_BYTES_MAX, MANIFEST_CAPABILITIES_MAX, MANIFEST_ROWS_MAX, WAIT_MS_MAX,
};
use aip_service::fault;
use aip_wire::{Capability, Manifest, ManifestFilter, ManifestRequest, ProfileId, Refusal, RiskLevel};

use crate::catalog::Place;
use crate::gateway::Gateway;
use crate::machine::manifest;

/// The one manifest version of this specification (9.1).
const MANIFEST_VERSION: &str = "aip-manifest/v1";
/// The profiles that this release serves (25.1).
pub const PROFILES: [&str; 2] = ["aip.native.http.v1", "aip.native.nats.v1"];

/// Rows looked at for one manifest: several contracts of a capability may stand beside each other.
const ROWS_MAX: usize = MANIFEST_CAPABILITIES_MAX + MANIFEST_ROWS_MAX;

// === impl Gateway ===

impl Gateway {
    pub(crate) async fn manifest(
        &self,
        caller: &Caller,
        request: &ManifestRequest,
        now: Millis,
    ) -> Result<Manifest, Refusal> {
        let rows = self.ledger().read(|view| manifest::all(view, ROWS_MAX)).await;
        let mut rows = rows.map_err(|error| fault::of_ledger(&error))?;
        // the newest of each capability comes first: it is what new actions get
        rows.dedup_by(|later, first| later.key.capability_id == first.key.capability_id);
        let directory = self.authenticator().directory();
        let everything = ManifestFilter::default();
        let filter = request.filter.as_ref().unwrap_or(&everything);
        let own = self.operator().offered().iter().map(|verb| &verb.capability);
        let shown = |one: &Capability| may_discover(caller, one, &directory, now) && passes(one, filter);
        let mut capabilities: Vec<Capability> = own.filter(|own| shown(own)).cloned().collect();
        for row in rows.into_iter().take(MANIFEST_CAPABILITIES_MAX) {
            let place = Place {
                provider: &row.provider.id,
                registration_n: row.n,
                capability_id: &row.key.capability_id,
                contract_hash: &row.key.contract_hash,
            };
            let offer = self.catalog().offer(self.ledger(), place).await?;
            if shown(&offer.capability) {
                capabilities.push(offer.capability.clone());
            }
        }
        Ok(self.describe(capabilities))
    }

    fn describe(&self, capabilities: Vec<Capability>) -> Manifest {
        Manifest {
            manifest_version: MANIFEST_VERSION.to_owned(),
            agent: self.voice().principal().clone(),
            capabilities,
            profiles: PROFILES.into_iter().filter_map(|id| ProfileId::parse(id).ok()).collect(),
            resources: Vec::new(),
            channels: Vec::new(),
            security: Some(
                json!({"signatures": "Ed25519 with did:key", "replies_to_signed_requests": "signed"}),
            ),
            governance: None,
            limits: Some(json!({
                "envelope_bytes_max": ENVELOPE_BYTES_MAX,
                "action_timeout_ms_max": ACTION_TIMEOUT_MAX_MS,
                "wait_ms_max": WAIT_MS_MAX,
            })),
            compatibility: None,
            extensions: None,
        }
    }
}

/// All filters that are given have to hold. What a capability does not declare is read conservatively, as admission
/// reads it.
fn passes(capability: &Capability, filter: &ManifestFilter) -> bool {
    let contract = ContractView::of(capability);
    let declared = capability.contract.as_ref();
    let risk = capability.risk.unwrap_or(RiskLevel::High);
    let any =
        |given: &[aip_wire::SideEffect]| given.iter().any(|effect| contract.side_effects.contains(effect));
    // every capability is reached through each profile that we serve
    let served = |profile: &ProfileId| PROFILES.contains(&profile.as_str());
    (filter.capability_ids.is_empty() || filter.capability_ids.contains(&capability.id))
        && (filter.profiles.is_empty() || filter.profiles.iter().any(served))
        && (filter.risk.is_empty() || filter.risk.contains(&risk))
        && (filter.side_effects.is_empty() || any(&filter.side_effects))
        && filter.requires_approval.is_none_or(|wanted| wanted == contract.approval_required)
        && filter.supports_streaming.is_none_or(|wanted| wanted == contract.execution.supports_streaming)
        && filter
            .supports_transactions
            .is_none_or(|wanted| wanted == declared.is_some_and(|contract| contract.transaction.is_some()))
}

#[cfg(test)]
mod tests;
