//! The list of actions (16.5), the newest first. Filters narrow what the reader may see; nothing that is hidden from
//! the reader is counted, passed over or waited for.

use std::ops::Bound;

use aip_admission::{Family, Reader};
use aip_kernel::{Fault, Millis, View};
use aip_names::limits::{ACTION_RECORDS_MAX, LIST_COUNT_ROWS_MAX, PAGE_SCAN_ROWS_MAX};
use aip_wire::{ActionList, ActionListRequest, ActionStatus, Refusal};

use super::page::{self, Budget, Walk};
use super::{readable, status};
use crate::cursor::{Mark, Question};
use crate::gateway::Gateway;
use crate::machine::{ActionState, GatewayMachine, State, keys, receipts, redrive};

/// A page before its cursor is sealed.
struct Page {
    actions: Vec<ActionStatus>,
    total: u64,
    next: Option<Mark>,
}

// === impl Gateway ===

impl Gateway {
    pub(super) async fn action_list(
        &self,
        reader: &Reader,
        request: &ActionListRequest,
        now: Millis,
    ) -> Result<ActionList, Refusal> {
        reader.require(Family::Action)?;
        if let Some(tenant) = &request.tenant_id {
            reader.caller().tenant(Some(tenant))?;
        }
        let rows = page::rows(request.limit)?;
        let question = Question::of(reader.caller(), "action_list", request)?;
        let cursor = request.cursor.as_deref();
        let after = cursor.map(|cursor| self.cursors().take(&question, cursor, now)).transpose()?;
        let (reader, request) = (reader.clone(), request.clone());
        let page = self.fresh(move |view| list(view, &reader, &request, after, rows)).await?;
        let cursor = page.next.map(|mark| self.cursors().give(&question, mark, now)).transpose()?;
        Ok(ActionList { actions: page.actions, total_size: page.total, cursor })
    }
}

fn list(
    view: &dyn View<GatewayMachine>,
    reader: &Reader,
    request: &ActionListRequest,
    after: Option<Mark>,
    rows: usize,
) -> Result<Page, Fault> {
    let shelves = page::shelves(reader, Family::Action, request.tenant_id.as_deref());
    let walk = |from: Bound<String>| Walk::new(view, keys::INDEX_ACTIONS, shelves.clone(), from, None);
    let total = count(view, walk(Bound::Unbounded), reader, request)?;
    let mut walk = walk(after.map_or(Bound::Unbounded, |mark| Bound::Excluded(mark.at)));
    let mut budget = Budget::new(rows);
    let mut page = Page { actions: Vec::new(), total, next: None };
    let mut last = None;
    let mut looked = 0;
    while let Some(row) = walk.next()? {
        if budget.is_spent() || looked == PAGE_SCAN_ROWS_MAX {
            page.next = last;
            break;
        }
        looked += 1;
        if let Some(state) = matching(view, &row, reader, request)? {
            let status = told(view, &state, reader, request)?;
            if !budget.takes(&status) {
                page.next = last;
                break;
            }
            page.actions.push(status);
        }
        last = Some(Mark::new(row.at, 0));
    }
    Ok(page)
}

/// Matches among the newest rows: exact up to the bound, and no less than that beyond it.
fn count(
    view: &dyn View<GatewayMachine>,
    mut walk: Walk<'_>,
    reader: &Reader,
    request: &ActionListRequest,
) -> Result<u64, Fault> {
    let mut total = 0;
    for _ in 0..LIST_COUNT_ROWS_MAX {
        let Some(row) = walk.next()? else { break };
        total += u64::from(matching(view, &row, reader, request)?.is_some());
    }
    Ok(total)
}

fn matching(
    view: &dyn View<GatewayMachine>,
    row: &page::Row,
    reader: &Reader,
    request: &ActionListRequest,
) -> Result<Option<Box<ActionState>>, Fault> {
    let Some(State::Action(state)) = view.entity(&row.entity)?.map(|entity| entity.state) else {
        return Ok(None);
    };
    let is = |wanted: &Option<String>, is: Option<&str>| wanted.is_none() || wanted.as_deref() == is;
    // no action of this release has one
    let of_nothing = request.session_id.is_none() && request.transaction_id.is_none();
    let approval = state.approval.as_ref().map(|approving| approving.request.id.as_str());
    let matches = of_nothing
        && request.approval_id.as_ref().is_none_or(|wanted| Some(wanted.as_str()) == approval)
        && is(&request.tenant_id, state.tenant.as_deref())
        && request.state.is_none_or(|wanted| wanted == state.lifecycle)
        && request.capability_id.as_ref().is_none_or(|wanted| *wanted == state.capability_id)
        && request.principal_id.as_ref().is_none_or(|wanted| *wanted == state.requester.id)
        && readable(reader, &state, None, Family::Action);
    Ok(matches.then_some(state))
}

/// The row of an action. What is too large for a page is left out of it: status and result have paths of their own.
fn told(
    view: &dyn View<GatewayMachine>,
    state: &ActionState,
    reader: &Reader,
    request: &ActionListRequest,
) -> Result<ActionStatus, Fault> {
    let receipts = match request.include_receipts && readable(reader, state, None, Family::Receipt) {
        true => {
            let past = view.history(&keys::action(state.id.as_str()), 1, ACTION_RECORDS_MAX)?;
            Some(receipts::chain(&past, state).map_err(|bug| Fault(bug.0))?)
        }
        false => None,
    };
    let behind = redrive::latest(view, state)?;
    let full = status(state, request.include_results, receipts, behind.as_ref());
    if page::is_small(&full) { Ok(full) } else { Ok(status(state, false, None, behind.as_ref())) }
}
