//! Makes the decision of an approver out of a path and what was posted: what is decided, why, under which constraints.
//! Who decides is said by the token alone, and when by us.

use aip_wire::{
    Envelope, MessageBody, MessageType, PrincipalKind, Refusal, Timestamp, codes, decode, read, rules,
};
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::answer::PathMembers;
use crate::front::OF_TOKEN;

/// Members that are not for the sender to say.
const OURS: [&str; 4] = ["approval_id", "approver", "decided_at", "authority_path"];

pub(super) fn decision(path: PathMembers, received: &Bytes) -> Result<MessageBody, Refusal> {
    let Value::Object(mut members) = read::strict(received)? else {
        return Err(Refusal::new(codes::ENVELOPE_SHAPE, "", "wants an object with a decision"));
    };
    if let Some(ours) = OURS.iter().find(|ours| members.contains_key(**ours)) {
        let message = "path and token say what is decided and by whom";
        return Err(Refusal::new(codes::ENVELOPE_MEMBERS_DISAGREE, format!("/{ours}"), message));
    }
    for (name, text) in path {
        members.insert(name, Value::String(text));
    }
    members.insert("approver".to_owned(), json!({"id": OF_TOKEN, "kind": PrincipalKind::System}));
    members.insert("decided_at".to_owned(), json!(Timestamp::now()));
    let key = MessageType::ApprovalDecision.body_key();
    let body: MessageBody =
        decode(&Value::Object(Map::from_iter([(key.to_owned(), Value::Object(members))])))?;
    let envelope = Envelope::new(body, Timestamp::now());
    rules::envelope(&envelope)?;
    Ok(envelope.body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(posted: &str) -> Result<MessageBody, Refusal> {
        let path = vec![("approval_id".to_owned(), "appr_1".to_owned())];
        decision(path, &Bytes::from(posted.to_owned()))
    }

    #[test]
    fn a_decision_says_what_and_why_and_not_who() {
        let MessageBody::ApprovalDecision(made_of) =
            made(r#"{"decision": "denied", "reason": "no"}"#).unwrap()
        else {
            panic!("no decision");
        };
        assert_eq!((made_of.approval_id.as_str(), made_of.approver.id.as_str()), ("appr_1", OF_TOKEN));
        for (posted, code) in [
            ("{}", codes::ENVELOPE_SHAPE),
            ("[]", codes::ENVELOPE_SHAPE),
            (r#"{"decision": "granted"}"#, codes::ENVELOPE_SHAPE),
            (r#"{"decision": "denied", "reason": " "}"#, codes::ENVELOPE_RULE),
            (
                r#"{"decision": "denied", "approver": {"id": "a", "kind": "human"}}"#,
                codes::ENVELOPE_MEMBERS_DISAGREE,
            ),
            (r#"{"decision": "denied", "approval_id": "appr_2"}"#, codes::ENVELOPE_MEMBERS_DISAGREE),
        ] {
            assert_eq!(made(posted).unwrap_err().code, code, "{posted}");
        }
    }
}
