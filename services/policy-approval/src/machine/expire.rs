//! Ends an approval that nobody decided in time. Nothing is ever approved by time.

use aip_kernel::{Decision, Draft, Facts, Fault, View};
use aip_wire::ApprovalId;

use super::approval::ApprovalEvent;
use super::{Answer, Event, PolicyMachine, Status, keys, load, nothing};

pub(super) fn decide(
    view: &dyn View<PolicyMachine>,
    approval: &ApprovalId,
    now: bool,
    facts: &Facts,
) -> Result<Decision<PolicyMachine>, Fault> {
    let Some(state) = load(view, approval)? else { return nothing() };
    if state.status != Status::Pending || !(now || state.is_over(facts.now.max(facts.log_time))) {
        return nothing();
    }
    let event = Event::Approval(ApprovalEvent::Expired);
    let draft = Draft::new(keys::approval(approval), vec![event]).cause(keys::TIMER_EXPIRE);
    Ok(Decision::Append { draft, answer: Answer::Recorded })
}
