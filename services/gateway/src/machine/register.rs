//! Takes a worker's manifest. A capability that comes with another contract than before stands beside the old one; what
//! the manifest leaves out of the same service and version, or names under `withdraw`, is withdrawn.

use aip_kernel::{Decision, Draft, Facts, Fault, View};
use aip_names::limits::MANIFEST_ROWS_MAX;
use aip_wire::Manifest;

use super::action::Actor;
use super::manifest::{self, ManifestEvent, ManifestState, Registered, RowKey};
use super::replay::ReplayClaim;
use super::{Answer, Event, GatewayMachine, Refusal, State, keys};

/// A manifest that its sender may register, complete and with a handler behind each contract. Made only by the
/// gateway's road.
#[derive(Debug)]
pub struct RegisterManifest {
    pub(crate) provider: Actor,
    pub(crate) manifest: Manifest,
    pub(crate) service: String,
    pub(crate) version: String,
    /// Contract hashes that the worker gives up.
    pub(crate) withdraw: Vec<String>,
    pub(crate) message_id: String,
    pub(crate) replay: Option<ReplayClaim>,
}

pub(super) fn decide(
    view: &dyn View<GatewayMachine>,
    register: &RegisterManifest,
    _facts: &Facts,
) -> Result<Decision<GatewayMachine>, Fault> {
    if let Some(replay) = &register.replay
        && view.claim(&replay.name)?.is_some()
    {
        return Ok(Decision::Answer(Answer::Refused(Refusal::Replayed)));
    }
    let entity = keys::manifest(&register.provider.id);
    let state = match view.entity(&entity)?.map(|entity| entity.state) {
        None => ManifestState::default(),
        Some(State::Manifest(state)) => state,
        Some(State::Action(_) | State::Replay(_)) => return Err(Fault(format!("{entity} is no manifest"))),
    };
    let registered = register.changes(&state);
    let (added, withdrawn) = (registered.added.len(), registered.withdrawn.len());
    if added == 0 && withdrawn == 0 {
        return Ok(register.without_change(Answer::Unchanged, None));
    }
    if state.rows.len() + added > MANIFEST_ROWS_MAX + withdrawn {
        let refusal = Refusal::TooManyRegistrations;
        return Ok(
            register.without_change(Answer::Refused(refusal), Some(crate::errors::of_refusal(refusal).name))
        );
    }
    let event = Event::Manifest(ManifestEvent::Registered(Box::new(registered)));
    let mut draft = Draft::new(entity, vec![event]).cause(register.message_id.clone());
    if let Some(replay) = &register.replay {
        draft = draft.claims(replay.name.clone(), Some(replay.until));
    }
    Ok(Decision::Append { draft, answer: Answer::Registered { added, withdrawn } })
}

// === impl RegisterManifest ===

impl RegisterManifest {
    fn changes(&self, state: &ManifestState) -> Registered {
        let mut added = Vec::new();
        let mut kept = Vec::new();
        for capability in &self.manifest.capabilities {
            let digests = manifest::digests(capability);
            let key = RowKey::of(&digests, &self.service, &self.version);
            if state.row(&key).is_none_or(|row| row.body_hash != digests.body_hash) {
                added.push(digests);
            }
            kept.push(key);
        }
        let left_out = |key: &RowKey| {
            key.service == self.service
                && key.version == self.version
                && !kept.iter().any(|kept| kept.capability_id == key.capability_id)
        };
        let withdrawn = state.rows.iter().map(|row| &row.key).filter(|key| {
            !kept.contains(key) && (left_out(key) || self.withdraw.contains(&key.contract_hash))
        });
        Registered {
            withdrawn: withdrawn.cloned().collect(),
            added,
            manifest: self.manifest.clone(),
            service: self.service.clone(),
            version: self.version.clone(),
        }
    }

    fn without_change(&self, answer: Answer, refused: Option<&str>) -> Decision<GatewayMachine> {
        match &self.replay {
            Some(replay) => Decision::Append { draft: replay.draft(&self.provider, refused), answer },
            None => Decision::Answer(answer),
        }
    }
}
