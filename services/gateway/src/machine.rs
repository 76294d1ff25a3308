//! What the gateway decides and remembers, as one pure machine: actions from admission to their end, workers'
//! manifests, and the ids of signed messages that must not come again.
//!
//! One verb, one file. Nothing here knows a clock, a network, a store or a policy: what a decision needs from
//! outside stands in its command, and what should happen outside comes out as an effect or a timer.

pub mod action;
pub mod admit;
pub mod approval;
pub mod audit;
pub mod cancel;
mod expire;
mod give_up;
mod idempotency;
pub mod keys;
mod lease;
pub mod lifecycle;
pub mod manifest;
pub mod note;
pub mod receipts;
mod redispatch;
pub mod redrive;
pub mod register;
pub mod report;
pub mod settle;
pub mod shelf;
pub use aip_kernel::stamp;
pub mod stream;

use serde::{Deserialize, Serialize};

use aip_kernel::{Applying, Bug, Decision, EffectId, EntityKey, Facts, Fault, Machine, Millis, View};
use aip_names::limits;
use aip_wire::{ActionId, ApprovalId, ProtocolError};

pub use action::{ActionEvent, ActionState};
pub use admit::Admit;
pub use approval::{Check, Pending, Resolve};
pub use cancel::Cancel;
pub use idempotency::{Collision, Reservation};
pub use manifest::{ManifestEvent, ManifestState};
pub use note::{MessageEvent, MessageState, Note, Refused, ReplayClaim};
pub use redrive::{Redrive, Redrives};
pub use register::RegisterManifest;
pub use report::{Report, Says};
pub use settle::{Lost, NotDone, Outcome, Settle};
pub use stream::Stream;

#[cfg(test)]
mod tests;

/// The gateway's machine. It has no settings: two replicas can't differ in what they make of a record.
#[derive(Clone, Copy, Debug, Default)]
pub struct GatewayMachine;

#[derive(Debug)]
pub enum Command {
    /// Make an admitted action durable and dispatch it.
    Admit(Box<Admit>),
    /// Record what became of a dispatch.
    Settle(Box<Settle>),
    /// The action's deadline has come.
    Expire { action: String },
    /// It is time to dispatch again.
    Redispatch { action: String },
    /// Take what a worker says of an asynchronous attempt.
    Report(Box<Report>),
    /// Take note that an attempt streams.
    Stream(Box<Stream>),
    /// Record how far the stream of an ended action reaches.
    CloseStream { action: String, last: u64 },
    /// The worker of an attempt was not heard of in time.
    LeaseExpired { action: String },
    /// The queue gave the attempt's message up.
    GiveUp { action: String, attempt: u32 },
    /// Make a new action of a dead letter.
    Redrive(Box<Redrive>),
    /// Take the wish to cancel an action.
    Cancel(Box<Cancel>),
    /// Take what became of the approval that an action waits for.
    Resolve(Box<Resolve>),
    /// The approval is asked for.
    ApprovalAsked { action: String, approval: ApprovalId },
    /// The approval can't be asked for.
    ApprovalRefused { action: String, approval: ApprovalId, error: Box<ProtocolError> },
    /// It is known that the action needs its approval no more.
    ApprovalWithdrawn { effect: EffectId },
    /// Take a worker's manifest.
    RegisterManifest(Box<RegisterManifest>),
    /// Note a message that leads to no other record.
    Note(Box<Note>),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The action is durable and on its way.
    Admitted,
    /// The same action, or another under the same key, was there before: `first` has the answer.
    Duplicate {
        first: ActionId,
    },
    Refused(Refusal),
    /// Recorded as asked.
    Recorded,
    /// It had come to an end, or further, before: nothing was recorded.
    Nothing,
    /// What a manifest changed.
    Registered {
        added: usize,
        withdrawn: usize,
    },
    /// The manifest says what is known already.
    Unchanged,
}

/// Lawful answers of "no"; `errors` maps each to its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The signed message came before.
    Replayed,
    /// Another action, or another sender's, has this id.
    ActionIdConflict,
    /// The key stands for another input.
    IdempotencyConflict,
    /// The registration that was looked at is gone: look again.
    CapabilityChanged,
    /// The deadline passed before the action could be admitted.
    DeadlinePassed,
    /// There is no such action for who asks.
    NoSuchAction,
    /// Only dead letters are redriven.
    NotDeadLettered,
    /// Another attempt counts, or none any more.
    Superseded,
    /// Another action that runs streams under the correlation id.
    CorrelationInUse,
    /// The worker has too many registrations beside each other.
    TooManyRegistrations,
    /// The approval that came with the action is not the one that stands for it.
    ApprovalMismatch,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    Action(ActionEvent),
    Manifest(ManifestEvent),
    Message(MessageEvent),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Action(Box<ActionState>),
    Manifest(ManifestState),
    Message(MessageState),
}

/// What the world is asked to do. The action itself stands in the entity's first record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Send the action to its worker and settle what comes back. `attempt` counts from 1.
    Dispatch { attempt: u32 },
    /// Put the action into its worker's queue. It is done when a worker has begun it.
    Enqueue { attempt: u32 },
    /// Tell all replicas of the worker that the action is to be cancelled. It is done when the action has ended.
    TellCancel,
    /// Ask for the approval that the action waits for.
    AskApproval,
    /// Say that the action, which has ended, needs its approval no more.
    WithdrawApproval,
    /// End the stream of an action that has ended, and tell its native readers the result. It is done when it is recorded
    /// how far the stream reaches.
    CloseStream,
}

// === impl GatewayMachine ===

impl Machine for GatewayMachine {
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
            Command::Admit(admit) => admit::decide(view, admit, facts),
            Command::Settle(settle) => settle::decide(view, settle, facts),
            Command::Expire { action } => expire::decide(view, action, facts),
            Command::Redispatch { action } => redispatch::decide(view, action, facts),
            Command::Report(report) => report::decide(view, report, facts),
            Command::Stream(stream) => stream::begin(view, stream),
            Command::CloseStream { action, last } => stream::close(view, action, *last),
            Command::LeaseExpired { action } => lease::decide(view, action, facts),
            Command::GiveUp { action, attempt } => give_up::decide(view, action, *attempt),
            Command::Redrive(redrive) => redrive::decide(view, redrive, facts),
            Command::Cancel(cancel) => cancel::decide(view, cancel, facts),
            Command::Resolve(resolve) => approval::resolve(view, resolve, facts),
            Command::ApprovalAsked { action, approval } => approval::asked(view, action, approval),
            Command::ApprovalRefused { action, approval, error } => {
                approval::refused(view, action, approval, error)
            }
            Command::ApprovalWithdrawn { effect } => approval::withdrawn(view, effect),
            Command::RegisterManifest(register) => register::decide(view, register, facts),
            Command::Note(note) => note::decide(view, note, facts),
        }
    }

    fn apply(
        &self,
        state: Option<State>,
        event: &Event,
        applying: &mut Applying<'_, Self>,
    ) -> Result<State, Bug> {
        match (event, state) {
            (Event::Action(event), None) => {
                action::apply(None, event, applying).map(|state| State::Action(Box::new(state)))
            }
            (Event::Action(event), Some(State::Action(state))) => {
                action::apply(Some(*state), event, applying).map(|state| State::Action(Box::new(state)))
            }
            (Event::Manifest(event), None) => {
                manifest::apply(ManifestState::default(), event, applying).map(State::Manifest)
            }
            (Event::Manifest(event), Some(State::Manifest(state))) => {
                manifest::apply(state, event, applying).map(State::Manifest)
            }
            (Event::Message(event), None | Some(State::Message(_))) => {
                Ok(State::Message(note::apply(event, applying)))
            }
            (event, Some(_)) => Err(Bug(format!("an event of another kind of entity: {event:?}"))),
        }
    }

    fn on_timer(&self, entity: &EntityKey, name: &str) -> Command {
        let action = entity.id.clone();
        match name {
            keys::TIMER_RETRY => Command::Redispatch { action },
            keys::TIMER_LEASE => Command::LeaseExpired { action },
            _ => Command::Expire { action },
        }
    }

    fn rest_ms(&self, effect: &Effect) -> Option<Millis> {
        match effect {
            Effect::Dispatch { .. } | Effect::CloseStream => None,
            Effect::AskApproval | Effect::WithdrawApproval => Some(limits::APPROVAL_AGAIN_MS),
            Effect::Enqueue { .. } => Some(limits::ENQUEUE_AGAIN_MS),
            Effect::TellCancel => Some(limits::CANCEL_AGAIN_MS),
        }
    }

    /// The process that sent the action is gone with its answer: what the worker did is not known.
    fn on_abandoned(&self, id: &EffectId, effect: &Effect) -> Command {
        let attempt = match *effect {
            Effect::Dispatch { attempt } => attempt,
            // repeatable: nobody owns them
            Effect::Enqueue { .. }
            | Effect::TellCancel
            | Effect::CloseStream
            | Effect::AskApproval
            | Effect::WithdrawApproval => {
                return Command::Expire { action: id.entity.id.clone() };
            }
        };
        let outcome = Outcome::Lost(Lost::DispatcherGone);
        Command::Settle(Box::new(Settle { effect: id.clone(), attempt, outcome }))
    }
}

/// The action that stands under this id, if one does.
fn load_action(
    view: &dyn View<GatewayMachine>,
    id: &str,
) -> Result<Option<aip_kernel::Entity<Box<ActionState>>>, Fault> {
    Ok(view.entity(&keys::action(id))?.and_then(|entity| match entity.state {
        State::Action(state) => Some(aip_kernel::Entity { state, n: entity.n, head: entity.head }),
        State::Manifest(_) | State::Message(_) => None,
    }))
}
