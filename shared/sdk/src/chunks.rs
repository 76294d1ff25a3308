//! What a handler streams while it works (11.6): a few chunks wait, one is on its way, and who streams faster waits.

use std::sync::{Arc, OnceLock};

use aip_names::limits::{ACTION_CHUNKS_MAX, CHUNK_BYTES_MAX};
use aip_wire::{MessagePart, ProtocolError, StreamChunkKind, codes};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Of a chunk's bytes, what is kept for its own members; the longest action id fits.
const MEMBERS_ROOM_BYTES: usize = 1_024;

/// The stream of one attempt. Cheap to clone.
///
/// A synchronous action has no listener: its chunks are taken and thrown away, so that one handler serves all modes. The
/// stream ends by itself when the handler does: with `done`, or with `error` and what went wrong. That a chunk could
/// not be sent says nothing about the work; a handler that is not told to stop may go on without it.
#[derive(Debug, Clone)]
pub struct Chunks {
    to: To,
}

#[derive(Debug, Clone)]
enum To {
    Nobody,
    Undeclared,
    Gateway { outlet: Outlet, stop: CancellationToken },
}

/// Where chunks go: what is put into the queue is sent, until `broken` says why not.
#[derive(Debug, Clone)]
pub(crate) struct Outlet {
    pub queue: mpsc::Sender<Draft>,
    pub broken: Arc<OnceLock<ChunkError>>,
}

/// A chunk without its number.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub kind: StreamChunkKind,
    pub content: Content,
}

/// What a chunk carries: any JSON value, or a part of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    Data(Value),
    Part(Box<MessagePart>),
}

/// Why a chunk is not sent.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ChunkError {
    /// The contract does not say that the capability streams:
    /// [`CapabilitySpec::streaming`](crate::CapabilitySpec::streaming).
    #[error("the capability's contract does not say that it streams")]
    NotStreaming,
    /// Only this chunk is not sent; smaller ones are.
    #[error("a chunk has at most {max} bytes, not {bytes}")]
    TooLarge { bytes: usize, max: usize },
    /// The action has streamed all that it may. It may still come to its end.
    #[error("an action streams at most {max} chunks")]
    TooMany { max: u64 },
    /// The handler is to stop ([`Context::stop`](crate::Context::stop)), and no chunk had room.
    #[error("the action is to stop")]
    Stopped,
    /// This attempt does not count any more: another has the action, or it has ended.
    #[error("the attempt does not count any more")]
    Superseded,
    /// The stream has ended.
    #[error("the stream has ended")]
    Ended,
    /// The gateway did not take a chunk in time. The rest of the stream is lost; the result is not.
    #[error("a chunk could not be sent: {0}")]
    Lost(String),
    #[error("the gateway refused a chunk: {}: {}", .0.code, .0.message)]
    Refused(Box<ProtocolError>),
}

// === impl Chunks ===

impl Chunks {
    pub(crate) fn to_nobody() -> Chunks {
        Chunks { to: To::Nobody }
    }

    /// Of a capability that does not declare to stream.
    pub(crate) fn undeclared() -> Chunks {
        Chunks { to: To::Undeclared }
    }

    /// Who waits for room is woken by `stop`.
    pub(crate) fn to_gateway(outlet: Outlet, stop: CancellationToken) -> Chunks {
        Chunks { to: To::Gateway { outlet, stop } }
    }

    /// A piece of the output.
    ///
    /// # Errors
    /// See [`ChunkError`]; that of an earlier chunk comes with a later one.
    pub async fn data(&self, content: impl Into<Content>) -> Result<(), ChunkError> {
        self.send(StreamChunkKind::Data, content.into()).await
    }

    /// How far the work is, `{"done", "of", "message"}`, in steps of any kind.
    ///
    /// # Errors
    /// As [`data`](Self::data).
    pub async fn progress(&self, done: u64, of: u64, message: &str) -> Result<(), ChunkError> {
        let content = json!({ "done": done, "of": of, "message": message });
        self.send(StreamChunkKind::Progress, content.into()).await
    }

    /// What a tool that the handler uses was asked or answered.
    ///
    /// # Errors
    /// As [`data`](Self::data).
    pub async fn tool(&self, content: impl Into<Content>) -> Result<(), ChunkError> {
        self.send(StreamChunkKind::Tool, content.into()).await
    }

    /// Why the handler does what it does.
    ///
    /// # Errors
    /// As [`data`](Self::data).
    pub async fn thought(&self, content: impl Into<Content>) -> Result<(), ChunkError> {
        self.send(StreamChunkKind::Thought, content.into()).await
    }

    /// What the output may look like; it may still change.
    ///
    /// # Errors
    /// As [`data`](Self::data).
    pub async fn preview(&self, content: impl Into<Content>) -> Result<(), ChunkError> {
        self.send(StreamChunkKind::Preview, content.into()).await
    }

    async fn send(&self, kind: StreamChunkKind, content: Content) -> Result<(), ChunkError> {
        let (queue, broken, stop) = match &self.to {
            To::Nobody => return Ok(()),
            To::Undeclared => return Err(ChunkError::NotStreaming),
            To::Gateway { outlet: Outlet { queue, broken }, stop } => (queue, broken, stop),
        };
        let bytes = content.bytes() + MEMBERS_ROOM_BYTES;
        if bytes > CHUNK_BYTES_MAX {
            return Err(ChunkError::TooLarge { bytes, max: CHUNK_BYTES_MAX });
        }
        let why = || broken.get().cloned().unwrap_or(ChunkError::Ended);
        tokio::select! {
            biased;
            room = queue.reserve() => room.map_err(|_| why())?.send(Draft { kind, content }),
            () = stop.cancelled() => return Err(broken.get().cloned().unwrap_or(ChunkError::Stopped)),
        }
        Ok(())
    }
}

// === impl Content ===

impl Content {
    fn bytes(&self) -> usize {
        let written = match self {
            Content::Data(data) => serde_json::to_vec(data),
            Content::Part(part) => serde_json::to_vec(part),
        };
        written.map_or(usize::MAX - MEMBERS_ROOM_BYTES, |bytes| bytes.len())
    }
}

impl From<Value> for Content {
    fn from(data: Value) -> Content {
        Content::Data(data)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Content {
        Content::Data(Value::from(text))
    }
}

impl From<String> for Content {
    fn from(text: String) -> Content {
        Content::Data(Value::from(text))
    }
}

impl From<MessagePart> for Content {
    fn from(part: MessagePart) -> Content {
        Content::Part(Box::new(part))
    }
}

// === impl ChunkError ===

impl ChunkError {
    /// What the gateway's refusal of a chunk means.
    pub(crate) fn of(error: ProtocolError) -> ChunkError {
        let is = |code: &codes::Code| error.code == code.name;
        if is(codes::ACTION_SUPERSEDED) {
            ChunkError::Superseded
        } else if is(codes::STREAM_ENDED) {
            ChunkError::Ended
        } else if is(codes::LIMIT_ACTION_CHUNKS) {
            ChunkError::TooMany { max: ACTION_CHUNKS_MAX }
        } else {
            ChunkError::Refused(Box::new(error))
        }
    }
}
