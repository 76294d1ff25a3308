//! Reads (16.3, 16.6): what a reader may see of an approval, as who asked, as one who may decide, or as an officer of
//! the tenant. Hidden and absent are one answer.

use aip_admission::{Family, Reader, Thing};
use aip_crypto::canonical;
use aip_kernel::{Fault, Millis, View};
use aip_names::limits::{PAGE_BYTES_MAX, PAGE_SCAN_ROWS_MAX};
use aip_service::clock;
use aip_wire::{
    ApprovalId, ApprovalList, ApprovalListRequest, ApprovalQueryRequest, ApprovalRecordView, ApprovalRule,
    PrincipalId, ReceiptChain, Refusal, codes,
};
use serde_json::json;

use crate::authority;
use crate::machine::shelf::Shelf;
use crate::machine::{ApprovalState, PolicyMachine, State, Status, keys, load, receipts};
use crate::page;
use crate::service::PolicyApproval;
use crate::view;

/// Export of a governed input needs both (16.6).
const EXPORT: [&str; 2] = ["approval:export", "approval:sensitive"];

// === impl PolicyApproval ===

impl PolicyApproval {
    pub(crate) async fn query(
        &self,
        reader: &Reader,
        request: &ApprovalQueryRequest,
    ) -> Result<ApprovalRecordView, Refusal> {
        if let Some(tenant) = &request.tenant_id {
            reader.caller().tenant(Some(tenant))?;
        }
        if request.include_evidence_payload
            && let Some(missing) = EXPORT.iter().find(|scope| !reader.caller().scopes().cover(scope))
        {
            return Err(Refusal::new(codes::POLICY_SCOPE, "", format!("this needs the scope {missing}")));
        }
        let (id, receipts) = (request.approval_id.clone(), request.include_receipts);
        let (state, chain) = self
            .fresh(move |view| {
                let Some(state) = load(view, &id)? else { return Ok(None) };
                let chain = if receipts { Some(view::chain(view, &state)?) } else { None };
                Ok(Some((state, chain)))
            })
            .await?
            .filter(|(state, _)| self.sees(reader, state))
            .filter(|(state, _)| {
                request.tenant_id.as_deref().is_none_or(|tenant| state.tenant() == Some(tenant))
            })
            .ok_or_else(|| Refusal::of(codes::APPROVAL_NOT_FOUND))?;
        let mut shown = view::of(&state, chain);
        if request.include_evidence_payload {
            let id = request.approval_id.clone();
            let kept = self.fresh(move |view| view.entity(&keys::evidence(&id))).await?;
            shown.evidence_payload = match kept.map(|entity| entity.state) {
                Some(State::Evidence(evidence)) => Some(*evidence.payload),
                _ => None,
            };
        }
        Ok(shown)
    }

    /// The receipts of an approval, to whoever may see it.
    pub(crate) async fn receipts(&self, reader: &Reader, chain: &str) -> Result<ReceiptChain, Refusal> {
        let not_found = || Refusal::of(codes::RECEIPT_NOT_FOUND);
        let id = receipts::approval_of(chain).ok_or_else(not_found)?;
        let found = self.fresh(move |view| {
            let Some(state) = load(view, &id)? else { return Ok(None) };
            let chain = view::chain(view, &state)?;
            Ok(Some((state, chain)))
        });
        let found = found.await?.filter(|(state, _)| self.sees(reader, state));
        found.map(|(_, chain)| chain).ok_or_else(not_found)
    }

    pub(crate) async fn list(
        &self,
        reader: &Reader,
        request: &ApprovalListRequest,
    ) -> Result<ApprovalList, Refusal> {
        if let Some(tenant) = &request.tenant_id {
            reader.caller().tenant(Some(tenant))?;
        }
        let now = clock::now_ms();
        let rows = page::limit(request.limit)?;
        let question = question(reader, request);
        let after = request.cursor.as_ref().map(|cursor| self.cursors().take(&question, cursor, now));
        let after = after.transpose()?;
        let shelves = self.shelves(reader, request.approver.as_ref(), now);
        let (me, who, asked) = (self.clone(), reader.clone(), request.clone());
        let (approvals, next) =
            self.fresh(move |view| me.fill(view, &who, &asked, &shelves, after, rows)).await?;
        let cursor = next.map(|at| self.cursors().give(&question, at, now)).transpose()?;
        Ok(ApprovalList { approvals, cursor })
    }

    fn fill(
        &self,
        view: &dyn View<PolicyMachine>,
        reader: &Reader,
        request: &ApprovalListRequest,
        shelves: &[Shelf],
        mut after: Option<String>,
        rows: usize,
    ) -> Result<(Vec<ApprovalRecordView>, Option<String>), Fault> {
        let waiting = request.status.as_deref() == Some(Status::Pending.as_str());
        let index = if waiting { keys::INDEX_WAITING } else { keys::INDEX_APPROVALS };
        let (mut approvals, mut bytes, mut looked) = (Vec::new(), 0, 0);
        loop {
            let (found, more) = page::rows(view, index, shelves, after.as_deref())?;
            for (at, entity) in found {
                if approvals.len() == rows || looked == PAGE_SCAN_ROWS_MAX {
                    return Ok((approvals, after));
                }
                looked += 1;
                let state = load(view, &ApprovalId::opaque(entity.id))?;
                if let Some(state) = state.filter(|state| self.matches(reader, state, request)) {
                    let chain = request.include_receipts.then(|| view::chain(view, &state)).transpose()?;
                    let row = view::of(&state, chain);
                    bytes += serde_json::to_string(&row).map_or(0, |row| row.len());
                    if bytes > PAGE_BYTES_MAX && !approvals.is_empty() {
                        return Ok((approvals, after));
                    }
                    approvals.push(row);
                }
                after = Some(at);
            }
            if !more {
                return Ok((approvals, None));
            }
        }
    }

    fn matches(&self, reader: &Reader, state: &ApprovalState, request: &ApprovalListRequest) -> bool {
        let is = |wanted: &Option<String>, is: Option<&str>| wanted.is_none() || wanted.as_deref() == is;
        let decided = |who: &PrincipalId| {
            let mut decisions = state.approvals.iter().chain(&state.ended_by);
            decisions.any(|decision| decision.approver.id == *who)
        };
        is(&request.status, Some(state.status.as_str()))
            && is(&request.tenant_id, state.tenant())
            && request.requester.as_ref().is_none_or(|wanted| *wanted == state.request.requester.id)
            && request
                .approver
                .as_ref()
                .is_none_or(|wanted| self.may_decide(wanted, state) || decided(wanted))
            && self.sees(reader, state)
    }

    /// Whether a reader may see an approval at all.
    pub(crate) fn sees(&self, reader: &Reader, state: &ApprovalState) -> bool {
        let thing = Thing {
            owner: &state.request.requester.id,
            tenant: state.tenant(),
            capability_id: Some(state.request.capability_id.as_str()),
        };
        let me = reader.caller().id();
        let decided = state.approvals.iter().any(|decision| decision.approver.id == *me);
        reader.may(thing, Family::Approval)
            || reader.require(Family::Approval).is_ok() && (self.may_decide(me, state) || decided)
    }

    /// Whether a principal has authority in the approval's rule now, or is told of it by the ladder.
    fn may_decide(&self, who: &PrincipalId, state: &ApprovalState) -> bool {
        let Some(policy) = state.policy() else { return false };
        let excluded = state.excluded();
        let about = state.about(&excluded, clock::now_ms());
        let authorities = &*self.authorities();
        let told = state.escalated.iter().map(crate::rule::leaf_of);
        !authority::paths(authorities, policy, &state.rule(), who, &about).is_empty()
            || told.into_iter().any(|leaf| authority::path(authorities, policy, who, &leaf, &about).is_some())
    }

    /// Where to look for what a reader may see; for what waits for one approver, where it waits.
    fn shelves(&self, reader: &Reader, approver: Option<&PrincipalId>, now: Millis) -> Vec<Shelf> {
        let mut shelves = self.asked(approver.unwrap_or_else(|| reader.caller().id()), now);
        if approver.is_none() {
            let places = reader.places(Family::Approval, None).into_iter();
            shelves.extend(places.map(|place| match place {
                aip_admission::Place::Owner(owner) => Shelf::owner(&owner),
                aip_admission::Place::Tenant(tenant) => Shelf::tenant(&tenant),
            }));
        }
        shelves.sort();
        shelves.dedup();
        shelves
    }

    /// The shelves of everything that a principal may be asked to decide.
    fn asked(&self, who: &PrincipalId, now: Millis) -> Vec<Shelf> {
        let directory = self.directory();
        let Some(party) = directory.party(who) else { return Vec::new() };
        let mut shelves = vec![Shelf::leaf(&ApprovalRule::Principal { id: who.clone() }, None)];
        let tenants = party.tenants.iter().map(|tenant| Some(tenant.as_str())).chain([None]);
        for tenant in tenants {
            let mut leaf = |leaf: ApprovalRule| shelves.push(Shelf::leaf(&leaf, tenant));
            party.roles.iter().cloned().for_each(|name| leaf(ApprovalRule::Role { name }));
            party.groups.iter().cloned().for_each(|name| leaf(ApprovalRule::Group { name }));
            let systems = party.external_systems.iter().cloned();
            systems.for_each(|system| leaf(ApprovalRule::ExternalSystem { system }));
            for policy_id in tenant.into_iter().flat_map(|tenant| directory.tenant_policies(tenant)) {
                leaf(ApprovalRule::TenantPolicy { policy_id: policy_id.to_owned() });
            }
            if directory.grants_to(who, now).any(|grant| Some(grant.tenant.as_str()) == tenant) {
                let scope = String::new();
                leaf(ApprovalRule::DelegatedAuthority { scope, max_risk: None, max_value: None });
            }
        }
        shelves
    }
}

/// What a cursor is bound to: the reader and everything asked for but the page.
fn question(reader: &Reader, request: &ApprovalListRequest) -> String {
    let caller = reader.caller().principal();
    let ApprovalListRequest { status, approver, requester, tenant_id, .. } = request;
    canonical::hash(&json!([caller.id, caller.kind, status, approver, requester, tenant_id]))
}
