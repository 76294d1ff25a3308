//! Takes dispatches from the gateway: reads them, and makes sure that one action runs once, however often it comes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use aip_bus::{Answer, Handler, Incoming};
use aip_crypto::canonical;
use aip_names::metrics as names;
use aip_wire::read::Bounds;
use aip_wire::trusted::{METADATA_KEY, TrustedContext};
use aip_wire::{
    Action, ActionId, ActionMode, ActionResult, CapabilityId, Envelope, ErrorBody, MessageBody, Principal,
    ProtocolError, Refusal, codes, validate,
};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Tamper, WorkerConfig, answer};
use crate::capability::Offered;
use crate::chunks::Outlet;
use crate::store::Store;

/// What serves a worker's subject.
pub(super) struct Dispatcher {
    pub inner: Arc<Inner>,
    tamper: Option<Tamper>,
}

pub(super) struct Inner {
    pub principal: Principal,
    pub store: Arc<Store>,
    /// Cancelled when handlers have to stop.
    pub stop: CancellationToken,
    offered: HashMap<CapabilityId, Offered>,
    running: Mutex<HashMap<ActionId, Running>>,
}

/// An action that runs in this life: a second dispatch waits for the same end.
struct Running {
    digest: String,
    end: watch::Receiver<Option<Arc<Ended>>>,
    may_cancel: bool,
    signals: Signals,
}

/// What tells a running action to stop.
#[derive(Clone)]
pub(super) struct Signals {
    pub stop: CancellationToken,
    pub cancelled: CancellationToken,
    /// Another worker has the action.
    pub superseded: CancellationToken,
}

/// One dispatch that may be served.
pub(super) struct Received {
    pub action: Action,
    pub trusted: TrustedContext,
    pub offered: Offered,
    /// Of capability, tenant and input.
    pub digest: String,
    /// Where its chunks go; none when nobody listens.
    pub outlet: Option<Outlet>,
}

/// How a dispatch came.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    /// Somebody waits for the answer.
    Request,
    Queue,
}

/// What is said to a dispatch.
#[derive(Debug)]
pub(super) enum Ended {
    Result(Box<ActionResult>),
    /// It was not begun.
    Refused(ProtocolError),
    /// Nothing can be said; the sender's patience decides.
    Silent,
}

// === impl Dispatcher ===

impl Dispatcher {
    pub fn new(
        config: &WorkerConfig,
        offered: HashMap<CapabilityId, Offered>,
        store: Arc<Store>,
        stop: CancellationToken,
        tamper: Option<Tamper>,
    ) -> Dispatcher {
        let principal = config.principal.clone();
        let inner = Arc::new(Inner { principal, store, stop, offered, running: Mutex::default() });
        Dispatcher { inner, tamper }
    }
}

impl Handler for Dispatcher {
    async fn handle(&self, request: Incoming) -> Option<Answer> {
        let inner = &self.inner;
        let (checked, metadata) = match validate::frame(&request.payload, &Bounds::FRAME) {
            Ok(read) => read,
            Err(refusal) => return answer::unread(&request.headers, &inner.principal, refusal.into()),
        };
        drop(request);
        let (_, envelope) = checked.into_parts();
        let ended = match inner.accept(&envelope, &metadata, Door::Request) {
            Ok(received) => inner.end_of(received).await,
            Err(refusal) => Arc::new(Ended::Refused(refusal.into())),
        };
        let body: MessageBody = match &*ended {
            Ended::Result(result) => (**result).clone().into(),
            Ended::Refused(error) => ErrorBody { error: error.clone() }.into(),
            Ended::Silent => return None,
        };
        let mut answer = answer::reply(&envelope, &inner.principal, body)?;
        if let Some(tamper) = &self.tamper {
            answer.parcel.payload = tamper(answer.parcel.payload);
        }
        Some(answer)
    }

    fn busy(&self, request: &Incoming) -> Option<Answer> {
        let error =
            ProtocolError::of(codes::WORKER_UNAVAILABLE, "this worker runs as many actions as it may");
        answer::unread(&request.headers, &self.inner.principal, error)
    }
}

// === impl Inner ===

impl Inner {
    /// Checks that this is an action for a capability of ours, with a trusted context that is about it.
    pub(super) fn accept(
        &self,
        envelope: &Envelope,
        metadata: &Map<String, Value>,
        door: Door,
    ) -> Result<Received, Refusal> {
        let MessageBody::Action(action) = &envelope.body else {
            return Err(Refusal::of(codes::ENVELOPE_NOT_SERVED));
        };
        let context = metadata.get(METADATA_KEY);
        let context = context.ok_or_else(|| {
            Refusal::new(codes::AUTH_MISSING, "", "the action came without a trusted context")
        })?;
        let trusted = TrustedContext::read(context)
            .map_err(|error| Refusal::new(codes::TRANSPORT_FRAME, "", error.to_string()))?;
        if trusted.action_id != action.id || trusted.capability_id != action.capability_id {
            let message = "the trusted context is about another action";
            return Err(Refusal::new(codes::AUTH_CLAIM, "", message));
        }
        let mode = action.mode.unwrap_or(ActionMode::Sync);
        if (mode == ActionMode::Sync) != (door == Door::Request) {
            return Err(Refusal::of(codes::CAPABILITY_MODE));
        }
        let Some(offered) = self.offered.get(&action.capability_id) else {
            // another replica, newer or older, may have it
            let message = "this worker does not offer the capability";
            return Err(Refusal::new(codes::WORKER_UNAVAILABLE, "/body/action/capability_id", message));
        };
        if trusted.contract_hash != offered.contract_hash {
            // admitted under what another replica promised
            let message = "this worker offers the capability under another contract";
            return Err(Refusal::new(codes::WORKER_UNAVAILABLE, "/body/action/capability_id", message));
        }
        if !offered.supports(mode) {
            return Err(Refusal::of(codes::CAPABILITY_MODE));
        }
        let digest = canonical::hash(&json!([action.capability_id, trusted.tenant, action.input]));
        let (action, offered) = ((**action).clone(), offered.clone());
        Ok(Received { action, trusted, offered, digest, outlet: None })
    }

    /// Begins the action, or joins it where it runs, and waits for its end.
    pub(super) async fn end_of(self: &Arc<Inner>, received: Received) -> Arc<Ended> {
        let mut end = match self.begin_or_join(received) {
            Ok(end) => end,
            Err(refused) => return refused,
        };
        match end.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone().unwrap_or_else(|| Arc::new(Ended::Silent)),
            Err(_) => Arc::new(Ended::Silent),
        }
    }

    /// Tells an action that runs here that it is to be cancelled, if its capability knows how.
    pub(super) fn cancel(&self, id: &ActionId) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Running { signals, may_cancel: true, .. }) = running.get(id) {
            signals.cancelled.cancel();
            signals.stop.cancel();
        }
    }

    /// Tells an action that runs here that another worker has it now.
    pub(super) fn supersede(&self, id: &ActionId) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = running.get(id) {
            running.signals.superseded.cancel();
            running.signals.stop.cancel();
        }
    }

    fn begin_or_join(
        self: &Arc<Inner>,
        received: Received,
    ) -> Result<watch::Receiver<Option<Arc<Ended>>>, Arc<Ended>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = running.get(&received.action.id) {
            metrics::counter!(names::WORKER_REPEATS).increment(1);
            if same.digest != received.digest {
                return Err(Arc::new(id_conflict()));
            }
            return Ok(same.end.clone());
        }
        let (told, end) = watch::channel(None);
        let signals = Signals {
            stop: self.stop.child_token(),
            cancelled: CancellationToken::new(),
            superseded: CancellationToken::new(),
        };
        let entry = Running {
            digest: received.digest.clone(),
            end: end.clone(),
            may_cancel: received.offered.contract.execution.supports_cancel,
            signals: signals.clone(),
        };
        running.insert(received.action.id.clone(), entry);
        drop(running);
        let place = Place { inner: Arc::clone(self), id: received.action.id.clone() };
        // a task of its own: whoever waits may go, the action goes on
        tokio::spawn(async move {
            let ended = Arc::new(place.inner.perform(received, signals).await);
            told.send_replace(Some(ended));
            drop(place);
        });
        Ok(end)
    }
}

/// An action's place among those that run, given up however its task ends.
struct Place {
    inner: Arc<Inner>,
    id: ActionId,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.inner.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

/// The id stands for another action.
pub(super) fn id_conflict() -> Ended {
    Ended::Refused(Refusal::of(codes::ACTION_ID_CONFLICT).into())
}
