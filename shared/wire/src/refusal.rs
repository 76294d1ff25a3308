//! A refusal: which code, where, and a text for people. The text never repeats a value from the request, because values
//! may be secret; it may name members.

use aip_names::limits::REFUSAL_TEXT_BYTES_MAX;
use serde_json::{Map, Value};

use crate::codes::Code;
use crate::types::ProtocolError;

/// Why something was not taken. `path` is a JSON pointer into what was received; empty for the whole of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code} at '{path}': {message}")]
pub struct Refusal {
    pub code: &'static Code,
    pub path: String,
    pub message: String,
    /// When asking again may help, if that is known.
    pub retry_after_ms: Option<u64>,
    /// Facts beside it, for programs; never values from the request.
    pub details: Map<String, Value>,
}

impl Refusal {
    /// A refusal with texts cut to the bound, so that a request cannot make its answer large.
    pub fn new(code: &'static Code, path: impl Into<String>, message: impl Into<String>) -> Refusal {
        let (path, message) = (cut(path.into()), cut(message.into()));
        Refusal { code, path, message, retry_after_ms: None, details: Map::new() }
    }

    #[must_use]
    pub fn retry_after_ms(mut self, retry_after_ms: u64) -> Refusal {
        self.retry_after_ms = Some(retry_after_ms);
        self
    }

    #[must_use]
    pub fn detail(mut self, name: &str, fact: impl Into<Value>) -> Refusal {
        self.details.insert(name.to_owned(), fact.into());
        self
    }

    /// A refusal of the whole, in the code's own words.
    pub fn of(code: &'static Code) -> Refusal {
        Refusal::new(code, "", code.meaning)
    }
}

impl From<Refusal> for ProtocolError {
    fn from(refusal: Refusal) -> ProtocolError {
        let mut error = ProtocolError::of(refusal.code, refusal.message);
        error.retry_after_ms = refusal.retry_after_ms;
        let mut details = refusal.details;
        if !refusal.path.is_empty() {
            details.insert("path".to_owned(), Value::from(refusal.path));
        }
        error.details = (!details.is_empty()).then_some(Value::Object(details));
        error
    }
}

fn cut(mut text: String) -> String {
    if text.len() > REFUSAL_TEXT_BYTES_MAX {
        let mut end = REFUSAL_TEXT_BYTES_MAX;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Appends one step to a JSON pointer (RFC 6901).
pub(crate) fn push_step(pointer: &mut String, step: &str) {
    pointer.push('/');
    for character in step.chars() {
        match character {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            other => pointer.push(other),
        }
    }
}
