//! Failures on the wire (section 19.1).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::shape::wire_enum;

/// The body of an error message (19.1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ErrorBody {
    pub error: ProtocolError,
}

wire_enum! {
    /// What kind of failure (19.1).
    pub enum ErrorCategory {
        Temporary = "temporary",
        Permanent = "permanent",
        Auth = "auth",
        Policy = "policy",
        Economic = "economic",
        Connector = "connector",
        Transport = "transport",
    }
}

/// A failure that programs can act on (19.1): `code` is stable, `message` is for people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProtocolError {
    pub code: String,
    pub message: String,
    pub category: ErrorCategory,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Value>,
}
