//! The services of the system besides the gateway. Each owns a ledger; is one identity in NATS, one principal and one
//! queue group, all of its name; and takes messages from the others of the system only: what comes from outside comes
//! through the gateway.

use std::fmt;
use std::str::FromStr;

use crate::token::{NameError, Service};

/// A service of the system besides the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnService {
    /// Authorization bundles, approvals, escalations (section 12).
    PolicyApproval,
    /// Plans, commits, reconciliation, compensation (section 13).
    Transaction,
    /// Deliveries to callback targets (section 17).
    CallbackOutbox,
}

// === impl OwnService ===

impl OwnService {
    pub const ALL: [Self; 3] = [Self::PolicyApproval, Self::Transaction, Self::CallbackOutbox];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PolicyApproval => "policy-approval",
            Self::Transaction => "transaction",
            Self::CallbackOutbox => "callback-outbox",
        }
    }

    /// Its token in subjects.
    pub fn service(self) -> Service {
        Service::of_ours(self.as_str())
    }

    /// The principal that it speaks as. Replicas are one principal.
    pub fn principal(self) -> String {
        format!("service:{self}")
    }

    /// What the ids of its operator verbs begin with.
    pub fn verbs(self) -> String {
        format!("{}{self}:", crate::operator::VERBS)
    }
}

impl fmt::Display for OwnService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for OwnService {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let known = Self::ALL.into_iter().find(|own| own.as_str() == name);
        known.ok_or_else(|| NameError::Unknown { what: "service", token: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_a_token_as_it_stands() {
        for own in OwnService::ALL {
            assert_eq!(Service::new(own.as_str()).unwrap(), own.service());
            assert_eq!(own.as_str().parse(), Ok(own));
            assert!(crate::operator::is_verb(&format!("{}x", own.verbs())));
        }
        assert!("gateway".parse::<OwnService>().is_err());
    }
}
