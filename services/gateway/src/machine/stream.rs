//! Streams of actions (11.6), as far as the ledger knows them: that one has begun, and how far it reaches when its action
//! has ended. The chunks themselves stand in the chunk log, which may be lost; what is recorded here says what is missing.

use aip_kernel::{Decision, Draft, Fault, View};
use aip_wire::trusted::PrincipalRef;
use aip_wire::{ActionId, ActionLifecycleState as Lifecycle};

use super::action::ActionEvent;
use super::{Answer, Event, GatewayMachine, Refusal, keys, load_action};

/// The first chunk of an attempt is kept. Made only by the gateway's road.
#[derive(Debug)]
pub struct Stream {
    pub(crate) provider: PrincipalRef,
    pub(crate) action: ActionId,
    pub(crate) attempt: u32,
    pub(crate) worker: String,
    pub(crate) sequence: u64,
}

pub(super) fn begin(
    view: &dyn View<GatewayMachine>,
    stream: &Stream,
) -> Result<Decision<GatewayMachine>, Fault> {
    let action = load_action(view, stream.action.as_str())?.map(|entity| entity.state);
    let Some(state) = action.filter(|state| state.pinned.provider == stream.provider) else {
        return Ok(Decision::Answer(Answer::Refused(Refusal::NoSuchAction)));
    };
    if !(state.is_running() && state.is_held_by(&stream.worker, stream.attempt)) {
        return Ok(Decision::Answer(Answer::Refused(Refusal::Superseded)));
    }
    if state.lifecycle != Lifecycle::Running {
        return Ok(Decision::Answer(Answer::Nothing));
    }
    let event = ActionEvent::Streaming { attempt: stream.attempt, sequence: stream.sequence };
    let draft = Draft::new(keys::action(stream.action.as_str()), vec![Event::Action(event)]);
    Ok(Decision::Append { draft, answer: Answer::Recorded })
}

/// Records that nothing stands, or will stand, behind `last` in the stream of an action that has ended.
pub(super) fn close(
    view: &dyn View<GatewayMachine>,
    action: &str,
    last: u64,
) -> Result<Decision<GatewayMachine>, Fault> {
    let state = load_action(view, action)?.map(|entity| entity.state);
    if !state.is_some_and(|state| state.is_terminal() && state.stream.last.is_none()) {
        return Ok(Decision::Answer(Answer::Nothing));
    }
    let event = Event::Action(ActionEvent::StreamClosed { last });
    let draft = Draft::new(keys::action(action), vec![event]).cause(keys::CAUSE_STREAM);
    Ok(Decision::Append { draft, answer: Answer::Recorded })
}
