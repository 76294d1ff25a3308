//! Chunks in a live stream: each as soon as it is kept, and all of them before the action's end is told.

use std::time::Duration;

use aip_names::limits::CHUNK_RETRY_MS;
use aip_wire::{Refusal, StreamChunk, StreamChunkKind, codes};

use super::{Follower, Stop};
use crate::chunks::reading::{Reached, Reading};
use crate::cursor::Mark;
use crate::machine::ActionState;

/// Event names of 20.2.
const CHUNK: &str = "chunk";
const DONE: &str = "done";

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
            Err(refusal) => Err(Stop::Refused(refusal)),
        }
    }

    /// Tells all chunks up to `last`, behind which there is nothing. False when the log could not be asked.
    pub(super) async fn tell_chunks(&mut self, state: &ActionState, last: u64) -> Result<bool, Stop> {
        let behind = |reading: &Reading| reading.reached().sequence < last;
        let end = match &self.reading {
            Some(reading) if behind(reading) => self.gateway.chunks().last(&state.id).await,
            _ => return Ok(true),
        };
        let gone = || Stop::Refused(Refusal::of(codes::STREAM_CHUNKS_GONE));
        let end = match end {
            Ok(end) => end.ok_or_else(gone)?.0,
            Err(refusal) => return self.found_chunk(Err(refusal)).await.map(|()| false),
        };
        loop {
            let Some(reading) = self.reading.as_mut().filter(|reading| behind(reading)) else {
                return Ok(true);
            };
            match reading.next_until(end).await {
                Ok(Some(chunk)) => self.found_chunk(Ok(chunk)).await?,
                Ok(None) => return Err(gone()),
                Err(refusal) => return self.found_chunk(Err(refusal)).await.map(|()| false),
            }
        }
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
