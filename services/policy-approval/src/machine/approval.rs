//! One approval: what its records say and what state they leave (12.2 to 12.6). It holds hashes, names and what may be
//! shown; the governed input is another entity.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use aip_admission::approval::Governed;
use aip_admission::directory::{EscalationConfig, EscalationStep};
use aip_kernel::{Applying, Bug, EffectId, EffectMode, Header, Millis, stamp};
use aip_wire::events::{self, Kind};
use aip_wire::trusted::PrincipalRef;
use aip_wire::{
    ApprovalDecision, ApprovalPolicy, ApprovalRequest, ApprovalRule, ApproverSelector, RiskLevel,
};

use super::receipts::{self, Chain};
use super::shelf::{self, Shelf};
use super::told::Verdict;
use super::{Effect, PolicyMachine, keys};
use crate::authority::{self, About};
use crate::rule;

/// What happened to an approval.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalEvent {
    Requested(Box<Requested>),
    /// One approver agrees.
    Approved(Box<ApprovalDecision>),
    /// All who have to agree have.
    Granted,
    Denied(Box<ApprovalDecision>),
    Revoked(Box<ApprovalDecision>),
    Expired,
    /// The action has ended, or goes on under another approval.
    Withdrawn {
        why: String,
    },
    /// A step of the ladder was climbed.
    Stepped {
        step: EscalationStep,
    },
    /// The gateway was told that it stands so, and this is what it made of it.
    Told {
        effect: EffectId,
        status: Status,
        verdict: Verdict,
    },
    /// Approvers were told.
    Noticed {
        effect: EffectId,
    },
}

/// The request as it was derived from the action, with everything that it is judged by.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Requested {
    pub request: ApprovalRequest,
    pub governed: Governed,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ladder: Vec<EscalationConfig>,
    pub gateway: PrincipalRef,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Pending,
    Approved,
    Denied,
    Expired,
    Revoked,
    Withdrawn,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ApprovalState {
    pub request: ApprovalRequest,
    pub governed: Governed,
    pub ladder: Vec<EscalationConfig>,
    /// Steps of the ladder that were climbed.
    pub steps: usize,
    /// Asked in place of the policy's selector.
    pub reassigned: Option<ApproverSelector>,
    /// Asked as well.
    pub escalated: Vec<ApproverSelector>,
    pub status: Status,
    /// Who agreed, one decision each.
    pub approvals: Vec<ApprovalDecision>,
    /// The decision that denied or revoked it.
    pub ended_by: Option<ApprovalDecision>,
    /// What the gateway made of what it was told last.
    pub verdict: Option<(Status, Verdict)>,
    pub created_at: Millis,
    pub updated_at: Millis,
    pub gateway: PrincipalRef,
    pub receipts: Chain,
}

// === impl Status ===

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::Approved => "approved",
            Status::Denied => "denied",
            Status::Expired => "expired",
            Status::Revoked => "revoked",
            Status::Withdrawn => "withdrawn",
        }
    }
}

// === impl ApprovalState ===

impl ApprovalState {
    fn requested(requested: &Requested, log_time: Millis) -> ApprovalState {
        ApprovalState {
            request: requested.request.clone(),
            governed: requested.governed.clone(),
            ladder: requested.ladder.clone(),
            steps: 0,
            reassigned: None,
            escalated: Vec::new(),
            status: Status::Pending,
            approvals: Vec::new(),
            ended_by: None,
            verdict: None,
            created_at: log_time,
            updated_at: log_time,
            gateway: requested.gateway.clone(),
            receipts: Chain::default(),
        }
    }

    /// Where it stands on its shelves.
    pub fn place(&self) -> String {
        shelf::place(self.created_at, &self.request.id)
    }

    pub fn tenant(&self) -> Option<&str> {
        self.governed.tenant.as_deref()
    }

    /// The policy as it was when the approval was asked for; a request without one was never recorded.
    pub fn policy(&self) -> Option<&ApprovalPolicy> {
        self.request.policy_snapshot.as_ref()
    }

    /// Who has to agree. A composed rule is never weakened by the ladder: whoever is asked as well may then see the
    /// approval, but decides only where the policy has a selector and no rule.
    pub fn rule(&self) -> ApprovalRule {
        let Some(policy) = self.policy() else { return ApprovalRule::Any { rules: Vec::new() } };
        if policy.rule.is_some() {
            return rule::of_policy(policy);
        }
        let first = rule::leaf_of(self.reassigned.as_ref().unwrap_or(&policy.approver_selector));
        if self.escalated.is_empty() {
            return first;
        }
        let others = self.escalated.iter().map(rule::leaf_of);
        ApprovalRule::Any { rules: std::iter::once(first).chain(others).collect() }
    }

    pub fn excluded(&self) -> Vec<aip_wire::PrincipalId> {
        self.policy().map(|policy| authority::excluded(&self.request, policy)).unwrap_or_default()
    }

    pub fn about<'a>(&'a self, excluded: &'a [aip_wire::PrincipalId], now_ms: Millis) -> About<'a> {
        About {
            tenant: self.tenant(),
            capability_id: &self.request.capability_id,
            risk: self.request.risk.unwrap_or(RiskLevel::Critical),
            governed_value: self.request.governed_value,
            excluded,
            now_ms,
        }
    }

    pub fn is_over(&self, now: Millis) -> bool {
        self.request.expires_at.as_ref().is_none_or(|until| until.as_ms() <= now)
    }

    /// The next step of the ladder, and when it is due.
    pub fn next_step(&self) -> Option<(Millis, &EscalationStep)> {
        let next = self.ladder.get(self.steps)?;
        Some((self.created_at.saturating_add(next.after_ms), &next.step))
    }

    /// The decision that stands for the approval: what ended it, or else the last one who agreed, under everybody's
    /// constraints.
    pub fn decision(&self) -> Option<ApprovalDecision> {
        if let Some(ended) = &self.ended_by {
            return Some(ended.clone());
        }
        let mut last = self.approvals.last()?.clone();
        last.constraints = self.approvals.iter().flat_map(|one| one.constraints.iter().cloned()).collect();
        Some(last)
    }

    /// The shelves that it stands on.
    fn shelves(&self) -> Vec<Shelf> {
        let tenant = self.tenant();
        let mut shelves = vec![Shelf::owner(&self.request.requester.id)];
        shelves.extend(tenant.map(Shelf::tenant));
        rule::each_leaf(&self.rule(), &mut |leaf| shelves.push(Shelf::leaf(leaf, tenant)));
        for selector in &self.escalated {
            shelves.push(Shelf::leaf(&rule::leaf_of(selector), tenant));
        }
        if let Some(given) = self.policy().and_then(|policy| policy.delegated_authority.as_ref()) {
            shelves.push(Shelf::leaf(&ApprovalRule::Principal { id: given.principal.clone() }, tenant));
        }
        shelves.sort();
        shelves.dedup();
        shelves
    }
}

/// Folds one event into the approval and writes its rows.
///
/// # Errors
/// The event can't follow what stands: a broken invariant.
pub fn apply(
    state: Option<ApprovalState>,
    event: &ApprovalEvent,
    applying: &mut Applying<'_, PolicyMachine>,
) -> Result<ApprovalState, Bug> {
    let before = state.as_ref().map(ApprovalState::shelves).unwrap_or_default();
    let (state, receipts) = step(state, event, applying.header, applying.log_time)?;
    if !receipts.is_empty() {
        applying.index(keys::INDEX_RECEIPTS, stamp::stamp(applying.log_time, &applying.header.id, 0));
    }
    match event {
        ApprovalEvent::Told { effect, .. } | ApprovalEvent::Noticed { effect } => {
            applying.effect_done(effect.clone());
        }
        ApprovalEvent::Requested(_) | ApprovalEvent::Stepped { .. } => {
            asked(&state, event, &before, applying);
        }
        ApprovalEvent::Approved(_) => notify(events::APPROVAL_CHANGED, applying),
        ApprovalEvent::Granted => {
            ended(&before, &state, applying);
            applying.effect(Effect::Tell, EffectMode::Repeatable);
        }
        ApprovalEvent::Denied(_) | ApprovalEvent::Revoked(_) => {
            ended(&before, &state, applying);
            notify(events::APPROVAL_CHANGED, applying);
            applying.effect(Effect::Tell, EffectMode::Repeatable);
        }
        ApprovalEvent::Expired => {
            ended(&before, &state, applying);
            notify(events::APPROVAL_OVERDUE, applying);
            applying.effect(Effect::Tell, EffectMode::Repeatable);
        }
        ApprovalEvent::Withdrawn { .. } => {
            ended(&before, &state, applying);
            notify(events::APPROVAL_CHANGED, applying);
        }
    }
    Ok(state)
}

/// Puts a waiting approval onto the shelves of all who are asked, tells them, and sets the next step's time.
fn asked(
    state: &ApprovalState,
    event: &ApprovalEvent,
    before: &[Shelf],
    applying: &mut Applying<'_, PolicyMachine>,
) {
    let shelves = state.shelves();
    for shelf in &shelves {
        applying.index(keys::INDEX_APPROVALS, shelf.row(&state.place()));
        applying.index(keys::INDEX_WAITING, shelf.row(&state.place()));
    }
    // whoever was asked before others were still sees it as one of theirs, but it does not wait for them
    for gone in before.iter().filter(|shelf| !shelves.contains(shelf)) {
        applying.unindex(keys::INDEX_WAITING, gone.row(&state.place()));
    }
    let kind = match event {
        ApprovalEvent::Stepped { step: EscalationStep::Remind } => Some(events::APPROVAL_REMINDED),
        ApprovalEvent::Stepped { step: EscalationStep::Reassign(_) } => Some(events::APPROVAL_REASSIGNED),
        ApprovalEvent::Stepped { step: EscalationStep::Escalate(_) } => Some(events::APPROVAL_ESCALATED),
        ApprovalEvent::Stepped { step: EscalationStep::Expire } => None,
        _ => {
            let until = state.request.expires_at.as_ref().map_or(0, |until| until.as_ms());
            applying.timer(keys::TIMER_EXPIRE, until);
            Some(events::APPROVAL_WAITING)
        }
    };
    if let Some(kind) = kind {
        notify(kind, applying);
    }
    match state.next_step() {
        Some((due, _)) => applying.timer(keys::TIMER_STEP, due),
        None => applying.timer_done(keys::TIMER_STEP),
    }
}

fn notify(kind: &Kind, applying: &mut Applying<'_, PolicyMachine>) {
    applying.effect(Effect::Notify { kind: kind.name.to_owned() }, EffectMode::Repeatable);
}

fn ended(shelves: &[Shelf], state: &ApprovalState, applying: &mut Applying<'_, PolicyMachine>) {
    for shelf in shelves {
        applying.unindex(keys::INDEX_WAITING, shelf.row(&state.place()));
    }
    applying.timer_done(keys::TIMER_EXPIRE);
    applying.timer_done(keys::TIMER_STEP);
}

/// The state after one event, and the receipts of the transition. Queries run it over the history to show the receipts
/// that the state only counts.
///
/// # Errors
/// The event can't follow what stands.
pub fn step(
    state: Option<ApprovalState>,
    event: &ApprovalEvent,
    header: &Header,
    log_time: Millis,
) -> Result<(ApprovalState, Vec<Value>), Bug> {
    let mut state = match (state, event) {
        (None, ApprovalEvent::Requested(requested)) => ApprovalState::requested(requested, log_time),
        (Some(state), event) if !matches!(event, ApprovalEvent::Requested(_)) => state,
        _ => return Err(Bug("an approval was asked for twice, or went on before".to_owned())),
    };
    if matches!(event, ApprovalEvent::Noticed { .. }) {
        return Ok((state, Vec::new()));
    }
    state.updated_at = log_time;
    follow(&mut state, event)?;
    let receipts = receipts::of(&mut state, event, header, log_time)?;
    Ok((state, receipts))
}

/// How one event moves the state: what waits may end in any way, what was approved may only be revoked.
fn follow(state: &mut ApprovalState, event: &ApprovalEvent) -> Result<(), Bug> {
    let pending = state.status == Status::Pending;
    let to = match event {
        ApprovalEvent::Requested(_) | ApprovalEvent::Noticed { .. } => return Ok(()),
        ApprovalEvent::Told { status, verdict, .. } => {
            state.verdict = Some((*status, verdict.clone()));
            return Ok(());
        }
        ApprovalEvent::Approved(decision) if pending => {
            state.approvals.push((**decision).clone());
            return Ok(());
        }
        ApprovalEvent::Stepped { step } if pending => {
            state.steps += 1;
            match step {
                EscalationStep::Remind | EscalationStep::Expire => {}
                EscalationStep::Reassign(selector) => state.reassigned = Some(selector.clone()),
                EscalationStep::Escalate(selector) => state.escalated.push(selector.clone()),
            }
            return Ok(());
        }
        ApprovalEvent::Granted if pending => Status::Approved,
        ApprovalEvent::Denied(decision) if pending => {
            state.ended_by = Some((**decision).clone());
            Status::Denied
        }
        ApprovalEvent::Expired if pending => Status::Expired,
        ApprovalEvent::Withdrawn { .. } if pending => Status::Withdrawn,
        ApprovalEvent::Revoked(decision) if pending || state.status == Status::Approved => {
            state.ended_by = Some((**decision).clone());
            Status::Revoked
        }
        _ => return Err(Bug(format!("an approval that is {} went on", state.status.as_str()))),
    };
    state.status = to;
    Ok(())
}
