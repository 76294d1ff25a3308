//! Ends an action whose deadline has come (11.1). The deadline is the admission's and never moves.

use aip_kernel::{Decision, Draft, Facts, Fault, View};
use aip_wire::codes;

use super::action::ActionEvent;
use super::settle;
use super::{Answer, Event, GatewayMachine, keys, load_action};
use crate::errors;

pub(super) fn decide(
    view: &dyn View<GatewayMachine>,
    action: &str,
    facts: &Facts,
) -> Result<Decision<GatewayMachine>, Fault> {
    let Some(entity) = load_action(view, action)? else { return Ok(Decision::Answer(Answer::Nothing)) };
    let state = entity.state;
    if state.is_terminal() || facts.now.max(facts.log_time) < state.deadline {
        return Ok(Decision::Answer(Answer::Nothing));
    }
    let event = if state.may_have_happened() {
        settle::uncertain(codes::ACTION_DEADLINE)
    } else {
        ActionEvent::Expired { error: Box::new(errors::of(codes::ACTION_DEADLINE)) }
    };
    let draft = Draft::new(keys::action(action), vec![Event::Action(event)]).cause(keys::TIMER_DEADLINE);
    Ok(Decision::Append { draft, answer: Answer::Recorded })
}
