//! The road of what a worker says of an asynchronous attempt: whose it is, what it means, and then the machine judges
//! whether the attempt still counts. The answer is given when that stands in the ledger, so a worker may forget its
//! message then.

use aip_admission::Authentic;
use aip_service::fault;
use aip_wire::attempt::{EXTENSION, Phase, Report as Said};
use aip_wire::trusted::PrincipalRef;
use aip_wire::{
    Ack, AckStatus, Envelope, Heartbeat, HeartbeatAck, MessageBody, MessageType, Refusal, Timestamp, codes,
};
use serde_json::Value;

use crate::answer;
use crate::catalog::{Offer, Place};
use crate::errors;
use crate::gateway::Gateway;
use crate::machine::{ActionState, Answer, Command, ReplayClaim, Report, Says, State, keys};
use crate::road::Stop;

/// The report that a message carries, if it is one that a worker sends.
///
/// # Errors
/// The extension is no report.
pub fn of(envelope: &Envelope) -> Result<Option<Said>, Refusal> {
    let spoken = [MessageType::Heartbeat, MessageType::StreamChunk, MessageType::ActionResult];
    if !spoken.contains(&envelope.message_type) {
        return Ok(None);
    }
    Said::read(envelope.extensions.as_ref())
        .map_err(|error| Refusal::new(codes::ENVELOPE_SHAPE, format!("/extensions/{EXTENSION}"), error))
}

// === impl Gateway ===

impl Gateway {
    /// Takes a worker's report. The answer comes with extensions when there is more to say.
    pub(crate) async fn report(
        &self,
        authentic: &Authentic,
        said: Said,
    ) -> Result<(MessageBody, Option<Value>), Stop> {
        if let (Phase::Streamed, MessageBody::StreamChunk(chunk)) = (said.phase, &authentic.envelope().body) {
            if chunk.action_id != said.action_id {
                return Err(disagree("the report does not fit the message").into());
            }
            return Ok((self.chunk(authentic, &said, chunk).await?.into(), None));
        }
        let provider = PrincipalRef::of(authentic.caller().principal());
        let state = self.reported(&provider, &said).await?;
        let envelope = authentic.envelope();
        let (says, answer) = match (said.phase, &envelope.body) {
            (Phase::Started, MessageBody::Heartbeat(beat)) => (Says::Started, heard(beat)),
            (Phase::Running, MessageBody::Heartbeat(beat)) => (Says::Running, heard(beat)),
            (Phase::Refused, MessageBody::Heartbeat(beat)) => {
                let error = said.error.ok_or_else(|| disagree("says why"))?;
                let offer = self.offer_for(&state).await?;
                (Says::Ended(answer::refused(error, &offer)), heard(beat))
            }
            (Phase::Ended, MessageBody::ActionResult(result)) if result.action_id == said.action_id => {
                let offer = self.offer_for(&state).await?;
                let ack = Ack {
                    action_id: said.action_id.clone(),
                    status: AckStatus::Accepted,
                    reason: None,
                    retry_after_ms: None,
                    queue: None,
                };
                (Says::Ended(answer::ended((**result).clone(), &offer)), ack.into())
            }
            _ => return Err(disagree("the report does not fit the message").into()),
        };
        let begun = (said.phase == Phase::Started).then_some(said.attempt);
        let report = Report {
            provider,
            action: said.action_id,
            attempt: said.attempt,
            worker: said.worker,
            says,
            message_id: envelope.message_id.clone(),
            replay: authentic
                .replay()
                .map(|replay| ReplayClaim { name: replay.name.clone(), until: replay.expires_at_ms }),
        };
        match self.decide(Command::Report(Box::new(report))).await.map_err(Stop::noted)? {
            Answer::Refused(refusal) => Err(Stop::noted(Refusal::of(errors::of_refusal(refusal)))),
            _ => {
                let stream = self.taken_over(&state, begun.unwrap_or(0)).await.map_err(Stop::noted)?;
                Ok((answer, stream))
            }
        }
    }

    /// The action that is reported on. A replica that is behind the log must not tell a worker that its attempt does
    /// not count, so what does not fit is looked at again behind a barrier.
    pub(crate) async fn reported(
        &self,
        provider: &PrincipalRef,
        said: &Said,
    ) -> Result<ActionState, Refusal> {
        if said.worker.is_empty() || said.worker.len() > aip_names::limits::ID_BYTES_MAX {
            return Err(disagree("names no worker"));
        }
        let fits = |state: &ActionState| match said.phase {
            Phase::Started => state.enqueued && state.lease.is_none() && state.attempt == said.attempt,
            _ => state.is_running() && state.is_held_by(&said.worker, said.attempt),
        };
        let key = keys::action(said.action_id.as_str());
        let near = self.ledger().peek(|view| view.entity(&key)).map_err(|error| fault::of_ledger(&error))?;
        let near = near.and_then(|entity| of_action(entity.state)).filter(fits);
        let state = match near {
            Some(state) => Some(state),
            None => {
                let read = self.ledger().read(|view| view.entity(&key)).await;
                read.map_err(|error| fault::of_ledger(&error))?.and_then(|entity| of_action(entity.state))
            }
        };
        // whether it is there at all is not for others to know
        let own = state.filter(|state| state.pinned.provider == *provider && state.queued);
        own.ok_or_else(|| Refusal::of(codes::ACTION_NOT_FOUND))
    }

    pub(crate) async fn offer_for(&self, state: &ActionState) -> Result<std::sync::Arc<Offer>, Refusal> {
        let place = Place {
            provider: &state.pinned.provider.id,
            registration_n: state.pinned.registration_n,
            capability_id: &state.capability_id,
            contract_hash: &state.pinned.contract_hash,
        };
        self.catalog().offer(self.ledger(), place).await
    }
}

fn of_action(state: State) -> Option<ActionState> {
    match state {
        State::Action(state) => Some(*state),
        State::Manifest(_) | State::Message(_) => None,
    }
}

fn heard(beat: &Heartbeat) -> MessageBody {
    HeartbeatAck { sequence: beat.sequence, received_at: Timestamp::now() }.into()
}

fn disagree(message: &str) -> Refusal {
    Refusal::new(codes::ENVELOPE_MEMBERS_DISAGREE, format!("/extensions/{EXTENSION}"), message)
}
