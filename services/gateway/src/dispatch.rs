//! Performs the machine's effects: sends an action to its worker and says what came back (20.4), puts one into a queue,
//! tells workers of a cancellation, ends a stream. It decides nothing:
//! whether there may be another attempt is the machine's to say.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use aip_bus::{Bus, Parcel, RequestError};
use aip_kernel::{EffectId, EffectMode, Hash, Millis};
use aip_ledger::{Ledger, Performer};
use aip_names::limits::{
    ACTION_TIMEOUT_MAX_MS, DISPATCH_ATTEMPTS_MAX, DISPATCH_PATIENCE_LAST_MS, DISPATCH_PATIENCE_MS,
    DISPATCH_READING_MAX, DISPATCH_RUNNING_BYTES_MAX, DISPATCH_RUNNING_MAX,
};
use aip_names::{NameError, Service, Subject, TrustDomain, Version, metrics as names};
use aip_wire::trusted::METADATA_KEY;
use aip_wire::{
    ActionLifecycleState, Cancel, CancelTarget, Envelope, MessageType, Principal, Timestamp, TransportMessage,
};

use crate::answer;
use crate::catalog::{Catalog, Offer, Place};
use crate::chunks::Chunks;
use crate::machine::action::{Accepted, ActionEvent, ActionState, Pinned};
use crate::machine::{Command, Effect, Event, GatewayMachine, Lost, NotDone, Outcome, Settle, State};
use crate::native::Native;
use crate::operator::{Operator, Order};
use crate::queues::{Queues, Worker};
use aip_service::clock;

mod approval;
mod close;

/// Sends actions to workers.
pub struct Dispatcher(Arc<Inner>);

struct Inner {
    bus: Bus,
    trust_domain: TrustDomain,
    principal: Principal,
    catalog: Arc<Catalog>,
    queues: Arc<Queues>,
    chunks: Arc<Chunks>,
    native: Arc<Native>,
    operator: Arc<Operator>,
    /// Set once the ledger is open: it opens with this performer.
    ledger: OnceLock<Ledger<GatewayMachine>>,
    room: Room,
}

/// What may be under way, so that what waits in the ledger need not have place in memory.
struct Room {
    requests: Semaphore,
    bytes: Semaphore,
    reading: Semaphore,
    queueing: Semaphore,
}

/// Everything about one attempt, read before anything is sent.
struct Attempt {
    accepted: Accepted,
    state: ActionState,
    offer: Arc<Offer>,
    number: u32,
}

// === impl Dispatcher ===

impl Dispatcher {
    pub fn new(
        bus: Bus,
        trust_domain: TrustDomain,
        catalog: Arc<Catalog>,
        queues: Arc<Queues>,
        chunks: Arc<Chunks>,
        native: Arc<Native>,
        operator: Arc<Operator>,
    ) -> Dispatcher {
        let principal = operator.gateway().clone();
        let ledger = OnceLock::new();
        let room = Room {
            requests: Semaphore::new(DISPATCH_RUNNING_MAX),
            bytes: Semaphore::new(DISPATCH_RUNNING_BYTES_MAX),
            reading: Semaphore::new(DISPATCH_READING_MAX),
            queueing: Semaphore::new(DISPATCH_READING_MAX),
        };
        let inner =
            Inner { bus, trust_domain, principal, catalog, queues, chunks, native, operator, ledger, room };
        Dispatcher(Arc::new(inner))
    }

    /// Effects that come before this wait.
    pub fn reads(&self, ledger: Ledger<GatewayMachine>) {
        // a second ledger would be a second gateway
        let _ = self.0.ledger.set(ledger);
    }
}

impl Performer<GatewayMachine> for Dispatcher {
    fn perform(&self, id: EffectId, effect: Effect, again: bool) -> BoxFuture<'static, Option<Command>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            let attempt = match effect {
                Effect::Dispatch { attempt } => attempt,
                Effect::Enqueue { attempt } => {
                    let _place = inner.room.queueing.acquire().await.ok()?;
                    inner.enqueue(&id, attempt).await;
                    return None;
                }
                Effect::CloseStream => return inner.close_stream(&id).await,
                Effect::AskApproval => return inner.ask_approval(&id).await,
                Effect::WithdrawApproval => return inner.withdraw_approval(&id).await,
                Effect::TellCancel => {
                    inner.tell_cancel(&id).await;
                    return None;
                }
            };
            let _request = inner.room.requests.acquire().await.ok()?;
            let reading = inner.room.reading.acquire().await.ok()?;
            let prepared = inner.prepare(&id, attempt).await?;
            let _bytes = inner.room.bytes.acquire_many(prepared.bytes()).await.ok()?;
            drop(reading);
            let begun = Instant::now();
            let outcome = match (inner.operator.find(&prepared.state.capability_id), prepared.forbidden()) {
                (_, Some(error)) => Outcome::Rejected(Box::new(error)),
                (Some(_), None) => inner.order(prepared).await?,
                (None, None) => heard(inner.send(&prepared).await, again),
            };
            metrics::counter!(names::GATEWAY_DISPATCHES, "outcome" => name(&outcome)).increment(1);
            metrics::histogram!(names::GATEWAY_DISPATCH_SECONDS).record(begun.elapsed().as_secs_f64());
            Some(Command::Settle(Box::new(Settle { effect: id, attempt, outcome })))
        })
    }
}

/// That an attempt did not come about now says nothing of the time before, when another process may have sent it.
fn heard(outcome: Outcome, again: bool) -> Outcome {
    match outcome {
        Outcome::NotDone(_) if again => Outcome::Lost(Lost::DispatcherGone),
        outcome => outcome,
    }
}

// === impl Inner ===

impl Inner {
    /// Reads the action. None when it can't be read now or needs no dispatch any more: nothing was sent.
    async fn prepare(&self, id: &EffectId, number: u32) -> Option<Attempt> {
        let ledger = self.ledger.get()?;
        let read = ledger.peek(|view| {
            let state = view.entity(&id.entity)?.map(|entity| entity.state);
            let first = view.history(&id.entity, 1, 1)?.into_iter().next();
            Ok((state, first.map(|(record, _, _)| record.events)))
        });
        let (state, events) = match read {
            Ok((Some(State::Action(state)), Some(events))) => (*state, events),
            Ok(_) => return None,
            Err(error) => {
                tracing::debug!(%error, effect = %id, "an action can't be read now");
                return None;
            }
        };
        let accepted = events.into_iter().find_map(|event| match event {
            Event::Action(ActionEvent::Accepted(accepted)) => Some(*accepted),
            _ => None,
        })?;
        if state.is_terminal() || state.attempt != number {
            return None;
        }
        if let Some(verb) = self.operator.find(&state.capability_id) {
            let offer = self.operator.offer(verb).await.ok()?;
            return Some(Attempt { accepted, state, offer, number });
        }
        let place = Place {
            provider: &state.pinned.provider.id,
            registration_n: state.pinned.registration_n,
            capability_id: &state.capability_id,
            contract_hash: &state.pinned.contract_hash,
        };
        let offer = self.catalog.offer(ledger, place).await;
        let offer = offer.inspect_err(|refusal| {
            tracing::warn!(%refusal, effect = %id, "the capability of an action can't be looked up now");
        });
        Some(Attempt { accepted, state, offer: offer.ok()?, number })
    }

    /// Puts the attempt into its worker's queue. Copies are dropped there, or by the worker that finds the attempt begun.
    async fn enqueue(&self, id: &EffectId, number: u32) {
        let (Some(ledger), Some(attempt)) = (self.ledger.get(), self.prepare(id, number).await) else {
            return;
        };
        if !attempt.state.enqueued || attempt.state.lease.is_some() || attempt.forbidden().is_some() {
            return;
        }
        let request = self.request(&attempt);
        let pinned = &attempt.state.pinned;
        let (parcel, worker) =
            match (parcel(&request, &attempt), Worker::new(&pinned.service, &pinned.version)) {
                (Ok(parcel), Ok(worker)) => (parcel, worker),
                (parcel, worker) => {
                    let why = worker.err().map(|error| error.to_string()).or(parcel.err());
                    tracing::error!(why, action = %attempt.state.id, "an action can't be framed");
                    return;
                }
            };
        // an action's id may be any text; a header may not
        let copy = Hash::of(id.to_string().as_bytes()).to_string();
        if let Err(error) = self.queues.put(&worker, &copy, parcel, ledger).await {
            tracing::warn!(%error, action = %attempt.state.id, "an action waits for its queue");
        }
    }

    /// Tells all replicas of the worker. Nobody answers: whoever runs the action ends it.
    async fn tell_cancel(&self, id: &EffectId) {
        let Some(ledger) = self.ledger.get() else { return };
        let Ok(Some(entity)) = ledger.peek(|view| view.entity(&id.entity)) else { return };
        let State::Action(state) = entity.state else { return };
        if state.lifecycle != ActionLifecycleState::Cancelling {
            return;
        }
        let provider = &state.pinned.provider;
        let wish = Cancel { target: CancelTarget::Action(state.id.clone()), reason: None };
        let mut envelope = Envelope::new(wish, Timestamp::now())
            .with_from(self.principal.clone())
            .with_to(Principal::new(provider.id.clone(), provider.kind));
        envelope.correlation_id.clone_from(&state.correlation_id);
        let envelope = serde_json::to_value(envelope).unwrap_or_default();
        let parcel = Parcel::new(&TransportMessage { envelope, metadata: None });
        let (Ok(parcel), Ok(subject)) = (parcel, self.subject(&state.pinned, MessageType::Cancel)) else {
            return;
        };
        if let Err(error) = self.bus.publish(&subject, parcel).await {
            tracing::debug!(%error, action = %state.id, "a worker could not be told to cancel");
        }
    }

    /// Does an operator's action here.
    async fn order(&self, attempt: Attempt) -> Option<Outcome> {
        let Attempt { accepted, state, .. } = attempt;
        self.operator.perform(self.ledger.get()?.clone(), Order { accepted, state }).await
    }

    async fn send(&self, attempt: &Attempt) -> Outcome {
        let timeout_ms = attempt.timeout_ms(clock::now_ms());
        if timeout_ms == 0 {
            return Outcome::NotDone(NotDone::NotSent);
        }
        let request = self.request(attempt);
        let (subject, parcel) =
            match (self.subject(&attempt.state.pinned, MessageType::Action), parcel(&request, attempt)) {
                (Ok(subject), Ok(parcel)) => (subject, parcel),
                (subject, parcel) => {
                    let why = subject.err().map(|error| error.to_string()).or(parcel.err());
                    tracing::error!(why, action = %attempt.state.id, "an action can't be framed");
                    return Outcome::NotDone(NotDone::NotSent);
                }
            };
        let timeout = Duration::from_millis(timeout_ms);
        match self.bus.request(&subject, parcel, timeout).await {
            Ok(message) => answer::read(&message.payload, &request, &attempt.accepted.action, &attempt.offer),
            Err(error) => {
                tracing::debug!(%error, action = %attempt.state.id, attempt = attempt.number, "no answer");
                match error {
                    RequestError::NoResponders { .. } => Outcome::NotDone(NotDone::NoResponders),
                    RequestError::NotSent { .. } => Outcome::NotDone(NotDone::NotSent),
                    RequestError::TimedOut { .. } => Outcome::Lost(Lost::NoAnswer),
                    RequestError::Lost { .. } => Outcome::Lost(Lost::Disconnected),
                }
            }
        }
    }

    /// The action as its worker gets it. Its authority is beside it, in the trusted context.
    fn request(&self, attempt: &Attempt) -> Envelope {
        let provider = &attempt.state.pinned.provider;
        let mut envelope = Envelope::new(attempt.accepted.action.clone(), Timestamp::now())
            .with_from(self.principal.clone())
            .with_to(Principal::new(provider.id.clone(), provider.kind));
        envelope.correlation_id.clone_from(&attempt.accepted.correlation_id);
        envelope
    }

    fn subject(&self, pinned: &Pinned, told: MessageType) -> Result<String, NameError> {
        let service = Service::new(&pinned.service)?;
        let version = Version::new(&pinned.version)?;
        let message_type = aip_names::MessageType::new(told.as_str())?;
        Ok(Subject::message(&self.trust_domain, &service, version, &message_type).to_string())
    }
}

// === impl Attempt ===

impl Attempt {
    /// Of its input, which is what an action is large by.
    fn bytes(&self) -> u32 {
        let input = serde_json::to_vec(&self.accepted.action.input).map_or(0, |input| input.len());
        u32::try_from(input.min(DISPATCH_RUNNING_BYTES_MAX)).unwrap_or(u32::MAX)
    }

    /// How long to wait for the answer: what may be repeated is given up early while other attempts are left, for
    /// another worker may answer; anything else until the deadline.
    fn timeout_ms(&self, now: Millis) -> u64 {
        // an action that was approved may have more time left than any request is held open for
        let left = self.state.deadline.saturating_sub(now).min(ACTION_TIMEOUT_MAX_MS);
        let repeatable = self.state.pinned.dispatch == EffectMode::Repeatable;
        if repeatable && self.number < DISPATCH_ATTEMPTS_MAX { patience(left, self.number) } else { left }
    }
}

/// How long this attempt of what may be repeated waits, with so much left of the deadline.
fn patience(left: u64, number: u32) -> u64 {
    let doublings = number.saturating_sub(1).min(16);
    let patience = match left {
        ..=DISPATCH_PATIENCE_MS => (left / 2).max(DISPATCH_PATIENCE_LAST_MS),
        _ => DISPATCH_PATIENCE_MS << doublings,
    };
    left.min(patience)
}

fn parcel(request: &Envelope, attempt: &Attempt) -> Result<Parcel, String> {
    let mut context = attempt.accepted.context.for_attempt(attempt.number);
    // an action that was approved anew may be pinned to a later contract than it was admitted under
    context.contract_hash.clone_from(&attempt.state.pinned.contract_hash);
    let context = serde_json::to_value(context).map_err(|error| error.to_string())?;
    let envelope = serde_json::to_value(request).map_err(|error| error.to_string())?;
    let metadata: Map<String, Value> = Map::from_iter([(METADATA_KEY.to_owned(), context)]);
    let parcel = Parcel::new(&TransportMessage { envelope, metadata: Some(metadata) });
    let parcel = parcel.map_err(|error| error.to_string())?;
    Ok(match &attempt.accepted.context.trace.traceparent {
        Some(traceparent) => parcel.with_traceparent(traceparent),
        None => parcel,
    })
}

fn name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Answered(_) => "answered",
        Outcome::Rejected(_) => "rejected",
        Outcome::BadOutput { .. } => "bad_output",
        Outcome::Cancelled => "cancelled",
        Outcome::NotDone(_) => "not_done",
        Outcome::Lost(_) => "lost",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_sent_before_is_not_called_undone() {
        let undone = || Outcome::NotDone(NotDone::NoResponders);
        assert!(matches!(heard(undone(), false), Outcome::NotDone(NotDone::NoResponders)));
        assert!(matches!(heard(undone(), true), Outcome::Lost(Lost::DispatcherGone)));
        assert!(matches!(heard(Outcome::Cancelled, true), Outcome::Cancelled));
    }

    #[test]
    fn the_last_seconds_are_not_spent_on_one_worker() {
        assert_eq!([patience(60_000, 1), patience(60_000, 3), patience(8_000, 3)], [5_000, 20_000, 8_000]);
        let mut left = 5_000;
        let mut waited = Vec::new();
        while left > 0 {
            waited.push(patience(left, 3));
            left -= waited.last().unwrap();
        }
        assert_eq!(waited, [2_500, 1_250, 1_000, 250]);
    }
}
