//! Asks for an approval (12.2). The gateway derives the request from the action that it admitted and the policy; the
//! same request asked for twice is one approval.

use aip_admission::approval::Governed;
use aip_admission::directory::EscalationConfig;
use aip_kernel::{Decision, Draft, Facts, Fault, View};
use aip_wire::trusted::PrincipalRef;
use aip_wire::{ApprovalRequest, Refusal, codes, codes::Code};

use super::approval::{ApprovalEvent, Requested};
use super::{Answer, Event, PolicyMachine, keys, load, nothing};

/// A request from the gateway, with what it is for.
#[derive(Debug, Clone)]
pub struct Request {
    pub request: ApprovalRequest,
    pub governed: Governed,
    /// What happens while it waits, in the order of time.
    pub ladder: Vec<EscalationConfig>,
    pub gateway: PrincipalRef,
}

pub(super) fn decide(
    view: &dyn View<PolicyMachine>,
    asked: &Request,
    facts: &Facts,
) -> Result<Decision<PolicyMachine>, Fault> {
    let refused = |code: &'static Code| Ok(Decision::Answer(Answer::Refused(Box::new(Refusal::of(code)))));
    let request = &asked.request;
    if let Some(before) = load(view, &request.id)? {
        let same = before.request == *request && before.governed == asked.governed;
        return if same { nothing() } else { refused(codes::APPROVAL_REQUEST_CONFLICT) };
    }
    let Some(policy) = &request.policy_snapshot else { return refused(codes::APPROVAL_POLICY) };
    if request.policy_hash.as_ref() != Some(&asked.governed.policy_hash(policy)) {
        return refused(codes::APPROVAL_HASH);
    }
    let now = facts.now.max(facts.log_time);
    if request.expires_at.as_ref().is_none_or(|until| until.as_ms() <= now) {
        return refused(codes::APPROVAL_EXPIRED);
    }
    // its input has to be kept already, and be the one that is governed
    let evidence = keys::evidence(&request.id);
    let kept = match view.entity(&evidence)?.map(|entity| (entity.n, entity.state)) {
        Some((n, super::State::Evidence(state))) if state.payload.input_hash == asked.governed.input_hash => {
            n
        }
        _ => return refused(codes::APPROVAL_HASH),
    };
    let event = ApprovalEvent::Requested(Box::new(Requested {
        request: request.clone(),
        governed: asked.governed.clone(),
        ladder: asked.ladder.clone(),
        gateway: asked.gateway.clone(),
    }));
    let draft = Draft::new(keys::approval(&request.id), vec![Event::Approval(event)])
        .cause("request")
        .reads(evidence, kept);
    Ok(Decision::Append { draft, answer: Answer::Recorded })
}
