//! The service as a process.

use std::sync::Arc;

use aip_names::OwnService;
use aip_service::Exposition;
use aip_service::run::{Parts, RunError};
use aip_wire::{Principal, PrincipalId, PrincipalKind};
use serde::Deserialize;

use crate::operator;
use crate::service::PolicyApproval;

/// The service's own settings: there are none.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {}

pub type Config = aip_service::Config<Settings>;

/// Serves until `shutdown`, then drains.
///
/// # Errors
/// A part can't be used, the store failed, or work outlived the drain.
pub async fn run(
    config: Config,
    exposition: Exposition,
    shutdown: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let own = |error: &dyn std::fmt::Display| RunError::Own(error.to_string());
    let parts = Parts::load(&config).await?;
    let (bus, key) = (parts.bus.clone(), Arc::clone(&parts.key));
    let service = PolicyApproval::open(parts)?;
    let id = PrincipalId::parse(OwnService::PolicyApproval.principal()).map_err(|error| own(&error))?;
    let principal = Principal::new(id, PrincipalKind::Service);
    let verbs = operator::serve(&service, &bus, &config.trust_domain, principal, key, &config.data_dir).await;
    let verbs = verbs.map_err(|error| own(&error))?;
    let ended = aip_service::run(&config, bus, service, exposition, shutdown).await;
    verbs.drain().await;
    ended
}
