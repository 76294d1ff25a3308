//! Every subject we use, built here and parsed by [`Names::parse`](crate::Names::parse). No other place writes `aip.v1.`.
//!
//! Internal traffic (ledger, queue, chunks, events) has service tokens of its own, so that a service-wide
//! subscriber never sees it.

use std::fmt;

use crate::token::{Atom, EventKind, MessageType, Service, TrustDomain, Version};

#[cfg(test)]
mod tests;

/// One subject to publish on or receive from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Subject {
    /// `aip.v1.<td>.<service>.<version>.<message-type>` (20.4).
    Message { trust_domain: TrustDomain, service: Service, version: Version, message_type: MessageType },
    /// `aip.v1.<td>.<service>.<version>.stream.<correlation-id>` (20.4).
    Stream { trust_domain: TrustDomain, service: Service, version: Version, correlation_id: Atom },
    /// `aip.v1.<td>.<service>-ledger.v1.<shard>`: the service's log.
    Ledger { trust_domain: TrustDomain, service: Service, shard: u16 },
    /// `aip.v1.<td>.<service>-queue.<version>.<message-type>`: durable work for one version of a worker.
    Queue { trust_domain: TrustDomain, service: Service, version: Version, message_type: MessageType },
    /// `aip.v1.<td>.<service>-chunks.v1.<action-id>`: the internal chunk log.
    Chunks { trust_domain: TrustDomain, service: Service, action_id: Atom },
    /// `aip.v1.<td>.<service>-events.v1.<kind>`.
    Events { trust_domain: TrustDomain, service: Service, kind: EventKind },
}

impl Subject {
    /// Where `service` hears `message_type`.
    pub fn message(
        td: &TrustDomain,
        service: &Service,
        version: Version,
        message_type: &MessageType,
    ) -> Self {
        Self::Message {
            trust_domain: td.clone(),
            service: service.clone(),
            version,
            message_type: message_type.clone(),
        }
    }

    /// The log of one shard of `service`.
    pub fn ledger(td: &TrustDomain, service: &Service, shard: u16) -> Self {
        Self::Ledger { trust_domain: td.clone(), service: service.clone(), shard }
    }

    /// Where durable work of `message_type` waits for `service`.
    pub fn queue(td: &TrustDomain, service: &Service, version: Version, message_type: &MessageType) -> Self {
        Self::Queue {
            trust_domain: td.clone(),
            service: service.clone(),
            version,
            message_type: message_type.clone(),
        }
    }

    /// Where native readers hear the chunks of the action with this correlation id (20.4).
    pub fn stream(td: &TrustDomain, service: &Service, version: Version, correlation_id: Atom) -> Self {
        Self::Stream { trust_domain: td.clone(), service: service.clone(), version, correlation_id }
    }

    /// The chunk log of one action of `service`.
    pub fn chunks(td: &TrustDomain, service: &Service, action_id: Atom) -> Self {
        Self::Chunks { trust_domain: td.clone(), service: service.clone(), action_id }
    }

    /// Where `service` says that something of this kind happened.
    pub fn events(td: &TrustDomain, service: &Service, kind: EventKind) -> Self {
        Self::Events { trust_domain: td.clone(), service: service.clone(), kind }
    }

    /// Pattern of everything that `service` says happened.
    pub fn all_events(td: &TrustDomain, service: &Service) -> String {
        format!("aip.v1.{}.{service}-events.v1.*", td.token())
    }

    /// Pattern of the chunks of all actions of `service`.
    pub fn all_chunks(td: &TrustDomain, service: &Service) -> String {
        format!("aip.v1.{}.{service}-chunks.v1.*", td.token())
    }

    /// Pattern of all correlation streams of `service`.
    pub fn all_streams(td: &TrustDomain, service: &Service, version: Version) -> String {
        format!("aip.v1.{}.{service}.{version}.stream.*", td.token())
    }

    /// Pattern of all durable work for `service`, whatever its version.
    pub fn all_queues(td: &TrustDomain, service: &Service) -> String {
        format!("aip.v1.{}.{service}-queue.*.*", td.token())
    }

    /// Pattern of all messages to `service`, and nothing else: what a service listens on.
    pub fn all_messages(td: &TrustDomain, service: &Service, version: Version) -> String {
        format!("aip.v1.{}.{service}.{version}.*", td.token())
    }

    /// Pattern of the service-wide subscriber of 20.4: messages and correlation streams.
    pub fn service_wide(td: &TrustDomain, service: &Service, version: Version) -> String {
        format!("aip.v1.{}.{service}.{version}.>", td.token())
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message { trust_domain, service, version, message_type } => {
                write!(f, "aip.v1.{}.{service}.{version}.{}", trust_domain.token(), message_type.token())
            }
            Self::Stream { trust_domain, service, version, correlation_id } => {
                write!(f, "aip.v1.{}.{service}.{version}.stream.{correlation_id}", trust_domain.token())
            }
            Self::Ledger { trust_domain, service, shard } => {
                write!(f, "aip.v1.{}.{service}-ledger.v1.{shard}", trust_domain.token())
            }
            Self::Queue { trust_domain, service, version, message_type } => {
                write!(
                    f,
                    "aip.v1.{}.{service}-queue.{version}.{}",
                    trust_domain.token(),
                    message_type.token()
                )
            }
            Self::Chunks { trust_domain, service, action_id } => {
                write!(f, "aip.v1.{}.{service}-chunks.v1.{action_id}", trust_domain.token())
            }
            Self::Events { trust_domain, service, kind } => {
                write!(f, "aip.v1.{}.{service}-events.v1.{}", trust_domain.token(), kind.token())
            }
        }
    }
}
