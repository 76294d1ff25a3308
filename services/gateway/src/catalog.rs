//! Registered capabilities, ready to judge inputs and outputs. A contract's digest names it for ever, so what is kept
//! here never goes stale; schemas are compiled off the async workers (22.8).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

use aip_admission::ContractView;
use aip_ledger::{Ledger, LedgerError};
use aip_names::limits::{CATALOG_COMPILED_MAX, CATALOG_COMPILING_MAX};
use aip_service::fault;
use aip_wire::capability_schema::{self, Compiled};
use aip_wire::{Capability, CapabilityId, Refusal, codes};
use serde_json::Value;

use crate::machine::{GatewayMachine, keys, manifest};

/// One capability under one contract.
#[derive(Debug)]
pub struct Offer {
    pub capability: Capability,
    pub contract: ContractView,
    pub contract_hash: String,
    input: Compiled,
    output: Option<Compiled>,
}

#[derive(Debug)]
pub struct Catalog {
    offers: Mutex<HashMap<String, Arc<Offer>>>,
    compiling: Semaphore,
}

/// Where a capability stands in the ledger.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub provider: &'a aip_wire::PrincipalId,
    pub registration_n: u64,
    pub capability_id: &'a CapabilityId,
    pub contract_hash: &'a str,
}

// === impl Offer ===

impl Offer {
    /// Heavy: never call it on an async worker.
    ///
    /// # Errors
    /// `aip.schema.*` and `aip.limit.schema_*`, with the place inside the capability.
    pub fn new(capability: Capability, contract_hash: String) -> Result<Offer, Refusal> {
        let below = |member: &str, refusal: Refusal| {
            let path = format!("/{member}{}", refusal.path);
            Refusal { path, ..refusal }
        };
        let input = capability_schema::compile(&capability.input_schema)
            .map_err(|refusal| below("input_schema", refusal))?;
        let output = match &capability.output_schema {
            None => None,
            Some(schema) => Some(
                capability_schema::compile_output(schema)
                    .map_err(|refusal| below("output_schema", refusal))?,
            ),
        };
        let contract = ContractView::of(&capability);
        Ok(Offer { capability, contract, contract_hash, input, output })
    }

    /// # Errors
    /// `aip.action.invalid_input`, with the place inside the envelope.
    pub fn check_input(&self, input: &Value) -> Result<(), Refusal> {
        self.input.check(input).map_err(|refusal| {
            let path = format!("/body/action/input{}", refusal.path);
            Refusal { path, ..refusal }
        })
    }

    /// # Errors
    /// `aip.action.invalid_output`, with the place inside the output. A declared output has to be there.
    pub fn check_output(&self, output: Option<&Value>) -> Result<(), Refusal> {
        match (&self.output, output) {
            (None, _) => Ok(()),
            (Some(_), None) => Err(Refusal::new(codes::ACTION_OUTPUT, "", "the output is missing")),
            (Some(schema), Some(output)) => schema.check(output),
        }
    }
}

// === impl Catalog ===

impl Default for Catalog {
    fn default() -> Catalog {
        Catalog { offers: Mutex::default(), compiling: Semaphore::new(CATALOG_COMPILING_MAX) }
    }
}

impl Catalog {
    /// The capability that stands there.
    ///
    /// # Errors
    /// The ledger can't answer, or what stands there can't be compiled any more.
    pub async fn offer(
        &self,
        ledger: &Ledger<GatewayMachine>,
        place: Place<'_>,
    ) -> Result<Arc<Offer>, Refusal> {
        if let Some(offer) = self.known(place.contract_hash) {
            return Ok(offer);
        }
        let provider = keys::manifest(place.provider);
        let capability = ledger
            .peek(|view| manifest::capability(view, &provider, place.registration_n, place.capability_id))
            .map_err(|error| fault::of_ledger(&error))?;
        let missing = || LedgerError::Store(format!("{provider} has no capability {}", place.capability_id));
        let capability = capability.ok_or_else(|| fault::of_ledger(&missing()))?;
        self.compile(capability, place.contract_hash.to_owned()).await
    }

    /// Compiles a capability and keeps it.
    ///
    /// # Errors
    /// `aip.schema.*` and `aip.limit.schema_*`, with the place inside the capability.
    pub async fn compile(
        &self,
        capability: Capability,
        contract_hash: String,
    ) -> Result<Arc<Offer>, Refusal> {
        if let Some(offer) = self.known(&contract_hash) {
            return Ok(offer);
        }
        let _permit = self.compiling.acquire().await.map_err(|_| Refusal::of(codes::SERVICE_STOPPING))?;
        let key = contract_hash.clone();
        let compiled = tokio::task::spawn_blocking(move || Offer::new(capability, contract_hash)).await;
        let offer = Arc::new(compiled.map_err(|error| {
            tracing::error!(%error, "compiling a capability failed");
            Refusal::of(codes::SERVICE_INTERNAL)
        })??);
        let mut offers = self.offers.lock().unwrap_or_else(PoisonError::into_inner);
        if offers.len() >= CATALOG_COMPILED_MAX {
            // any of them can be compiled again
            let drop_one = offers.keys().next().cloned();
            drop_one.and_then(|one| offers.remove(&one));
        }
        offers.insert(key, Arc::clone(&offer));
        Ok(offer)
    }

    fn known(&self, contract_hash: &str) -> Option<Arc<Offer>> {
        let offers = self.offers.lock().unwrap_or_else(PoisonError::into_inner);
        offers.get(contract_hash).cloned()
    }
}
