//! Reads what a worker answered. Whatever is not plainly the result of this action is no result; nothing of the answer
//! is believed beyond what the capability's contract lets it say.

use aip_wire::read::Bounds;
use aip_wire::{
    Action, ActionResult, ActionResultStatus, Envelope, MessageBody, ProtocolError, codes, validate,
};

use crate::catalog::Offer;
use crate::machine::{Lost, NotDone, Outcome};
use crate::{errors, redact};

/// An error code that a worker chose: its own namespace, but not at any length.
const CODE_BYTES_MAX: usize = 128;

/// What the answer to `request` says of `action`.
pub fn read(payload: &[u8], request: &Envelope, action: &Action, offer: &Offer) -> Outcome {
    let checked = match validate::frame(payload, &Bounds::WORKER_ANSWER) {
        Ok((checked, _metadata)) => checked,
        Err(refusal) if refusal.code == codes::WORKER_TOO_LARGE => return Outcome::Lost(Lost::TooLarge),
        Err(refusal) if refusal.code == codes::LIMIT_ENVELOPE_BYTES => return Outcome::Lost(Lost::TooLarge),
        Err(refusal) => return garbage(&refusal.to_string()),
    };
    let (_, answer) = checked.into_parts();
    if let Some(to) = &answer.in_response_to {
        let names = [Some(request.message_id.as_str()), request.correlation_id.as_ref().map(AsRef::as_ref)];
        if !names.contains(&Some(to.as_str())) {
            return garbage("it answers another message");
        }
    }
    match answer.body {
        MessageBody::ActionResult(result) if result.action_id == action.id => ended(*result, offer),
        MessageBody::ActionResult(_) => garbage("it is the result of another action"),
        MessageBody::Error(body) => refused(body.error, offer),
        other => garbage(other.message_type().as_str()),
    }
}

/// What a result says, whichever way it came.
pub fn ended(mut result: ActionResult, offer: &Offer) -> Outcome {
    // receipts are ours to give
    result.receipt = None;
    match (result.status, result.error.take()) {
        (ActionResultStatus::Completed, None) => match offer.check_output(result.output.as_ref()) {
            Ok(()) => Outcome::Answered(Box::new(result)),
            Err(refusal) => {
                tracing::warn!(%refusal, capability = %offer.capability.id, "a worker's output is not what it promises");
                Outcome::BadOutput { path: refusal.path }
            }
        },
        (ActionResultStatus::Failed, Some(error)) if is_code(&error.code) => {
            let error = redact::error(error, offer);
            Outcome::Answered(Box::new(ActionResult::failed(result.action_id, error)))
        }
        (ActionResultStatus::Cancelled, None) => Outcome::Cancelled,
        // what would need a person or an approval is not offered in this release
        (status, _) => garbage(status.as_str()),
    }
}

/// An error instead of a result: the worker did not execute the action, and may say that another may.
pub fn refused(error: ProtocolError, offer: &Offer) -> Outcome {
    if !is_code(&error.code) {
        return garbage("an error code of another form");
    }
    if error.retryable == Some(true) && !errors::is_uncertain(&error) {
        return Outcome::NotDone(NotDone::Refused(error.code));
    }
    Outcome::Rejected(Box::new(redact::error(error, offer)))
}

fn is_code(code: &str) -> bool {
    (1..=CODE_BYTES_MAX).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_graphic())
}

fn garbage(why: &str) -> Outcome {
    tracing::warn!(why, "a worker answered something that is no result");
    Outcome::Lost(Lost::Garbage)
}

#[cfg(test)]
mod tests {
    use aip_wire::{Ack, AckStatus, ActionId, Timestamp, TransportMessage};
    use serde_json::json;

    use super::*;

    fn offer() -> Offer {
        let capability = json!({
            "id": "cap:a", "name": "a", "kind": "tool", "input_schema": {}, "output_schema": {"type": "object"},
        });
        Offer::new(serde_json::from_value(capability).unwrap(), "hash".into()).unwrap()
    }

    fn action() -> Action {
        serde_json::from_value(json!({"id": "act_1", "capability_id": "cap:a", "input": {}})).unwrap()
    }

    fn told(body: impl Into<MessageBody>, change: impl FnOnce(&mut Envelope)) -> Outcome {
        let request = Envelope::new(action(), Timestamp::now());
        let mut answer = Envelope::reply_to(&request, body, Timestamp::now());
        change(&mut answer);
        let frame = TransportMessage { envelope: serde_json::to_value(answer).unwrap(), metadata: None };
        read(&serde_json::to_vec(&frame).unwrap(), &request, &action(), &offer())
    }

    fn completed() -> ActionResult {
        ActionResult::completed(ActionId::opaque("act_1"), json!({}))
    }

    #[test]
    fn a_result_of_this_action_is_taken_and_its_receipt_is_not() {
        let mut result = completed();
        result.receipt = serde_json::from_value(json!({"id": "rcpt_1", "hash": "forged"})).unwrap();
        assert_eq!(told(result, |_| {}), Outcome::Answered(Box::new(completed())));
        // a worker may leave out what it answers
        assert_eq!(
            told(completed(), |answer| answer.in_response_to = None),
            Outcome::Answered(Box::new(completed()))
        );
    }

    #[test]
    fn everything_else_is_no_result() {
        let garbage = Outcome::Lost(Lost::Garbage);
        let other = ActionResult { action_id: ActionId::opaque("act_2"), ..completed() };
        assert_eq!(told(other, |_| {}), garbage);
        let cancelled = ActionResult { status: ActionResultStatus::Cancelled, ..completed() };
        assert_eq!(told(cancelled, |_| {}), Outcome::Cancelled);
        for status in [ActionResultStatus::PendingApproval, ActionResultStatus::RequiresHuman] {
            assert_eq!(told(ActionResult { status, ..completed() }, |_| {}), garbage);
        }
        let error = ProtocolError::of(codes::WORKER_FAILED, "no");
        assert_eq!(told(ActionResult { error: Some(error), ..completed() }, |_| {}), garbage);
        let another = aip_wire::MessageId::generate();
        assert_eq!(told(completed(), |answer| answer.in_response_to = Some(another.into())), garbage);
        let ack = Ack {
            action_id: ActionId::opaque("act_1"),
            status: AckStatus::Accepted,
            reason: None,
            retry_after_ms: None,
            queue: None,
        };
        assert_eq!(told(ack, |_| {}), garbage);
        let nameless = ProtocolError { code: String::new(), ..ProtocolError::of(codes::WORKER_FAILED, "no") };
        assert_eq!(told(aip_wire::ErrorBody { error: nameless }, |_| {}), garbage);
        assert!(matches!(
            told(ActionResult { output: None, ..completed() }, |_| {}),
            Outcome::BadOutput { .. }
        ));
    }

    #[test]
    fn an_error_says_whether_another_attempt_makes_sense() {
        let busy = ProtocolError::of(codes::WORKER_UNAVAILABLE, "not now");
        let later = Outcome::NotDone(NotDone::Refused(busy.code.clone()));
        assert_eq!(told(aip_wire::ErrorBody { error: busy.clone() }, |_| {}), later);
        let uncertain = ProtocolError { details: Some(json!({"uncertain_outcome": true})), ..busy };
        assert!(matches!(told(aip_wire::ErrorBody { error: uncertain }, |_| {}), Outcome::Rejected(_)));
    }
}
