//! Identifiers (section 5.3). Decoding takes any string, because receivers treat ids as opaque; only the three kinds
//! that a deployment chooses have to be non-empty everywhere. Never parse meaning out of an id.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a text is not an id of the kind asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error("id is empty")]
    Empty,
    #[error("id does not start with {expected}")]
    Prefix { expected: &'static str },
}

macro_rules! id_common {
    ($name:ident) => {
        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }

            pub fn into_string(self) -> String {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.0 == *other
            }
        }
    };
}

macro_rules! prefixed_ids {
    ($($(#[$meta:meta])* $name:ident = $prefix:literal,)+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            pub const PREFIX: &'static str = $prefix;

            /// A fresh id: the prefix and the 32 lower-case hexadecimal digits of a UUIDv7.
            pub fn generate() -> $name {
                $name::from_uuid(uuid::Uuid::now_v7())
            }

            /// The id that carries this UUID, for callers that bring their own time and randomness.
            pub fn from_uuid(uuid: uuid::Uuid) -> $name {
                $name(format!("{}{}", $prefix, uuid.simple()))
            }

            /// Takes a text that has to carry the prefix of its kind.
            pub fn parse(text: impl Into<String>) -> Result<$name, IdError> {
                let text = text.into();
                if text.is_empty() {
                    return Err(IdError::Empty);
                }
                if !text.starts_with($prefix) {
                    return Err(IdError::Prefix { expected: $prefix });
                }
                Ok($name(text))
            }

            /// Takes any text, as decoding does.
            pub fn opaque(text: impl Into<String>) -> $name {
                $name(text.into())
            }

            /// True for the form that this implementation generates.
            pub fn is_generated_form(&self) -> bool {
                self.0.strip_prefix($prefix).is_some_and(|rest| {
                    rest.len() == 32 && rest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
                })
            }
        }

        id_common!($name);
    )+};
}

prefixed_ids! {
    /// One message.
    MessageId = "msg_",
    /// A session between two participants.
    SessionId = "sess_",
    /// What belongs together across messages.
    CorrelationId = "corr_",
    /// One action.
    ActionId = "act_",
    /// One approval workflow.
    ApprovalId = "appr_",
    /// One delegation.
    DelegationId = "dlg_",
    /// One event.
    EventId = "evt_",
    /// One receipt.
    ReceiptId = "rcpt_",
    /// One transaction.
    TransactionId = "txn_",
    /// One conversation.
    ConversationId = "conv_",
}

macro_rules! stable_ids {
    ($($(#[$meta:meta])* $name:ident,)+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(String);

        impl $name {
            /// Takes any text that is not empty.
            pub fn parse(text: impl Into<String>) -> Result<$name, IdError> {
                let text = text.into();
                if text.is_empty() { Err(IdError::Empty) } else { Ok($name(text)) }
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;

            fn try_from(text: String) -> Result<$name, IdError> {
                $name::parse(text)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "minLength": 1 })
            }
        }

        id_common!($name);
    )+};
}

stable_ids! {
    /// A principal, by the name its deployment gave it.
    PrincipalId,
    /// A capability, by the name its provider gave it.
    CapabilityId,
    /// A transport or compatibility profile (25.1).
    ProfileId,
}

/// What a message answers: a message id or a correlation id, told apart by the prefix only (section 6.2).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct MessageReference(String);

id_common!(MessageReference);

impl From<MessageId> for MessageReference {
    fn from(id: MessageId) -> MessageReference {
        MessageReference(id.0)
    }
}

impl From<CorrelationId> for MessageReference {
    fn from(id: CorrelationId) -> MessageReference {
        MessageReference(id.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_ids_carry_prefix_and_uuid_v7_and_grow() {
        let first = ActionId::generate();
        let second = ActionId::generate();
        assert!(first.is_generated_form(), "{first}");
        assert_eq!(first.as_str().as_bytes()[4 + 12], b'7');
        assert!(first < second);
        assert_eq!(ActionId::parse(first.as_str()).unwrap(), first);
    }

    #[test]
    fn parsing_wants_the_prefix_and_decoding_does_not() {
        assert_eq!(MessageId::parse(""), Err(IdError::Empty));
        assert_eq!(MessageId::parse("act_1"), Err(IdError::Prefix { expected: "msg_" }));
        assert!(MessageId::parse("msg_").is_ok());
        assert_eq!(serde_json::from_str::<MessageId>("\"anything\"").unwrap(), *"anything");
        assert!(serde_json::from_str::<PrincipalId>("\"\"").is_err());
        assert!(serde_json::from_str::<CapabilityId>("\" \"").is_ok());
    }
}
