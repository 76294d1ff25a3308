//! Performs the machine's effects: tells the gateway how an approval stands, and approvers that one waits.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aip_bus::{Bus, Parcel};
use aip_kernel::EffectId;
use aip_ledger::{Ledger, Performer};
use aip_names::limits::SERVICE_ASK_TIMEOUT_MS;
use aip_names::{EventKind, OwnService, Subject, TrustDomain};
use aip_service::{Teller, clock};
use aip_wire::{
    AckStatus, ApprovalId, Envelope, Event, EventId, EventStream, MessageBody, Timestamp, TransportMessage,
};
use futures_util::future::BoxFuture;
use serde_json::json;

use crate::machine::{Command, Effect, PolicyMachine, Status, Told, Verdict, load};
use crate::view;

/// Speaks for the service.
pub struct Messenger(Arc<Inner>);

struct Inner {
    bus: Bus,
    trust_domain: TrustDomain,
    teller: Teller,
    /// Set once the ledger is open: it opens with this performer.
    ledger: OnceLock<Ledger<PolicyMachine>>,
}

impl Performer<PolicyMachine> for Messenger {
    fn perform(&self, id: EffectId, effect: Effect, _: bool) -> BoxFuture<'static, Option<Command>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.speak(id, effect).await })
    }
}

// === impl Messenger ===

impl Messenger {
    pub fn new(bus: Bus, trust_domain: TrustDomain, teller: Teller) -> Messenger {
        Messenger(Arc::new(Inner { bus, trust_domain, teller, ledger: OnceLock::new() }))
    }

    /// Effects that come before this wait.
    pub fn reads(&self, ledger: Ledger<PolicyMachine>) {
        // a second ledger would be a second service
        let _ = self.0.ledger.set(ledger);
    }
}

// === impl Inner ===

impl Inner {
    async fn speak(&self, id: EffectId, effect: Effect) -> Option<Command> {
        match effect {
            Effect::Tell => self.tell(id).await,
            Effect::Notify { kind } => self.notify(id, &kind).await,
        }
    }

    /// Tells the gateway how the approval stands now, and takes what it makes of that.
    async fn tell(&self, id: EffectId) -> Option<Command> {
        let approval = ApprovalId::opaque(id.entity.id.clone());
        let read = self.ledger.get()?.peek(|view| {
            let Some(state) = load(view, &approval)? else { return Ok(None) };
            let chain = view::chain(view, &state)?;
            Ok(Some((state, chain)))
        });
        let (state, chain) = read.ok().flatten()?;
        let status = state.status;
        if matches!(status, Status::Pending | Status::Withdrawn) {
            return None;
        }
        let body = view::of(&state, Some(chain)).into();
        let verdict = match self.teller.tell(body, Duration::from_millis(SERVICE_ASK_TIMEOUT_MS)).await {
            Ok(MessageBody::Ack(ack)) if ack.status == AckStatus::Accepted => Verdict::Taken,
            Ok(MessageBody::Ack(ack)) => match ack.reason {
                Some(code) => Verdict::Stale { code },
                None => Verdict::Late,
            },
            Ok(_) => return None,
            Err(refusal) => {
                tracing::warn!(%refusal, %approval, "the gateway was not told of an approval, and will be");
                return None;
            }
        };
        Some(Command::Told(Box::new(Told { effect: id, status, verdict })))
    }

    /// Says to whoever listens that something happened to an approval, by ids. The id of the event is that of the effect.
    async fn notify(&self, id: EffectId, kind: &str) -> Option<Command> {
        let approval = ApprovalId::opaque(id.entity.id.clone());
        let state = self.ledger.get()?.peek(|view| load(view, &approval)).ok().flatten()?;
        let digest = aip_kernel::Hash::of(id.to_string().as_bytes()).to_string();
        let event = Event {
            id: EventId::opaque(format!("{}{}", EventId::PREFIX, digest.get(..32).unwrap_or(&digest))),
            kind: kind.to_owned(),
            occurred_at: Timestamp::from_ms(clock::now_ms()),
            session_id: None,
            action_id: Some(state.request.action_id.clone()),
            correlation_id: None,
            actor: None,
            data: Some(json!({
                "approval_id": approval,
                "capability_id": state.request.capability_id,
                "tenant_id": state.tenant(),
                "risk": state.request.risk,
                "status": state.status.as_str(),
                "expires_at": state.request.expires_at,
            })),
        };
        let body = EventStream { events: vec![event], next_cursor: None };
        let envelope = Envelope::new(body, Timestamp::now()).with_from(self.teller.principal().clone());
        let envelope = serde_json::to_value(envelope).ok()?;
        let parcel = Parcel::new(&TransportMessage { envelope, metadata: None }).ok()?;
        let kind = EventKind::new(kind).ok()?;
        let subject = Subject::events(&self.trust_domain, &OwnService::PolicyApproval.service(), kind);
        match self.bus.publish(&subject.to_string(), parcel).await {
            Ok(()) => Some(Command::Noticed { effect: id }),
            Err(error) => {
                tracing::debug!(%error, %approval, "approvers were not told, and will be");
                None
            }
        }
    }
}
