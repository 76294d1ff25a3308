//! What became of what this service said to others: to the gateway how an approval stands, to approvers that one waits.

use serde::{Deserialize, Serialize};

use aip_kernel::{Decision, Draft, EffectId, Fault, View};
use aip_wire::ApprovalId;

use super::approval::{ApprovalEvent, Status};
use super::{Answer, Event, PolicyMachine, keys, load, nothing};

/// The gateway was told that the approval stands so.
#[derive(Debug, Clone)]
pub struct Told {
    pub effect: EffectId,
    pub status: Status,
    pub verdict: Verdict,
}

/// What the gateway made of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The action went on, or ended, by it.
    Taken,
    /// It came after the action had been dispatched or had ended, and changed nothing.
    Late,
    /// What was approved is not what would be done now: another approval is asked for.
    Stale { code: String },
}

pub(super) fn decide(view: &dyn View<PolicyMachine>, told: &Told) -> Result<Decision<PolicyMachine>, Fault> {
    let approval = ApprovalId::opaque(told.effect.entity.id.clone());
    if load(view, &approval)?.is_none() {
        return nothing();
    }
    let event = ApprovalEvent::Told {
        effect: told.effect.clone(),
        status: told.status,
        verdict: told.verdict.clone(),
    };
    let draft =
        Draft::new(keys::approval(&approval), vec![Event::Approval(event)]).cause(told.effect.to_string());
    Ok(Decision::Append { draft, answer: Answer::Recorded })
}

pub(super) fn noticed(
    view: &dyn View<PolicyMachine>,
    effect: &EffectId,
) -> Result<Decision<PolicyMachine>, Fault> {
    let approval = ApprovalId::opaque(effect.entity.id.clone());
    if load(view, &approval)?.is_none() {
        return nothing();
    }
    let event = Event::Approval(ApprovalEvent::Noticed { effect: effect.clone() });
    let draft = Draft::new(keys::approval(&approval), vec![event]).cause(effect.to_string());
    Ok(Decision::Append { draft, answer: Answer::Recorded })
}
