//! Makes the message of a wish to cancel out of a path and what was posted to it: nothing, a reason, or the message itself,
//! which has to be about the action of the path.

use aip_wire::{AIP_VERSION, MessageId, MessageType, Refusal, Timestamp, codes, read};
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::answer::PathMembers;

pub(super) fn envelope(path: PathMembers, received: &Bytes) -> Result<Bytes, Refusal> {
    let action = path.into_iter().find(|(name, _)| name == "action_id").map(|(_, id)| id).unwrap_or_default();
    let posted = match received.is_empty() {
        true => Value::Object(Map::new()),
        false => read::strict(received)?,
    };
    if ["aip_version", "message_type", "body"].iter().any(|name| posted.get(name).is_some()) {
        // the front reads it again, and judges all of it
        let about = posted.pointer("/body/cancel/target/action").and_then(Value::as_str);
        return match about == Some(action.as_str()) {
            true => Ok(received.clone()),
            false => Err(disagree("/body/cancel/target", "the message is not about the action of the path")),
        };
    }
    let Value::Object(mut members) = posted else {
        return Err(disagree("", "wants an object with a reason, or an envelope"));
    };
    members.insert("target".to_owned(), json!({ "action": action }));
    let envelope = json!({
        "aip_version": AIP_VERSION,
        "message_type": MessageType::Cancel,
        "message_id": MessageId::generate(),
        "sent_at": Timestamp::now(),
        "body": { MessageType::Cancel.body_key(): members },
    });
    Ok(Bytes::from(envelope.to_string()))
}

fn disagree(path: &str, message: &str) -> Refusal {
    Refusal::new(codes::ENVELOPE_MEMBERS_DISAGREE, path, message)
}
