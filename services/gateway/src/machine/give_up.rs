//! Dead-letters an action whose message its queue gave up: it was handed out as often as it may be and no worker began it.

use aip_kernel::{Decision, Draft, Fault, View};
use aip_wire::ActionLifecycleState as Lifecycle;

use super::settle;
use super::{Answer, Event, GatewayMachine, keys, load_action};

pub(super) fn decide(
    view: &dyn View<GatewayMachine>,
    action: &str,
    attempt: u32,
) -> Result<Decision<GatewayMachine>, Fault> {
    let Some(entity) = load_action(view, action)? else { return Ok(Decision::Answer(Answer::Nothing)) };
    let state = entity.state;
    if state.lifecycle != Lifecycle::Queued || !state.enqueued || state.attempt != attempt {
        return Ok(Decision::Answer(Answer::Nothing));
    }
    let code = aip_wire::codes::WORKER_UNAVAILABLE.name;
    let event = Event::Action(settle::dead_letter(&state, state.delivered, code));
    let draft = Draft::new(keys::action(action), vec![event]).cause("queue");
    Ok(Decision::Append { draft, answer: Answer::Recorded })
}
