//! Parts of a subject: what may stand between two dots, and how a dotted name folds into one token (20.4).
//!
//! A part is refused here or it is safe everywhere: no later code escapes or checks it again.

use std::fmt;

use crate::limits;

/// Why a name cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("{what} is empty")]
    Empty { what: &'static str },
    #[error("{what} is longer than {bytes_max} bytes")]
    TooLong { what: &'static str, bytes_max: usize },
    #[error("{what} {name:?} holds {character:?}, which has no place in a subject")]
    Character { what: &'static str, name: String, character: char },
    #[error("service {name:?} must be lower-case letters, digits and hyphens, starting with a letter")]
    ServiceForm { name: String },
    #[error("service {name:?} ends in {suffix:?}, which is reserved")]
    ReservedService { name: String, suffix: &'static str },
    #[error("version {name:?} must be v1, v2, …")]
    VersionForm { name: String },
    #[error("{what}s {first:?} and {second:?} both fold to {token:?}")]
    Ambiguous { what: &'static str, first: String, second: String, token: String },
    #[error("more than {max} registered {what}s")]
    TooMany { what: &'static str, max: usize },
    #[error(
        "identity {name:?} must be gateway, admin, another service of the system, worker-<name> or client-<name>"
    )]
    IdentityForm { name: String },
    #[error("subject {subject:?} is not one of ours")]
    NotOurs { subject: String },
    #[error("{what} {token:?} is not registered")]
    Unknown { what: &'static str, token: String },
}

/// Replaces `.`, space, `/` and `\` by `_` (20.4). Not injective by itself: [`crate::Names`] checks the set.
pub fn fold(name: &str) -> String {
    name.chars().map(|c| if matches!(c, '.' | ' ' | '/' | '\\') { '_' } else { c }).collect()
}

/// Refuses what cannot be a token even after folding. Non-ASCII text is refused as well: it can look equal
/// and be different, and no identifier of the protocol needs it.
fn check(what: &'static str, name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty { what });
    }
    if name.len() > limits::SUBJECT_TOKEN_BYTES_MAX {
        return Err(NameError::TooLong { what, bytes_max: limits::SUBJECT_TOKEN_BYTES_MAX });
    }
    match name.chars().find(|c| matches!(c, '*' | '>') || !(c.is_ascii_graphic() || *c == ' ')) {
        Some(character) => Err(NameError::Character { what, name: name.to_owned(), character }),
        None => Ok(()),
    }
}

/// A name with dots, kept as written together with the token it folds to.
macro_rules! folded {
    ($(#[$doc:meta])* $type:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type {
            name: String,
            token: String,
        }

        impl $type {
            /// What errors call this kind of name.
            pub(crate) const WHAT: &'static str = $what;

            /// # Errors
            /// Empty, too long, or holding a character that no subject may carry.
            pub fn new(name: &str) -> Result<Self, NameError> {
                check(Self::WHAT, name)?;
                Ok(Self { name: name.to_owned(), token: fold(name) })
            }

            /// The name as it stands in messages and configuration.
            pub fn as_str(&self) -> &str {
                &self.name
            }

            /// The name as it stands in a subject.
            pub fn token(&self) -> &str {
                &self.token
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.name)
            }
        }

        impl std::str::FromStr for $type {
            type Err = NameError;

            fn from_str(name: &str) -> Result<Self, NameError> {
                Self::new(name)
            }
        }
    };
}

folded! {
    /// A trust domain, for example `aip.local`, whose token is `aip_local`.
    TrustDomain, "trust domain"
}
folded! {
    /// A message type, for example `aip.core.v1.action`.
    MessageType, "message type"
}
folded! {
    /// A kind of event, for example `action.completed`.
    EventKind, "event kind"
}

/// An identifier that stands in a subject exactly as it is written: a correlation id or an action id. What
/// would fold is refused, so two identifiers never share a subject.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Atom(String);

impl Atom {
    /// # Errors
    /// Anything that is not a token already.
    pub fn new(name: &str) -> Result<Self, NameError> {
        const WHAT: &str = "identifier";
        check(WHAT, name)?;
        match name.chars().find(|c| matches!(c, '.' | ' ' | '/' | '\\')) {
            Some(character) => Err(NameError::Character { what: WHAT, name: name.to_owned(), character }),
            None => Ok(Self(name.to_owned())),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A service's token: `gateway`, `sandbox-restaurant`. Lower-case letters, digits and hyphens, so that it is
/// a subject token, a queue group, a stream name part and a `$SRV` name at once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Service(String);

/// Suffixes of the tokens of internal traffic: a service called `gateway-ledger` would sit on the gateway's log.
pub(crate) const INTERNAL_SUFFIXES: [&str; 4] = ["-ledger", "-queue", "-chunks", "-events"];

impl Service {
    /// # Errors
    /// Another form than described above, too long, or ending in a reserved suffix.
    pub fn new(name: &str) -> Result<Self, NameError> {
        check("service", name)?;
        let well_formed = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        if !well_formed {
            return Err(NameError::ServiceForm { name: name.to_owned() });
        }
        match INTERNAL_SUFFIXES.into_iter().find(|suffix| name.ends_with(suffix)) {
            Some(suffix) => Err(NameError::ReservedService { name: name.to_owned(), suffix }),
            None => Ok(Self(name.to_owned())),
        }
    }

    /// The gateway's own token.
    pub fn gateway() -> Self {
        Self::of_ours(crate::GATEWAY)
    }

    /// A constant's token; a test shows that each of them is one.
    pub(crate) fn of_ours(name: &'static str) -> Self {
        Self(name.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for Service {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        Self::new(name)
    }
}

/// The version of a service's message contract: `v1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u16);

impl Version {
    pub const V1: Self = Self(1);

    /// # Errors
    /// Anything but `v` and a decimal number from 1 without leading zeros.
    pub fn new(name: &str) -> Result<Self, NameError> {
        let refused = || NameError::VersionForm { name: name.to_owned() };
        let number = decimal(name.strip_prefix('v').ok_or_else(refused)?).ok_or_else(refused)?;
        if number == 0 { Err(refused()) } else { Ok(Self(number)) }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

impl std::str::FromStr for Version {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        Self::new(name)
    }
}

/// The one decimal spelling of a number: no sign, no leading zeros.
pub(crate) fn decimal(text: &str) -> Option<u16> {
    text.parse::<u16>().ok().filter(|number| number.to_string() == text)
}
