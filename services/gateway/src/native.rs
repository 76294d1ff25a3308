//! What native readers of an action hear (20.4): its chunks and its result, signed, under the correlation id that the action
//! has to itself while it runs. Nobody waits for it and nothing depends on it: a reader that misses something sees a gap in
//! the numbers and asks for the chunks.

use std::sync::Arc;

use aip_bus::{Bus, Parcel};
use aip_kernel::Hash;
use aip_names::{Atom, Service, Subject, TrustDomain, Version};
use aip_wire::{MessageBody, MessageId, TransportMessage};

use crate::machine::ActionState;
use crate::reply::Voice;

/// Speaks to native readers.
pub struct Native {
    bus: Bus,
    trust_domain: TrustDomain,
    voice: Arc<Voice>,
}

// === impl Native ===

impl Native {
    pub fn new(bus: Bus, trust_domain: TrustDomain, voice: Arc<Voice>) -> Native {
        Native { bus, trust_domain, voice }
    }

    /// Tells `body`, which is `what` of the action: told again it is the same message.
    pub async fn tell(&self, state: &ActionState, what: &str, body: MessageBody) {
        let Some(correlation) = state.correlation_id.as_ref().filter(|_| state.stream.native) else { return };
        let Ok(atom) = Atom::new(correlation.as_str()) else { return };
        let digest = Hash::of_parts(&[state.id.as_str().as_bytes(), what.as_bytes()]).to_string();
        let digits = digest.get(..32).unwrap_or(&digest);
        let id = MessageId::opaque(format!("{}{digits}", MessageId::PREFIX));
        let envelope = self.voice.publish(&state.requester, correlation.clone(), id, body);
        let subject = Subject::stream(&self.trust_domain, &Service::gateway(), Version::V1, atom).to_string();
        let told = match Parcel::new(&TransportMessage { envelope, metadata: None }) {
            Ok(parcel) => self.bus.publish(&subject, parcel).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = told {
            tracing::debug!(error, action = %state.id, what, "native readers were not told");
        }
    }
}
