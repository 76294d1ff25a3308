//! Cursors (16.2): where a page ended, sealed so that only a gateway can read or make one, bound to the query and the
//! reader it was given for. All replicas hold the same signing key, so each understands the others' cursors, and its
//! own of before a restart. A cursor carries no authority: every page is authorized anew.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use aip_admission::Caller;
use aip_crypto::seal::Sealer;
use aip_crypto::{SigningKey, canonical};
use aip_kernel::Millis;
use aip_names::limits::{CURSOR_BYTES_MAX, CURSOR_TTL_MS};
use aip_wire::{Refusal, codes};

use crate::chunks::reading::Reached;

const PURPOSE: &str = "aip-gateway cursor v1";

/// Members of a request that may differ between its pages.
const FREE: [&str; 3] = ["cursor", "limit", "follow"];

/// Gives and takes cursors.
#[derive(Debug)]
pub struct Cursors {
    sealer: Sealer,
}

/// Where a page ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The place of the last row that was looked at, in the order of the query; empty before the first.
    pub at: String,
    /// How many events of that row were told.
    pub told: u8,
    /// The last chunk that was told, where chunks are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Reached>,
}

/// A query with its reader: what a cursor is bound to.
#[derive(Debug, Clone)]
pub struct Question {
    digest: String,
}

#[derive(Serialize, Deserialize)]
struct Content {
    mark: Mark,
    expires_at: Millis,
}

// === impl Question ===

impl Question {
    /// # Errors
    /// Never: a request that was read as JSON can be written as JSON.
    pub fn of(reader: &Caller, kind: &str, request: &impl Serialize) -> Result<Question, Refusal> {
        let mut request = serde_json::to_value(request).map_err(|_| Refusal::of(codes::SERVICE_INTERNAL))?;
        if let Value::Object(members) = &mut request {
            members.retain(|name, _| !FREE.contains(&name.as_str()));
        }
        let principal = reader.principal();
        let digest = canonical::hash(&json!([kind, principal.id, principal.kind, request]));
        Ok(Question { digest })
    }
}

// === impl Mark ===

impl Mark {
    pub fn new(at: impl Into<String>, told: u8) -> Mark {
        Mark { at: at.into(), told, chunk: None }
    }
}

// === impl Cursors ===

impl Cursors {
    pub fn new(key: &SigningKey) -> Cursors {
        Cursors { sealer: Sealer::new(key, PURPOSE) }
    }

    /// # Errors
    /// `aip.service.internal` when the system gives no randomness.
    pub fn give(&self, question: &Question, mark: Mark, now: Millis) -> Result<String, Refusal> {
        let content = Content { mark, expires_at: now.saturating_add(CURSOR_TTL_MS) };
        let sealed = serde_json::to_vec(&content).map_err(|error| error.to_string()).and_then(|content| {
            let sealed = self.sealer.seal(&content, question.digest.as_bytes());
            sealed.map_err(|error| error.to_string())
        });
        sealed.map_err(|why| {
            tracing::error!(why, "a cursor could not be made");
            Refusal::of(codes::SERVICE_INTERNAL)
        })
    }

    /// # Errors
    /// `aip.query.cursor_invalid` for what was not given out for this question, `aip.query.cursor_expired` for what was,
    /// too long ago.
    pub fn take(&self, question: &Question, cursor: &str, now: Millis) -> Result<Mark, Refusal> {
        let invalid = || Refusal::of(codes::QUERY_CURSOR);
        if cursor.len() > CURSOR_BYTES_MAX {
            return Err(invalid());
        }
        let content = self.sealer.open(cursor, question.digest.as_bytes()).ok_or_else(invalid)?;
        let content: Content = serde_json::from_slice(&content).map_err(|_| invalid())?;
        if now >= content.expires_at {
            return Err(Refusal::of(codes::QUERY_CURSOR_EXPIRED));
        }
        Ok(content.mark)
    }
}

#[cfg(test)]
mod tests;
