//! The road of a worker's manifest (9.2): who it is, what it may register, whether a handler stands behind each contract
//! and each schema compiles. Only then is it decided, so a capability is never visible without its handler.

use aip_admission::{Authentic, contract_hash, may_register};
use aip_names::limits::{MANIFEST_CAPABILITIES_MAX, MANIFEST_ROWS_MAX};
use aip_names::{Service, Version};
use aip_wire::trusted::PrincipalRef;
use aip_wire::{
    ActionMode, Capability, CapabilityId, Manifest, Refusal, TransactionMode, codes, codes::Code,
};
use serde::Deserialize;
use serde_json::Value;

use crate::errors;
use crate::gateway::Gateway;
use crate::machine::{Answer, Command, RegisterManifest, ReplayClaim, keys};
use crate::queues::Worker;
use crate::road::Stop;

/// The manifest extension in which a worker says where it is reached and what stands behind its contracts.
pub const WORKER_EXTENSION: &str = "aip.worker";
/// The manifest extension that lists the contract hashes a worker gives up.
pub const WITHDRAW_EXTENSION: &str = "aip.withdraw";

const MANIFEST: &str = "/body/manifest";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkerExtension {
    /// The NATS service token.
    service: String,
    version: String,
    handlers: Vec<HandlerExtension>,
}

/// What one handler does. A contract may declare no more than this.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HandlerExtension {
    capability_id: CapabilityId,
    modes: Vec<ActionMode>,
    #[serde(default)]
    cancel: bool,
    #[serde(default)]
    transaction_modes: Vec<TransactionMode>,
}

/// What a registration came to.
pub struct Registration {
    pub added: usize,
    pub withdrawn: usize,
}

// === impl Gateway ===

impl Gateway {
    pub(crate) async fn register(
        &self,
        authentic: &Authentic,
        manifest: &Manifest,
    ) -> Result<Registration, Stop> {
        let caller = authentic.caller();
        let worker = check(manifest, PrincipalRef::of(caller.principal()))?;
        let ids = manifest.capabilities.iter().map(|capability| &capability.id);
        let directory = self.authenticator().directory();
        may_register(caller, &worker.service, &worker.version, ids, &directory)?;
        self.queue_for(manifest, &worker).await?;
        let mut contracts = Vec::new();
        for (index, capability) in manifest.capabilities.iter().enumerate() {
            handled(index, capability, &worker.handlers)?;
            aip_admission::approval::check_policy(capability).map_err(|refusal| {
                let path = format!("{MANIFEST}/capabilities/{index}{}", refusal.path);
                Refusal { path, ..refusal }
            })?;
            let hash = contract_hash(capability).ok_or_else(|| Refusal::of(codes::SERVICE_INTERNAL))?;
            self.catalog().compile(capability.clone(), hash.clone()).await.map_err(|refusal| {
                let path = format!("{MANIFEST}/capabilities/{index}{}", refusal.path);
                Refusal { path, ..refusal }
            })?;
            contracts.push((capability.id.clone(), hash));
        }
        let command = RegisterManifest {
            provider: PrincipalRef::of(caller.principal()),
            manifest: manifest.clone(),
            contracts,
            service: worker.service,
            version: worker.version,
            withdraw: withdrawals(manifest)?,
            message_id: authentic.envelope().message_id.clone(),
            replay: authentic
                .replay()
                .map(|replay| ReplayClaim { name: replay.name.clone(), until: replay.expires_at_ms }),
        };
        let answer = self.decide(Command::RegisterManifest(Box::new(command))).await.map_err(Stop::noted)?;
        match answer {
            Answer::Registered { added, withdrawn } => {
                tracing::info!(worker = %caller.id(), added, withdrawn, "a manifest was registered");
                Ok(Registration { added, withdrawn })
            }
            Answer::Unchanged => Ok(Registration { added: 0, withdrawn: 0 }),
            Answer::Refused(refusal) => Err(Stop::noted(Refusal::of(errors::of_refusal(refusal)))),
            other => {
                tracing::error!(?other, "a registration was answered with something else");
                Err(Stop::noted(Refusal::of(codes::SERVICE_INTERNAL)))
            }
        }
    }
}

impl Gateway {
    /// A capability that may be called asynchronously, or streams, is visible only when its work can be queued.
    async fn queue_for(&self, manifest: &Manifest, worker: &WorkerExtension) -> Result<(), Refusal> {
        let queued = |capability: &Capability| {
            let contract = aip_admission::ContractView::of(capability);
            contract.supports(ActionMode::Async) || contract.supports(ActionMode::Streaming)
        };
        if !manifest.capabilities.iter().any(queued) {
            return Ok(());
        }
        let unavailable = |error: &dyn std::fmt::Display| {
            tracing::warn!(%error, service = worker.service, "a worker's queue cannot be made");
            Refusal::new(codes::SERVICE_NOT_READY, "", "the worker's queue cannot be made now")
        };
        let streams = |capability: &Capability| {
            aip_admission::ContractView::of(capability).supports(ActionMode::Streaming)
        };
        if manifest.capabilities.iter().any(streams) {
            self.chunks().ensure().await?;
        }
        let place = Worker::new(&worker.service, &worker.version).map_err(|error| unavailable(&error))?;
        self.queues().ensure(&place, self.ledger()).await.map_err(|error| unavailable(&error))
    }
}

/// The manifest as a whole: agent, bounds, and the worker's extension. The rules of the wire hold already.
fn check(manifest: &Manifest, caller: PrincipalRef) -> Result<WorkerExtension, Refusal> {
    if PrincipalRef::of(&manifest.agent) != caller {
        return no(codes::MANIFEST_NOT_ALLOWED, "/agent", "a worker registers for itself only");
    }
    if manifest.capabilities.len() > MANIFEST_CAPABILITIES_MAX {
        return no(codes::LIMIT_REGISTRATIONS, "/capabilities", "the manifest has too many capabilities");
    }
    let unsortable = |capability: &Capability| !keys::is_sortable(capability.id.as_str());
    if let Some(index) = manifest.capabilities.iter().position(unsortable) {
        let path = format!("/capabilities/{index}/id");
        return malformed(&path, "a capability id has no control characters");
    }
    let path = format!("/extensions/{WORKER_EXTENSION}");
    let extension = extension(manifest, WORKER_EXTENSION);
    let worker = extension.map(|value| WorkerExtension::deserialize(value.clone()));
    let worker = match worker {
        Some(Ok(worker)) => worker,
        Some(Err(_)) => {
            return malformed(&path, "wants service, version and handlers, and nothing else");
        }
        None => return malformed(&path, "says under which service the worker is reached"),
    };
    if Service::new(&worker.service).is_err() {
        return malformed(&format!("{path}/service"), "no service token");
    }
    if Version::new(&worker.version).is_err() {
        return malformed(&format!("{path}/version"), "no service version");
    }
    Ok(worker)
}

/// The handler of a capability does all that the contract declares (9.2).
fn handled(index: usize, capability: &Capability, handlers: &[HandlerExtension]) -> Result<(), Refusal> {
    let lacks = |what: &str| {
        let path = format!("/capabilities/{index}/contract");
        no(codes::MANIFEST_HANDLER, &path, &format!("the handler lacks what is declared: {what}"))
    };
    let Some(handler) = handlers.iter().find(|handler| handler.capability_id == capability.id) else {
        let path = format!("/capabilities/{index}");
        return no(codes::MANIFEST_HANDLER, &path, "no handler stands behind the capability");
    };
    let contract = aip_admission::ContractView::of(capability);
    let missing =
        ActionMode::ALL.iter().find(|mode| contract.supports(**mode) && !handler.modes.contains(mode));
    if let Some(mode) = missing {
        return lacks(mode.as_str());
    }
    if contract.execution.supports_cancel && !handler.cancel {
        return lacks("cancellation");
    }
    let transaction = capability.contract.as_ref().and_then(|contract| contract.transaction.as_ref());
    let modes = transaction.map(|transaction| transaction.supported_modes.as_slice()).unwrap_or_default();
    match modes.iter().find(|mode| !handler.transaction_modes.contains(mode)) {
        Some(mode) => lacks(mode.as_str()),
        None => Ok(()),
    }
}

fn withdrawals(manifest: &Manifest) -> Result<Vec<String>, Refusal> {
    let Some(value) = extension(manifest, WITHDRAW_EXTENSION) else { return Ok(Vec::new()) };
    match Vec::<String>::deserialize(value.clone()) {
        Ok(hashes) if hashes.len() <= MANIFEST_ROWS_MAX => Ok(hashes),
        _ => malformed(&format!("/extensions/{WITHDRAW_EXTENSION}"), "wants a list of contract hashes"),
    }
}

fn extension<'a>(manifest: &'a Manifest, name: &str) -> Option<&'a Value> {
    manifest.extensions.as_ref().and_then(|extensions| extensions.get(name))
}

fn malformed<T>(below: &str, message: &str) -> Result<T, Refusal> {
    no(codes::MANIFEST_MALFORMED, below, message)
}

fn no<T>(code: &'static Code, below: &str, message: &str) -> Result<T, Refusal> {
    Err(Refusal::new(code, format!("{MANIFEST}{below}"), message))
}
