//! Reads (16): answered from committed state that is no older than the question, and only what the reader may see.
//! Hidden and absent are one answer.

use std::collections::BTreeMap;
use std::ops::Bound;

use serde_json::json;

use aip_admission::{Caller, Family, Reader, Thing};
use aip_kernel::{EntityKey, Fault, Millis, View};
use aip_names::OwnService;
use aip_names::limits::{ACTION_RECORDS_MAX, DISPATCH_ATTEMPTS_MAX};
use aip_service::fault;
use aip_wire::{
    ActionId, ActionResult, ActionResultRequest, ActionResultStatus, ActionStatus, ActionStatusRequest,
    MessageBody, ReceiptChain, ReceiptId, ReceiptQueryRequest, Refusal, Timestamp, codes,
};

use crate::admit::result_of;
use crate::approve;
use crate::gateway::Gateway;
use crate::machine::{ActionState, GatewayMachine, State, keys, receipts, redrive, stamp};
use crate::wait::Waiter;

mod audit;
mod chunks;
pub(crate) mod events;
mod list;
mod page;

/// An action with its receipts told from its history.
type Evidence = (ActionState, ReceiptChain);

// === impl Gateway ===

impl Gateway {
    /// Answers one of the reads.
    pub(crate) async fn read(
        &self,
        caller: &Caller,
        body: &MessageBody,
        now: Millis,
    ) -> Result<MessageBody, Refusal> {
        let reader = self.reader(caller, now);
        let reader = &reader;
        match body {
            MessageBody::ActionListRequest(request) => {
                self.action_list(reader, request, now).await.map(Into::into)
            }
            MessageBody::ActionEventsRequest(request) => {
                self.action_events(reader, request, now).await.map(Into::into)
            }
            MessageBody::EventStreamRequest(request) => {
                self.event_stream(reader, request, now).await.map(Into::into)
            }
            MessageBody::AuditQueryRequest(request) => {
                self.audit_query(reader, request, now).await.map(Into::into)
            }
            MessageBody::ActionStatusRequest(request) => {
                self.action_status(reader, request, now).await.map(Into::into)
            }
            MessageBody::ActionResultRequest(request) => {
                self.action_result(reader, request, now).await.map(Into::into)
            }
            MessageBody::ManifestRequest(request) => {
                self.manifest(caller, request, now).await.map(Into::into)
            }
            MessageBody::ReceiptQueryRequest(request)
                if request.chain_id.as_deref().is_some_and(approve::owns_chain) =>
            {
                self.ask(OwnService::PolicyApproval, caller, body.clone()).await
            }
            MessageBody::ApprovalDecision(_) | MessageBody::ApprovalListRequest(_) => {
                self.ask(OwnService::PolicyApproval, caller, body.clone()).await
            }
            MessageBody::ApprovalQueryRequest(request) => {
                self.approval(reader, request).await.map(Into::into)
            }
            MessageBody::ReceiptQueryRequest(request) => {
                self.receipt_chain(reader, request).await.map(Into::into)
            }
            _ => Err(Refusal::of(codes::ENVELOPE_NOT_SERVED)),
        }
    }

    /// What this caller may see, by the directory of the moment.
    pub(crate) fn reader(&self, caller: &Caller, now: Millis) -> Reader {
        Reader::new(caller, &self.authenticator().directory(), now)
    }

    /// Reads committed state that is no older than this call, off the async workers: pages take a while.
    pub(crate) async fn fresh<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn View<GatewayMachine>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.ledger().read(|_| Ok(())).await.map_err(|error| fault::of_ledger(&error))?;
        self.glance(read).await
    }

    /// As [`Gateway::look`], of what this replica has committed so far.
    pub(crate) async fn glance<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn View<GatewayMachine>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Refusal> {
        let ledger = self.ledger().clone();
        let found = tokio::task::spawn_blocking(move || ledger.peek(read)).await;
        let found = found.map_err(|_| Refusal::of(codes::SERVICE_INTERNAL))?;
        found.map_err(|error| fault::of_ledger(&error))
    }

    async fn action_status(
        &self,
        reader: &Reader,
        request: &ActionStatusRequest,
        now: Millis,
    ) -> Result<ActionStatus, Refusal> {
        let wait = request.wait_ms.unwrap_or(0);
        let tenant = request.tenant_id.as_deref();
        let state = self.visible(reader, &request.action_id, tenant, now.saturating_add(wait)).await?;
        let receipts = match request.include_receipts {
            true if readable(reader, &state, None, Family::Receipt) => {
                self.evidence(&request.action_id).await?.map(|(_, chain)| chain)
            }
            _ => None,
        };
        let behind = self.ledger().peek(|view| redrive::latest(view, &state));
        let behind = behind.map_err(|error| fault::of_ledger(&error))?;
        let mut shown = status(&state, request.include_result, receipts, behind.as_ref());
        if request.include_chunks {
            shown.chunks = self.first_chunks(&state).await;
        }
        Ok(shown)
    }

    async fn action_result(
        &self,
        reader: &Reader,
        request: &ActionResultRequest,
        now: Millis,
    ) -> Result<ActionResult, Refusal> {
        let wait = request.wait_ms.unwrap_or(0);
        let tenant = request.tenant_id.as_deref();
        let state = self.visible(reader, &request.action_id, tenant, now.saturating_add(wait)).await?;
        let mut result = result_of(&state).ok_or_else(|| Refusal::of(codes::ACTION_NOT_READY))?;
        if !request.include_receipt {
            result.receipt = None;
        }
        Ok(result)
    }

    /// The action, if the reader may see it: as it stands, or as it stands when it has ended or `until` has come.
    async fn visible(
        &self,
        reader: &Reader,
        id: &ActionId,
        tenant: Option<&str>,
        until: Millis,
    ) -> Result<ActionState, Refusal> {
        let not_found = || Refusal::of(codes::ACTION_NOT_FOUND);
        if let Some(tenant) = tenant {
            reader.caller().tenant(Some(tenant))?;
        }
        let waiter = Waiter::new(self.ledger(), id);
        let found = self.ledger().read(|view| action(view, id)).await;
        let state = found.map_err(|error| fault::of_ledger(&error))?.ok_or_else(not_found)?;
        if !readable(reader, &state, tenant, Family::Action) {
            return Err(not_found());
        }
        if state.is_terminal() {
            return Ok(state);
        }
        let later = waiter.ended(until).await.map_err(|error| fault::of_ledger(&error))?;
        Ok(later.unwrap_or(state))
    }

    async fn receipt_chain(
        &self,
        reader: &Reader,
        request: &ReceiptQueryRequest,
    ) -> Result<ReceiptChain, Refusal> {
        let not_found = || Refusal::of(codes::RECEIPT_NOT_FOUND);
        let id = match (&request.chain_id, &request.receipt_id) {
            (Some(chain), _) => receipts::action_of(chain).map(ActionId::opaque),
            (None, Some(receipt)) => self.action_of_receipt(receipt).await?,
            (None, None) => None,
        };
        let (state, chain) = self.evidence(&id.ok_or_else(not_found)?).await?.ok_or_else(not_found)?;
        let holds = |wanted: &ReceiptId| chain.receipts.iter().any(|receipt| receipt.id == *wanted);
        if !readable(reader, &state, None, Family::Receipt) || !request.receipt_id.as_ref().is_none_or(holds)
        {
            return Err(not_found());
        }
        Ok(chain)
    }

    /// The action and its receipts, told again from its history.
    async fn evidence(&self, id: &ActionId) -> Result<Option<Evidence>, Refusal> {
        let key = keys::action(id.as_str());
        let read = self.ledger().read(|view| {
            let past = view.history(&key, 1, ACTION_RECORDS_MAX)?;
            Ok(action(view, id)?.map(|state| (state, past)))
        });
        let Some((state, past)) = read.await.map_err(|error| fault::of_ledger(&error))? else {
            return Ok(None);
        };
        let chain = receipts::chain(&past, &state).map_err(|bug| {
            tracing::error!(%bug, action = %id, "the receipts of an action do not add up");
            Refusal::of(codes::SERVICE_INTERNAL)
        })?;
        Ok(Some((state, chain)))
    }

    async fn action_of_receipt(&self, receipt: &ReceiptId) -> Result<Option<ActionId>, Refusal> {
        let Some(sort) = stamp::record_stamp(receipt.as_str(), ReceiptId::PREFIX) else { return Ok(None) };
        let read = self.ledger().read(|view| {
            let at = Bound::Included(sort.as_str());
            let rows = view.scan(keys::INDEX_AUDIT, at, at, 1)?;
            Ok(rows.into_iter().next().map(|(_, entity)| entity))
        });
        let entity: Option<EntityKey> = read.await.map_err(|error| fault::of_ledger(&error))?;
        Ok(entity.filter(|entity| entity.kind == keys::ACTION).map(|entity| ActionId::opaque(entity.id)))
    }
}

pub(crate) fn action(view: &dyn View<GatewayMachine>, id: &ActionId) -> Result<Option<ActionState>, Fault> {
    Ok(view.entity(&keys::action(id.as_str()))?.and_then(|entity| match entity.state {
        State::Action(state) => Some(*state),
        State::Manifest(_) | State::Message(_) => None,
    }))
}

/// `tenant` narrows what the reader asks for; it never widens what the reader may see.
pub(crate) fn readable(reader: &Reader, state: &ActionState, tenant: Option<&str>, family: Family) -> bool {
    let asked = tenant.is_none_or(|tenant| state.tenant.as_deref() == Some(tenant));
    let thing = Thing {
        owner: &state.requester.id,
        tenant: state.tenant.as_deref(),
        capability_id: Some(state.capability_id.as_str()),
    };
    asked && reader.may(thing, family)
}

/// `behind` is the action that has taken up a dead letter.
pub(crate) fn status(
    state: &ActionState,
    with_result: bool,
    receipt_chain: Option<ReceiptChain>,
    behind: Option<&ActionId>,
) -> ActionStatus {
    let at = |ms: Millis| Timestamp::from_ms(ms);
    let result = result_of(state);
    let path = |id: &ActionId| format!("/aip/v1/actions/{id}");
    let own = path(&state.id);
    let mut links = BTreeMap::from([
        ("self".to_owned(), own.clone()),
        ("result".to_owned(), format!("{own}/result")),
        ("events".to_owned(), format!("{own}/events")),
    ]);
    links.extend(state.redrives.as_ref().map(|redrives| ("redrive_of".to_owned(), path(&redrives.of))));
    links.extend(behind.map(|behind| ("redriven_as".to_owned(), path(behind))));
    if let Some(approving) = &state.approval {
        links.insert("approval".to_owned(), format!("/aip/v1/approvals/{}", approving.request.id));
    }
    if state.pinned.streams {
        links.insert("chunks".to_owned(), format!("{own}/chunks"));
    }
    ActionStatus {
        action_id: state.id.clone(),
        capability_id: Some(state.capability_id.clone()),
        session_id: None,
        correlation_id: state.correlation_id.clone(),
        state: state.lifecycle,
        queued_state: None,
        result_status: match state.is_pending() {
            true => Some(ActionResultStatus::PendingApproval),
            false => result.as_ref().map(|result| result.status),
        },
        approval_id: state.approval.as_ref().map(|approving| approving.request.id.clone()),
        transaction_id: None,
        delegation_id: None,
        started_at: state.started_at.map(at),
        updated_at: at(state.updated_at),
        completed_at: state.ended_at.map(at),
        retry: Some(json!({
            "attempt": state.attempt,
            "attempts_max": DISPATCH_ATTEMPTS_MAX,
            "until": at(state.deadline),
        })),
        lease: None,
        result: if with_result { result } else { None },
        receipt_chain,
        chunks: Vec::new(),
        links,
    }
}
