//! What the service decides and remembers, as one pure machine: approvals, and the governed inputs beside them.
//!
//! One verb, one file. A kind of entity has an event, a state and a file of its own; another kind (a policy bundle, the
//! directory) joins by a variant of [`Event`], [`State`] and [`Command`].

pub mod approval;
pub mod decide;
pub mod evidence;
mod expire;
pub mod keys;
pub mod receipts;
pub mod request;
pub mod shelf;
mod step;
pub mod told;
mod withdraw;

use serde::{Deserialize, Serialize};

use aip_kernel::{Applying, Bug, Decision, EffectId, EntityKey, Facts, Fault, Machine, Millis, View};
use aip_names::limits::APPROVAL_AGAIN_MS;
use aip_wire::{ApprovalId, Refusal};

pub use approval::{ApprovalEvent, ApprovalState, Status};
pub use decide::Decide;
pub use evidence::{EvidenceEvent, EvidenceState, Keep};
pub use request::Request;
pub use told::{Told, Verdict};

#[cfg(test)]
mod tests;

/// The machine has no settings: two replicas can't differ in what they make of a record.
#[derive(Clone, Copy, Debug, Default)]
pub struct PolicyMachine;

#[derive(Debug, Clone)]
pub enum Command {
    /// Keep a governed input beside the approval that will be asked for.
    Keep(Box<Keep>),
    /// Ask for an approval.
    Request(Box<Request>),
    /// Take an approver's decision.
    Decide(Box<Decide>),
    /// The time for a decision is over; by an operator's word before its time.
    Expire { approval: ApprovalId, now: bool },
    /// The next step of the ladder is due.
    Step { approval: ApprovalId },
    /// The action that needs it has ended.
    Withdraw { approval: ApprovalId, why: String },
    /// The gateway was told how the approval stands, and said what it made of that.
    Told(Box<Told>),
    /// Approvers were told.
    Noticed { effect: EffectId },
}

#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Recorded as asked.
    Recorded,
    /// It stood so before: nothing was recorded.
    Nothing,
    Refused(Box<Refusal>),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    Approval(ApprovalEvent),
    Evidence(EvidenceEvent),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Approval(Box<ApprovalState>),
    Evidence(EvidenceState),
}

/// What the world is asked to do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Tell the gateway how the approval stands. It is done when the gateway has said what it made of that.
    Tell,
    /// Tell approvers, by an event of this kind.
    Notify { kind: String },
}

// === impl PolicyMachine ===

impl Machine for PolicyMachine {
    const VERSION: u32 = 1;

    type Command = Command;
    type Answer = Answer;
    type Event = Event;
    type State = State;
    type Effect = Effect;

    fn decide(
        &self,
        view: &dyn View<Self>,
        command: &Command,
        facts: &Facts,
    ) -> Result<Decision<Self>, Fault> {
        match command {
            Command::Keep(keep) => evidence::decide(view, keep),
            Command::Request(request) => request::decide(view, request, facts),
            Command::Decide(decide) => decide::decide(view, decide, facts),
            Command::Expire { approval, now } => expire::decide(view, approval, *now, facts),
            Command::Step { approval } => step::decide(view, approval, facts),
            Command::Withdraw { approval, why } => withdraw::decide(view, approval, why),
            Command::Told(told) => told::decide(view, told),
            Command::Noticed { effect } => told::noticed(view, effect),
        }
    }

    fn apply(
        &self,
        state: Option<State>,
        event: &Event,
        applying: &mut Applying<'_, Self>,
    ) -> Result<State, Bug> {
        match (event, state) {
            (Event::Approval(event), None) => approval::apply(None, event, applying).map(boxed),
            (Event::Approval(event), Some(State::Approval(state))) => {
                approval::apply(Some(*state), event, applying).map(boxed)
            }
            (Event::Evidence(event), None) => Ok(State::Evidence(evidence::apply(event, applying))),
            (event, _) => Err(Bug(format!("an event that can't follow, or of another kind: {event:?}"))),
        }
    }

    fn on_timer(&self, entity: &EntityKey, name: &str) -> Command {
        let approval = ApprovalId::opaque(entity.id.clone());
        match name {
            keys::TIMER_STEP => Command::Step { approval },
            _ => Command::Expire { approval, now: false },
        }
    }

    fn rest_ms(&self, _: &Effect) -> Option<Millis> {
        Some(APPROVAL_AGAIN_MS)
    }

    /// All effects are repeatable: nobody owns one.
    fn on_abandoned(&self, id: &EffectId, _: &Effect) -> Command {
        Command::Noticed { effect: id.clone() }
    }
}

fn boxed(state: ApprovalState) -> State {
    State::Approval(Box::new(state))
}

/// The approval that stands under this id, if one does.
pub(crate) fn load(view: &dyn View<PolicyMachine>, id: &ApprovalId) -> Result<Option<ApprovalState>, Fault> {
    Ok(view.entity(&keys::approval(id))?.and_then(|entity| match entity.state {
        State::Approval(state) => Some(*state),
        State::Evidence(_) => None,
    }))
}

fn nothing() -> Result<Decision<PolicyMachine>, Fault> {
    Ok(Decision::Answer(Answer::Nothing))
}
