//! Who connects to NATS. Each identity is one nkey; what it may do follows from it alone.

use std::fmt;
use std::str::FromStr;

use crate::own::OwnService;
use crate::token::{NameError, Service};

/// The name of a NATS user. It also names its inbox and its key file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identity {
    /// All replicas of the gateway.
    Gateway,
    /// All replicas of another service of the system.
    Own(OwnService),
    /// One worker program, whatever the number of its replicas: `worker-<name>`.
    Worker(Service),
    /// A native NATS client outside our services: `client-<name>`.
    Client(Service),
    /// The launcher and the doctor: service discovery and stream information, no message of anyone.
    Admin,
}

impl Identity {
    /// True for a subject to which this identity may send an answer: somebody else's inbox, and nothing but an inbox.
    ///
    /// Whoever asks names the subject of the answer, and the server does not check that the asker may publish there.
    /// The answer is sent with the answering service's rights, which reach its ledger.
    pub fn may_answer(&self, reply: &str) -> bool {
        let inbox = reply.strip_prefix("_INBOX.").and_then(|inbox| inbox.split_once('.'));
        inbox.is_some_and(|(owner, rest)| !owner.is_empty() && !rest.is_empty() && owner != self.to_string())
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gateway => f.write_str(crate::GATEWAY),
            Self::Own(own) => f.write_str(own.as_str()),
            Self::Worker(name) => write!(f, "worker-{name}"),
            Self::Client(name) => write!(f, "client-{name}"),
            Self::Admin => f.write_str("admin"),
        }
    }
}

impl FromStr for Identity {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        match name {
            crate::GATEWAY => Ok(Self::Gateway),
            "admin" => Ok(Self::Admin),
            _ => match (name.strip_prefix("worker-"), name.strip_prefix("client-")) {
                (Some(worker), _) => Service::new(worker).map(Self::Worker),
                (_, Some(client)) => Service::new(client).map(Self::Client),
                _ => {
                    name.parse().map(Self::Own).map_err(|_| NameError::IdentityForm { name: name.to_owned() })
                }
            },
        }
    }
}

/// An identity and the services whose messages it may answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub identity: Identity,
    /// Service tokens whose messages it may take, the gateway's apart; empty for who only asks.
    pub serves: Vec<Service>,
    /// Whether a client may hear correlation streams. Whoever may, can hear all of the trust domain's by a wildcard:
    /// subjects are no authorization, so this is given to programs that may know everybody's chunks.
    pub hears_streams: bool,
}

impl User {
    pub fn gateway() -> Self {
        Self::of(Identity::Gateway, Vec::new())
    }

    pub fn own(own: OwnService) -> Self {
        Self::of(Identity::Own(own), vec![own.service()])
    }

    pub fn admin() -> Self {
        Self::of(Identity::Admin, Vec::new())
    }

    /// # Errors
    /// A malformed name or service token, or a worker that claims the token of a service of the system.
    pub fn worker(name: &str, serves: &[&str]) -> Result<Self, NameError> {
        let serves = serves.iter().map(|name| Service::new(name)).collect::<Result<Vec<_>, _>>()?;
        let ours = std::iter::once(crate::GATEWAY).chain(OwnService::ALL.map(OwnService::as_str));
        if let Some(taken) = ours.into_iter().find(|ours| serves.iter().any(|name| name.as_str() == *ours)) {
            return Err(NameError::ReservedService { name: taken.to_owned(), suffix: taken });
        }
        Ok(Self::of(Identity::Worker(Service::new(name)?), serves))
    }

    /// # Errors
    /// A malformed name.
    pub fn client(name: &str) -> Result<Self, NameError> {
        Ok(Self::of(Identity::Client(Service::new(name)?), Vec::new()))
    }

    /// The same, and it may hear correlation streams.
    #[must_use]
    pub fn hearing_streams(self) -> Self {
        Self { hears_streams: true, ..self }
    }

    fn of(identity: Identity, serves: Vec<Service>) -> Self {
        Self { identity, serves, hears_streams: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Subject;
    use crate::token::TrustDomain;

    #[test]
    fn answers_go_to_inboxes_of_others_and_nowhere_else() {
        let gateway = Identity::Gateway;
        for inbox in ["_INBOX.client-dev.q1.7", "_INBOX.client-dev.q", "_INBOX.gateway2.q"] {
            assert!(gateway.may_answer(inbox), "{inbox}");
        }
        let td = TrustDomain::new("aip.local").unwrap();
        let ledger = Subject::ledger(&td, &Service::gateway(), 0).to_string();
        for elsewhere in [
            ledger.as_str(),
            "$JS.API.CONSUMER.DELETE.aip-aip_local-gateway-ledger-0.tail",
            "aip.v1.aip_local.sandbox-accounts.v1.aip_core_v1_action",
            "_INBOX.gateway.q1.7",
            "_INBOX.client-dev",
            "_INBOX.client-dev.",
            "_INBOX..q",
            "_INBOX.",
            "_inbox.client-dev.q",
            "",
        ] {
            assert!(!gateway.may_answer(elsewhere), "{elsewhere}");
        }
    }
}
