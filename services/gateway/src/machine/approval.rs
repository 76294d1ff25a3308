//! An action that waits for an approval, and goes on or ends by it (12.5). What was approved is compared with what would
//! be done now before this is asked, and the record depends on what was compared: the log judges both together, and a
//! revocation against the dispatch.

use serde::{Deserialize, Serialize};

use aip_kernel::{Bug, Decision, Draft, EffectId, Facts, Fault, View};
use aip_names::limits::APPROVAL_ROUNDS_MAX;
use aip_wire::codes::{self, Code};
use aip_wire::{
    ActionId, ActionLifecycleState as Lifecycle, ApprovalDecision, ApprovalDecisionKind, ApprovalId,
    ApprovalRequest, ProtocolError, ReceiptRef,
};

use super::action::{ActionEvent, ActionState, Pinned};
use super::{Answer, Event, GatewayMachine, Refusal, admit, keys, load_action};
use crate::errors;

/// What has to be approved, and why again, if it is not for the first time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Pending {
    pub request: Box<ApprovalRequest>,
    /// What the action is pinned to from now on, where that has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Pinned>,
    /// The code that says why the approval before does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale: Option<String>,
}

/// How an approval ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Resolved {
    pub approval: ApprovalId,
    pub kind: ApprovalDecisionKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Box<ApprovalDecision>>,
    /// The last receipt of the approval's own chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<ReceiptRef>,
}

/// The approval that counts for an action.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Approving {
    pub request: Box<ApprovalRequest>,
    /// Counts approvals of this action from 1.
    pub round: u32,
    /// Approvals before this one that did not count, each with the code that says why.
    pub stale: Vec<(ApprovalId, String)>,
    /// How it ended, and the decision that stands for that.
    pub resolved: Option<(ApprovalDecisionKind, Option<Box<ApprovalDecision>>)>,
    pub revoked_late: bool,
}

/// What became of an approval, as its service says. Made only by the gateway's road.
#[derive(Debug)]
pub struct Resolve {
    pub(crate) action: ActionId,
    pub(crate) resolved: Resolved,
    /// What was found when the approved was compared with what would be done now. Without it nothing goes on.
    pub(crate) check: Option<Check>,
}

#[derive(Debug)]
pub enum Check {
    /// All of it stands, as long as the contract is offered.
    Stands,
    /// Another approval has to be asked for.
    Stale(Box<Pending>),
    /// The action can't be done any more, or not as it was approved.
    Fails(Box<ProtocolError>),
}

// === impl Pending ===

impl Pending {
    pub fn first(request: Box<ApprovalRequest>) -> Pending {
        Pending { request, pinned: None, stale: None }
    }
}

// === impl Approving ===

impl Approving {
    /// It may still be decided by somebody.
    pub fn is_open(&self) -> bool {
        self.resolved.is_none()
    }
}

// === impl ActionState ===

impl ActionState {
    /// Whether this is the approval that the action was approved by (12.4).
    pub fn is_approved_by(&self, brought: &ApprovalDecision) -> bool {
        let Some(approving) = &self.approval else { return false };
        let Some((ApprovalDecisionKind::Approved, Some(decision))) = &approving.resolved else {
            return false;
        };
        approving.request.id == brought.approval_id
            && brought.decision == ApprovalDecisionKind::Approved
            && brought.decision_id == decision.decision_id
            && brought.approver.id == decision.approver.id
            && brought.policy_hash.as_ref().is_none_or(|hash| Some(hash) == decision.policy_hash.as_ref())
    }
}

/// Folds a request into the action.
pub(super) fn pend(state: &mut ActionState, pending: &Pending) {
    let before = state.approval.take();
    let mut stale = before.as_ref().map(|before| before.stale.clone()).unwrap_or_default();
    if let (Some(before), Some(code)) = (&before, &pending.stale) {
        stale.push((before.request.id.clone(), code.clone()));
    }
    if let Some(pinned) = &pending.pinned {
        state.pinned = pinned.clone();
    }
    state.approval = Some(Box::new(Approving {
        request: pending.request.clone(),
        round: before.map_or(1, |before| before.round + 1),
        stale,
        resolved: None,
        revoked_late: false,
    }));
}

/// Folds an approval's end into the action.
pub(super) fn settle(state: &mut ActionState, resolved: &Resolved) -> Result<(), Bug> {
    let approving = state.approval.as_mut().ok_or_else(|| Bug("an approval that nobody needs".to_owned()))?;
    approving.resolved = Some((resolved.kind, resolved.decision.clone()));
    Ok(())
}

pub(super) fn resolve(
    view: &dyn View<GatewayMachine>,
    resolve: &Resolve,
    facts: &Facts,
) -> Result<Decision<GatewayMachine>, Fault> {
    let Some(entity) = load_action(view, resolve.action.as_str())? else { return nothing() };
    let state = entity.state;
    let Some(approving) = state.approval.as_ref() else { return nothing() };
    if approving.request.id != resolve.resolved.approval {
        return nothing();
    }
    let now = facts.now.max(facts.log_time);
    if state.lifecycle != Lifecycle::PendingApproval {
        return Ok(resolve.late(&state));
    }
    if now >= state.deadline {
        return nothing();
    }
    let resolved = ActionEvent::ApprovalResolved(Box::new(resolve.resolved.clone()));
    let over = approving.request.expires_at.as_ref().is_some_and(|until| until.as_ms() <= now);
    let events = match resolve.resolved.kind {
        ApprovalDecisionKind::Denied => vec![resolved, failed(codes::POLICY_APPROVAL_DENIED)],
        ApprovalDecisionKind::Revoked => vec![resolved, failed(codes::POLICY_APPROVAL_REVOKED)],
        ApprovalDecisionKind::Expired => vec![resolved, expired()],
        // approved in time, and told too late
        ApprovalDecisionKind::Approved if over => vec![resolved, expired()],
        ApprovalDecisionKind::Approved => match &resolve.check {
            None => return nothing(),
            Some(Check::Stands) => {
                let standing = admit::standing(view, &state.capability_id, &state.pinned)?;
                return Ok(match standing {
                    Some(standing) => Decision::Append {
                        draft: standing.drafted(resolve.draft(vec![resolved, sent(&state)])),
                        answer: Answer::Recorded,
                    },
                    // nothing is recorded: whoever asked compares again
                    None => Decision::Answer(Answer::Refused(Refusal::CapabilityChanged)),
                });
            }
            Some(Check::Stale(pending)) if approving.round < APPROVAL_ROUNDS_MAX => {
                vec![ActionEvent::PendingApproval(pending.clone())]
            }
            Some(Check::Stale(_)) => vec![resolved, failed(codes::APPROVAL_CONTRACT_CHANGED)],
            Some(Check::Fails(error)) => vec![resolved, failure(error)],
        },
    };
    Ok(Decision::Append { draft: resolve.draft(events), answer: Answer::Recorded })
}

/// The approval is asked for: it has not to be asked again.
pub(super) fn asked(
    view: &dyn View<GatewayMachine>,
    action: &str,
    approval: &ApprovalId,
) -> Result<Decision<GatewayMachine>, Fault> {
    if !waits(view, action, approval)? {
        return nothing();
    }
    append(action, ActionEvent::ApprovalAsked { approval: approval.clone() }, "approval")
}

/// The approval can't be had.
pub(super) fn refused(
    view: &dyn View<GatewayMachine>,
    action: &str,
    approval: &ApprovalId,
    error: &ProtocolError,
) -> Result<Decision<GatewayMachine>, Fault> {
    if !waits(view, action, approval)? {
        return nothing();
    }
    append(action, failure(error), "approval")
}

pub(super) fn withdrawn(
    view: &dyn View<GatewayMachine>,
    effect: &EffectId,
) -> Result<Decision<GatewayMachine>, Fault> {
    if load_action(view, &effect.entity.id)?.is_none() {
        return nothing();
    }
    append(&effect.entity.id, ActionEvent::ApprovalWithdrawn { effect: effect.clone() }, "withdrawn")
}

fn waits(view: &dyn View<GatewayMachine>, action: &str, approval: &ApprovalId) -> Result<bool, Fault> {
    let state = load_action(view, action)?.map(|entity| entity.state);
    Ok(state.is_some_and(|state| {
        state.lifecycle == Lifecycle::PendingApproval
            && state.approval.is_some_and(|approving| approving.request.id == *approval)
    }))
}

fn append(action: &str, event: ActionEvent, cause: &str) -> Result<Decision<GatewayMachine>, Fault> {
    let draft = Draft::new(keys::action(action), vec![Event::Action(event)]).cause(cause);
    Ok(Decision::Append { draft, answer: Answer::Recorded })
}

fn nothing() -> Result<Decision<GatewayMachine>, Fault> {
    Ok(Decision::Answer(Answer::Nothing))
}

/// The claim on the first attempt, as the admission is of an action that nobody has to approve.
fn sent(state: &ActionState) -> ActionEvent {
    match state.queued {
        true => ActionEvent::Enqueued { attempt: state.attempt + 1 },
        false => ActionEvent::Dispatched { attempt: state.attempt + 1, mode: state.pinned.dispatch },
    }
}

fn failed(code: &'static Code) -> ActionEvent {
    failure(&errors::of(code))
}

fn failure(error: &ProtocolError) -> ActionEvent {
    ActionEvent::Failed { by_worker: false, uncertain: false, error: Box::new(error.clone()) }
}

fn expired() -> ActionEvent {
    ActionEvent::Expired { error: Box::new(errors::of(codes::POLICY_APPROVAL_EXPIRED)) }
}

// === impl Resolve ===

impl Resolve {
    fn draft(&self, events: Vec<ActionEvent>) -> Draft<Event> {
        let events = events.into_iter().map(Event::Action).collect();
        Draft::new(keys::action(self.action.as_str()), events).cause(self.resolved.approval.as_str())
    }

    /// The action waits no more. A revocation still ends what no worker has begun; what was begun it does not undo.
    fn late(&self, state: &ActionState) -> Decision<GatewayMachine> {
        let revokes = self.resolved.kind == ApprovalDecisionKind::Revoked;
        let recorded = state.approval.as_ref().is_some_and(|approving| {
            approving.revoked_late
                || approving.resolved.as_ref().is_some_and(|(kind, _)| *kind == self.resolved.kind)
        });
        if !revokes || recorded {
            return Decision::Answer(Answer::Nothing);
        }
        if state.lifecycle == Lifecycle::Queued && !state.may_have_happened() {
            let resolved = ActionEvent::ApprovalResolved(Box::new(self.resolved.clone()));
            let draft = self.draft(vec![resolved, failed(codes::POLICY_APPROVAL_REVOKED)]);
            return Decision::Append { draft, answer: Answer::Recorded };
        }
        match &self.resolved.decision {
            Some(decision) => {
                let draft = self.draft(vec![ActionEvent::RevokedLate { decision: decision.clone() }]);
                Decision::Append { draft, answer: Answer::Nothing }
            }
            None => Decision::Answer(Answer::Nothing),
        }
    }
}
