//! The road of a chunk (11.6): whose it is, whether its attempt counts, then the log keeps it. It leaves no record of its
//! own, but for the first of an attempt.

use aip_admission::Authentic;
use aip_crypto::canonical;
use aip_names::limits::CHUNK_BYTES_MAX;
use aip_wire::attempt::{Report as Said, STREAM_EXTENSION, Stream as Told};
use aip_wire::trusted::PrincipalRef;
use aip_wire::{
    Ack, AckStatus, ActionLifecycleState as Lifecycle, ProtocolError, Refusal, StreamChunk, StreamChunkKind,
    codes,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::catalog::Offer;
use crate::chunks::head::Offered;
use crate::errors;
use crate::gateway::Gateway;
use crate::machine::{ActionState, Answer, Command, Stream};
use crate::redact;
use crate::road::Stop;

const CHUNK: &str = "/body/stream_chunk";

// === impl Gateway ===

impl Gateway {
    /// Keeps a chunk. The message's id is not claimed as that of other signed messages is: sent again by whomever, the chunk
    /// stands already, or its attempt or stream is over, and nothing comes of it.
    pub(crate) async fn chunk(
        &self,
        authentic: &Authentic,
        said: &Said,
        chunk: &StreamChunk,
    ) -> Result<Ack, Stop> {
        let provider = PrincipalRef::of(authentic.caller().principal());
        let state = self.reported(&provider, said).await?;
        if !state.pinned.streams {
            return Err(Refusal::of(codes::STREAM_NOT_STREAMING).into());
        }
        if state.is_terminal() {
            return Err(Refusal::of(codes::STREAM_ENDED).into());
        }
        if !(state.is_running() && state.is_held_by(&said.worker, said.attempt)) {
            return Err(Refusal::of(codes::ACTION_SUPERSEDED).into());
        }
        let sent = serde_json::to_value(chunk).map_err(|_| Refusal::of(codes::SERVICE_INTERNAL))?;
        let bytes = sent.to_string().len();
        if bytes > CHUNK_BYTES_MAX {
            return Err(too_large("the chunk").into());
        }
        let offer = self.offer_for(&state).await?;
        let chunk = shown(chunk.clone(), &offer);
        // what is masked may take more room than what was there
        let bytes = serde_json::to_vec(&chunk).map_or(usize::MAX, |chunk| bytes.max(chunk.len()));
        if bytes > CHUNK_BYTES_MAX {
            return Err(too_large("the chunk, with what is masked in it,").into());
        }
        let offered = Offered {
            chunk,
            attempt: said.attempt,
            after: said.after,
            hash: canonical::hash(&sent),
            bytes: bytes as u64,
        };
        self.chunks().put(&offered).await.map_err(|refusal| match refusal.code.retryable {
            true => Stop::noted(refusal),
            false => Stop::from(refusal),
        })?;
        if state.lifecycle == Lifecycle::Running {
            let stream = Stream {
                provider,
                action: state.id.clone(),
                attempt: said.attempt,
                worker: said.worker.clone(),
                sequence: offered.chunk.sequence,
            };
            let answer = self.decide(Command::Stream(Box::new(stream))).await.map_err(Stop::noted)?;
            if let Answer::Refused(refusal) = answer {
                return Err(Refusal::of(errors::of_refusal(refusal)).into());
            }
        }
        let what = format!("chunk {}", offered.chunk.sequence);
        self.native().tell(&state, &what, offered.chunk.into()).await;
        let (action_id, status) = (state.id, AckStatus::Streaming);
        Ok(Ack { action_id, status, reason: None, retry_after_ms: None, queue: None })
    }

    /// What a worker that takes an attempt over is told of the stream that it goes on with.
    pub(crate) async fn taken_over(
        &self,
        state: &ActionState,
        attempt: u32,
    ) -> Result<Option<Value>, Refusal> {
        if attempt <= 1 || !state.pinned.streams {
            return Ok(None);
        }
        let head = self.chunks().take_over(&state.id, attempt, state.stream.reached).await?;
        let told = Told { next_sequence: head.next_sequence(), ended: head.ended || head.closed };
        Ok(Some(json!({ STREAM_EXTENSION: told })))
    }
}

fn too_large(what: &str) -> Refusal {
    Refusal::new(codes::LIMIT_CHUNK_BYTES, CHUNK, format!("{what} is larger than {CHUNK_BYTES_MAX} bytes"))
}

/// The chunk as it is kept: an error in it is shown as errors are, anything else as results are.
fn shown(mut chunk: StreamChunk, offer: &Offer) -> StreamChunk {
    if chunk.kind == StreamChunkKind::Error {
        chunk.data = chunk.data.map(|data| match ProtocolError::deserialize(&data) {
            Ok(error) => serde_json::to_value(redact::error(error, offer)).unwrap_or_default(),
            Err(_) => redact::details(data, offer),
        });
    }
    chunk
}
