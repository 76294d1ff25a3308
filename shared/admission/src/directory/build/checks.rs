//! What is asked of every single text, time and reference of a directory.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::ops::RangeInclusive;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use toml::value::Datetime;

use aip_names::limits::{ADMISSION_TEXT_BYTES_MAX, DIRECTORY_SCOPES_MAX};
use aip_wire::{ExternalAccountRef, PrincipalId};

use super::super::{ApiKey, Party, Problem};
use crate::pattern::{CapabilityPattern, Scopes};

/// Collects problems, and the proofs that have to be unique over all principals.
#[derive(Default)]
pub(super) struct Builder {
    pub problems: Vec<Problem>,
    pub dids: HashMap<String, PrincipalId>,
    pub subjects: HashMap<(String, String), PrincipalId>,
    pub api_keys: Vec<ApiKey>,
}

// === impl Builder ===

impl Builder {
    pub fn problem(&mut self, place: impl Into<String>, message: impl Display) {
        self.problems.push(Problem { place: place.into(), message: message.to_string() });
    }

    pub fn accounts(&mut self, place: &str, accounts: &[ExternalAccountRef]) {
        for account in accounts {
            self.nonblank(&format!("{place}: external account id"), &account.id);
            self.nonblank(&format!("{place}: external account system"), &account.system);
        }
    }

    pub fn known(&mut self, place: &str, id: &PrincipalId, parties: &BTreeMap<PrincipalId, Party>) {
        if !parties.contains_key(id) {
            self.problem(place, format!("principal {:?} is not configured", id.as_str()));
        }
    }

    /// For texts that end up in trusted contexts, records and logs.
    pub fn nonblank(&mut self, place: &str, text: &str) {
        if text.trim().is_empty() {
            self.problem(place, "is blank");
        } else if text.len() > ADMISSION_TEXT_BYTES_MAX || text.chars().any(char::is_control) {
            let message =
                format!("is longer than {ADMISSION_TEXT_BYTES_MAX} bytes or has control characters");
            self.problem(place, message);
        }
    }

    pub fn within(&mut self, place: String, value_ms: u64, range_ms: RangeInclusive<u64>) {
        if !range_ms.contains(&value_ms) {
            self.problem(place, format!("is not within {} and {} ms", range_ms.start(), range_ms.end()));
        }
    }

    pub fn scopes(&mut self, place: &str, scopes: &[String]) -> Scopes {
        if scopes.len() > DIRECTORY_SCOPES_MAX {
            self.problem(place, format!("has more than {DIRECTORY_SCOPES_MAX} scopes"));
        }
        for (index, scope) in scopes.iter().enumerate() {
            self.nonblank(&format!("{place}[{index}]"), scope);
        }
        Scopes::new(scopes.iter().cloned())
    }

    pub fn patterns(&mut self, place: &str, patterns: &[String]) -> Vec<CapabilityPattern> {
        let mut parsed = Vec::new();
        for (index, text) in patterns.iter().enumerate() {
            match CapabilityPattern::parse(text) {
                Ok(pattern) => parsed.push(pattern),
                Err(error) => self.problem(format!("{place}[{index}]"), error),
            }
        }
        parsed
    }

    pub fn instant(&mut self, place: &str, at: Option<&Datetime>) -> Option<u64> {
        let at = at?;
        match OffsetDateTime::parse(&at.to_string(), &Rfc3339) {
            Ok(instant) => Some(u64::try_from(instant.unix_timestamp_nanos() / 1_000_000).unwrap_or(0)),
            Err(_) => {
                self.problem(place, "is not a date and time with a zone");
                None
            }
        }
    }
}

/// Keys fetched in the clear could be anybody's, except from this machine.
pub(super) fn is_safe_url(url: &str) -> bool {
    match reqwest::Url::parse(url) {
        Ok(url) if url.scheme() == "https" => url.host_str().is_some(),
        Ok(url) if url.scheme() == "http" => {
            matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"))
        }
        _ => false,
    }
}
