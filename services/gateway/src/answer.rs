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

fn ended(mut result: ActionResult, offer: &Offer) -> Outcome {
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
        // what would need a person, an approval or a cancellation is not offered in this release
        (status, _) => garbage(status.as_str()),
    }
}

/// An error instead of a result: the worker did not execute the action, and may say that another may.
fn refused(error: ProtocolError, offer: &Offer) -> Outcome {
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
