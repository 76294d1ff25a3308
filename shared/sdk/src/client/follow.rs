//! Following an action, or all that may be seen, as it happens: what is told is told once and in order, however often
//! the connection is lost on the way.

use std::collections::{HashSet, VecDeque};

use aip_names::limits::FOLLOW_SEEN_MAX;
use aip_wire::{ActionEvents, ActionId, ActionMode, ActionResult, Event, StreamChunk};
use serde_json::Value;

use super::ask::Road;
use super::call::CallOptions;
use super::sse::Sse;
use super::subject::Subscribed;
use super::{Client, ClientError};

/// What a follower hears.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// Something happened (16.1). Only over HTTP.
    Event(Box<Event>),
    /// The worker streamed it (11.6). Sequence numbers rise and may leave gaps.
    Chunk(Box<StreamChunk>),
    /// The end of the action, and of what is told.
    Result(Box<ActionResult>),
    /// The connection was lost, for this reason; the next call goes on where it was.
    Lost(String),
}

/// What is followed, until its end. Dropping it ends the stream.
#[derive(Debug)]
pub struct Follow {
    road: Live,
}

#[derive(Debug)]
enum Live {
    Http(Box<Sse>),
    Nats(Box<Subscribed>),
}

/// What was told already.
#[derive(Debug, Default)]
pub(super) struct Seen {
    events: HashSet<String>,
    order: VecDeque<String>,
    chunk: u64,
}

// === impl Client ===

impl Client {
    /// Follows an action from its beginning to its result, over HTTP with a bearer token. `chunks`: also what its worker
    /// streams (11.6).
    ///
    /// # Errors
    /// [`ClientError::Invalid`] for any other client: over NATS an action is followed from its call on
    /// ([`stream`](Self::stream)).
    pub fn follow(&self, action_id: &ActionId, chunks: bool) -> Result<Follow, ClientError> {
        let query: &[_] = if chunks { &[("include_chunks", "true")] } else { &[] };
        self.live(&format!("/aip/v1/actions/{action_id}/events"), query, None)
    }

    /// Follows all that the client may see, behind `cursor` or from the beginning, without end, over HTTP with a bearer
    /// token; only events of these kinds, if there are any.
    ///
    /// # Errors
    /// [`ClientError::Invalid`] for any other client.
    pub fn follow_events(&self, kinds: &[String], cursor: Option<String>) -> Result<Follow, ClientError> {
        let kinds = kinds.join(",");
        let query: &[_] = if kinds.is_empty() { &[] } else { &[("kinds", kinds.as_str())] };
        self.live("/aip/v1/events", query, cursor)
    }

    /// Has a streaming action taken ([`submit`](Self::submit)), or an asynchronous one if the options say so, and follows it to its result: over NATS what is told comes by the
    /// action's own subject (20.4), over HTTP as [`follow`](Self::follow) says. Gives the id of the action that is
    /// followed: the first one's under an idempotency key.
    ///
    /// # Errors
    /// Those of [`submit`](Self::submit) and [`follow`](Self::follow).
    pub async fn stream(
        &self,
        capability: &str,
        input: Value,
        options: CallOptions,
    ) -> Result<(ActionId, Follow), ClientError> {
        let options = CallOptions { mode: options.mode.or(Some(ActionMode::Streaming)), ..options };
        match &self.asker.road {
            Road::Http(_) => {
                let ack = self.submit(capability, input, options).await?;
                let follow = self.follow(&ack.action_id, true)?;
                Ok((ack.action_id, follow))
            }
            Road::Nats(nats) => {
                let subscribed = Subscribed::begin(self.clone(), nats, capability, input, options).await?;
                Ok((subscribed.action().clone(), Follow { road: Live::Nats(Box::new(subscribed)) }))
            }
        }
    }

    fn live(
        &self,
        path: &str,
        query: &[(&str, &str)],
        cursor: Option<String>,
    ) -> Result<Follow, ClientError> {
        let refused = || ClientError::Invalid {
            reason: "live streams over HTTP need a client with a bearer token".to_owned(),
        };
        let Road::Http(http) = &self.asker.road else { return Err(refused()) };
        let requests = http.live(path, query).ok_or_else(refused)?;
        Ok(Follow { road: Live::Http(Box::new(Sse::new(requests, cursor))) })
    }
}

// === impl Follow ===

impl Follow {
    /// What is told next; none when all is told. It may be dropped while it waits, and nothing is lost by that.
    ///
    /// # Errors
    /// The gateway refused it for good, or could not be reached for too long.
    pub async fn next(&mut self) -> Result<Option<Told>, ClientError> {
        match &mut self.road {
            Live::Http(sse) => sse.next().await,
            Live::Nats(subscribed) => subscribed.next().await,
        }
    }
}

// === impl Seen ===

impl Seen {
    /// What of a page was not told yet.
    pub fn new_of(&mut self, page: ActionEvents) -> Vec<Told> {
        let events = page.events.into_iter().filter_map(|event| self.event(event)).collect::<Vec<_>>();
        let chunks = page.chunks.into_iter().filter_map(|chunk| self.chunk(chunk));
        events.into_iter().chain(chunks.collect::<Vec<_>>()).collect()
    }

    /// None when it was told already.
    pub fn event(&mut self, event: Event) -> Option<Told> {
        let id = event.id.to_string();
        if !self.events.insert(id.clone()) {
            return None;
        }
        if self.order.len() == FOLLOW_SEEN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.events.remove(&oldest);
        }
        self.order.push_back(id);
        Some(Told::Event(Box::new(event)))
    }

    /// None when it, or one behind it, was told already.
    pub fn chunk(&mut self, chunk: StreamChunk) -> Option<Told> {
        if chunk.sequence <= self.chunk {
            return None;
        }
        self.chunk = chunk.sequence;
        Some(Told::Chunk(Box::new(chunk)))
    }

    /// The number of the last chunk; 0 before the first.
    pub fn last_chunk(&self) -> u64 {
        self.chunk
    }
}
