//! What a worker says of an asynchronous attempt: an envelope extension beside a heartbeat or an action's result, so
//! that the envelope's signature covers it. The specification has no message for this between a runtime and its
//! workers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::ActionId;
use crate::types::ProtocolError;

/// The member of an envelope's extensions that holds a [`Report`].
pub const EXTENSION: &str = "aip.attempt";

/// One attempt and where it stands. Beside an action's result the phase is `ended`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    pub action_id: ActionId,
    /// Counts attempts from 1: the fence. What is said of an attempt that was followed by another changes nothing.
    pub attempt: u32,
    /// The process that speaks: another one can't go on with its attempt.
    pub worker: String,
    pub phase: Phase,
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
    /// The result is in the body.
    Ended,
}

// === impl Report ===

impl Report {
    /// The report in an envelope's extensions: none when there is no such member.
    ///
    /// # Errors
    /// The member is there and is no report.
    pub fn read(extensions: Option<&Value>) -> Result<Option<Report>, String> {
        match extensions.and_then(|extensions| extensions.get(EXTENSION)) {
            None => Ok(None),
            Some(value) => Report::deserialize(value).map(Some).map_err(|error| error.to_string()),
        }
    }
}
