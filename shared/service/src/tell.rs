//! What a service says to the gateway, as its own principal: a signed envelope, like anybody's.

use std::sync::Arc;
use std::time::Duration;

use aip_bus::Bus;
use aip_crypto::{SigningKey, sign_envelope};
use aip_names::{OwnService, Service, TrustDomain};
use aip_wire::{
    Envelope, IdError, MessageBody, Principal, PrincipalId, PrincipalKind, Refusal, Timestamp, codes,
};

use crate::ask::{send, subject};

/// Speaks to the gateway. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Teller {
    bus: Bus,
    trust_domain: TrustDomain,
    principal: Principal,
    key: Arc<SigningKey>,
}

// === impl Teller ===

impl Teller {
    /// # Errors
    /// Never: a service's name is a principal's.
    pub fn new(
        bus: Bus,
        trust_domain: TrustDomain,
        own: OwnService,
        key: Arc<SigningKey>,
    ) -> Result<Teller, IdError> {
        let mut principal = Principal::new(PrincipalId::parse(own.principal())?, PrincipalKind::Service);
        principal.trust_domain = Some(trust_domain.as_str().to_owned());
        principal.did = Some(key.did().to_string());
        Ok(Teller { bus, trust_domain, principal, key })
    }

    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Says something once. A message is taken once, so each try has an id of its own; what it is about has to be
    /// idempotent by what stands in its body.
    ///
    /// # Errors
    /// What the gateway refused; `aip.service.absent` and `aip.service.not_reached` when it did not hear;
    /// `aip.service.outcome_unknown` when it may have.
    pub async fn tell(&self, body: MessageBody, timeout: Duration) -> Result<MessageBody, Refusal> {
        let envelope = Envelope::new(body, Timestamp::now()).with_from(self.principal.clone());
        let message_type = envelope.message_type;
        let internal = |_| Refusal::of(codes::SERVICE_INTERNAL);
        let mut envelope = serde_json::to_value(envelope).map_err(internal)?;
        sign_envelope(&mut envelope, &self.key).map_err(|_| Refusal::of(codes::SERVICE_INTERNAL))?;
        let subject = subject(&self.trust_domain, &Service::gateway(), message_type)?;
        send(&self.bus, &subject, envelope, None, timeout).await
    }
}
