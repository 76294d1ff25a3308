//! Reads an action's chunks from any place on, in order and without a gap: what is missing is said, never passed over.

use std::sync::Arc;
use std::time::Duration;

use aip_bus::{LogError, Tail};
use aip_names::chunk_tail;
use aip_names::limits::CHUNK_READ_TIMEOUT_MS;
use aip_wire::{ActionId, Refusal, StreamChunk, codes};
use serde::{Deserialize, Serialize};

use super::{Chunks, entry, unavailable};

/// How far a reader has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// The number of the last chunk that it has; 0 before the first.
    pub sequence: u64,
    /// Where that one stood in the log: a hint, which a log that was made again does not honour.
    pub place: u64,
}

/// One reader of one action's chunks.
pub struct Reading {
    chunks: Arc<Chunks>,
    id: ActionId,
    reached: Reached,
    /// Whether the tail was opened behind `reached.place`, and not at the first message.
    hinted: bool,
    tail: Option<Tail>,
    /// The last message that was looked at.
    looked: u64,
}

// === impl Reading ===

impl Reading {
    pub fn new(chunks: Arc<Chunks>, id: ActionId, reached: Reached) -> Reading {
        let hinted = reached.place > 0;
        Reading { chunks, id, reached, hinted, tail: None, looked: 0 }
    }

    pub fn action(&self) -> &ActionId {
        &self.id
    }

    pub fn reached(&self) -> Reached {
        self.reached
    }

    /// The next chunk, as soon as it is kept. Nothing is lost when the waiting is given up.
    ///
    /// # Errors
    /// `aip.stream.chunks_gone`; or the log is not to be used now, and may be asked again.
    pub async fn next(&mut self) -> Result<StreamChunk, Refusal> {
        loop {
            if let Some(chunk) = self.step().await? {
                return Ok(chunk);
            }
        }
    }

    /// The next chunk of those that stand at or before `place`; none when there is no more.
    ///
    /// # Errors
    /// As [`Reading::next`].
    pub async fn next_until(&mut self, place: u64) -> Result<Option<StreamChunk>, Refusal> {
        let patience = Duration::from_millis(CHUNK_READ_TIMEOUT_MS);
        while self.looked < place {
            let step = tokio::time::timeout(patience, self.step()).await;
            let step = step.map_err(|_| unavailable(&"it gives nothing"))?;
            if let Some(chunk) = step? {
                return Ok(Some(chunk));
            }
        }
        Ok(None)
    }

    /// Looks at one message. None when it brings no chunk.
    async fn step(&mut self) -> Result<Option<StreamChunk>, Refusal> {
        if self.tail.is_none() {
            self.tail = Some(self.open().await?);
        }
        let Some(tail) = &mut self.tail else { return Ok(None) };
        let kept = match tail.next().await {
            Ok(kept) => kept,
            Err(error) => {
                // another log may stand there now
                self.tail = None;
                self.hinted = false;
                return Err(unavailable(&error));
            }
        };
        let place = kept.place;
        let found = entry(&kept)?;
        let (Some(chunk), after) = (found.chunk, found.after) else {
            self.looked = place;
            return Ok(None);
        };
        if chunk.sequence <= self.reached.sequence {
            self.looked = place;
            return Ok(None);
        }
        // a log that lost what the reader has says less than it has, and nothing is missing
        if after > self.reached.sequence {
            if self.hinted {
                self.tail = None;
                self.hinted = false;
                return Ok(None);
            }
            return Err(Refusal::of(codes::STREAM_CHUNKS_GONE));
        }
        self.looked = place;
        self.reached = Reached { sequence: chunk.sequence, place };
        Ok(Some(chunk))
    }

    async fn open(&mut self) -> Result<Tail, Refusal> {
        let subject = self.chunks.subject(&self.id)?;
        if self.hinted {
            let last = self.chunks.last(&self.id).await?;
            self.hinted = last.is_some_and(|(place, _)| place >= self.reached.place);
        }
        if !self.hinted {
            self.looked = 0;
        }
        let from = if self.hinted { self.reached.place + 1 } else { 0 };
        let log = &self.chunks.spec.name;
        let opened = self.chunks.bus.tail_of(log, &subject, from, chunk_tail()).await;
        match opened {
            Ok(tail) => Ok(tail),
            Err(LogError::Missing(_) | LogError::Unreadable { .. }) => {
                self.chunks.ensure().await?;
                let opened = self.chunks.bus.tail_of(log, &subject, 0, chunk_tail()).await;
                (self.hinted, self.looked) = (false, 0);
                opened.map_err(|error| unavailable(&error))
            }
            Err(error) => Err(unavailable(&error)),
        }
    }
}

// === impl Chunks ===

impl Chunks {
    /// The digest of the chunk that stands under this number, if one does. Looks through all there are: only a worker that
    /// says an old chunk again has it looked for.
    pub(super) async fn find(&self, id: &ActionId, sequence: u64) -> Result<Option<String>, Refusal> {
        let _place = self.finds.try_acquire().map_err(|_| Refusal::of(codes::SERVICE_OVERLOADED))?;
        let Some((end, _)) = self.last(id).await? else { return Ok(None) };
        let subject = self.subject(id)?;
        let tail = self.bus.tail_of(&self.spec.name, &subject, 0, chunk_tail()).await;
        let mut tail = tail.map_err(|error| unavailable(&error))?;
        let patience = Duration::from_millis(CHUNK_READ_TIMEOUT_MS);
        loop {
            let kept = tokio::time::timeout(patience, tail.next()).await;
            let kept = kept.map_err(|_| unavailable(&"it gives nothing"))?;
            let kept = kept.map_err(|error| unavailable(&error))?;
            let found = entry(&kept)?;
            if found.chunk.is_some_and(|chunk| chunk.sequence == sequence) {
                return Ok(Some(found.head.hash));
            }
            if kept.place >= end {
                return Ok(None);
            }
        }
    }
}
