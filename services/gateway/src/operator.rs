//! The gateway's operator verbs: capabilities that it offers itself and performs itself. They are called as any other,
//! so that schema, authorization, idempotency, receipts and audit are the same road; only where a worker would be sent
//! the action, the verb's own function is called.
//!
//! A verb is one file below here and one line in [`VERBS`]. Whoever holds the effect performs it, perhaps twice and on
//! two replicas, so what a verb does to the ledger has to be one record whose repetition finds itself done.

mod redrive;

use std::sync::Arc;

use aip_admission::{Authenticator, contract_hash};
use aip_ledger::Ledger;
use aip_names::{Service, Version};
use aip_wire::trusted::PrincipalRef;
use aip_wire::{ActionResult, Capability, CapabilityId, Principal, ProtocolError, Refusal};
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::catalog::{Catalog, Offer};
use crate::machine::action::Accepted;
use crate::machine::manifest::{Row, RowKey};
use crate::machine::{ActionState, GatewayMachine, Outcome};

/// One operator verb.
struct Verb {
    /// Its capability, as JSON: what it takes, gives and promises.
    capability: fn() -> Value,
    /// Does it. An error that is retryable leaves it to be done again.
    perform: fn(Desk, Order) -> BoxFuture<'static, Result<Value, ProtocolError>>,
}

const VERBS: &[Verb] = &[redrive::VERB];

/// What verbs work with.
#[derive(Clone)]
pub struct Desk {
    pub authenticator: Arc<Authenticator>,
    pub catalog: Arc<Catalog>,
    pub ledger: Ledger<GatewayMachine>,
    pub gateway: PrincipalRef,
}

/// An operator's action, admitted and not ended.
pub struct Order {
    pub accepted: Accepted,
    pub state: ActionState,
}

/// A verb as it is offered.
pub struct Offered {
    verb: &'static Verb,
    pub capability: Capability,
    contract_hash: String,
}

/// The verbs of this gateway.
pub struct Operator {
    offered: Vec<Offered>,
    authenticator: Arc<Authenticator>,
    catalog: Arc<Catalog>,
    gateway: Principal,
}

// === impl Operator ===

impl Operator {
    /// # Errors
    /// Never: what the verbs declare are capabilities.
    pub fn new(
        authenticator: Arc<Authenticator>,
        catalog: Arc<Catalog>,
        gateway: Principal,
    ) -> Result<Operator, serde_json::Error> {
        let offered = VERBS.iter().map(|verb| {
            let capability: Capability = serde_json::from_value((verb.capability)())?;
            let contract_hash = contract_hash(&capability).unwrap_or_default();
            Ok(Offered { verb, capability, contract_hash })
        });
        let offered = offered.collect::<Result<_, serde_json::Error>>()?;
        Ok(Operator { offered, authenticator, catalog, gateway })
    }

    /// The principal that offers them.
    pub fn gateway(&self) -> &Principal {
        &self.gateway
    }

    pub fn offered(&self) -> &[Offered] {
        &self.offered
    }

    /// The verb of this id.
    pub fn find(&self, id: &CapabilityId) -> Option<&Offered> {
        self.offered.iter().find(|offered| offered.capability.id == *id)
    }

    /// The registration that a verb has by being in the program.
    pub fn row(&self, offered: &Offered) -> Row {
        Row {
            provider: PrincipalRef::of(&self.gateway),
            key: RowKey {
                capability_id: offered.capability.id.clone(),
                contract_hash: offered.contract_hash.clone(),
                service: Service::gateway().to_string(),
                version: Version::V1.to_string(),
            },
            since: 0,
            n: 0,
        }
    }

    /// # Errors
    /// The gateway is stopping.
    pub async fn offer(&self, offered: &Offered) -> Result<Arc<Offer>, Refusal> {
        self.catalog.compile(offered.capability.clone(), offered.contract_hash.clone()).await
    }

    /// Does what an operator ordered. None when this replica can't do it now, or not at all: another release's verb.
    pub async fn perform(&self, ledger: Ledger<GatewayMachine>, order: Order) -> Option<Outcome> {
        let id = order.state.id.clone();
        let verb = self.find(&order.state.capability_id)?;
        if verb.contract_hash != order.state.pinned.contract_hash {
            return None;
        }
        let desk = Desk {
            authenticator: Arc::clone(&self.authenticator),
            catalog: Arc::clone(&self.catalog),
            ledger,
            gateway: PrincipalRef::of(&self.gateway),
        };
        match (verb.verb.perform)(desk, order).await {
            Ok(output) => Some(Outcome::Answered(Box::new(ActionResult::completed(id, output)))),
            Err(error) if error.retryable == Some(true) => {
                tracing::debug!(code = error.code, action = %id, "an operator's action waits");
                None
            }
            Err(error) => Some(Outcome::Rejected(Box::new(error))),
        }
    }
}

#[cfg(test)]
mod tests;
