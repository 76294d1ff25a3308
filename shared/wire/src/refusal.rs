//! A refusal: which code, where, and a text for people. The text never repeats a value from the request, because values
//! may be secret; it may name members.

use aip_names::limits::REFUSAL_TEXT_BYTES_MAX;
use serde_json::{Map, Value};

use crate::codes::{self, Code};
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

    /// Another service's no, told on as it was said. A code that is not one of ours is a fault of theirs.
    pub fn told(error: ProtocolError) -> Refusal {
        let Some(code) = codes::find(&error.code) else { return Refusal::of(codes::SERVICE_INTERNAL) };
        let mut details = match error.details {
            Some(Value::Object(details)) => details,
            _ => Map::new(),
        };
        let path = match details.remove("path") {
            Some(Value::String(path)) => path,
            _ => String::new(),
        };
        Refusal { retry_after_ms: error.retry_after_ms, details, ..Refusal::new(code, path, error.message) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_on_as_it_was_said() {
        let said = Refusal::new(codes::LIMIT_WAIT, "/body/wait_ms", "too long")
            .detail("max", 30_000)
            .retry_after_ms(7);
        assert_eq!(Refusal::told(ProtocolError::from(said.clone())), said);
        let foreign = ProtocolError { code: "x.y".to_owned(), ..ProtocolError::from(said) };
        assert_eq!(Refusal::told(foreign).code, codes::SERVICE_INTERNAL);
    }
}
