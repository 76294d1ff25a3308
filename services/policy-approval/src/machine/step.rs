//! Climbs one step of the escalation ladder (12.7): tells again, asks others, or lets the approval expire.

use aip_admission::directory::EscalationStep;
use aip_kernel::{Decision, Draft, Facts, Fault, View};
use aip_wire::ApprovalId;

use super::approval::ApprovalEvent;
use super::{Answer, Event, PolicyMachine, Status, keys, load, nothing};

pub(super) fn decide(
    view: &dyn View<PolicyMachine>,
    approval: &ApprovalId,
    facts: &Facts,
) -> Result<Decision<PolicyMachine>, Fault> {
    let Some(state) = load(view, approval)? else { return nothing() };
    let Some((due, step)) = state.next_step() else { return nothing() };
    if state.status != Status::Pending || facts.now.max(facts.log_time) < due {
        return nothing();
    }
    let mut events = vec![Event::Approval(ApprovalEvent::Stepped { step: step.clone() })];
    if *step == EscalationStep::Expire {
        events.push(Event::Approval(ApprovalEvent::Expired));
    }
    let draft = Draft::new(keys::approval(approval), events).cause(keys::TIMER_STEP);
    Ok(Decision::Append { draft, answer: Answer::Recorded })
}
