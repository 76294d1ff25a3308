//! The road of approvals: what an admitted action asks for (12.2), and what happens when the answer comes (12.5). Before
//! anything is dispatched everything is looked at again: the contract, the policy, the input, who asked and for whom.

use aip_admission::approval::{Governed, SHOWN_INPUT_KIND, governed_value, policy_of};
use aip_admission::{Admitted, Authentic, Caller, Family, Reader, admit_again, constraint, idempotency};
use aip_kernel::{Millis, View};
use aip_names::OwnService;
use aip_names::limits::{ADMIT_TRIES_MAX, APPROVAL_INPUT_BYTES_MAX, APPROVAL_SHOWN_INPUT_BYTES_MAX};
use aip_service::{clock, fault};
use aip_wire::codes::{self, Code};
use aip_wire::redact::redact_for;
use aip_wire::trusted::PrincipalRef;
use aip_wire::{
    Ack, AckStatus, Action, ActionId, ApprovalDecisionKind, ApprovalId, ApprovalQueryRequest,
    ApprovalRecordView, ApprovalRequest, EvidenceArtifact, IdentityContext, MessageBody, Principal, Refusal,
    TenantRef, Timestamp,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::admit;
use crate::catalog::{Offer, Place};
use crate::errors;
use crate::front::OF_TOKEN;
use crate::gateway::Gateway;
use crate::machine::action::{Accepted, ActionEvent};
use crate::machine::approval::Resolved;
use crate::machine::{
    self, ActionState, Answer, Check, Command, Event, GatewayMachine, Pending, Resolve, keys, manifest,
};
use crate::peer;
use crate::query;

/// How a reader calls itself in a query.
const ME: &str = "me";

/// True for the chains of receipts that the approvals' service keeps.
pub fn owns_chain(chain_id: &str) -> bool {
    chain_id.starts_with("approval:")
}

/// What a door made of a request without an envelope says of its sender, put in the sender's name.
pub fn of_token(mut body: MessageBody, caller: &Caller) -> MessageBody {
    match &mut body {
        MessageBody::ApprovalDecision(said) if said.approver.id.as_str() == OF_TOKEN => {
            said.approver = Principal::new(caller.id().clone(), caller.principal().kind);
        }
        MessageBody::ApprovalListRequest(asked)
            if asked.approver.as_ref().is_some_and(|approver| approver.as_str() == ME) =>
        {
            asked.approver = Some(caller.id().clone());
        }
        _ => {}
    }
    body
}

/// What has to be approved before this action is dispatched; none for a capability that needs no approval.
///
/// # Errors
/// `aip.action.invalid_input` for a governed value that is none; `aip.limit.envelope_bytes` for an input that is too
/// large to be kept as evidence.
pub fn request(
    admitted: &Admitted,
    offer: &Offer,
    provider: &PrincipalRef,
    now: Millis,
) -> Result<Option<Box<ApprovalRequest>>, Refusal> {
    let Some(policy) = policy_of(&offer.capability) else { return Ok(None) };
    let (action, context) = (admitted.action(), admitted.context());
    if action.input.to_string().len() > APPROVAL_INPUT_BYTES_MAX {
        let message = "the input is too large to be kept as evidence of an approval";
        return Err(Refusal::new(codes::LIMIT_ENVELOPE_BYTES, "/body/action/input", message));
    }
    let named = |who: &PrincipalRef| Principal::new(who.id.clone(), who.kind);
    let governed = Governed {
        capability_id: action.capability_id.clone(),
        contract_hash: offer.contract_hash.clone(),
        input_hash: idempotency::input_hash(action),
        tenant: context.tenant.clone(),
        external_account: context.external_account.clone(),
        risk: offer.contract.risk,
        value: governed_value(&offer.capability, &action.input)?,
    };
    let behalf = context.authority.as_ref().map(|authority| named(&authority.principal));
    let mut evidence = governed.artifacts();
    evidence.extend(offer.contract.side_effects.iter().map(|effect| EvidenceArtifact {
        id: effect.as_str().to_owned(),
        kind: "side_effect".to_owned(),
        uri: None,
        hash: None,
        redacted: false,
    }));
    evidence.extend(shown(&action.input, offer));
    let until = now.saturating_add(policy.ttl_ms.unwrap_or(u64::MAX)).min(context.deadline_ms);
    Ok(Some(Box::new(ApprovalRequest {
        id: ApprovalId::generate(),
        action_id: action.id.clone(),
        capability_id: action.capability_id.clone(),
        requester: named(&context.principal),
        subject: behalf.clone().unwrap_or_else(|| named(&context.principal)),
        approver_selector: policy.approver_selector.clone(),
        reason: policy
            .reason
            .clone()
            .filter(|reason| !reason.trim().is_empty())
            .unwrap_or_else(|| format!("{} asks for approval", offer.capability.name)),
        evidence,
        expires_at: Some(Timestamp::from_ms(until)),
        policy_decision_id: Some(format!("{}:{}", context.policy.directory, context.policy.rule)),
        identity: Some(IdentityContext {
            tenant: context.tenant.clone().map(|id| TenantRef { id, system: None }),
            external_account: context.external_account.clone(),
            external_user: None,
            human_actor: None,
            service_account: None,
            acted_on_behalf_of: behalf,
            credential_ref: None,
            oauth: None,
        }),
        policy_hash: Some(governed.policy_hash(&policy)),
        policy_snapshot: Some(policy),
        operator: Some(named(provider)),
        risk: Some(governed.risk),
        governed_value: governed.value.as_ref().map(|value| value.amount),
    })))
}

/// The input as approvers are shown it: without what the schema marks, or all of it where the contract says so.
fn shown(input: &Value, offer: &Offer) -> Option<EvidenceArtifact> {
    let shown = redact_for(input, &offer.capability.input_schema, &offer.contract.data).to_string();
    if shown.len() > APPROVAL_SHOWN_INPUT_BYTES_MAX {
        return None;
    }
    let uri = format!("data:application/json,{}", utf8_percent_encode(&shown, NON_ALPHANUMERIC));
    let kind = SHOWN_INPUT_KIND.to_owned();
    Some(EvidenceArtifact { id: kind.clone(), kind, uri: Some(uri), hash: None, redacted: true })
}

/// An action with the record of its admission.
type Waiting = (ActionState, Accepted);

// === impl Gateway ===

impl Gateway {
    /// Whether approvals can be asked for: an action that nobody could approve is not taken.
    pub(crate) async fn approvals_are_there(&self, fresh: &ApprovalId) -> Result<(), Refusal> {
        let question = ApprovalQueryRequest {
            approval_id: fresh.clone(),
            tenant_id: None,
            include_action_status: false,
            include_receipts: false,
            include_evidence_payload: false,
        };
        let me = peer::own_caller(self.voice().principal())?;
        match self.ask(OwnService::PolicyApproval, &me, question.into()).await {
            Ok(_) => Ok(()),
            Err(refusal) if refusal.code == codes::APPROVAL_NOT_FOUND => Ok(()),
            Err(refusal) => Err(refusal),
        }
    }

    /// One approval, with how its action stands if that is asked for and may be seen.
    pub(crate) async fn approval(
        &self,
        reader: &Reader,
        request: &ApprovalQueryRequest,
    ) -> Result<ApprovalRecordView, Refusal> {
        let answer = self.ask(OwnService::PolicyApproval, reader.caller(), request.clone().into()).await?;
        let MessageBody::ApprovalRecordView(mut view) = answer else {
            return Err(Refusal::of(codes::SERVICE_INTERNAL));
        };
        if request.include_action_status {
            let id = view.request.action_id.clone();
            let state = self.fresh(move |view| query::action(view, &id)).await?;
            let state = state.filter(|state| query::readable(reader, state, None, Family::Action));
            view.action_status = state.map(|state| query::status(&state, false, None, None));
        }
        Ok(*view)
    }

    /// Takes what the approvals' service says of one of them. Said twice it is taken once.
    ///
    /// # Errors
    /// Somebody else said it, or the ledger has no answer: then it is said again.
    pub(crate) async fn resume(
        &self,
        authentic: &Authentic,
        told: &ApprovalRecordView,
    ) -> Result<Ack, Refusal> {
        if authentic.caller().id().as_str() != OwnService::PolicyApproval.principal() {
            return Err(Refusal::of(codes::ENVELOPE_NOT_SERVED));
        }
        let Some(kind) = ApprovalDecisionKind::from_name(&told.status) else {
            return Err(Refusal::new(codes::ENVELOPE_RULE, "/body/approval_record_view/status", "is no end"));
        };
        let id = told.request.action_id.clone();
        for _ in 0..ADMIT_TRIES_MAX {
            let Some((state, accepted)) = self.waiting(&id).await? else { return Ok(late(id, None)) };
            let compares = state.is_pending() && kind == ApprovalDecisionKind::Approved;
            let check = match compares {
                true => Some(self.compare(&state, &accepted, told).await?),
                false => None,
            };
            let stale = match &check {
                Some(Check::Stale(pending)) => pending.stale.clone(),
                _ => None,
            };
            let resolve = Resolve {
                action: id.clone(),
                resolved: Resolved {
                    approval: told.request.id.clone(),
                    kind,
                    decision: told.decision.clone().map(Box::new),
                    receipt: receipt(told),
                },
                check,
            };
            match self.decide(Command::Resolve(Box::new(resolve))).await? {
                Answer::Refused(machine::Refusal::CapabilityChanged) => {}
                Answer::Recorded if stale.is_none() => return Ok(taken(id)),
                Answer::Recorded => return Ok(late(id, stale)),
                _ => return self.stood(&id, &told.request.id, kind).await,
            }
        }
        Err(Refusal::of(codes::SERVICE_OVERLOADED))
    }

    /// What was made of it before.
    async fn stood(
        &self,
        id: &ActionId,
        approval: &ApprovalId,
        kind: ApprovalDecisionKind,
    ) -> Result<Ack, Refusal> {
        let approving = self.waiting(id).await?.and_then(|(state, _)| state.approval);
        let Some(approving) = approving else { return Ok(late(id.clone(), None)) };
        let stale = approving.stale.iter().find(|(stale, _)| stale == approval);
        let same = approving.request.id == *approval
            && approving.resolved.as_ref().is_some_and(|(resolved, _)| *resolved == kind);
        Ok(match stale {
            Some((_, code)) => late(id.clone(), Some(code.clone())),
            None if same => taken(id.clone()),
            None => late(id.clone(), None),
        })
    }

    async fn waiting(&self, id: &ActionId) -> Result<Option<Waiting>, Refusal> {
        let read = self.ledger().read(|view| {
            let first = view.history(&keys::action(id.as_str()), 1, 1)?.into_iter().next();
            Ok((query::action(view, id)?, first.map(|(record, _, _)| record.events)))
        });
        let (state, events) = read.await.map_err(|error| fault::of_ledger(&error))?;
        let accepted = events.unwrap_or_default().into_iter().find_map(|event| match event {
            Event::Action(ActionEvent::Accepted(accepted)) => Some(*accepted),
            _ => None,
        });
        Ok(state.zip(accepted))
    }

    /// Compares what was approved with what would be done now.
    async fn compare(
        &self,
        state: &ActionState,
        accepted: &Accepted,
        told: &ApprovalRecordView,
    ) -> Result<Check, Refusal> {
        let now = clock::now_ms();
        let fails = |code: &'static Code, cause: &str| {
            Ok(Check::Fails(Box::new(errors::with_details(code, json!({"cause": cause})))))
        };
        let Some(approved) = state.approval.as_ref().map(|approving| &approving.request) else {
            return fails(codes::SERVICE_INTERNAL, "no approval");
        };
        if idempotency::input_hash(&accepted.action) != state.input_hash {
            return fails(codes::APPROVAL_INPUT_CHANGED, "the record");
        }
        let constraints = told.decision.iter().flat_map(|decision| decision.constraints.iter().cloned());
        let constraints: Vec<_> = constraints.collect();
        if let Some(violated) = constraint::violated(&constraints, &accepted.action.input) {
            return fails(codes::POLICY_APPROVAL_CONSTRAINT, &violated.field);
        }
        let capability_id = &accepted.action.capability_id;
        let newest = |view: &dyn View<GatewayMachine>| manifest::newest(view, capability_id);
        let row = self.ledger().read(newest).await.map_err(|error| fault::of_ledger(&error))?;
        let Some(row) = row else { return fails(codes::CAPABILITY_UNKNOWN, "withdrawn") };
        let place = Place {
            provider: &row.provider.id,
            registration_n: row.n,
            capability_id,
            contract_hash: &row.key.contract_hash,
        };
        let offer = self.catalog().offer(self.ledger(), place).await?;
        if let Err(refusal) = offer.check_input(&accepted.action.input) {
            return fails(codes::APPROVAL_CONTRACT_CHANGED, refusal.code.name);
        }
        let admitted = admit_again(
            &accepted.context,
            Action { approval: None, ..accepted.action.clone() },
            accepted.correlation_id.clone(),
            (&offer.capability, &offer.contract_hash),
            &self.authenticator().directory(),
            now,
        );
        let admitted = match admitted {
            Ok(admitted) => admitted,
            Err(refusal) if refusal.code == codes::TENANT_MISMATCH => {
                return fails(codes::APPROVAL_TENANT_CHANGED, refusal.code.name);
            }
            Err(refusal) => return fails(codes::APPROVAL_IDENTITY_CHANGED, refusal.code.name),
        };
        let Some(request) = request(&admitted, &offer, &row.provider, now)? else {
            return fails(codes::APPROVAL_CONTRACT_CHANGED, "needs no approval");
        };
        let until = Timestamp::from_ms(state.deadline);
        let request = ApprovalRequest {
            expires_at: request.expires_at.map(|expires_at| expires_at.min(until)),
            ..*request
        };
        let Some(code) = changed(&request, approved, told) else { return Ok(Check::Stands) };
        let pinned = admit::pinned(&accepted.action, &offer, row);
        Ok(Check::Stale(Box::new(Pending {
            request: Box::new(request),
            pinned: Some(pinned),
            stale: Some(code.name.to_owned()),
        })))
    }
}

/// Which of the things that an approval is for is not as it was approved; none when all are.
fn changed(
    now: &ApprovalRequest,
    approved: &ApprovalRequest,
    told: &ApprovalRecordView,
) -> Option<&'static Code> {
    let same_person = now.requester.id == approved.requester.id
        && now.subject.id == approved.subject.id
        && told.request.requester.id == approved.requester.id;
    if !same_person {
        return Some(codes::APPROVAL_IDENTITY_CHANGED);
    }
    let hash = now.policy_hash.as_ref();
    let known = [approved, &told.request].map(|request| request.policy_hash.as_ref());
    if hash.is_some() && known.iter().all(|known| *known == hash) {
        return None;
    }
    let (now, approved) = (Governed::of_request(now)?, Governed::of_request(approved));
    let Some(approved) = approved else { return Some(codes::APPROVAL_POLICY_CHANGED) };
    Some(if now.contract_hash != approved.contract_hash {
        codes::APPROVAL_CONTRACT_CHANGED
    } else if now.tenant != approved.tenant {
        codes::APPROVAL_TENANT_CHANGED
    } else if now.input_hash != approved.input_hash {
        codes::APPROVAL_INPUT_CHANGED
    } else {
        codes::APPROVAL_POLICY_CHANGED
    })
}

fn receipt(told: &ApprovalRecordView) -> Option<aip_wire::ReceiptRef> {
    let last = told.receipt_chain.as_ref()?.receipts.last()?;
    Some(aip_wire::ReceiptRef { id: last.id.clone(), hash: last.hash.clone()? })
}

fn taken(action_id: ActionId) -> Ack {
    Ack { action_id, status: AckStatus::Accepted, reason: None, retry_after_ms: None, queue: None }
}

/// It changed nothing; with the code that says why, where there is one.
fn late(action_id: ActionId, reason: Option<String>) -> Ack {
    Ack { action_id, status: AckStatus::Rejected, reason, retry_after_ms: None, queue: None }
}
