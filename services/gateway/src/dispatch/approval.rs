//! Asks for the approval that an action waits for, and withdraws it when the action has ended otherwise. The approval's
//! id makes a second asking harmless.

use aip_admission::constraint;
use aip_kernel::EffectId;
use aip_names::OwnService;
use aip_wire::{
    ApprovalDecisionKind, ApprovalEvidencePayload, ApprovalRecordView, MessageBody, ProtocolError, Refusal,
    Timestamp, codes,
};
use serde_json::json;

use super::{Attempt, Inner};
use crate::errors;
use crate::machine::action::{Accepted, ActionEvent, ActionState};
use crate::machine::{Command, Event, State};
use crate::peer;

// === impl Inner ===

impl Inner {
    pub(super) async fn ask_approval(&self, id: &EffectId) -> Option<Command> {
        let (state, accepted) = self.admission(id)?;
        let approving =
            state.approval.as_ref().filter(|approving| state.is_pending() && approving.is_open())?;
        let (action, request) = (&accepted.action, &*approving.request);
        let payload = ApprovalEvidencePayload {
            action_id: action.id.clone(),
            capability_id: action.capability_id.clone(),
            input_hash: state.input_hash.clone(),
            input: action.input.clone(),
            transaction: action.transaction.clone(),
            identity: request.identity.clone(),
        };
        let view = ApprovalRecordView {
            request: request.clone(),
            decision: None,
            status: "requested".to_owned(),
            action_status: None,
            receipt_chain: None,
            evidence_payload: Some(payload),
            created_at: Timestamp::from_ms(state.accepted_at),
            updated_at: Timestamp::from_ms(state.updated_at),
        };
        let (action, approval) = (id.entity.id.clone(), request.id.clone());
        match self.say(view).await {
            Ok(()) => Some(Command::ApprovalAsked { action, approval }),
            Err(refusal) if refusal.code.retryable => {
                tracing::debug!(%refusal, action, "an approval waits to be asked for");
                None
            }
            Err(refusal) => {
                tracing::warn!(%refusal, action, "an approval can't be asked for");
                Some(Command::ApprovalRefused { action, approval, error: Box::new(refusal.into()) })
            }
        }
    }

    pub(super) async fn withdraw_approval(&self, id: &EffectId) -> Option<Command> {
        let (state, _) = self.admission(id)?;
        let approving = state.approval.as_ref()?;
        let view = ApprovalRecordView {
            request: (*approving.request).clone(),
            decision: None,
            status: "withdrawn".to_owned(),
            action_status: None,
            receipt_chain: None,
            evidence_payload: None,
            created_at: Timestamp::from_ms(state.accepted_at),
            updated_at: Timestamp::from_ms(state.updated_at),
        };
        match self.say(view).await {
            Err(refusal) if refusal.code.retryable => None,
            _ => Some(Command::ApprovalWithdrawn { effect: id.clone() }),
        }
    }

    async fn say(&self, view: ApprovalRecordView) -> Result<(), Refusal> {
        let me = peer::own_caller(&self.principal)?;
        let body = MessageBody::ApprovalRecordView(Box::new(view));
        let (bus, td, own) = (&self.bus, &self.trust_domain, OwnService::PolicyApproval);
        aip_service::ask(bus, td, own, &me, body, peer::PATIENCE).await.map(|_| ())
    }

    /// The action as it stands, with the record of its admission.
    fn admission(&self, id: &EffectId) -> Option<(ActionState, Accepted)> {
        let read = self.ledger.get()?.peek(|view| {
            let state = view.entity(&id.entity)?.map(|entity| entity.state);
            let first = view.history(&id.entity, 1, 1)?.into_iter().next();
            Ok((state, first.map(|(record, _, _)| record.events)))
        });
        let Ok((Some(State::Action(state)), Some(events))) = read else { return None };
        let accepted = events.into_iter().find_map(|event| match event {
            Event::Action(ActionEvent::Accepted(accepted)) => Some(*accepted),
            _ => None,
        })?;
        Some((*state, accepted))
    }
}

// === impl Attempt ===

impl Attempt {
    /// Why this attempt must not be sent: approvers' constraints hold on each of them, and what had to be approved and
    /// was not never gets here by the machine.
    pub(super) fn forbidden(&self) -> Option<ProtocolError> {
        let approving = self.state.approval.as_ref()?;
        match &approving.resolved {
            Some((ApprovalDecisionKind::Approved, decision)) => {
                let constraints = decision.as_ref().map(|decision| decision.constraints.as_slice());
                let input = &self.accepted.action.input;
                let violated = constraint::violated(constraints.unwrap_or_default(), input)?;
                let details = json!({"cause": violated.field});
                Some(errors::with_details(codes::POLICY_APPROVAL_CONSTRAINT, details))
            }
            _ => {
                tracing::error!(action = %self.state.id, "an attempt without its approval");
                Some(errors::of(codes::POLICY_APPROVAL_MISMATCH))
            }
        }
    }
}
