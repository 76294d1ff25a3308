//! Approvals in the simulation: requests, decisions that race, repeat and come late, revocations, withdrawals, a ladder
//! and the clock. What an approval says has to follow from the decisions that stand in the log.

use std::collections::BTreeSet;
use std::sync::Arc;

use aip_admission::approval::Governed;
use aip_admission::directory::{EscalationConfig, EscalationStep};
use aip_kernel::EffectId;
use aip_policy_approval::authority::{About, Authorities};
use aip_policy_approval::machine::{
    Answer, ApprovalState, Command, Decide, Effect, Keep, PolicyMachine, Request, State, Status, Told,
    Verdict, keys,
};
use aip_policy_approval::rule;
use aip_wire::trusted::PrincipalRef;
use aip_wire::{
    ActionId, ApprovalDecision, ApprovalDecisionKind as Kind, ApprovalEvidencePayload, ApprovalId,
    ApprovalPolicy, ApprovalRequest, ApprovalRule, ApproverSelector, CapabilityId, Principal, PrincipalId,
    PrincipalKind, RiskLevel, Timestamp,
};
use rand::Rng as _;
use serde_json::Value;

use crate::log::EPOCH_MS;
use crate::{Evidence, Rng, Subject};

/// Approvals that are asked for and decided at the same time; few, so that decisions race.
const AT_ONCE: u64 = 3;
const APPROVERS: u64 = 4;

/// The approvers are those whose number is below [`APPROVERS`], and nobody loses that.
#[derive(Debug)]
struct Approvers;

impl Authorities for Approvers {
    fn meets(&self, principal: &PrincipalId, leaf: &ApprovalRule, _: &About<'_>) -> Option<String> {
        let number: Option<u64> =
            principal.as_str().strip_prefix("human:").and_then(|number| number.parse().ok());
        let is_one = number.is_some_and(|number| number < APPROVERS);
        (is_one && matches!(leaf, ApprovalRule::Role { .. })).then(|| "role:approver".to_owned())
    }
}

#[derive(Debug, Default)]
pub struct ApprovalSubject {
    asked: u64,
}

// === impl ApprovalSubject ===

impl ApprovalSubject {
    fn decide(&self, rng: &mut Rng, approval: u64) -> Command {
        let who = person(rng.random_range(0..APPROVERS + 2));
        let kind = match rng.random_range(0..20_u32) {
            0 => Kind::Denied,
            1 | 2 => Kind::Revoked,
            _ => Kind::Approved,
        };
        // a decision is said again, also by way of another replica, and means the same
        let decision_id = format!("{}-{kind}-{approval}", who.id);
        let decision = ApprovalDecision {
            approval_id: id(approval),
            decision: kind,
            approver: who.clone(),
            decided_at: Timestamp::from_ms(EPOCH_MS),
            reason: None,
            constraints: Vec::new(),
            evidence: Vec::new(),
            decision_id: Some(decision_id.clone()),
            policy_hash: Some(governed(approval).policy_hash(&policy())),
            authority_path: Vec::new(),
            target_decision_id: None,
        };
        Command::Decide(Box::new(Decide { by: who, decision, decision_id, authorities: Arc::new(Approvers) }))
    }
}

fn id(approval: u64) -> ApprovalId {
    ApprovalId::opaque(format!("appr_{approval}"))
}

fn person(number: u64) -> Principal {
    // numbers are names
    let id = PrincipalId::parse(format!("human:{number}")).unwrap_or_else(|_| unreachable!());
    Principal::new(id, PrincipalKind::Human)
}

/// Two of those who have the role.
fn policy() -> ApprovalPolicy {
    let role = || ApprovalRule::Role { name: "approver".to_owned() };
    ApprovalPolicy {
        required: true,
        reason: None,
        approver_selector: ApproverSelector::Role { name: "approver".to_owned() },
        ttl_ms: None,
        evidence_requirements: Vec::new(),
        delegated_authority: None,
        rule: Some(ApprovalRule::Quorum {
            required: 2,
            rules: vec![role(), role(), role()],
            distinct_principals: true,
        }),
        minimum_distinct_principals: 2,
        separation_of_duties: Default::default(),
        policy_version: None,
    }
}

fn capability() -> CapabilityId {
    CapabilityId::parse("cap:a").unwrap_or_else(|_| unreachable!())
}

fn governed(approval: u64) -> Governed {
    Governed {
        capability_id: capability(),
        contract_hash: "contract".to_owned(),
        input_hash: format!("input-{approval}"),
        tenant: None,
        external_account: None,
        risk: RiskLevel::High,
        value: None,
    }
}

fn keep(approval: u64) -> Command {
    let payload = ApprovalEvidencePayload {
        action_id: ActionId::opaque(format!("act_{approval}")),
        capability_id: capability(),
        input_hash: format!("input-{approval}"),
        input: Value::Null,
        transaction: None,
        identity: None,
    };
    Command::Keep(Box::new(Keep { approval: id(approval), payload }))
}

fn request(approval: u64) -> Command {
    // the requester is one who might approve
    let requester = person(approval % APPROVERS);
    let governed = governed(approval);
    let request = ApprovalRequest {
        id: id(approval),
        action_id: ActionId::opaque(format!("act_{approval}")),
        capability_id: capability(),
        requester: requester.clone(),
        subject: requester,
        approver_selector: policy().approver_selector,
        reason: "because".to_owned(),
        evidence: Vec::new(),
        expires_at: Some(Timestamp::from_ms(EPOCH_MS + 5_000 + approval * 700)),
        policy_decision_id: None,
        identity: None,
        policy_hash: Some(governed.policy_hash(&policy())),
        policy_snapshot: Some(policy()),
        operator: None,
        risk: Some(RiskLevel::High),
        governed_value: None,
    };
    let remind = EscalationConfig { after_ms: 1_000, step: EscalationStep::Remind };
    let expire = EscalationConfig { after_ms: 9_000, step: EscalationStep::Expire };
    let gateway = PrincipalRef::of(&person(99));
    Command::Request(Box::new(Request { request, governed, ladder: vec![remind, expire], gateway }))
}

impl Subject for ApprovalSubject {
    type M = PolicyMachine;

    fn machine(&self) -> PolicyMachine {
        PolicyMachine
    }

    fn next(&mut self, rng: &mut Rng) -> Command {
        self.asked += 1;
        let approval = self.asked / 16 + rng.random_range(0..AT_ONCE);
        match rng.random_range(0..100_u32) {
            0..20 => keep(approval),
            20..40 => request(approval),
            40..97 => self.decide(rng, approval),
            97..99 => Command::Withdraw { approval: id(approval), why: "cancelled".to_owned() },
            _ => Command::Expire { approval: id(approval), now: true },
        }
    }

    /// A decision that was taken stands in the log, whether it was taken now or before.
    fn evidence(&self, command: &Command, answer: &Answer) -> Option<Evidence> {
        match (command, answer) {
            (Command::Decide(decide), Answer::Recorded | Answer::Nothing) => Some(Evidence {
                entity: keys::approval(&decide.decision.approval_id),
                cause: decide.decision_id.clone(),
            }),
            (Command::Keep(keep), Answer::Recorded | Answer::Nothing) => {
                Some(Evidence { entity: keys::evidence(&keep.approval), cause: "request".to_owned() })
            }
            (Command::Request(asked), Answer::Recorded | Answer::Nothing) => {
                Some(Evidence { entity: keys::approval(&asked.request.id), cause: "request".to_owned() })
            }
            _ => None,
        }
    }

    fn outcome(&mut self, id: &EffectId, effect: &Effect) -> Command {
        match effect {
            Effect::Tell => {
                let (status, verdict) = (Status::Approved, Verdict::Taken);
                Command::Told(Box::new(Told { effect: id.clone(), status, verdict }))
            }
            Effect::Notify { .. } => Command::Noticed { effect: id.clone() },
        }
    }

    fn ended(&self, _: &State) -> bool {
        false
    }

    fn indexes(&self) -> &'static [&'static str] {
        keys::INDEXES
    }

    fn sound(&self, state: &State) -> Result<(), String> {
        match state {
            State::Approval(state) => agreed(state),
            State::Evidence(_) => Ok(()),
        }
    }
}

/// Whatever the approval says, those who had to agree did, each once, and none who must not.
fn agreed(state: &ApprovalState) -> Result<(), String> {
    let approvers: Vec<PrincipalId> = state.approvals.iter().map(|one| one.approver.id.clone()).collect();
    if approvers.iter().collect::<BTreeSet<_>>().len() != approvers.len() {
        return Err(format!("somebody agreed twice: {approvers:?}"));
    }
    if approvers.contains(&state.request.requester.id) {
        return Err("the requester agreed".to_owned());
    }
    let excluded = state.excluded();
    let about = state.about(&excluded, 0);
    let meets = |who: &PrincipalId, leaf: &ApprovalRule| Approvers.meets(who, leaf, &about).is_some();
    let met = rule::stand(&state.rule(), policy().minimum_distinct_principals, &approvers, &meets).is_met;
    match (state.status, met) {
        (Status::Approved, false) => Err(format!("approved by {approvers:?}")),
        (Status::Pending, true) => Err(format!("waits although {approvers:?} agreed")),
        (Status::Denied, _) if state.ended_by.is_none() => Err("denied by nobody".to_owned()),
        (Status::Revoked, _) if state.ended_by.is_none() => Err("revoked by nobody".to_owned()),
        _ => Ok(()),
    }
}
