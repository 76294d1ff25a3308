//! Messages that lead to no record of an action or manifest, noted so that a signed one can't come again (22.3) and a
//! denial stands in the audit. The log judges the claim; one that is held says that the message came before.

use serde::{Deserialize, Serialize};

use aip_kernel::{Applying, Decision, Draft, EntityKey, Facts, Fault, Hash, Millis, View};
use aip_wire::MessageId;
use aip_wire::trusted::PrincipalRef;

use super::{Answer, Event, GatewayMachine, Refusal, keys, shelf, stamp};

/// The claim on a signed message's id.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReplayClaim {
    /// Signer and message id in one name.
    pub name: String,
    pub until: Millis,
}

/// Note that this message came from this sender, and how it was refused, if it was.
#[derive(Clone, Debug)]
pub struct Note {
    pub actor: PrincipalRef,
    pub message_id: MessageId,
    /// Of a signed message; one that a token authenticated has none.
    pub claim: Option<ReplayClaim>,
    pub refused: Option<Refused>,
}

/// What was refused, by ids.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Refused {
    pub code: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability_id: Option<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageEvent {
    Noted {
        actor: PrincipalRef,
        message_id: MessageId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<Refused>,
    },
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MessageState {
    pub noted_at: Millis,
}

// === impl Note ===

impl Note {
    /// A record that holds only this. Its entity's id begins with a time, so that new ones stand behind old ones in
    /// the store.
    pub(super) fn draft(&self, now: Millis) -> Draft<Event> {
        let digest = match &self.claim {
            Some(claim) => Hash::of(claim.name.as_bytes()),
            None => Hash::of_parts(&[self.actor.id.as_str().as_bytes(), self.message_id.as_str().as_bytes()]),
        };
        let entity = EntityKey::new(keys::MESSAGE, format!("{now:012x}{digest}"));
        let event = MessageEvent::Noted {
            actor: self.actor.clone(),
            message_id: self.message_id.clone(),
            refused: self.refused.clone(),
        };
        let draft = Draft::new(entity, vec![Event::Message(event)]);
        match &self.claim {
            Some(claim) => draft.claims(claim.name.clone(), Some(claim.until)),
            None => draft,
        }
    }
}

impl Note {
    /// An answer that leads to no record of what it is about: a signed message is noted all the same, before it.
    pub(super) fn beside(&self, answer: Answer, facts: &Facts) -> Decision<GatewayMachine> {
        match self.claim {
            None => Decision::Answer(answer),
            Some(_) => Decision::Append { draft: self.draft(facts.now), answer },
        }
    }
}

/// True when a signed message came before.
pub(super) fn is_held(view: &dyn View<GatewayMachine>, claim: Option<&ReplayClaim>) -> Result<bool, Fault> {
    match claim {
        Some(claim) => Ok(view.claim(&claim.name)?.is_some()),
        None => Ok(false),
    }
}

pub(super) fn decide(
    view: &dyn View<GatewayMachine>,
    note: &Note,
    facts: &Facts,
) -> Result<Decision<GatewayMachine>, Fault> {
    if is_held(view, note.claim.as_ref())? {
        return Ok(Decision::Answer(Answer::Refused(Refusal::Replayed)));
    }
    Ok(Decision::Append { draft: note.draft(facts.now), answer: Answer::Recorded })
}

pub(super) fn apply(event: &MessageEvent, applying: &mut Applying<'_, GatewayMachine>) -> MessageState {
    let MessageEvent::Noted { actor, .. } = event;
    shelf::tell(applying, &actor.id, None);
    applying.index(keys::INDEX_AUDIT, stamp::stamp(applying.log_time, &applying.header.id, 0));
    MessageState { noted_at: applying.log_time }
}
