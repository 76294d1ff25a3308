//! Makes an admitted action durable. One record holds all of it: the action, the frozen trusted context, the policy's
//! outcome, the reservation of the key, the replay claim, the pinned contract and the claim on the first dispatch.

use aip_kernel::{Decision, Draft, EntityKey, Facts, Fault, Millis, View};
use aip_names::operator;
use aip_wire::trusted::{PrincipalRef, TrustedContext};
use aip_wire::{Action, ActionId, ApprovalRequest, CapabilityId, CorrelationId, MessageId};

use super::action::{self, Accepted, ActionEvent, Pinned};
use super::approval::Pending;
use super::idempotency::{self, Held, Reservation};
use super::note::{self, Note, Refused, ReplayClaim};
use super::redrive::Redrives;
use super::{Answer, Event, GatewayMachine, Refusal, State, keys, load_action};
use crate::errors;

/// An action that passed every gate of 11.3 before the reservation. Made only by the gateway's road, from the proof
/// that admission gives.
#[derive(Clone, Debug)]
pub struct Admit {
    pub(crate) action: Action,
    pub(crate) context: TrustedContext,
    pub(crate) gateway: PrincipalRef,
    pub(crate) message_id: MessageId,
    pub(crate) correlation_id: Option<CorrelationId>,
    pub(crate) input_hash: String,
    pub(crate) pinned: Pinned,
    pub(crate) reservations: Vec<Reservation>,
    /// What has to be approved before the action is dispatched.
    pub(crate) approval: Option<Box<ApprovalRequest>>,
    pub(crate) replay: Option<ReplayClaim>,
    pub(crate) received_at: Millis,
}

pub(super) fn decide(
    view: &dyn View<GatewayMachine>,
    admit: &Admit,
    facts: &Facts,
) -> Result<Decision<GatewayMachine>, Fault> {
    if note::is_held(view, admit.replay.as_ref())? {
        return Ok(Decision::Answer(Answer::Refused(Refusal::Replayed)));
    }
    if let Some(before) = load_action(view, admit.action.id.as_str())? {
        let same = before.state.requester == admit.context.principal
            && before.state.tenant == admit.context.tenant
            && before.state.capability_id == admit.action.capability_id
            && before.state.input_hash == admit.input_hash;
        let brought = admit.action.approval.as_ref();
        if same && !brought.is_none_or(|brought| before.state.is_approved_by(brought)) {
            return Ok(admit.refused(Refusal::ApprovalMismatch, facts));
        }
        return Ok(if same {
            admit.duplicate(before.state.id.clone(), facts)
        } else {
            admit.refused(Refusal::ActionIdConflict, facts)
        });
    }
    // an approval is for an action that is there
    if admit.action.approval.is_some() {
        return Ok(admit.refused(Refusal::ApprovalMismatch, facts));
    }
    for reservation in &admit.reservations {
        match idempotency::look(view, reservation, &admit.action.capability_id, &admit.input_hash)? {
            Held::Free => {}
            Held::By(first) => return Ok(admit.duplicate(first, facts)),
            Held::Conflict => return Ok(admit.refused(Refusal::IdempotencyConflict, facts)),
        }
    }
    if let Some(correlation) = admit.streams_to()
        && view.claim(&keys::stream(correlation))?.is_some()
    {
        return Ok(admit.refused(Refusal::CorrelationInUse, facts));
    }
    if facts.now.max(facts.log_time) >= admit.context.deadline_ms {
        return Ok(admit.refused(Refusal::DeadlinePassed, facts));
    }
    Ok(match admit.stands(view)? {
        Some(standing) => {
            Decision::Append { draft: standing.drafted(admit.draft(None)), answer: Answer::Admitted }
        }
        // Nothing is recorded: whoever asked looks again and may still be admitted by the same message.
        None => Decision::Answer(Answer::Refused(Refusal::CapabilityChanged)),
    })
}

/// What has to be so still when an admission takes its place in the log.
pub(super) enum Standing {
    /// The provider's registrations, as many as there were.
    Registered(EntityKey, u64),
    /// A verb of the gateway's own, which nobody can withdraw.
    Own,
}

/// Whether a contract that an action is pinned to is offered; none if not.
pub(super) fn standing(
    view: &dyn View<GatewayMachine>,
    capability_id: &CapabilityId,
    pinned: &Pinned,
) -> Result<Option<Standing>, Fault> {
    if capability_id.as_str().starts_with(operator::GATEWAY_VERBS) {
        return Ok(Some(Standing::Own));
    }
    let manifest = keys::manifest(&pinned.provider.id);
    let registered = view.entity(&manifest)?.filter(|entity| match &entity.state {
        State::Manifest(state) => state.stands(capability_id, pinned),
        State::Action(_) | State::Message(_) => false,
    });
    Ok(registered.map(|entity| Standing::Registered(manifest, entity.n)))
}

// === impl Standing ===

impl Standing {
    pub(super) fn drafted(self, draft: Draft<Event>) -> Draft<Event> {
        match self {
            Standing::Registered(manifest, n) => draft.reads(manifest, n),
            Standing::Own => draft,
        }
    }
}

// === impl Admit ===

impl Admit {
    pub(super) fn streams_to(&self) -> Option<&CorrelationId> {
        action::streams_to(&self.action, self.correlation_id.as_ref())
    }

    /// Whether the contract that the action is pinned to is offered; none if not.
    pub(super) fn stands(&self, view: &dyn View<GatewayMachine>) -> Result<Option<Standing>, Fault> {
        standing(view, &self.action.capability_id, &self.pinned)
    }

    /// The record of the admission, with all its claims.
    pub(super) fn draft(&self, redrives: Option<Redrives>) -> Draft<Event> {
        let accepted = Accepted {
            action: self.action.clone(),
            context: self.context.clone(),
            gateway: self.gateway.clone(),
            message_id: self.message_id.clone(),
            correlation_id: self.correlation_id.clone(),
            input_hash: self.input_hash.clone(),
            pinned: self.pinned.clone(),
            reservations: self.reservations.clone(),
            received_at: self.received_at,
            redrives,
        };
        let sent = match (&self.approval, action::is_queued(self.action.mode)) {
            (Some(request), _) => ActionEvent::PendingApproval(Box::new(Pending::first(request.clone()))),
            (None, true) => ActionEvent::Enqueued { attempt: 1 },
            (None, false) => ActionEvent::Dispatched { attempt: 1, mode: self.pinned.dispatch },
        };
        let events = vec![Event::Action(ActionEvent::Accepted(Box::new(accepted))), Event::Action(sent)];
        let entity = keys::action(self.action.id.as_str());
        let mut draft = Draft::new(entity, events).cause(self.message_id.as_str());
        for reservation in &self.reservations {
            draft = draft.claims(reservation.claim.clone(), Some(reservation.until));
        }
        if let Some(correlation) = self.streams_to() {
            // held until the stream is closed
            draft = draft.claims(keys::stream(correlation), None);
        }
        if let Some(replay) = &self.replay {
            draft = draft.claims(replay.name.clone(), Some(replay.until));
        }
        draft
    }

    fn duplicate(&self, first: ActionId, facts: &Facts) -> Decision<GatewayMachine> {
        self.without_action(Answer::Duplicate { first }, None, facts)
    }

    fn refused(&self, refusal: Refusal, facts: &Facts) -> Decision<GatewayMachine> {
        let refused = Refused {
            code: errors::of_refusal(refusal).name.to_owned(),
            action_id: Some(self.action.id.to_string()),
            capability_id: Some(self.action.capability_id.to_string()),
        };
        self.without_action(Answer::Refused(refusal), Some(refused), facts)
    }

    /// The answer leads to no record of an action; a signed message is noted all the same, before the answer.
    fn without_action(
        &self,
        answer: Answer,
        refused: Option<Refused>,
        facts: &Facts,
    ) -> Decision<GatewayMachine> {
        let note = Note {
            actor: self.context.principal.clone(),
            message_id: self.message_id.clone(),
            claim: self.replay.clone(),
            refused,
        };
        note.beside(answer, facts)
    }
}
