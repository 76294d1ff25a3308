//! How a handler says that it could not do what was asked (sections 19.1 and 19.3).

use aip_wire::codes::{self, Code};
use aip_wire::{ErrorCategory, ProtocolError};
use serde_json::{Map, Value};

/// The member of an error's details that says that a mutation may have happened (19.3).
pub(crate) const UNCERTAIN: &str = "uncertain_outcome";

/// A handler's failure. It means that nothing was done, unless it says that this is not known.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ActionError {
    code: String,
    message: String,
    category: ErrorCategory,
    retryable: bool,
    retry_after_ms: Option<u64>,
    uncertain_outcome: bool,
    details: Map<String, Value>,
}

impl ActionError {
    /// A failure with a code of the provider's own. Codes are stable, messages may change; neither may hold secrets.
    pub fn new(code: impl Into<String>, category: ErrorCategory, message: impl Into<String>) -> ActionError {
        ActionError {
            code: code.into(),
            message: message.into(),
            category,
            retryable: false,
            retry_after_ms: None,
            uncertain_outcome: false,
            details: Map::new(),
        }
    }

    /// The request is understood and will not succeed as it is.
    pub fn permanent(code: impl Into<String>, message: impl Into<String>) -> ActionError {
        ActionError::new(code, ErrorCategory::Permanent, message)
    }

    /// The request may succeed later: nothing was done now.
    pub fn temporary(code: impl Into<String>, message: impl Into<String>) -> ActionError {
        ActionError::new(code, ErrorCategory::Temporary, message).retryable(None)
    }

    /// A failure with a registered code of the protocol.
    pub fn registered(code: &Code, message: impl Into<String>) -> ActionError {
        ActionError { retryable: code.retryable, ..ActionError::new(code.name, code.category, message) }
    }

    /// Nothing was done, or all of it was undone, because the action was to be cancelled. Only say it when
    /// [`Context::is_cancelled`](crate::Context::is_cancelled); at another time it is a failure like any other.
    pub fn cancelled(message: impl Into<String>) -> ActionError {
        ActionError::registered(codes::ACTION_CANCELLED, message)
    }

    /// The same request may succeed, at the earliest after this time.
    #[must_use]
    pub fn retryable(mut self, retry_after_ms: Option<u64>) -> ActionError {
        self.retryable = true;
        self.retry_after_ms = retry_after_ms;
        self
    }

    /// The provider may have done it all the same: nobody will try again before that is settled (13.6).
    #[must_use]
    pub fn uncertain_outcome(mut self) -> ActionError {
        self.uncertain_outcome = true;
        self.retryable = false;
        self.retry_after_ms = None;
        self
    }

    /// A fact for programs, such as the provider's request id.
    #[must_use]
    pub fn detail(mut self, name: impl Into<String>, value: impl Into<Value>) -> ActionError {
        self.details.insert(name.into(), value.into());
        self
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.code == codes::ACTION_CANCELLED.name && !self.uncertain_outcome
    }

    pub fn code(&self) -> &str {
        &self.code
    }
}

impl From<ActionError> for ProtocolError {
    fn from(error: ActionError) -> ProtocolError {
        let mut details = error.details;
        if error.uncertain_outcome {
            details.insert(UNCERTAIN.to_owned(), Value::Bool(true));
        }
        ProtocolError {
            code: error.code,
            message: error.message,
            category: error.category,
            retryable: Some(error.retryable),
            retry_after_ms: error.retry_after_ms,
            details: (!details.is_empty()).then_some(Value::Object(details)),
            source: None,
        }
    }
}

/// Whether an error says that a mutation may have happened.
pub(crate) fn is_uncertain(error: &ProtocolError) -> bool {
    [&error.details, &error.source].into_iter().any(|place| {
        place.as_ref().and_then(|place| place.get(UNCERTAIN)).and_then(Value::as_bool) == Some(true)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uncertain_failure_is_never_retryable() {
        let error: ProtocolError =
            ActionError::temporary("shop.busy", "busy").detail("request", "r-1").uncertain_outcome().into();
        assert_eq!(error.retryable, Some(false));
        assert!(is_uncertain(&error));
        assert_eq!(error.details.unwrap()["request"], "r-1");
        let plain: ProtocolError = ActionError::permanent("shop.sold", "sold").into();
        assert!(!is_uncertain(&plain) && plain.details.is_none());
    }
}
