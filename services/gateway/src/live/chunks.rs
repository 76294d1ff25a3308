//! Chunks in a live stream: each as soon as it is kept, and all of them before the action's end is told. Where the log owes
//! chunks and does not give them, an error chunk says so, and the rest is told without them: the result does not depend
//! on the log.

use std::time::Duration;

use aip_names::limits::{CHUNK_RETRY_MS, STREAM_CLOSE_MS};
use aip_wire::{Refusal, StreamChunk, StreamChunkKind, codes};
use tokio::time::Instant;

use super::{Follower, Stop};
use crate::chunks::head::broken;
use crate::chunks::reading::{Reached, Reading};
use crate::cursor::Mark;
use crate::machine::ActionState;

/// Event names of 20.2.
const CHUNK: &str = "chunk";
const DONE: &str = "done";

/// How far the chunks of an action that has ended are told.
pub(super) enum Chunks {
    All,
    /// The log has to be asked again.
    Owed,
    /// The end of the stream is not recorded yet.
    Open,
}

impl Follower {
    /// Tells what was found, or rests when the log could not be asked.
    pub(super) async fn found_chunk(&mut self, found: Result<StreamChunk, Refusal>) -> Result<(), Stop> {
        match found {
            Ok(chunk) => {
                let reached = self.reading.as_ref().map(Reading::reached).unwrap_or_default();
                self.tell_chunk(chunk, reached).await
            }
            Err(refusal) if refusal.code == codes::STREAM_UNAVAILABLE => {
                if self.frames.is_closed() {
                    return Err(Stop::Left);
                }
                if self.is_over() {
                    self.authorize().await?;
                }
                tokio::time::sleep(Duration::from_millis(CHUNK_RETRY_MS)).await;
                Ok(())
            }
            Err(refusal) if refusal.code == codes::STREAM_CHUNKS_GONE => self.cut(&refusal).await,
            Err(refusal) => Err(Stop::Refused(refusal)),
        }
    }

    /// Tells all chunks of an action that has ended. What the log owes for too long is given up.
    pub(super) async fn tell_chunks(&mut self, state: &ActionState) -> Result<Chunks, Stop> {
        if self.reading.is_none() {
            return Ok(Chunks::All);
        }
        let told = match state.stream.last {
            None => Chunks::Open,
            Some(last) if self.tell_until(state, last).await? => return Ok(Chunks::All),
            Some(_) => Chunks::Owed,
        };
        let since = *self.owed.get_or_insert_with(Instant::now);
        if since.elapsed() < Duration::from_millis(STREAM_CLOSE_MS) {
            return Ok(told);
        }
        self.cut(&Refusal::of(codes::STREAM_UNAVAILABLE)).await?;
        Ok(Chunks::All)
    }

    /// Tells all chunks up to `last`, behind which there is nothing. False when the log could not be asked.
    async fn tell_until(&mut self, state: &ActionState, last: u64) -> Result<bool, Stop> {
        let behind = |reading: &Reading| reading.reached().sequence < last;
        let end = match &self.reading {
            Some(reading) if behind(reading) => self.gateway.chunks().last(&state.id).await,
            _ => return Ok(true),
        };
        let gone = || Refusal::of(codes::STREAM_CHUNKS_GONE);
        let end = match end.and_then(|end| end.ok_or_else(gone)) {
            Ok((end, _)) => end,
            Err(refusal) => return self.not_told(refusal).await,
        };
        loop {
            let Some(reading) = self.reading.as_mut().filter(|reading| behind(reading)) else {
                return Ok(true);
            };
            match reading.next_until(end).await {
                Ok(Some(chunk)) => self.found_chunk(Ok(chunk)).await?,
                Ok(None) => return self.not_told(gone()).await,
                Err(refusal) => return self.not_told(refusal).await,
            }
        }
    }

    /// True when no more chunks are to be told.
    async fn not_told(&mut self, refusal: Refusal) -> Result<bool, Stop> {
        self.found_chunk(Err(refusal)).await?;
        Ok(self.reading.is_none())
    }

    /// Says why no more chunks are told. The reader's place stays where it was: coming back, it is looked again.
    async fn cut(&mut self, why: &Refusal) -> Result<(), Stop> {
        let Some(reading) = self.reading.take() else { return Ok(()) };
        let chunk = broken(reading.action(), reading.reached().sequence + 1, why);
        let id = self.id(self.mark.clone())?;
        self.tell(Some(id), CHUNK, self.correlation.clone(), chunk.into()).await
    }

    async fn tell_chunk(&mut self, chunk: StreamChunk, reached: Reached) -> Result<(), Stop> {
        let mark = Mark { chunk: Some(reached), ..self.mark.clone() };
        let id = self.id(mark.clone())?;
        let name = if chunk.kind == StreamChunkKind::Done { DONE } else { CHUNK };
        self.tell(Some(id), name, self.correlation.clone(), chunk.into()).await?;
        self.mark = mark;
        Ok(())
    }
}
