//! Sends what the handler of an attempt streams (11.6): numbered, signed, one chunk in flight, each until the gateway has
//! said what it made of it. Then whoever takes over, and whoever reads, knows the chunk; the result comes after the last.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aip_names::limits::{WORKER_CHUNK_NUMBERS_MAX, WORKER_CHUNK_PATIENCE_MS, WORKER_CHUNKS_QUEUED_MAX};
use aip_wire::{ActionResultStatus, ProtocolError, StreamChunk, StreamChunkKind, codes};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::dispatch::{Ended, Inner};
use super::report::{Attempt, Reporter, Taken};
use crate::chunks::{ChunkError, Content, Draft, Outlet};

/// The stream of an attempt that runs.
pub(super) struct Publishing {
    last: oneshot::Sender<Option<Draft>>,
    task: AbortOnDropHandle<()>,
}

struct Publisher {
    reporter: Arc<Reporter>,
    inner: Arc<Inner>,
    attempt: Attempt,
    /// The next chunk's number.
    next: u64,
    /// The number of the last chunk that was taken.
    taken: u64,
    deadline: Instant,
    broken: Arc<OnceLock<ChunkError>>,
}

// === impl Publishing ===

impl Publishing {
    /// Numbers from `next` on, where an earlier attempt stopped. No chunk is tried past `deadline`.
    pub fn begin(
        reporter: &Arc<Reporter>,
        inner: &Arc<Inner>,
        attempt: &Attempt,
        next: u64,
        deadline: Instant,
    ) -> (Outlet, Publishing) {
        let (queue, drafts) = mpsc::channel(WORKER_CHUNKS_QUEUED_MAX);
        let (last, end) = oneshot::channel();
        let broken = Arc::new(OnceLock::new());
        let publisher = Publisher {
            reporter: Arc::clone(reporter),
            inner: Arc::clone(inner),
            attempt: attempt.clone(),
            next,
            taken: next.saturating_sub(1),
            deadline,
            broken: Arc::clone(&broken),
        };
        let task = AbortOnDropHandle::new(tokio::spawn(publisher.run(drafts, end)));
        (Outlet { queue, broken }, Publishing { last, task })
    }

    /// Sends what waits, and then the chunk that ends the stream.
    pub async fn end(self, ended: &Ended) {
        // a publisher that broke off is gone
        let _ = self.last.send(last(ended));
        if let Err(error) = self.task.await {
            tracing::error!(%error, "a publisher broke off");
        }
    }
}

/// How the stream of an attempt ends; not at all when another attempt goes on with it.
fn last(ended: &Ended) -> Option<Draft> {
    let Ended::Result(result) = ended else { return None };
    let draft = |kind, data| Draft { kind, content: Content::Data(data) };
    let why = match (&result.status, &result.error) {
        // what else there is to say stands in the result
        (_, Some(error)) => ProtocolError { details: None, source: None, ..error.clone() },
        (ActionResultStatus::Cancelled, None) => {
            ProtocolError::of(codes::ACTION_CANCELLED, codes::ACTION_CANCELLED.meaning)
        }
        (_, None) => return Some(draft(StreamChunkKind::Done, Value::Null)),
    };
    serde_json::to_value(why).ok().map(|why| draft(StreamChunkKind::Error, why))
}

// === impl Publisher ===

impl Publisher {
    async fn run(mut self, mut drafts: mpsc::Receiver<Draft>, mut end: oneshot::Receiver<Option<Draft>>) {
        let last = loop {
            if self.broken.get().is_some() {
                drafts.close();
                while drafts.try_recv().is_ok() {}
            }
            tokio::select! {
                // what waits goes before the end
                biased;
                Some(draft) = drafts.recv() => self.publish_or_break(draft).await,
                last = &mut end => break last.ok().flatten(),
            }
        };
        let ends = matches!(
            self.broken.get(),
            Some(ChunkError::Ended | ChunkError::Superseded | ChunkError::Lost(_))
        );
        if let Some(last) = last
            && self.next > 1
            && !ends
        {
            self.publish_or_break(last).await;
        }
    }

    async fn publish_or_break(&mut self, draft: Draft) {
        let Err(error) = self.publish(draft).await else { return };
        tracing::warn!(action = %self.attempt.action, attempt = self.attempt.number, %error, "a stream broke off");
        let superseded = error == ChunkError::Superseded;
        let _ = self.broken.set(error);
        if superseded {
            self.inner.supersede(&self.attempt.action);
        }
    }

    async fn publish(&mut self, draft: Draft) -> Result<(), ChunkError> {
        let (data, part) = match draft.content {
            Content::Data(Value::Null) => (None, None),
            Content::Data(data) => (Some(data), None),
            Content::Part(part) => (None, Some(*part)),
        };
        let mut chunk =
            StreamChunk { action_id: self.attempt.action.clone(), sequence: 0, kind: draft.kind, data, part };
        let patience = Instant::now() + Duration::from_millis(WORKER_CHUNK_PATIENCE_MS);
        let until = self.deadline.min(patience);
        let mut numbers = 0;
        loop {
            chunk.sequence = self.next;
            match self.reporter.streamed(&self.attempt, chunk.clone(), self.taken, until).await {
                Taken::Yes(_) => {
                    self.taken = self.next;
                    self.next += 1;
                    return Ok(());
                }
                Taken::Unheard(why) => return Err(ChunkError::Lost(why)),
                Taken::No(error) => match free(&error) {
                    // an attempt that does not count any more has said something there
                    Some(next) if numbers < WORKER_CHUNK_NUMBERS_MAX => {
                        numbers += 1;
                        self.next = next.max(self.next + 1);
                    }
                    _ => return Err(ChunkError::of(*error)),
                },
            }
        }
    }
}

/// The number with which it goes on, if a chunk is refused for its number.
fn free(error: &ProtocolError) -> Option<u64> {
    let taken = [codes::STREAM_TAKEN, codes::STREAM_NOT_NEXT].into_iter().any(|code| code.name == error.code);
    let next = error.details.as_ref()?.get("next_sequence")?.as_u64()?;
    taken.then_some(next)
}
