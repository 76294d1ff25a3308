//! Sends an action out again after an attempt that ended without an answer. The record is the claim on the new attempt,
//! as the admission's was on the first.

use aip_kernel::{Decision, Draft, Facts, Fault, View};
use aip_wire::ActionLifecycleState as Lifecycle;

use super::action::ActionEvent;
use super::{Answer, Event, GatewayMachine, keys, load_action};

pub(super) fn decide(
    view: &dyn View<GatewayMachine>,
    action: &str,
    facts: &Facts,
) -> Result<Decision<GatewayMachine>, Fault> {
    let Some(entity) = load_action(view, action)? else { return Ok(Decision::Answer(Answer::Nothing)) };
    let state = entity.state;
    if state.lifecycle != Lifecycle::Queued
        || state.enqueued
        || facts.now.max(facts.log_time) >= state.deadline
    {
        return Ok(Decision::Answer(Answer::Nothing));
    }
    let attempt = state.attempt + 1;
    let event = match state.queued {
        true => ActionEvent::Enqueued { attempt },
        false => ActionEvent::Dispatched { attempt, mode: state.pinned.dispatch },
    };
    let draft = Draft::new(keys::action(action), vec![Event::Action(event)]).cause(keys::TIMER_RETRY);
    Ok(Decision::Append { draft, answer: Answer::Recorded })
}
