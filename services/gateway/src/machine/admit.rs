//! Makes an admitted action durable. One record holds all of it: the action, the frozen trusted context, the policy's
//! outcome, the reservation of the key, the replay claim, the pinned contract and the claim on the first dispatch.

use serde_json::Value;

use aip_kernel::{Decision, Draft, Facts, Fault, Millis, View};
use aip_wire::{Action, ActionId, CorrelationId};

use super::action::{Accepted, ActionEvent, Actor, Pinned};
use super::idempotency::{self, Held, Reservation};
use super::replay::ReplayClaim;
use super::{Answer, Event, GatewayMachine, Refusal, State, keys, load_action};

/// An action that passed every gate of 11.3 before the reservation. Made only by the gateway's road, from the proof
/// that admission gives.
#[derive(Debug)]
pub struct Admit {
    pub(crate) action: Action,
    pub(crate) requester: Actor,
    pub(crate) tenant: Option<String>,
    pub(crate) gateway: Actor,
    pub(crate) message_id: String,
    pub(crate) correlation_id: Option<CorrelationId>,
    pub(crate) context: Value,
    pub(crate) policy_version: String,
    pub(crate) input_hash: String,
    pub(crate) pinned: Pinned,
    pub(crate) reservation: Option<Reservation>,
    pub(crate) replay: Option<ReplayClaim>,
    pub(crate) received_at: Millis,
    pub(crate) deadline: Millis,
}

pub(super) fn decide(
    view: &dyn View<GatewayMachine>,
    admit: &Admit,
    facts: &Facts,
) -> Result<Decision<GatewayMachine>, Fault> {
    if let Some(replay) = &admit.replay
        && view.claim(&replay.name)?.is_some()
    {
        return Ok(Decision::Answer(Answer::Refused(Refusal::Replayed)));
    }
    if let Some(before) = load_action(view, admit.action.id.as_str())? {
        let same = before.state.requester.id == admit.requester.id
            && before.state.tenant == admit.tenant
            && before.state.capability_id == admit.action.capability_id
            && before.state.input_hash == admit.input_hash;
        return Ok(if same {
            admit.duplicate(before.state.id.clone())
        } else {
            admit.refused(Refusal::ActionIdConflict)
        });
    }
    if let Some(reservation) = &admit.reservation {
        match idempotency::look(view, reservation, &admit.action.capability_id, &admit.input_hash)? {
            Held::Free => {}
            Held::By(first) => return Ok(admit.duplicate(first)),
            Held::Conflict => return Ok(admit.refused(Refusal::IdempotencyConflict)),
        }
    }
    if facts.now.max(facts.log_time) >= admit.deadline {
        return Ok(admit.refused(Refusal::DeadlinePassed));
    }
    let manifest = keys::manifest(&admit.pinned.provider.id);
    let registered = view.entity(&manifest)?;
    let pinned = &admit.pinned;
    let stands = registered.as_ref().is_some_and(|entity| match &entity.state {
        State::Manifest(state) => state.stands(&admit.action.capability_id, pinned),
        State::Action(_) | State::Replay(_) => false,
    });
    let Some(registered) = registered.filter(|_| stands) else {
        // Nothing is recorded: whoever asked looks again and may still be admitted by the same message.
        return Ok(Decision::Answer(Answer::Refused(Refusal::CapabilityChanged)));
    };
    Ok(Decision::Append { draft: admit.draft().reads(manifest, registered.n), answer: Answer::Admitted })
}

// === impl Admit ===

impl Admit {
    fn draft(&self) -> Draft<Event> {
        let accepted = Accepted {
            action: self.action.clone(),
            requester: self.requester.clone(),
            tenant: self.tenant.clone(),
            gateway: self.gateway.clone(),
            message_id: self.message_id.clone(),
            correlation_id: self.correlation_id.clone(),
            context: self.context.clone(),
            policy_version: self.policy_version.clone(),
            input_hash: self.input_hash.clone(),
            pinned: self.pinned.clone(),
            reservation: self.reservation.clone(),
            received_at: self.received_at,
            deadline: self.deadline,
        };
        let dispatched = ActionEvent::Dispatched { attempt: 1, mode: self.pinned.dispatch };
        let events =
            vec![Event::Action(ActionEvent::Accepted(Box::new(accepted))), Event::Action(dispatched)];
        let mut draft =
            Draft::new(keys::action(self.action.id.as_str()), events).cause(self.message_id.clone());
        if let Some(reservation) = &self.reservation {
            draft = draft.claims(reservation.claim.clone(), Some(reservation.until));
        }
        if let Some(replay) = &self.replay {
            draft = draft.claims(replay.name.clone(), Some(replay.until));
        }
        draft
    }

    fn duplicate(&self, first: ActionId) -> Decision<GatewayMachine> {
        self.without_action(Answer::Duplicate { first }, None)
    }

    fn refused(&self, refusal: Refusal) -> Decision<GatewayMachine> {
        self.without_action(Answer::Refused(refusal), Some(crate::errors::of_refusal(refusal).name))
    }

    /// The answer leads to no record of an action; a signed message is remembered all the same, before the answer.
    fn without_action(&self, answer: Answer, refused: Option<&str>) -> Decision<GatewayMachine> {
        match &self.replay {
            Some(replay) => Decision::Append { draft: replay.draft(&self.requester, refused), answer },
            None => Decision::Answer(answer),
        }
    }
}
