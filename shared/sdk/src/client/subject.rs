//! Following an action over NATS (20.4): chunks and result come by the subject of the action's correlation id, which
//! promises nothing. What is missing is read: after a gap, before the end, and when nothing came for a while.

use std::collections::VecDeque;
use std::time::Duration;

use aip_names::limits::{FOLLOW_CHUNK_FAILURES_MAX, FOLLOW_FAILURES_MAX, FOLLOW_QUIET_MS};
use aip_wire::{
    ActionEventsRequest, ActionId, ActionResult, CorrelationId, MessageBody, ProtocolError, StreamChunk,
    StreamChunkKind, codes,
};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::call::CallOptions;
use super::follow::{Seen, Told};
use super::nats::Nats;
use super::{Client, ClientError};

pub(super) struct Subscribed {
    client: Client,
    action: ActionId,
    pushed: BoxStream<'static, Bytes>,
    seen: Seen,
    told: VecDeque<Told>,
    /// The last chunk said that none follows.
    streamed: bool,
    /// Came while something before it is missing.
    held: Option<StreamChunk>,
    result: Option<ActionResult>,
    /// Something is missing.
    behind: bool,
    /// Chunks are not read any more, for this reason.
    unread: Option<ProtocolError>,
    /// Times in a row that the log of chunks could not be read.
    unreadable: u32,
    /// Where reading goes on.
    cursor: Option<String>,
    failures: u32,
    ended: bool,
}

// === impl Subscribed ===

impl Subscribed {
    /// Listens, and only then has the action taken, so that nothing is missed.
    pub async fn begin(
        client: Client,
        nats: &Nats,
        capability: &str,
        input: Value,
        options: CallOptions,
    ) -> Result<Subscribed, ClientError> {
        let correlation_id = options.correlation_id.unwrap_or_else(CorrelationId::generate);
        let action = options.action_id.unwrap_or_else(ActionId::generate);
        let pushed = nats.listen(&correlation_id).await?;
        let options =
            CallOptions { correlation_id: Some(correlation_id), action_id: Some(action.clone()), ..options };
        let ack = client.submit(capability, input, options).await?;
        Ok(Subscribed {
            client,
            // the first action of an idempotency key tells on another subject, and has told some of it
            behind: ack.action_id != action,
            action: ack.action_id,
            pushed,
            seen: Seen::default(),
            told: VecDeque::new(),
            streamed: false,
            held: None,
            result: None,
            unread: None,
            unreadable: 0,
            cursor: None,
            failures: 0,
            ended: false,
        })
    }

    pub fn action(&self) -> &ActionId {
        &self.action
    }

    /// What is told next; none when all is told.
    pub async fn next(&mut self) -> Result<Option<Told>, ClientError> {
        loop {
            if let Some(told) = self.told.pop_front() {
                return Ok(Some(told));
            }
            if self.ended {
                return Ok(None);
            }
            if self.behind {
                // a page at a time: what it holds is told before the next is asked for
                match self.read().await {
                    Ok(true) => self.caught_up(),
                    Ok(false) => (self.failures, self.unreadable) = (0, 0),
                    Err(error) => self.failed(error)?,
                }
                continue;
            }
            if let Some(result) = self.result.take() {
                self.ended = true;
                self.told.extend(self.missing());
                self.told.push_back(Told::Result(Box::new(result)));
                continue;
            }
            match timeout(Duration::from_millis(FOLLOW_QUIET_MS), self.pushed.next()).await {
                Ok(Some(payload)) => self.hear(&payload),
                // it is quiet, or the subscription is gone
                Ok(None) => {
                    sleep(Duration::from_millis(FOLLOW_QUIET_MS)).await;
                    self.behind = true;
                }
                Err(_) => self.behind = true,
            }
        }
    }

    fn hear(&mut self, payload: &[u8]) {
        match self.client.asker.pushed(payload) {
            Some(MessageBody::StreamChunk(chunk)) if chunk.action_id == self.action => {
                if chunk.sequence > self.seen.last_chunk() + 1 {
                    self.behind = true;
                    self.held = Some(*chunk);
                } else {
                    self.tell(*chunk);
                }
            }
            Some(MessageBody::ActionResult(result)) if result.action_id == self.action => {
                self.behind = !self.streamed;
                self.result = Some(*result);
            }
            _ => tracing::warn!(action = %self.action, "something else came by the subject of a stream"),
        }
    }

    fn tell(&mut self, chunk: StreamChunk) {
        let last = matches!(chunk.kind, StreamChunkKind::Done | StreamChunkKind::Error);
        if let Some(told) = self.seen.chunk(chunk) {
            self.streamed = last;
            self.told.push_back(told);
        }
    }

    /// Reads a page behind the cursor; true when there is no more.
    async fn read(&mut self) -> Result<bool, ClientError> {
        let request = ActionEventsRequest {
            action_id: self.action.clone(),
            tenant_id: None,
            cursor: self.cursor.clone(),
            limit: None,
            kinds: Vec::new(),
            include_chunks: self.unread.is_none(),
            follow: false,
        };
        let page = self.client.action_events(request).await?;
        // a page holds something or is the last
        let (ends, terminal) = (page.events.is_empty() && page.chunks.is_empty(), page.terminal);
        self.cursor = page.cursor.or(self.cursor.take());
        page.chunks.into_iter().for_each(|chunk| self.tell(chunk));
        if ends && terminal && self.result.is_none() {
            self.result = Some(self.client.result(&self.action, None).await?);
        }
        Ok(ends)
    }

    /// What is told of chunks that could not be read, if the stream had no end of its own.
    fn missing(&self) -> Option<Told> {
        let why = self.unread.as_ref().filter(|_| !self.streamed)?;
        let chunk = StreamChunk {
            action_id: self.action.clone(),
            sequence: self.seen.last_chunk() + 1,
            kind: StreamChunkKind::Error,
            data: serde_json::to_value(why).ok(),
            part: None,
        };
        Some(Told::Chunk(Box::new(chunk)))
    }

    /// All that could be read is told. A gap that is left is the worker's.
    fn caught_up(&mut self) {
        self.behind = false;
        (self.failures, self.unreadable) = (0, 0);
        if let Some(chunk) = self.held.take() {
            self.tell(chunk);
        }
    }

    /// Tries again later, if that may help. The result does not depend on the log of chunks: without it, it is read on
    /// without chunks.
    fn failed(&mut self, error: ClientError) -> Result<(), ClientError> {
        let code = error.protocol_error().map(|error| error.code.clone()).unwrap_or_default();
        self.unreadable = if code == codes::STREAM_UNAVAILABLE.name { self.unreadable + 1 } else { 0 };
        let never = code == codes::STREAM_CHUNKS_GONE.name || self.unreadable >= FOLLOW_CHUNK_FAILURES_MAX;
        if never && self.unread.is_none() {
            self.unread = error.protocol_error().cloned();
            // a cursor is of one question
            self.cursor = None;
            return Ok(());
        }
        self.failures += 1;
        let passing = matches!(error, ClientError::Unreachable { .. } | ClientError::NoAnswer { .. })
            || error.protocol_error().is_some_and(|error| error.retryable == Some(true));
        if !passing || self.failures > FOLLOW_FAILURES_MAX {
            return Err(error);
        }
        self.told.push_back(Told::Lost(error.to_string()));
        Ok(())
    }
}

impl std::fmt::Debug for Subscribed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscribed").field("action", &self.action).finish_non_exhaustive()
    }
}
