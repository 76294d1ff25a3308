//! Takes an approval back whose action has ended, or goes on under another approval.

use aip_kernel::{Decision, Draft, Fault, View};
use aip_wire::ApprovalId;

use super::approval::ApprovalEvent;
use super::{Answer, Event, PolicyMachine, Status, keys, load, nothing};

pub(super) fn decide(
    view: &dyn View<PolicyMachine>,
    approval: &ApprovalId,
    why: &str,
) -> Result<Decision<PolicyMachine>, Fault> {
    let Some(state) = load(view, approval)? else { return nothing() };
    if state.status != Status::Pending {
        return nothing();
    }
    let event = Event::Approval(ApprovalEvent::Withdrawn { why: why.to_owned() });
    let draft = Draft::new(keys::approval(approval), vec![event]).cause("withdraw");
    Ok(Decision::Append { draft, answer: Answer::Recorded })
}
