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

#[cfg(test)]
mod tests {
    use aip_wire::{CancelTarget, MessageBody, validate};

    use super::*;

    fn made(posted: &str) -> Result<(Value, aip_wire::Cancel), Refusal> {
        let path = vec![("action_id".to_owned(), "act_1".to_owned())];
        let made = envelope(path, &Bytes::from(posted.to_owned()))?;
        let checked = validate::envelope(&made)?;
        let value = checked.value().clone();
        let (_, envelope) = checked.into_parts();
        match envelope.body {
            MessageBody::Cancel(wish) => Ok((value, *wish)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nothing_a_reason_or_the_message_itself_is_taken() {
        for (posted, reason) in [("", None), ("{}", None), (r#"{"reason": "late"}"#, Some("late"))] {
            let (_, wish) = made(posted).unwrap();
            assert_eq!(wish.reason.as_deref(), reason, "{posted}");
            assert!(matches!(wish.target, CancelTarget::Action(id) if id.as_str() == "act_1"), "{posted}");
        }
        let (whole, _) = made(r#"{"reason": "late"}"#).unwrap();
        assert_eq!(made(&whole.to_string()).unwrap().0, whole);
    }

    #[test]
    fn what_is_about_another_action_or_is_no_object_is_refused() {
        let (mut other, _) = made("").unwrap();
        other["body"]["cancel"]["target"] = json!({ "action": "act_2" });
        assert_eq!(made(&other.to_string()).unwrap_err().code, codes::ENVELOPE_MEMBERS_DISAGREE);
        other["body"]["cancel"]["target"] = json!({ "session": "sess_1" });
        assert_eq!(made(&other.to_string()).unwrap_err().code, codes::ENVELOPE_MEMBERS_DISAGREE);
        assert_eq!(made("[]").unwrap_err().code, codes::ENVELOPE_MEMBERS_DISAGREE);
        assert_eq!(made("{").unwrap_err().code, codes::JSON_MALFORMED);
        // a member that a wish does not have
        assert_eq!(made(r#"{"why": 1}"#).unwrap_err().code, codes::ENVELOPE_SHAPE);
    }
}
