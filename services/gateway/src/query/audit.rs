//! Audit queries (18.3), in the order of the log. To look and to take away are two rights (16.7): an export needs
//! `audit:export` on top of `audit:read`, for every single event.

use std::ops::Bound;

use aip_admission::{Family, Reader, Thing};
use aip_kernel::{Fault, Millis, View};
use aip_names::limits::{ACTION_RECORDS_MAX, PAGE_SCAN_ROWS_MAX};
use aip_wire::trusted::PrincipalRef;
use aip_wire::{AuditEvent, AuditQueryRequest, AuditQueryResult, ReceiptChain, Refusal};

use super::page::{self, Budget, Row, Walk};
use crate::cursor::{Mark, Question};
use crate::gateway::Gateway;
use crate::machine::{ActionState, GatewayMachine, State, audit, keys, receipts, shelf};

/// A page before its cursor is sealed.
#[derive(Default)]
struct Page {
    events: Vec<AuditEvent>,
    chains: Vec<ReceiptChain>,
    next: Option<Mark>,
}

/// A query with all that judges a record.
struct Judge<'a> {
    view: &'a dyn View<GatewayMachine>,
    reader: &'a Reader,
    request: &'a AuditQueryRequest,
    gateway: &'a PrincipalRef,
}

/// What a record says, and the action that it is about.
struct Said {
    events: Vec<AuditEvent>,
    action: Option<Box<ActionState>>,
}

// === impl Gateway ===

impl Gateway {
    pub(super) async fn audit_query(
        &self,
        reader: &Reader,
        request: &AuditQueryRequest,
        now: Millis,
    ) -> Result<AuditQueryResult, Refusal> {
        reader.require(Family::Audit)?;
        if request.export || request.include_receipts {
            reader.require(Family::AuditExport)?;
        }
        if let Some(tenant) = &request.tenant_id {
            reader.caller().tenant(Some(tenant))?;
        }
        let rows = page::rows(request.limit)?;
        let question = Question::of(reader.caller(), "audit_query", request)?;
        let cursor = request.cursor.as_deref();
        let after = cursor.map(|cursor| self.cursors().take(&question, cursor, now)).transpose()?;
        let (reader, request, gateway) = (reader.clone(), request.clone(), self.me());
        let page = self
            .fresh(move |view| {
                Judge { view, reader: &reader, request: &request, gateway: &gateway }.page(after, rows)
            })
            .await?;
        let cursor = page.next.map(|mark| self.cursors().give(&question, mark, now)).transpose()?;
        Ok(AuditQueryResult { events: page.events, receipt_chains: page.chains, cursor })
    }
}

// === impl Judge ===

impl Judge<'_> {
    fn page(&self, after: Option<Mark>, rows: usize) -> Result<Page, Fault> {
        let request = self.request;
        let mut page = Page::default();
        // no record of this release has one
        if request.session_id.is_some() || request.transaction_id.is_some() {
            return Ok(page);
        }
        let start = request.from.map_or_else(String::new, |from| shelf::time_at(from.as_ms()));
        let before = request.to.map(|to| shelf::time_at(to.as_ms().saturating_add(1)));
        let mut mark = after.unwrap_or_else(|| Mark::new(start, 0));
        let shelves = page::shelves(self.reader, Family::Audit, request.tenant_id.as_deref());
        let mut walk =
            Walk::new(self.view, keys::INDEX_FEED, shelves, Bound::Included(mark.at.clone()), before);
        let mut budget = Budget::new(rows);
        let mut looked = 0;
        while let Some(row) = walk.next()? {
            if budget.is_spent() || looked == PAGE_SCAN_ROWS_MAX {
                page.next = Some(mark);
                break;
            }
            looked += 1;
            let Some(said) = self.said(&row)? else {
                mark = Mark::new(row.at, 0);
                continue;
            };
            if !self.add(&mut page, &mut mark, &mut budget, &row, said)? {
                page.next = Some(mark);
                break;
            }
        }
        Ok(page)
    }

    /// Adds what the record says, and the receipts of its action once a page. False when the page is full.
    fn add(
        &self,
        page: &mut Page,
        mark: &mut Mark,
        budget: &mut Budget,
        row: &Row,
        said: Said,
    ) -> Result<bool, Fault> {
        let before = if mark.at == row.at { mark.told } else { 0 };
        for (event, place) in said.events.into_iter().zip(1_u8..) {
            if place <= before {
                continue;
            }
            let actor = &event.actor.id;
            let owner = said.action.as_ref().map(|action| &action.requester.id);
            let wanted = self.request.principal_id.as_ref();
            if wanted.is_none_or(|wanted| wanted == actor || Some(wanted) == owner) {
                let chain = self.chain(page, said.action.as_deref())?;
                if !budget.takes(&(&event, &chain)) {
                    return Ok(false);
                }
                page.events.push(event);
                page.chains.extend(chain);
            }
            *mark = Mark::new(row.at.as_str(), place);
        }
        if mark.at != row.at {
            *mark = Mark::new(row.at.as_str(), 0);
        }
        Ok(true)
    }

    /// The receipts of the action, if they are asked for and not in the page yet.
    fn chain(&self, page: &Page, action: Option<&ActionState>) -> Result<Option<ReceiptChain>, Fault> {
        let Some(action) = action.filter(|_| self.request.include_receipts) else { return Ok(None) };
        let id = receipts::chain_id(action.id.as_str());
        if page.chains.iter().any(|chain| chain.chain_id == id) {
            return Ok(None);
        }
        let past = self.view.history(&keys::action(action.id.as_str()), 1, ACTION_RECORDS_MAX)?;
        receipts::chain(&past, action).map(Some).map_err(|bug| Fault(bug.0))
    }

    /// What the record says, if it is asked for and the reader may see it.
    fn said(&self, row: &Row) -> Result<Option<Said>, Fault> {
        let about = match row.entity.kind == keys::ACTION {
            true => self.view.entity(&row.entity)?.map(|entity| entity.state),
            false => None,
        };
        let action = match about {
            Some(State::Action(action)) => Some(action),
            _ => None,
        };
        let wanted = self.request.action_id.as_ref();
        if wanted.is_some_and(|wanted| action.as_ref().is_none_or(|action| action.id != *wanted)) {
            return Ok(None);
        }
        let Some(n) = shelf::record_n(&row.at) else { return Ok(None) };
        let past = self.view.history(&row.entity, n, 1)?;
        let events: Vec<AuditEvent> =
            past.iter().flat_map(|record| audit::events(record, self.gateway)).collect();
        let tenant = action.as_ref().and_then(|action| action.tenant.as_deref());
        if self.request.tenant_id.is_some() && self.request.tenant_id.as_deref() != tenant {
            return Ok(None);
        }
        // what is about no action was done by the one who is its actor
        let owner = match (&action, events.first()) {
            (Some(action), _) => action.requester.id.clone(),
            (None, Some(event)) => event.actor.id.clone(),
            (None, None) => return Ok(None),
        };
        let thing = Thing {
            owner: &owner,
            tenant,
            capability_id: action.as_ref().map(|action| action.capability_id.as_str()),
        };
        let export = self.request.export || self.request.include_receipts;
        let may =
            self.reader.may(thing, Family::Audit) && (!export || self.reader.may(thing, Family::AuditExport));
        Ok(may.then_some(Said { events, action }))
    }
}
