//! Governed inputs, apart from the approvals they belong to (12.3): an approval holds hashes and what may be shown; the
//! input itself leaves by an export alone (16.6).

use serde::{Deserialize, Serialize};

use aip_kernel::{Applying, Decision, Draft, Fault, Millis, View};
use aip_wire::{ApprovalEvidencePayload, ApprovalId, Refusal, codes};

use super::{Answer, Event, PolicyMachine, State, keys, nothing};

/// The input that an approval will be asked for.
#[derive(Debug, Clone)]
pub struct Keep {
    pub approval: ApprovalId,
    pub payload: ApprovalEvidencePayload,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceEvent {
    Kept { payload: Box<ApprovalEvidencePayload> },
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EvidenceState {
    pub payload: Box<ApprovalEvidencePayload>,
    pub kept_at: Millis,
}

pub(super) fn decide(view: &dyn View<PolicyMachine>, keep: &Keep) -> Result<Decision<PolicyMachine>, Fault> {
    let entity = keys::evidence(&keep.approval);
    match view.entity(&entity)?.map(|entity| entity.state) {
        Some(State::Evidence(state)) if *state.payload == keep.payload => nothing(),
        Some(_) => {
            let refusal = Refusal::of(codes::APPROVAL_REQUEST_CONFLICT);
            Ok(Decision::Answer(Answer::Refused(Box::new(refusal))))
        }
        None => {
            let event = EvidenceEvent::Kept { payload: Box::new(keep.payload.clone()) };
            let draft = Draft::new(entity, vec![Event::Evidence(event)]).cause("request");
            Ok(Decision::Append { draft, answer: Answer::Recorded })
        }
    }
}

pub(super) fn apply(event: &EvidenceEvent, applying: &mut Applying<'_, PolicyMachine>) -> EvidenceState {
    let EvidenceEvent::Kept { payload } = event;
    EvidenceState { payload: payload.clone(), kept_at: applying.log_time }
}
