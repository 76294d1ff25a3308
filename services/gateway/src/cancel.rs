//! The road of a wish to cancel (11.8): who may have it, then the machine records it. The answer says that it was
//! recorded and how the action stands, never that something was cancelled that was not.

use aip_admission::{Authentic, Family, may_cancel, may_read};
use aip_names::limits::CANCEL_REASON_BYTES_MAX;
use aip_service::fault;
use aip_wire::trusted::PrincipalRef;
use aip_wire::{
    Ack, AckStatus, ActionId, ActionLifecycleState, Cancel as Wish, CancelTarget, Refusal, codes,
};

use crate::errors;
use crate::gateway::Gateway;
use crate::machine::{ActionState, Answer, Cancel, Command, ReplayClaim, State, keys};
use crate::road::Stop;

// === impl Gateway ===

impl Gateway {
    /// Records the wish. Cancelling twice, or what is being cancelled, is the same wish.
    pub(crate) async fn cancel(&self, authentic: &Authentic, wish: &Wish) -> Result<Ack, Stop> {
        let action = match &wish.target {
            CancelTarget::Action(action) => action,
            CancelTarget::Session(_) => {
                let code = codes::UNSUPPORTED_SESSION;
                return Err(Refusal::new(code, "/body/cancel/target/session", code.meaning).into());
            }
        };
        if wish.reason.as_ref().is_some_and(|reason| reason.len() > CANCEL_REASON_BYTES_MAX) {
            let message = format!("is longer than {CANCEL_REASON_BYTES_MAX} bytes");
            return Err(Refusal::new(codes::LIMIT_STRING_BYTES, "/body/cancel/reason", message).into());
        }
        let caller = authentic.caller();
        let state = self.standing(action).await?.ok_or_else(|| Refusal::of(codes::ACTION_NOT_FOUND))?;
        let (owner, tenant) = (&state.requester.id, state.tenant.as_deref());
        if !may_cancel(caller, owner, tenant) {
            let seen = may_read(caller, owner, tenant, Family::Action);
            let code = if seen { codes::POLICY_SCOPE } else { codes::ACTION_NOT_FOUND };
            return Err(Refusal::of(code).into());
        }
        let cancel = Cancel {
            by: PrincipalRef::of(caller.principal()),
            action: action.clone(),
            reason: wish.reason.clone(),
            message_id: authentic.envelope().message_id.clone(),
            replay: authentic
                .replay()
                .map(|replay| ReplayClaim { name: replay.name.clone(), until: replay.expires_at_ms }),
        };
        let answer = self.decide(Command::Cancel(Box::new(cancel))).await.map_err(Stop::noted)?;
        if let Answer::Refused(refusal) = answer {
            return Err(Stop::noted(Refusal::of(errors::of_refusal(refusal))));
        }
        let state = self.standing(action).await.map_err(Stop::noted)?.unwrap_or(state);
        let late = answer == Answer::Nothing && state.is_terminal();
        Ok(Ack {
            action_id: action.clone(),
            status: if late { AckStatus::Rejected } else { AckStatus::Accepted },
            reason: Some(reason(&state, late)),
            retry_after_ms: None,
            queue: None,
        })
    }

    /// The action as it stands now, behind a barrier.
    async fn standing(&self, action: &ActionId) -> Result<Option<ActionState>, Refusal> {
        let key = keys::action(action.as_str());
        let read = self.ledger().read(|view| view.entity(&key)).await;
        let entity = read.map_err(|error| fault::of_ledger(&error))?;
        Ok(entity.and_then(|entity| match entity.state {
            State::Action(state) => Some(*state),
            State::Manifest(_) | State::Message(_) => None,
        }))
    }
}

fn reason(state: &ActionState, late: bool) -> String {
    match state.lifecycle {
        _ if late => format!("the action had ended before: {}", state.lifecycle),
        ActionLifecycleState::Cancelling if state.pinned.cancel => "the worker is told to cancel".to_owned(),
        ActionLifecycleState::Cancelling => {
            "the capability cannot be cancelled: the action ends as it ends".to_owned()
        }
        ended => format!("the action is {ended}"),
    }
}
