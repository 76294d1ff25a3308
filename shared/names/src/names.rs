//! The registered set: which trust domains, message types and event kinds exist. Folding is only safe within it.
//!
//! Parsing asks this set and never guesses where a `_` was a dot.

use std::collections::BTreeMap;

use crate::limits;
use crate::subject::Subject;
use crate::token::{Atom, EventKind, MessageType, NameError, Service, TrustDomain, Version, decimal};

/// Everything that may stand folded in a subject, each found again by its token.
#[derive(Debug, Clone)]
pub struct Names {
    trust_domains: BTreeMap<String, TrustDomain>,
    message_types: BTreeMap<String, MessageType>,
    event_kinds: BTreeMap<String, EventKind>,
}

impl Names {
    /// # Errors
    /// A malformed name, or two different names of a kind that fold to one token. The same name twice is one.
    pub fn new<'a>(
        trust_domains: impl IntoIterator<Item = &'a str>,
        message_types: impl IntoIterator<Item = &'a str>,
        event_kinds: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, NameError> {
        Ok(Self {
            trust_domains: register(TrustDomain::WHAT, trust_domains, TrustDomain::new, |n| {
                (n.as_str(), n.token())
            })?,
            message_types: register(MessageType::WHAT, message_types, MessageType::new, |n| {
                (n.as_str(), n.token())
            })?,
            event_kinds: register(EventKind::WHAT, event_kinds, EventKind::new, |n| (n.as_str(), n.token()))?,
        })
    }

    /// Reads a subject that [`Subject`]'s `Display` wrote.
    ///
    /// # Errors
    /// A subject of another family, or with a part that is not registered.
    pub fn parse(&self, subject: &str) -> Result<Subject, NameError> {
        let not_ours = || NameError::NotOurs { subject: subject.to_owned() };
        if subject.len() > limits::SUBJECT_BYTES_MAX {
            return Err(NameError::TooLong { what: "subject", bytes_max: limits::SUBJECT_BYTES_MAX });
        }
        // one more than the longest family has, so that a longer subject matches no arm below
        let parts: Vec<&str> = subject.splitn(8, '.').collect();
        let (trust_domain, rest) = match parts.as_slice() {
            ["aip", "v1", trust_domain, rest @ ..] => {
                (find(TrustDomain::WHAT, &self.trust_domains, trust_domain)?, rest)
            }
            _ => return Err(not_ours()),
        };
        if let [service, "v1", last] = rest {
            if let Some(service) = service.strip_suffix("-ledger") {
                let shard = decimal(last).ok_or_else(not_ours)?;
                return Ok(Subject::Ledger { trust_domain, service: Service::new(service)?, shard });
            }
            if let Some(service) = service.strip_suffix("-chunks") {
                let action_id = Atom::new(last)?;
                return Ok(Subject::Chunks { trust_domain, service: Service::new(service)?, action_id });
            }
            if let Some(service) = service.strip_suffix("-events") {
                let kind = find(EventKind::WHAT, &self.event_kinds, last)?;
                return Ok(Subject::Events { trust_domain, service: Service::new(service)?, kind });
            }
        }
        if let [service, version, last] = rest
            && let Some(service) = service.strip_suffix("-queue")
        {
            let message_type = find(MessageType::WHAT, &self.message_types, last)?;
            let (service, version) = (Service::new(service)?, Version::new(version)?);
            return Ok(Subject::Queue { trust_domain, service, version, message_type });
        }
        match rest {
            [service, version, message_type] => Ok(Subject::Message {
                trust_domain,
                service: Service::new(service)?,
                version: Version::new(version)?,
                message_type: find(MessageType::WHAT, &self.message_types, message_type)?,
            }),
            [service, version, "stream", correlation_id] => Ok(Subject::Stream {
                trust_domain,
                service: Service::new(service)?,
                version: Version::new(version)?,
                correlation_id: Atom::new(correlation_id)?,
            }),
            _ => Err(not_ours()),
        }
    }
}

fn register<'a, T>(
    what: &'static str,
    names: impl IntoIterator<Item = &'a str>,
    new: impl Fn(&str) -> Result<T, NameError>,
    parts: impl Fn(&T) -> (&str, &str),
) -> Result<BTreeMap<String, T>, NameError> {
    let mut registered: BTreeMap<String, T> = BTreeMap::new();
    for name in names {
        let entry = new(name)?;
        let token = parts(&entry).1.to_owned();
        if let Some(first) = registered.get(&token).map(|other| parts(other).0).filter(|first| *first != name)
        {
            return Err(NameError::Ambiguous {
                what,
                first: first.to_owned(),
                second: name.to_owned(),
                token,
            });
        }
        registered.insert(token, entry);
        if registered.len() > limits::REGISTERED_NAMES_MAX {
            return Err(NameError::TooMany { what, max: limits::REGISTERED_NAMES_MAX });
        }
    }
    Ok(registered)
}

fn find<T: Clone>(what: &'static str, registered: &BTreeMap<String, T>, token: &str) -> Result<T, NameError> {
    registered.get(token).cloned().ok_or_else(|| NameError::Unknown { what, token: token.to_owned() })
}
