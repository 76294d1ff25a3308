//! Takes an approver's decision (12.4). Every point of that list is judged here, on one state and one directory: who the
//! approver is, that they may, duties, time, hashes, constraints, evidence and repetition. What comes of it is one
//! record, so two decisions that race come one after the other.

use std::sync::Arc;

use aip_admission::constraint;
use aip_kernel::{Decision, Draft, Facts, Fault, Millis, View};
use aip_names::limits::{
    APPROVAL_CONSTRAINTS_MAX, APPROVAL_DECISIONS_MAX, APPROVAL_EVIDENCE_MAX, APPROVAL_TEXT_BYTES_MAX,
};
use aip_wire::codes::{self, Code};
use aip_wire::{
    ApprovalDecision, ApprovalDecisionKind as Kind, ApprovalPolicy, EvidenceArtifact, EvidenceRequirement,
    Principal, PrincipalId, Refusal, Timestamp,
};

use super::approval::{ApprovalEvent, ApprovalState};
use super::{Answer, Event, PolicyMachine, Status, keys, load};
use crate::authority::{self, Authorities};
use crate::rule;

/// A decision whose sender is authenticated.
#[derive(Debug, Clone)]
pub struct Decide {
    pub by: Principal,
    pub decision: ApprovalDecision,
    /// The decision's own id, or the id of the message that brought it.
    pub decision_id: String,
    /// Who has which authority, at the moment of the decision.
    pub authorities: Arc<dyn Authorities>,
}

pub(super) fn decide(
    view: &dyn View<PolicyMachine>,
    decide: &Decide,
    facts: &Facts,
) -> Result<Decision<PolicyMachine>, Fault> {
    let Some(state) = load(view, &decide.decision.approval_id)? else {
        return Ok(refuse(Refusal::of(codes::APPROVAL_NOT_FOUND)));
    };
    let now = facts.now.max(facts.log_time);
    let events = match decide.judge(&state, now) {
        Ok(events) if events.is_empty() => return Ok(Decision::Answer(Answer::Nothing)),
        Ok(events) => events.into_iter().map(Event::Approval).collect(),
        Err(refusal) => return Ok(refuse(refusal)),
    };
    let entity = keys::approval(&state.request.id);
    let draft = Draft::new(entity, events).cause(decide.decision_id.as_str());
    Ok(Decision::Append { draft, answer: Answer::Recorded })
}

fn refuse(refusal: Refusal) -> Decision<PolicyMachine> {
    Decision::Answer(Answer::Refused(Box::new(refusal)))
}

// === impl Decide ===

impl Decide {
    /// What the decision leads to; nothing when it stands already.
    fn judge(&self, state: &ApprovalState, now: Millis) -> Result<Vec<ApprovalEvent>, Refusal> {
        let said = &self.decision;
        let no = |code: &'static Code| Err(Refusal::of(code));
        if said.approver.id != self.by.id || said.approver.kind != self.by.kind {
            return no(codes::AUTH_CLAIM);
        }
        if self.stands(state)? {
            return Ok(Vec::new());
        }
        let Some(policy) = state.policy() else { return no(codes::APPROVAL_POLICY) };
        let excluded = state.excluded();
        let asked = [&state.request.requester.id, &state.request.subject.id];
        // who asked can take the action back by cancelling it, and end it in no other name
        let own = asked.contains(&&self.by.id) && said.decision != Kind::Approved;
        if own || excluded.contains(&self.by.id) {
            return no(codes::APPROVAL_DUTIES);
        }
        let about = state.about(&excluded, now);
        let rule = state.rule();
        let paths = authority::paths(&*self.authorities, policy, &rule, &self.by.id, &about);
        let takes_back = said.decision == Kind::Revoked && state.approvals.iter().any(|one| self.made(one));
        if paths.is_empty() && !takes_back {
            return no(codes::APPROVAL_NOT_APPROVER);
        }
        self.in_time(state, now)?;
        let hash = said.policy_hash.as_ref();
        if hash.is_none() && said.decision == Kind::Approved
            || hash.is_some_and(|hash| Some(hash) != state.request.policy_hash.as_ref())
        {
            return no(codes::APPROVAL_HASH);
        }
        check_texts(said)?;
        constraint::check(&said.constraints)?;
        let decision = Box::new(ApprovalDecision {
            approver: Principal::new(self.by.id.clone(), self.by.kind),
            decided_at: Timestamp::from_ms(now),
            decision_id: Some(self.decision_id.clone()),
            policy_hash: state.request.policy_hash.clone(),
            authority_path: paths,
            ..said.clone()
        });
        match said.decision {
            Kind::Approved => self.approve(state, policy, decision, now),
            Kind::Denied => Ok(vec![ApprovalEvent::Denied(decision)]),
            Kind::Revoked => {
                let target = said.target_decision_id.as_ref();
                let is_one =
                    |id: &String| state.approvals.iter().any(|one| one.decision_id.as_ref() == Some(id));
                match target.is_none_or(is_one) {
                    true => Ok(vec![ApprovalEvent::Revoked(decision)]),
                    false => no(codes::APPROVAL_TARGET),
                }
            }
            Kind::Expired => no(codes::APPROVAL_KIND),
        }
    }

    /// Whether this very decision was taken before.
    fn stands(&self, state: &ApprovalState) -> Result<bool, Refusal> {
        let mut before = state.approvals.iter().chain(&state.ended_by);
        let Some(same) = before.find(|one| one.decision_id.as_deref() == Some(&*self.decision_id)) else {
            return Ok(false);
        };
        let said = &self.decision;
        let equal = same.approver.id == self.by.id
            && same.decision == said.decision
            && same.reason == said.reason
            && same.constraints == said.constraints
            && same.evidence == said.evidence
            && same.target_decision_id == said.target_decision_id
            && said.policy_hash.as_ref().is_none_or(|hash| Some(hash) == same.policy_hash.as_ref());
        if equal { Ok(true) } else { Err(Refusal::of(codes::APPROVAL_DECISION_CONFLICT)) }
    }

    fn made(&self, decision: &ApprovalDecision) -> bool {
        decision.approver.id == self.by.id
    }

    fn in_time(&self, state: &ApprovalState, now: Millis) -> Result<(), Refusal> {
        match (state.status, self.decision.decision) {
            (_, Kind::Expired) => Err(Refusal::of(codes::APPROVAL_KIND)),
            (Status::Pending, _) if state.is_over(now) => Err(Refusal::of(codes::APPROVAL_EXPIRED)),
            (Status::Pending, _) | (Status::Approved, Kind::Revoked) => Ok(()),
            (Status::Expired, _) => Err(Refusal::of(codes::APPROVAL_EXPIRED)),
            (status, _) => {
                let message = format!("the approval is {} and takes no such decision", status.as_str());
                Err(Refusal::new(codes::APPROVAL_ENDED, "", message).detail("status", status.as_str()))
            }
        }
    }

    /// One more who agrees. All who have agreed are judged anew: whoever lost their authority since does not count.
    fn approve(
        &self,
        state: &ApprovalState,
        policy: &ApprovalPolicy,
        decision: Box<ApprovalDecision>,
        now: Millis,
    ) -> Result<Vec<ApprovalEvent>, Refusal> {
        if state.approvals.iter().any(|one| self.made(one)) {
            return Err(Refusal::of(codes::APPROVAL_DECIDED));
        }
        let constraints: usize = state.approvals.iter().map(|one| one.constraints.len()).sum();
        if state.approvals.len() >= APPROVAL_DECISIONS_MAX
            || constraints + decision.constraints.len() > APPROVAL_CONSTRAINTS_MAX
        {
            return Err(Refusal::of(codes::LIMIT_APPROVAL_DECISIONS));
        }
        check_evidence(policy, state, &decision)?;
        let excluded = state.excluded();
        let about = state.about(&excluded, now);
        let approvers = state.approvals.iter().map(|one| &one.approver.id).chain([&self.by.id]);
        let approvers: Vec<PrincipalId> = approvers.cloned().collect();
        let standing =
            rule::stand(&state.rule(), policy.minimum_distinct_principals, &approvers, &|who, leaf| {
                authority::path(&*self.authorities, policy, who, leaf, &about).is_some()
            });
        let mut events = vec![ApprovalEvent::Approved(decision)];
        if standing.is_met {
            events.push(ApprovalEvent::Granted);
        }
        Ok(events)
    }
}

/// What the policy wants to see beside a decision to approve (12.1).
fn check_evidence(
    policy: &ApprovalPolicy,
    state: &ApprovalState,
    decision: &ApprovalDecision,
) -> Result<(), Refusal> {
    let brings = |kind: &str| decision.evidence.iter().any(|artifact| artifact.kind == kind);
    let missing = policy.evidence_requirements.iter().find(|wanted| match wanted {
        EvidenceRequirement::Reason => decision.reason.is_none(),
        EvidenceRequirement::InputSnapshot => {
            let snapshot = EvidenceRequirement::InputSnapshot.as_str();
            !state.request.evidence.iter().any(|artifact| artifact.kind == snapshot)
        }
        EvidenceRequirement::PolicyDecision => state.request.policy_decision_id.is_none(),
        wanted => !brings(wanted.as_str()),
    });
    match missing {
        None => Ok(()),
        Some(wanted) => {
            let message = format!("the policy wants evidence of the kind {wanted}");
            Err(Refusal::new(codes::APPROVAL_EVIDENCE_MISSING, "/body/approval_decision/evidence", message))
        }
    }
}

/// Bounds what a decision says, and keeps marked secrets out of it (12.3).
fn check_texts(decision: &ApprovalDecision) -> Result<(), Refusal> {
    let long = |text: &str| text.len() > APPROVAL_TEXT_BYTES_MAX;
    let own = [&decision.reason, &decision.decision_id, &decision.target_decision_id];
    let artifacts = decision.evidence.iter().flat_map(|artifact| {
        [Some(&artifact.id), Some(&artifact.kind), artifact.uri.as_ref(), artifact.hash.as_ref()]
    });
    if own.into_iter().flatten().chain(artifacts.flatten()).any(|text| long(text)) {
        let message = "a text of the decision is too long";
        return Err(Refusal::new(codes::LIMIT_STRING_BYTES, "/body/approval_decision", message));
    }
    if decision.evidence.len() > APPROVAL_EVIDENCE_MAX {
        let path = "/body/approval_decision/evidence";
        return Err(Refusal::new(codes::LIMIT_COLLECTION_ITEMS, path, "there is too much evidence"));
    }
    match decision.evidence.iter().position(is_secret) {
        None => Ok(()),
        Some(index) => {
            let path = format!("/body/approval_decision/evidence/{index}");
            Err(Refusal::new(codes::APPROVAL_EVIDENCE_SECRET, path, codes::APPROVAL_EVIDENCE_SECRET.meaning))
        }
    }
}

/// Marked as a secret by its kind, or holding one in its address: content itself, or a password before the host.
fn is_secret(artifact: &EvidenceArtifact) -> bool {
    const MARKS: [&str; 7] = ["secret", "password", "credential", "token", "api_key", "private_key", "seed"];
    let kind = artifact.kind.to_ascii_lowercase();
    let marked = MARKS.iter().any(|mark| kind == *mark || kind.ends_with(&format!("_{mark}")));
    let held = artifact.uri.as_deref().is_some_and(|uri| match url::Url::parse(uri) {
        Ok(url) => url.scheme() == "data" || url.password().is_some() || !url.username().is_empty(),
        Err(_) => false,
    });
    marked || held
}
