//! Gives up an attempt whose worker was not heard of for longer than its lease. That proves nothing about what the worker
//! did (11.9): only what may be repeated goes to another, anything else ends as not known.

use aip_kernel::{Decision, Draft, Facts, Fault, View};
use aip_names::limits::LEASE_GRACE_MS;

use super::action::ActionEvent;
use super::settle::{self, Lost, Outcome};
use super::{Answer, Event, GatewayMachine, keys, load_action};

pub(super) fn decide(
    view: &dyn View<GatewayMachine>,
    action: &str,
    facts: &Facts,
) -> Result<Decision<GatewayMachine>, Fault> {
    let Some(entity) = load_action(view, action)? else { return Ok(Decision::Answer(Answer::Nothing)) };
    let state = entity.state;
    let now = facts.now.max(facts.log_time);
    let Some(lease) = state.lease.as_ref().filter(|lease| state.is_running() && now >= lease.until) else {
        return Ok(Decision::Answer(Answer::Nothing));
    };
    let events = if lease.grace {
        settle::events(&state, &Outcome::Lost(Lost::LeaseExpired), state.attempt, now)
    } else {
        vec![ActionEvent::Leased { attempt: state.attempt, until: now + LEASE_GRACE_MS, grace: true }]
    };
    let events = events.into_iter().map(Event::Action).collect();
    let draft = Draft::new(keys::action(action), events).cause(keys::TIMER_LEASE);
    Ok(Decision::Append { draft, answer: Answer::Recorded })
}
