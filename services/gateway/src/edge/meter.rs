//! What the doors count. Label values come from registries only, so that no client can grow their number.

use std::time::{Duration, Instant};

use aip_names::metrics as names;
use aip_wire::{MessageType, codes};
use serde_json::Value;

use crate::front::Via;

/// What `code` says of a request that was answered without an error.
pub(super) const OK: &str = "ok";
/// What `message_type` says of a request that named none of the registered types.
const NONE: &str = "none";
/// What `code` says of an error whose code is not one of ours.
const FOREIGN: &str = "other";

/// One request being answered.
#[derive(Debug)]
pub(super) struct Request {
    via: Via,
    started: Instant,
}

// === impl Request ===

impl Request {
    pub fn start(via: Via) -> Request {
        Request { via, started: Instant::now() }
    }

    /// Counts the request under the type it claimed and the code it was answered with.
    pub fn end(self, message_type: Option<MessageType>, code: &'static str) {
        let message_type = message_type.map_or(NONE, MessageType::as_str);
        metrics::counter!(
            names::EDGE_REQUESTS, "edge" => label(self.via), "message_type" => message_type, "code" => code
        )
        .increment(1);
        metrics::histogram!(
            names::EDGE_REQUEST_SECONDS, "edge" => label(self.via), "message_type" => message_type
        )
        .record(self.elapsed());
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// The code of a reply envelope's error, of its own or of the action's.
pub(super) fn code(envelope: &Value) -> &'static str {
    let error =
        envelope.pointer("/body/error/error").or_else(|| envelope.pointer("/body/action_result/error"));
    match error.and_then(|error| error.get("code")).and_then(Value::as_str) {
        None => OK,
        Some(code) => codes::find(code).map_or(FOREIGN, |code| code.name),
    }
}

pub(super) fn entered(via: Via) {
    metrics::gauge!(names::EDGE_REQUESTS_RUNNING, "edge" => label(via)).increment(1.0);
}

pub(super) fn left(via: Via) {
    metrics::gauge!(names::EDGE_REQUESTS_RUNNING, "edge" => label(via)).decrement(1.0);
}

/// A NATS message that named nowhere to reply to.
pub(super) fn unanswered() {
    metrics::counter!(names::EDGE_UNANSWERED).increment(1);
}

pub(super) fn connections(open: usize) {
    metrics::gauge!(names::EDGE_HTTP_CONNECTIONS).set(u32::try_from(open).unwrap_or(u32::MAX));
}

fn label(via: Via) -> &'static str {
    match via {
        Via::Http => "http",
        Via::Nats => "nats",
    }
}
