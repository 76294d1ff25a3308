//! Sets of capabilities and scopes as configuration spells them. No regular expressions: what a pattern covers can
//! be seen by looking at it.

use std::fmt;

use aip_names::operator;
use serde::{Deserialize, Serialize};

pub use aip_wire::trusted::Scopes;

/// An exact capability id, or everything that starts with the text before a final `*`. Operator verbs are covered only
/// by a pattern that speaks of them: who may do everything that workers offer is no operator by that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CapabilityPattern {
    prefix: String,
    open: bool,
}

/// Why a text is no capability pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("a capability pattern is empty")]
    Empty,
    #[error("{0:?} has a `*` before its end")]
    InnerStar(String),
}

// === impl CapabilityPattern ===

impl CapabilityPattern {
    /// # Errors
    /// The text is empty or has a `*` that is not its last character.
    pub fn parse(text: &str) -> Result<CapabilityPattern, PatternError> {
        if text.is_empty() {
            return Err(PatternError::Empty);
        }
        let (prefix, open) = match text.strip_suffix('*') {
            Some(prefix) => (prefix, true),
            None => (text, false),
        };
        if prefix.contains('*') {
            return Err(PatternError::InnerStar(text.to_owned()));
        }
        Ok(CapabilityPattern { prefix: prefix.to_owned(), open })
    }

    pub fn covers(&self, capability_id: &str) -> bool {
        if operator::is_verb(capability_id) && !operator::is_verb(&self.prefix) {
            return false;
        }
        if self.open { capability_id.starts_with(&self.prefix) } else { capability_id == self.prefix }
    }
}

impl fmt::Display for CapabilityPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.prefix, if self.open { "*" } else { "" })
    }
}

impl TryFrom<String> for CapabilityPattern {
    type Error = PatternError;

    fn try_from(text: String) -> Result<CapabilityPattern, PatternError> {
        CapabilityPattern::parse(&text)
    }
}

impl From<CapabilityPattern> for String {
    fn from(pattern: CapabilityPattern) -> String {
        pattern.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_covers_its_id_or_its_prefix() {
        let exact = CapabilityPattern::parse("cap:a:b").unwrap();
        assert!(exact.covers("cap:a:b") && !exact.covers("cap:a:b:c") && !exact.covers("cap:a"));
        let open = CapabilityPattern::parse("cap:a:*").unwrap();
        assert!(open.covers("cap:a:b") && open.covers("cap:a:b:c") && !open.covers("cap:ab"));
        assert!(CapabilityPattern::parse("*").unwrap().covers("anything"));
        assert_eq!(open.to_string(), "cap:a:*");
    }

    #[test]
    fn operator_verbs_have_to_be_spoken_of() {
        let covers = |text: &str| {
            let pattern = CapabilityPattern::parse(text).unwrap();
            pattern.covers(operator::GATEWAY_REDRIVE)
        };
        for text in ["*", "cap:*", "cap:aip*", "cap:aip:other:*"] {
            assert!(!covers(text), "{text}");
        }
        for text in ["cap:aip:*", operator::GATEWAY_REDRIVE, "cap:aip:gateway:*"] {
            assert!(covers(text), "{text}");
        }
    }

    #[test]
    fn a_star_stands_only_at_the_end() {
        assert_eq!(CapabilityPattern::parse(""), Err(PatternError::Empty));
        for text in ["cap:*:b", "**", "*a*"] {
            assert_eq!(CapabilityPattern::parse(text), Err(PatternError::InnerStar(text.to_owned())));
        }
    }
}
