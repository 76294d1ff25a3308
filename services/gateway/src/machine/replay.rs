//! Signed messages that lead to no other record, remembered so that they can't come again (22.3). The log judges the
//! claim; one that is held says that the message came before.

use serde::{Deserialize, Serialize};

use aip_kernel::{Applying, Decision, Draft, EntityKey, Facts, Fault, Hash, Millis, View};

use super::action::Actor;
use super::{Answer, Event, GatewayMachine, Refusal, keys, stamp};

/// The claim on a signed message's id.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReplayClaim {
    /// Signer and message id in one name.
    pub name: String,
    pub until: Millis,
    pub message_id: String,
}

/// Remember that this message came, and with which code it was refused, if it was.
#[derive(Clone, Debug)]
pub struct ClaimReplay {
    pub claim: ReplayClaim,
    pub actor: Actor,
    pub refused: Option<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayEvent {
    Claimed { actor: Actor, message_id: String, refused: Option<String> },
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReplayState {
    pub actor: Actor,
    pub claimed_at: Millis,
}

// === impl ReplayClaim ===

impl ReplayClaim {
    /// Begins with the time it ends, so that new ones stand behind old ones in the store.
    fn entity(&self) -> EntityKey {
        let digest = Hash::of(self.name.as_bytes()).to_string();
        EntityKey::new(keys::REPLAY, format!("{:012x}{digest}", self.until))
    }

    /// A record that holds only this claim.
    pub(super) fn draft(&self, actor: &Actor, refused: Option<&str>) -> Draft<Event> {
        let event = ReplayEvent::Claimed {
            actor: actor.clone(),
            message_id: self.message_id.clone(),
            refused: refused.map(str::to_owned),
        };
        Draft::new(self.entity(), vec![Event::Replay(event)]).claims(self.name.clone(), Some(self.until))
    }
}

pub(super) fn decide(
    view: &dyn View<GatewayMachine>,
    command: &ClaimReplay,
    _facts: &Facts,
) -> Result<Decision<GatewayMachine>, Fault> {
    if view.claim(&command.claim.name)?.is_some() {
        return Ok(Decision::Answer(Answer::Refused(Refusal::Replayed)));
    }
    let draft = command.claim.draft(&command.actor, command.refused.as_deref());
    Ok(Decision::Append { draft, answer: Answer::Recorded })
}

pub(super) fn apply(event: &ReplayEvent, applying: &mut Applying<'_, GatewayMachine>) -> ReplayState {
    let ReplayEvent::Claimed { actor, .. } = event;
    applying.index(keys::INDEX_AUDIT, stamp::stamp(applying.log_time, &applying.header.id, 0));
    ReplayState { actor: actor.clone(), claimed_at: applying.log_time }
}
