//! Events (16.1): what records say for those who may see the action. An event follows from its record, as an audit
//! event does, and has an id that follows from it, too: told again it is the same.

use std::ops::Bound;

use serde_json::{Map, Value};

use aip_admission::{Family, Reader};
use aip_kernel::{Fault, Millis, Past, View};
use aip_names::limits::PAGE_SCAN_ROWS_MAX;
use aip_wire::events::{self as kinds, Delivery};
use aip_wire::{
    ActionEvents, ActionEventsRequest, ActionId, Event, EventId, EventStream, EventStreamRequest, Refusal,
    codes,
};

use super::page::{self, Budget, Walk};
use super::{action, readable};
use crate::cursor::{Mark, Question};
use crate::gateway::Gateway;
use crate::machine::{self, ActionState, GatewayMachine, State, audit, keys, shelf};

/// Members that an event's data may have: numbers, codes and names of ours, never content or digests of content.
const SAFE: [&str; 7] =
    ["capability_id", "attempt", "code", "uncertain_outcome", "delivered", "by_worker", "redrive_of"];

/// Records of an action read at a time.
const RECORDS_PER_READ: usize = 64;

/// Events in order, each with the mark behind it.
#[derive(Debug)]
pub struct Told {
    pub events: Vec<(Event, Mark)>,
    /// Where to go on: behind everything that was looked at.
    pub mark: Mark,
    /// The page ended before the events did.
    pub more: bool,
    /// What the page may still take.
    pub budget: Budget,
}

// === impl Gateway ===

impl Gateway {
    pub(super) async fn action_events(
        &self,
        reader: &Reader,
        request: &ActionEventsRequest,
        now: Millis,
    ) -> Result<ActionEvents, Refusal> {
        if request.follow {
            let message = "an answer cannot follow: ask for the event stream over HTTP";
            return Err(Refusal::new(
                codes::UNSUPPORTED_STREAMING,
                "/body/action_events_request/follow",
                message,
            ));
        }
        let (question, after) = self.action_question(reader, request, now)?;
        let (rows, reached) = (page::rows(request.limit)?, after.chunk);
        let (who, asked) = (reader.clone(), request.clone());
        let found = self.fresh(move |view| of_action(view, &who, &asked, after, rows)).await?;
        let (state, told) = found.ok_or_else(|| Refusal::of(codes::ACTION_NOT_FOUND))?;
        let Told { events, mark, more, mut budget } = told;
        let (chunks, reached) = match request.include_chunks && !more {
            true => {
                let after = reached.unwrap_or_default();
                let (chunks, reached) = self.chunk_page(&state, after, &mut budget).await?;
                (chunks, Some(reached))
            }
            false => (Vec::new(), reached),
        };
        let mark = Mark { chunk: reached, ..mark };
        Ok(ActionEvents {
            action_id: state.id.clone(),
            events: events.into_iter().map(|(event, _)| event).collect(),
            chunks,
            cursor: Some(self.cursors().give(&question, mark, now)?),
            terminal: state.is_terminal(),
        })
    }

    /// What a cursor of this request is bound to, and where the request's own cursor says to go on.
    pub(crate) fn action_question(
        &self,
        reader: &Reader,
        request: &ActionEventsRequest,
        now: Millis,
    ) -> Result<(Question, Mark), Refusal> {
        if let Some(tenant) = &request.tenant_id {
            reader.caller().tenant(Some(tenant))?;
        }
        let question = Question::of(reader.caller(), "action_events", request)?;
        let mark = self.mark(&question, request.cursor.as_deref(), now)?;
        Ok((question, mark))
    }

    pub(super) async fn event_stream(
        &self,
        reader: &Reader,
        request: &EventStreamRequest,
        now: Millis,
    ) -> Result<EventStream, Refusal> {
        let (question, after) = self.feed_question(reader, request, now)?;
        let rows = page::rows(request.limit)?;
        let (who, kinds) = (reader.clone(), request.kinds.clone());
        let told = self.fresh(move |view| feed(view, &who, &kinds, after, rows)).await?;
        Ok(EventStream {
            events: told.events.into_iter().map(|(event, _)| event).collect(),
            next_cursor: Some(self.cursors().give(&question, told.mark, now)?),
        })
    }

    /// As [`Gateway::action_question`], for the feed.
    pub(crate) fn feed_question(
        &self,
        reader: &Reader,
        request: &EventStreamRequest,
        now: Millis,
    ) -> Result<(Question, Mark), Refusal> {
        reader.require(Family::Event)?;
        let question = Question::of(reader.caller(), "event_stream", request)?;
        let mark = self.mark(&question, request.cursor.as_deref(), now)?;
        Ok((question, mark))
    }

    fn mark(&self, question: &Question, cursor: Option<&str>, now: Millis) -> Result<Mark, Refusal> {
        cursor.map_or_else(|| Ok(Mark::default()), |cursor| self.cursors().take(question, cursor, now))
    }
}

/// Events of one action behind `after`, if the reader may see it. The action stands as of the same moment.
///
/// # Errors
/// The store can't answer.
pub fn of_action(
    view: &dyn View<GatewayMachine>,
    reader: &Reader,
    request: &ActionEventsRequest,
    after: Mark,
    rows: usize,
) -> Result<Option<(ActionState, Told)>, Fault> {
    let Some(state) = action(view, &request.action_id)? else { return Ok(None) };
    if !readable(reader, &state, request.tenant_id.as_deref(), Family::Action) {
        return Ok(None);
    }
    let mut told = Told::behind(after, rows);
    // a mark of another form is one behind the end
    let Ok(mut n) = told.mark.at.parse::<u64>().or_else(|error| match told.mark.at.is_empty() {
        true => Ok(1),
        false => Err(error),
    }) else {
        return Ok(Some((state, told)));
    };
    loop {
        let past = view.history(&keys::action(state.id.as_str()), n, RECORDS_PER_READ)?;
        for record in &past {
            n = record.0.header.n;
            if !told.add(&n.to_string(), of(record, &state), &request.kinds) {
                told.more = true;
                return Ok(Some((state, told)));
            }
        }
        if past.len() < RECORDS_PER_READ {
            return Ok(Some((state, told)));
        }
        n += 1;
    }
}

/// Events behind `after` of all actions that the reader may see, in the order of the log.
///
/// # Errors
/// The store can't answer.
pub fn feed(
    view: &dyn View<GatewayMachine>,
    reader: &Reader,
    kinds: &[String],
    after: Mark,
    rows: usize,
) -> Result<Told, Fault> {
    let shelves = page::shelves(reader, Family::Event, None);
    let from = Bound::Included(after.at.clone());
    let mut walk = Walk::new(view, keys::INDEX_FEED, shelves, from, None);
    let mut told = Told::behind(after, rows);
    let mut looked = 0;
    while let Some(row) = walk.next()? {
        if looked == PAGE_SCAN_ROWS_MAX {
            told.more = true;
            break;
        }
        looked += 1;
        let entity = match row.entity.kind == keys::ACTION {
            true => view.entity(&row.entity)?.map(|entity| entity.state),
            false => None,
        };
        let events = match (entity, shelf::record_n(&row.at)) {
            (Some(State::Action(state)), Some(n)) if readable(reader, &state, None, Family::Event) => {
                let past = view.history(&row.entity, n, 1)?;
                past.iter().flat_map(|record| of(record, &state)).collect()
            }
            _ => Vec::new(),
        };
        if !told.add(&row.at, events, kinds) {
            told.more = true;
            break;
        }
    }
    Ok(told)
}

// === impl Told ===

impl Told {
    fn behind(mark: Mark, rows: usize) -> Told {
        Told { events: Vec::new(), mark, more: false, budget: Budget::new(rows) }
    }

    /// Adds the events of one record that were not told before. False when the page is full; the mark then stands
    /// behind the last event that is in it.
    fn add(&mut self, at: &str, events: Vec<Event>, kinds: &[String]) -> bool {
        let before = if self.mark.at == at { self.mark.told } else { 0 };
        for (event, place) in events.into_iter().zip(1_u8..) {
            if place <= before {
                continue;
            }
            let mark = Mark::new(at, place);
            if kinds.is_empty() || kinds.contains(&event.kind) {
                if !self.budget.takes(&event) {
                    return false;
                }
                self.events.push((event, mark.clone()));
            }
            self.mark = mark;
        }
        if self.mark.at != at {
            self.mark = Mark::new(at, 0);
        }
        true
    }
}

/// The events of one record of an action.
pub fn of(past: &Past<machine::Event>, state: &ActionState) -> Vec<Event> {
    audit::events(past, &state.gateway).into_iter().filter_map(|said| event(said, state)).collect()
}

fn event(said: aip_wire::AuditEvent, state: &ActionState) -> Option<Event> {
    let kind = kinds::find(&said.action).filter(|kind| kind.delivery == Delivery::Replayed)?;
    let digits = said.id.strip_prefix("audit_")?;
    let id = EventId::opaque(format!("{}{digits}", EventId::PREFIX));
    let mut event = Event::of(kind, id, said.occurred_at);
    event.action_id = Some(ActionId::opaque(state.id.as_str()));
    event.correlation_id.clone_from(&state.correlation_id);
    event.actor = Some(said.actor);
    event.data = said.data.and_then(safe);
    Some(event)
}

fn safe(data: Value) -> Option<Value> {
    let Value::Object(members) = data else { return None };
    let kept: Map<String, Value> =
        members.into_iter().filter(|(name, _)| SAFE.contains(&name.as_str())).collect();
    (!kept.is_empty()).then_some(Value::Object(kept))
}
