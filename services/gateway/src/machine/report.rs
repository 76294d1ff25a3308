//! What a worker says of an asynchronous attempt. The attempt's number is the fence: whoever is not at the attempt that
//! counts changes nothing, whatever the worker did meanwhile.

use aip_crypto::canonical;
use aip_kernel::{Decision, Draft, Facts, Fault, Millis, View};
use aip_names::limits::{LATE_ANSWERS_MAX, LEASE_MS, LEASE_RENEW_MS};
use aip_wire::trusted::PrincipalRef;
use aip_wire::{ActionId, ActionLifecycleState as Lifecycle, MessageId};

use super::action::{ActionEvent, ActionState, LateAnswer, Lease};
use super::note::{self, Note, Refused, ReplayClaim};
use super::settle::{self, Outcome};
use super::{Answer, Event, GatewayMachine, Refusal, keys, load_action};
use crate::errors;

/// A report whose sender is proven. Made only by the gateway's road.
#[derive(Debug)]
pub struct Report {
    pub(crate) provider: PrincipalRef,
    pub(crate) action: ActionId,
    pub(crate) attempt: u32,
    /// The worker's process.
    pub(crate) worker: String,
    pub(crate) says: Says,
    pub(crate) message_id: MessageId,
    pub(crate) replay: Option<ReplayClaim>,
}

#[derive(Debug, Clone)]
pub enum Says {
    /// May it begin?
    Started,
    /// It is at it.
    Running,
    Ended(Outcome),
}

pub(super) fn decide(
    view: &dyn View<GatewayMachine>,
    report: &Report,
    facts: &Facts,
) -> Result<Decision<GatewayMachine>, Fault> {
    if note::is_held(view, report.replay.as_ref())? {
        return Ok(Decision::Answer(Answer::Refused(Refusal::Replayed)));
    }
    let action = load_action(view, report.action.as_str())?.map(|entity| entity.state);
    let Some(state) = action.filter(|state| state.pinned.provider == report.provider && state.queued) else {
        return Ok(report.refused(Refusal::NoSuchAction, facts));
    };
    let now = facts.now.max(facts.log_time);
    Ok(match &report.says {
        Says::Started => report.started(&state, now, facts),
        Says::Running => report.running(&state, now, facts),
        Says::Ended(outcome) => report.ended(&state, outcome, now, facts),
    })
}

// === impl Report ===

impl Report {
    fn started(&self, state: &ActionState, now: Millis, facts: &Facts) -> Decision<GatewayMachine> {
        // asked again, because the answer was lost or the stream it goes on with could not be looked up
        if state.is_running() && state.is_held_by(&self.worker, self.attempt) {
            return self.renewed(state, now, facts);
        }
        let waits = state.lifecycle == Lifecycle::Queued && state.enqueued && state.attempt == self.attempt;
        if !waits {
            return self.refused(Refusal::Superseded, facts);
        }
        if now >= state.deadline {
            return self.refused(Refusal::DeadlinePassed, facts);
        }
        let (attempt, worker) = (self.attempt, self.worker.clone());
        self.append(vec![ActionEvent::Started { attempt, worker, until: now + LEASE_MS }])
    }

    fn running(&self, state: &ActionState, now: Millis, facts: &Facts) -> Decision<GatewayMachine> {
        if !(state.is_running() && state.is_held_by(&self.worker, self.attempt)) {
            return self.refused(Refusal::Superseded, facts);
        }
        self.renewed(state, now, facts)
    }

    /// Who holds the attempt was heard of.
    fn renewed(&self, state: &ActionState, now: Millis, facts: &Facts) -> Decision<GatewayMachine> {
        let until = now + LEASE_MS;
        let fresh = |lease: &Lease| !lease.grace && until < lease.until + LEASE_RENEW_MS;
        if state.lease.as_ref().is_some_and(fresh) {
            return self.note(None).beside(Answer::Recorded, facts);
        }
        self.append(vec![ActionEvent::Leased { attempt: self.attempt, until, grace: false }])
    }

    fn ended(
        &self,
        state: &ActionState,
        outcome: &Outcome,
        now: Millis,
        facts: &Facts,
    ) -> Decision<GatewayMachine> {
        let own = state.is_held_by(&self.worker, self.attempt);
        if own && state.is_running() {
            return self.append(settle::events(state, outcome, self.attempt, now));
        }
        if own && state.is_terminal() && settle::ended_so(state, outcome) {
            // said again, because the answer to the first time was lost
            return self.note(None).beside(Answer::Recorded, facts);
        }
        if state.late_answers >= LATE_ANSWERS_MAX {
            return self.refused(Refusal::Superseded, facts);
        }
        let (said, output_hash) = match outcome {
            Outcome::Answered(result) => {
                (result.status.as_str().to_owned(), result.output.as_ref().map(canonical::hash))
            }
            Outcome::Rejected(error) => (error.code.clone(), None),
            Outcome::BadOutput { .. } => ("completed".to_owned(), None),
            Outcome::Cancelled => ("cancelled".to_owned(), None),
            // nothing was done: that is no evidence of anything
            Outcome::NotDone(_) | Outcome::Lost(_) => return self.refused(Refusal::Superseded, facts),
        };
        let late = LateAnswer { attempt: self.attempt, worker: self.worker.clone(), said, output_hash };
        let draft = self.draft(vec![ActionEvent::LateAnswer(Box::new(late))]);
        Decision::Append { draft, answer: Answer::Refused(Refusal::Superseded) }
    }

    fn append(&self, events: Vec<ActionEvent>) -> Decision<GatewayMachine> {
        Decision::Append { draft: self.draft(events), answer: Answer::Recorded }
    }

    fn draft(&self, events: Vec<ActionEvent>) -> Draft<Event> {
        let events = events.into_iter().map(Event::Action).collect();
        let draft = Draft::new(keys::action(self.action.as_str()), events).cause(self.message_id.as_str());
        match &self.replay {
            Some(replay) => draft.claims(replay.name.clone(), Some(replay.until)),
            None => draft,
        }
    }

    fn refused(&self, refusal: Refusal, facts: &Facts) -> Decision<GatewayMachine> {
        let refused = Refused {
            code: errors::of_refusal(refusal).name.to_owned(),
            action_id: Some(self.action.to_string()),
            capability_id: None,
        };
        self.note(Some(refused)).beside(Answer::Refused(refusal), facts)
    }

    fn note(&self, refused: Option<Refused>) -> Note {
        Note {
            actor: self.provider.clone(),
            message_id: self.message_id.clone(),
            claim: self.replay.clone(),
            refused,
        }
    }
}
