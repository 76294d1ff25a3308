//! One approval on a ledger in memory, and a world in which roles come and go.

use std::collections::BTreeSet;
use std::sync::Arc;

use aip_admission::approval::Governed;
use aip_crypto::receipt;
use aip_kernel::{Facts, Memory, Millis, ReplicaId, View, WriterId};
use aip_wire::codes::Code;
use aip_wire::{
    ActionId, ApprovalDecision, ApprovalDecisionKind, ApprovalEvidencePayload, ApprovalRequest, ApprovalRule,
    CapabilityId, EvidenceArtifact, Principal, PrincipalId, RiskLevel, Timestamp,
};
use serde_json::{Value, json};

use super::super::*;
use crate::authority::{About, Authorities};
use crate::machine::shelf::Shelf;
use aip_wire::trusted::PrincipalRef;

pub const MINUTE: Millis = 60_000;
const NOW: Millis = 1_784_017_800_000;

/// Who has which role.
#[derive(Debug, Clone, Default)]
pub struct Roles(BTreeSet<(String, String)>);

impl Authorities for Roles {
    fn meets(&self, principal: &PrincipalId, leaf: &ApprovalRule, _: &About<'_>) -> Option<String> {
        match leaf {
            ApprovalRule::Role { name } if self.0.contains(&(principal.to_string(), name.clone())) => {
                Some(format!("role:{name}"))
            }
            ApprovalRule::Principal { id } if id == principal => Some(format!("principal:{id}")),
            _ => None,
        }
    }
}

pub struct Env {
    memory: Memory<PolicyMachine>,
    now: Millis,
    entropy: u128,
    roles: Roles,
    id: ApprovalId,
}

pub fn principal(id: &str) -> Principal {
    let kind = id.split(':').next().unwrap_or_default();
    serde_json::from_value(json!({"id": id, "kind": kind})).unwrap()
}

/// A request under a policy with these members; the role `approver` is asked where it has no rule.
pub fn request(policy: Value) -> Request {
    let mut snapshot = json!({
        "required": true, "approver_selector": {"type": "role", "name": "approver"},
        "minimum_distinct_principals": 1,
    });
    snapshot.as_object_mut().unwrap().extend(policy.as_object().unwrap().clone());
    let snapshot = serde_json::from_value(snapshot).unwrap();
    let governed = Governed {
        capability_id: CapabilityId::parse("cap:bank:transfer").unwrap(),
        contract_hash: "contract".to_owned(),
        input_hash: "input".to_owned(),
        tenant: Some("acme".to_owned()),
        external_account: None,
        risk: RiskLevel::High,
        value: None,
    };
    let snapshot_of_input = EvidenceArtifact {
        id: "input".to_owned(),
        kind: "input_snapshot".to_owned(),
        uri: None,
        hash: Some("input".to_owned()),
        redacted: true,
    };
    let request = ApprovalRequest {
        id: ApprovalId::opaque("appr_1"),
        action_id: ActionId::opaque("act_1"),
        capability_id: governed.capability_id.clone(),
        requester: principal("agent:req"),
        subject: principal("agent:req"),
        approver_selector: aip_wire::ApproverSelector::Role { name: "approver".to_owned() },
        reason: "because".to_owned(),
        evidence: vec![snapshot_of_input],
        expires_at: Some(Timestamp::from_ms(NOW + 10 * MINUTE)),
        policy_decision_id: Some("pd".to_owned()),
        identity: None,
        policy_hash: Some(governed.policy_hash(&snapshot)),
        policy_snapshot: Some(snapshot),
        operator: Some(principal("service:worker")),
        risk: Some(RiskLevel::High),
        governed_value: None,
    };
    Request {
        request,
        governed,
        ladder: Vec::new(),
        gateway: PrincipalRef::of(&principal("service:gateway")),
    }
}

impl Env {
    pub fn asked(policy: Value) -> Env {
        Env::with(request(policy))
    }

    pub fn with(request: Request) -> Env {
        let mut env = Env {
            memory: Memory::new(PolicyMachine),
            now: NOW,
            entropy: 1,
            roles: Roles::default(),
            id: request.request.id.clone(),
        };
        for human in ["human:ann", "human:bob", "human:cay"] {
            env.give(human, "approver");
        }
        let payload = ApprovalEvidencePayload {
            action_id: request.request.action_id.clone(),
            capability_id: request.request.capability_id.clone(),
            input_hash: "input".to_owned(),
            input: json!({"amount": 75}),
            transaction: None,
            identity: None,
        };
        let keep = Keep { approval: env.id.clone(), payload };
        assert_eq!(env.decide(Command::Keep(Box::new(keep.clone()))), Answer::Recorded);
        assert_eq!(env.decide(Command::Keep(Box::new(keep))), Answer::Nothing);
        assert_eq!(env.ask(request), Answer::Recorded);
        env
    }

    pub fn ask(&mut self, request: Request) -> Answer {
        self.decide(Command::Request(Box::new(request)))
    }

    pub fn ask_refused(&mut self, request: Request) -> &'static Code {
        match self.ask(request) {
            Answer::Refused(refusal) => refusal.code,
            other => panic!("{other:?}"),
        }
    }

    fn decide(&mut self, command: Command) -> Answer {
        self.entropy += 1;
        let writer = WriterId { replica: ReplicaId("r".to_owned()), life: "l".to_owned() };
        let facts = Facts::new(self.now, self.memory.log_time(), writer, self.entropy);
        self.memory.decide(&command, &facts).unwrap()
    }

    pub fn later(&mut self, ms: Millis) {
        self.now += ms;
    }

    /// Fires every timer that is due.
    pub fn fire(&mut self) {
        let due: Vec<_> = self.memory.timers().filter(|(_, _, due)| *due <= self.now).collect();
        let due: Vec<Command> =
            due.into_iter().map(|(entity, name, _)| PolicyMachine.on_timer(entity, name)).collect();
        for command in due {
            self.decide(command);
        }
    }

    pub fn give(&mut self, who: &str, role: &str) {
        self.roles.0.insert((who.to_owned(), role.to_owned()));
    }

    pub fn take(&mut self, who: &str, role: &str) {
        self.roles.0.remove(&(who.to_owned(), role.to_owned()));
    }

    pub fn state(&self) -> ApprovalState {
        load(&self.memory, &self.id).unwrap().unwrap()
    }

    pub fn kind(&self, who: &str, id: &str, kind: ApprovalDecisionKind) -> Decide {
        let approve = kind == ApprovalDecisionKind::Approved;
        Decide {
            by: principal(who),
            decision: ApprovalDecision {
                approval_id: self.id.clone(),
                decision: kind,
                approver: principal(who),
                decided_at: Timestamp::from_ms(self.now),
                reason: None,
                constraints: Vec::new(),
                evidence: Vec::new(),
                decision_id: Some(id.to_owned()),
                policy_hash: self.state().request.policy_hash.filter(|_| approve),
                authority_path: Vec::new(),
                target_decision_id: None,
            },
            decision_id: id.to_owned(),
            authorities: Arc::new(self.roles.clone()),
        }
    }

    pub fn approval(&self, who: &str, id: &str) -> Decide {
        self.kind(who, id, ApprovalDecisionKind::Approved)
    }

    pub fn denial(&self, who: &str, id: &str) -> Decide {
        self.kind(who, id, ApprovalDecisionKind::Denied)
    }

    pub fn revocation(&self, who: &str, id: &str) -> Decide {
        self.kind(who, id, ApprovalDecisionKind::Revoked)
    }

    pub fn take_decision(&mut self, decide: Decide) -> Result<Answer, &'static Code> {
        match self.decide(Command::Decide(Box::new(decide))) {
            Answer::Refused(refusal) => Err(refusal.code),
            answer => Ok(answer),
        }
    }

    pub fn approve(&mut self, who: &str, id: &str) -> Result<Answer, &'static Code> {
        let decide = self.approval(who, id);
        self.take_decision(decide)
    }

    pub fn refused_code(&mut self, decide: Decide) -> &'static Code {
        let before = self.state();
        let code = self.take_decision(decide).unwrap_err();
        assert_eq!(self.state(), before, "a refusal changed something");
        code
    }

    pub fn withdraw(&mut self) {
        self.decide(Command::Withdraw { approval: self.id.clone(), why: "cancelled".to_owned() });
    }

    pub fn told(&mut self, verdict: Verdict) {
        let effect = self.memory.effects().find(|(_, effect, _)| **effect == Effect::Tell).unwrap().0.clone();
        let told = Told { effect, status: self.state().status, verdict };
        self.decide(Command::Told(Box::new(told)));
    }

    pub fn has_effect(&self, wanted: &Effect) -> bool {
        self.memory.effects().any(|(_, effect, _)| effect == wanted)
    }

    pub fn has_notice(&self, kind: &str) -> bool {
        self.has_effect(&Effect::Notify { kind: kind.to_owned() })
    }

    /// Whether the approval stands on the shelf of those who are asked by this leaf.
    pub fn waits_for(&self, leaf: &Value) -> bool {
        let leaf = serde_json::from_value(leaf.clone()).unwrap();
        let row = Shelf::leaf(&leaf, Some("acme")).row(&self.state().place());
        let at = std::ops::Bound::Included(row.as_str());
        !self.memory.scan(keys::INDEX_WAITING, at, at, 1).unwrap().is_empty()
    }

    fn chain(&self) -> aip_wire::ReceiptChain {
        let past = self.memory.history(&keys::approval(&self.id), 1, 100).unwrap();
        receipts::chain(&past, &self.state()).unwrap()
    }

    pub fn last_receipt(&self) -> String {
        let chain = self.chain();
        chain.receipts.last().unwrap().receipt_type.as_str().to_owned()
    }

    /// Replay gives the same store, the receipts verify and hold nothing of the input.
    pub fn check(&self) {
        assert!(self.memory.same(&self.memory.replay(PolicyMachine).unwrap()));
        let chain = serde_json::to_value(self.chain()).unwrap();
        receipt::verify_chain(&chain).unwrap();
        assert!(!chain.to_string().contains("amount"));
    }
}
