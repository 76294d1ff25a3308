//! The JSON Schemas of the wire (Appendix A), as committed in `schemas/aip` and built into this crate. They say what a
//! schema can say; the comparison of two members stays with `rules`. Nothing here is on the road of a message: types and
//! rules judge those, and tests hold both to the same judgement.

mod files;
mod generate;
mod overlay;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::OnceLock;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;
use sha2::{Digest, Sha256};

pub use files::DIGEST;
pub use generate::{Generated, generate};

use crate::timestamp::Timestamp;

/// The file of the whole envelope.
pub const ENVELOPE: &str = "envelope.schema.json";

/// The built-in set is not what it says it is, or does not compile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    #[error("schema set has digest {found}, expected {expected}")]
    Digest { expected: &'static str, found: String },
    #[error("schema {name} is malformed: {reason}")]
    Malformed { name: &'static str, reason: String },
}

/// Name and text of every schema file, in the order of their names.
pub fn files() -> &'static [(&'static str, &'static str)] {
    files::FILES
}

/// Compares the set with its digest; meant for a service's start.
pub fn check() -> Result<(), SetError> {
    let found = digest(files::FILES.iter().copied());
    if found == DIGEST { Ok(()) } else { Err(SetError::Digest { expected: DIGEST, found }) }
}

/// The digest of a set: what `sha256sum *.schema.json | sha256sum` prints in its folder, with names in byte order.
pub(crate) fn digest<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut sums = String::new();
    for (name, text) in files {
        // writing to a string cannot fail
        let _ = writeln!(sums, "{}  {name}", hex::encode(Sha256::digest(text)));
    }
    hex::encode(Sha256::digest(sums))
}

/// The set, compiled on first use and kept.
pub fn set() -> Result<&'static Set, SetError> {
    static SET: OnceLock<Result<Set, SetError>> = OnceLock::new();
    SET.get_or_init(Set::compile).as_ref().map_err(Clone::clone)
}

/// The compiled schemas by file name.
pub struct Set {
    validators: BTreeMap<&'static str, Validator>,
}

impl Set {
    fn compile() -> Result<Set, SetError> {
        let mut validators = BTreeMap::new();
        for (name, text) in files() {
            let malformed = |reason: String| SetError::Malformed { name, reason };
            let schema: Value = serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
            let validator = jsonschema::options()
                .with_draft(Draft::Draft202012)
                .offline()
                .with_pattern_options(PatternOptions::regex())
                .should_validate_formats(true)
                // one reading of time for types and schemas
                .with_format("date-time", |text: &str| Timestamp::parse(text).is_ok())
                .build(&schema)
                .map_err(|error| malformed(error.to_string()))?;
            validators.insert(*name, validator);
        }
        Ok(Set { validators })
    }

    /// The validator of one file, such as `action.schema.json`.
    pub fn validator(&self, file_name: &str) -> Option<&Validator> {
        self.validators.get(file_name)
    }

    /// Whether the envelope schema takes a value.
    pub fn takes_envelope(&self, value: &Value) -> bool {
        self.validator(ENVELOPE).is_some_and(|validator| validator.is_valid(value))
    }
}
