//! What a worker says of a queued attempt: an envelope extension beside a heartbeat, a chunk or an action's result, so
//! that the envelope's signature covers it. The specification has no message for this between a runtime and its
//! workers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::ActionId;
use crate::types::ProtocolError;

/// The member of an envelope's extensions that holds a [`Report`].
pub const EXTENSION: &str = "aip.attempt";

/// The member of an envelope's extensions that holds a [`Stream`].
pub const STREAM_EXTENSION: &str = "aip.attempt.stream";

/// One attempt and where it stands. Beside an action's result the phase is `ended`, beside a chunk it is `streamed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    pub action_id: ActionId,
    /// Counts attempts from 1: the fence. What is said of an attempt that was followed by another changes nothing.
    pub attempt: u32,
    /// The process that speaks: another one can't go on with its attempt.
    pub worker: String,
    pub phase: Phase,
    /// Of `streamed`: the number of the attempt's last chunk that was taken, or of the one that it goes on behind. A log
    /// that has lost that one says so to its readers. Absent: the chunk follows whatever stands there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Of `refused`: why the attempt came to nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ProtocolError>,
}

/// Where an attempt stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The worker asks whether it may begin; it runs nothing before it is told yes.
    Started,
    /// It still runs.
    Running,
    /// It was not executed after all.
    Refused,
    /// A chunk is in the body (11.6). Answered by an `ack` with status `streaming` once the chunk is kept.
    Streamed,
    /// The result is in the body.
    Ended,
}

/// How far the stream of an action reaches, beside the answer to the `started` of an attempt that takes over from another:
/// it goes on where that one stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// The lowest sequence number that is free. Numbers begin with 1.
    pub next_sequence: u64,
    /// A chunk that ends the stream stands already: no other is taken.
    #[serde(default)]
    pub ended: bool,
}

// === impl Report ===

impl Report {
    /// The report in an envelope's extensions: none when there is no such member.
    ///
    /// # Errors
    /// The member is there and is no report.
    pub fn read(extensions: Option<&Value>) -> Result<Option<Report>, String> {
        read(extensions, EXTENSION)
    }
}

// === impl Stream ===

impl Stream {
    /// What an envelope's extensions say of a stream: none when there is no such member.
    ///
    /// # Errors
    /// The member is there and is something else.
    pub fn read(extensions: Option<&Value>) -> Result<Option<Stream>, String> {
        read(extensions, STREAM_EXTENSION)
    }
}

fn read<'a, T: Deserialize<'a>>(extensions: Option<&'a Value>, name: &str) -> Result<Option<T>, String> {
    match extensions.and_then(|extensions| extensions.get(name)) {
        None => Ok(None),
        Some(value) => T::deserialize(value).map(Some).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn extensions_are_read_strictly_and_are_not_each_other() {
        let said =
            json!({EXTENSION: {"action_id": "act_1", "attempt": 2, "worker": "w", "phase": "streamed"}});
        assert_eq!(Report::read(Some(&said)).unwrap().unwrap().phase, Phase::Streamed);
        assert_eq!(Stream::read(Some(&said)), Ok(None));
        let told = json!({STREAM_EXTENSION: {"next_sequence": 4}});
        assert_eq!(Stream::read(Some(&told)), Ok(Some(Stream { next_sequence: 4, ended: false })));
        assert_eq!(Report::read(Some(&told)), Ok(None));
        assert!(Stream::read(Some(&json!({STREAM_EXTENSION: {"next": 4}}))).is_err());
    }
}
