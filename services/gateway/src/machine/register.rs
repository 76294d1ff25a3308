//! Takes a worker's manifest. A capability that comes with another contract than before stands beside the old one; what
//! the manifest leaves out of the same service and version, or names under `withdraw`, is withdrawn.

use aip_kernel::{Decision, Draft, Facts, Fault, View};
use aip_names::limits::MANIFEST_ROWS_MAX;
use aip_wire::trusted::PrincipalRef;
use aip_wire::{CapabilityId, Manifest, MessageId};

use super::manifest::{ManifestEvent, ManifestState, Registered, RowKey};
use super::note::{self, Note, Refused, ReplayClaim};
use super::{Answer, Event, GatewayMachine, Refusal, State, keys};
use crate::errors;

/// A manifest that its sender may register, complete and with a handler behind each contract. Made only by the
/// gateway's road.
#[derive(Debug)]
pub struct RegisterManifest {
    pub(crate) provider: PrincipalRef,
    pub(crate) manifest: Manifest,
    /// Each capability of the manifest with the digest of what it declares.
    pub(crate) contracts: Vec<(CapabilityId, String)>,
    pub(crate) service: String,
    pub(crate) version: String,
    /// Contract hashes that the worker gives up.
    pub(crate) withdraw: Vec<String>,
    pub(crate) message_id: MessageId,
    pub(crate) replay: Option<ReplayClaim>,
}

pub(super) fn decide(
    view: &dyn View<GatewayMachine>,
    register: &RegisterManifest,
    facts: &Facts,
) -> Result<Decision<GatewayMachine>, Fault> {
    if note::is_held(view, register.replay.as_ref())? {
        return Ok(Decision::Answer(Answer::Refused(Refusal::Replayed)));
    }
    let entity = keys::manifest(&register.provider.id);
    let state = match view.entity(&entity)?.map(|entity| entity.state) {
        None => ManifestState::default(),
        Some(State::Manifest(state)) => state,
        Some(State::Action(_) | State::Message(_)) => return Err(Fault(format!("{entity} is no manifest"))),
    };
    let registered = register.changes(&state);
    let (added, withdrawn) = (registered.added.len(), registered.withdrawn.len());
    if added == 0 && withdrawn == 0 {
        return Ok(register.without_change(Answer::Unchanged, facts));
    }
    if state.rows.len() + added > MANIFEST_ROWS_MAX + withdrawn {
        return Ok(register.without_change(Answer::Refused(Refusal::TooManyRegistrations), facts));
    }
    let event = Event::Manifest(ManifestEvent::Registered(Box::new(registered)));
    let mut draft = Draft::new(entity, vec![event]).cause(register.message_id.as_str());
    if let Some(replay) = &register.replay {
        draft = draft.claims(replay.name.clone(), Some(replay.until));
    }
    Ok(Decision::Append { draft, answer: Answer::Registered { added, withdrawn } })
}

// === impl RegisterManifest ===

impl RegisterManifest {
    fn changes(&self, state: &ManifestState) -> Registered {
        let comes: Vec<RowKey> = self.contracts.iter().map(|(id, hash)| self.key(id, hash)).collect();
        let left_out = |key: &RowKey| {
            key.service == self.service
                && key.version == self.version
                && !comes.iter().any(|comes| comes.capability_id == key.capability_id)
        };
        let withdrawn = state.rows.iter().map(|row| &row.key).filter(|key| {
            !comes.contains(key) && (left_out(key) || self.withdraw.contains(&key.contract_hash))
        });
        Registered {
            withdrawn: withdrawn.cloned().collect(),
            added: comes.iter().filter(|key| state.row(key).is_none()).cloned().collect(),
            manifest: self.manifest.clone(),
            service: self.service.clone(),
            version: self.version.clone(),
        }
    }

    fn key(&self, capability_id: &CapabilityId, contract_hash: &str) -> RowKey {
        RowKey {
            capability_id: capability_id.clone(),
            contract_hash: contract_hash.to_owned(),
            service: self.service.clone(),
            version: self.version.clone(),
        }
    }

    fn without_change(&self, answer: Answer, facts: &Facts) -> Decision<GatewayMachine> {
        if self.replay.is_none() {
            return Decision::Answer(answer);
        }
        let refused = match answer {
            Answer::Refused(refusal) => Some(Refused {
                code: errors::of_refusal(refusal).name.to_owned(),
                action_id: None,
                capability_id: None,
            }),
            _ => None,
        };
        let note = Note {
            actor: self.provider.clone(),
            message_id: self.message_id.clone(),
            claim: self.replay.clone(),
            refused,
        };
        Decision::Append { draft: note.draft(facts.now), answer }
    }
}
