//! Takes the wish to cancel an action (11.8). The wish is durable and nothing is cancelled by it: what no worker has begun
//! ends here, anything else ends when its worker says how. Whatever the log has first is the end.

use aip_kernel::{Decision, Draft, Facts, Fault, View};
use aip_wire::codes;
use aip_wire::trusted::PrincipalRef;
use aip_wire::{ActionId, ActionLifecycleState as Lifecycle, MessageId};

use super::action::ActionEvent;
use super::note::{self, Note, ReplayClaim};
use super::settle;
use super::{Answer, Event, GatewayMachine, keys, load_action};

/// A wish of somebody who may have it. Made only by the gateway's road.
#[derive(Debug)]
pub struct Cancel {
    pub(crate) by: PrincipalRef,
    pub(crate) action: ActionId,
    pub(crate) reason: Option<String>,
    pub(crate) message_id: MessageId,
    pub(crate) replay: Option<ReplayClaim>,
}

pub(super) fn decide(
    view: &dyn View<GatewayMachine>,
    cancel: &Cancel,
    facts: &Facts,
) -> Result<Decision<GatewayMachine>, Fault> {
    if note::is_held(view, cancel.replay.as_ref())? {
        return Ok(Decision::Answer(Answer::Refused(super::Refusal::Replayed)));
    }
    let note = Note {
        actor: cancel.by.clone(),
        message_id: cancel.message_id.clone(),
        claim: cancel.replay.clone(),
        refused: None,
    };
    let Some(entity) = load_action(view, cancel.action.as_str())? else {
        return Ok(note.beside(Answer::Refused(super::Refusal::NoSuchAction), facts));
    };
    let state = entity.state;
    if state.is_terminal() || state.lifecycle == Lifecycle::Cancelling {
        return Ok(note.beside(Answer::Nothing, facts));
    }
    let (by, reason) = (cancel.by.clone(), cancel.reason.clone());
    let tell = state.is_running() && state.pinned.cancel;
    let mut events = vec![ActionEvent::CancelRequested { by, reason, tell }];
    if matches!(state.lifecycle, Lifecycle::Queued | Lifecycle::PendingApproval) {
        // an earlier attempt may have done it all the same
        events.push(match state.may_have_happened() {
            true => settle::uncertain(codes::ACTION_CANCELLED),
            false => ActionEvent::Cancelled { by_worker: false },
        });
    }
    let events = events.into_iter().map(Event::Action).collect();
    let mut draft =
        Draft::new(keys::action(cancel.action.as_str()), events).cause(cancel.message_id.as_str());
    if let Some(replay) = &cancel.replay {
        draft = draft.claims(replay.name.clone(), Some(replay.until));
    }
    Ok(Decision::Append { draft, answer: Answer::Recorded })
}
