//! The other services of the system, as the gateway asks them: for a caller whom it authenticated, or for itself.

use std::time::Duration;

use aip_admission::Caller;
use aip_names::OwnService;
use aip_names::limits::SERVICE_ASK_TIMEOUT_MS;
use aip_wire::trusted::{CONTEXT_VERSION, Method, Scopes, TrustedCaller};
use aip_wire::{MessageBody, Principal, Refusal};

use crate::gateway::Gateway;

/// How long the gateway waits for another service.
pub const PATIENCE: Duration = Duration::from_millis(SERVICE_ASK_TIMEOUT_MS);

/// The gateway as a caller: what it asks for itself.
///
/// # Errors
/// Never: the word is of the form that is read.
pub fn own_caller(gateway: &Principal) -> Result<Caller, Refusal> {
    Caller::vouched(TrustedCaller {
        version: CONTEXT_VERSION,
        principal: gateway.clone(),
        authentication: Method::Signature { did: gateway.did.clone().unwrap_or_default() },
        scopes: Scopes::default(),
        tenants: Vec::new(),
        until_ms: None,
    })
}

// === impl Gateway ===

impl Gateway {
    /// Asks a service on behalf of a caller.
    ///
    /// # Errors
    /// What it refused, or that it has no answer.
    pub(crate) async fn ask(
        &self,
        own: OwnService,
        caller: &Caller,
        body: MessageBody,
    ) -> Result<MessageBody, Refusal> {
        aip_service::ask(self.bus(), self.trust_domain(), own, caller, body, PATIENCE).await
    }
}
