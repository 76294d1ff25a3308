//! What of a worker's error may be kept and shown (19.1, 22.9). The facts that 19.3 wants to be preserved stay; other
//! details go through the marks of the capability's schemas, or go altogether where its contract asks for redaction.

use serde_json::{Map, Value};

use aip_names::limits::REFUSAL_TEXT_BYTES_MAX;
use aip_wire::ProtocolError;
use aip_wire::redact::redact_for;

use crate::catalog::Offer;

/// Facts about the failed operation (19.3): names and numbers of the provider, never content.
const FACTS: [&str; 8] = [
    "uncertain_outcome",
    "provider_request_id",
    "provider_operation",
    "operation",
    "remote_status",
    "retryable",
    "retry_after_ms",
    "component",
];

/// The error as it is recorded and answered.
pub fn error(error: ProtocolError, offer: &Offer) -> ProtocolError {
    ProtocolError {
        message: cut(error.message),
        details: error.details.map(|details| place(details, offer)),
        source: error.source.map(|source| place(source, offer)),
        ..error
    }
}

/// What else a worker says of a failure, as it is kept.
pub fn details(details: Value, offer: &Offer) -> Value {
    place(details, offer)
}

fn place(value: Value, offer: &Offer) -> Value {
    let Value::Object(members) = value else { return masked(&value, offer) };
    let (facts, rest): (Map<String, Value>, Map<String, Value>) =
        members.into_iter().partition(|(name, value)| FACTS.contains(&name.as_str()) && is_plain(value));
    let mut kept = match masked(&Value::Object(rest), offer) {
        Value::Object(rest) => rest,
        _ => Map::new(),
    };
    kept.extend(facts);
    Value::Object(kept)
}

/// Masked by both schemas, at the top and under the names by which a worker would repeat what it got or made.
fn masked(value: &Value, offer: &Offer) -> Value {
    let data = &offer.contract.data;
    let input = &offer.capability.input_schema;
    let output = offer.capability.output_schema.as_ref().unwrap_or(&Value::Bool(true));
    let mut value = redact_for(&redact_for(value, input, data), output, data);
    for (name, schema) in [("input", input), ("output", output)] {
        if let Some(member) = value.get_mut(name) {
            *member = redact_for(member, schema, data);
        }
    }
    value
}

fn is_plain(value: &Value) -> bool {
    match value {
        Value::String(text) => text.len() <= REFUSAL_TEXT_BYTES_MAX,
        Value::Object(_) | Value::Array(_) => false,
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

fn cut(mut text: String) -> String {
    if text.len() > REFUSAL_TEXT_BYTES_MAX {
        let end = (0..=REFUSAL_TEXT_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use aip_wire::codes;
    use serde_json::json;

    use super::*;

    fn offer(redaction_required: bool) -> Offer {
        let marked = json!({"properties": {"card": {"x-aip-redact": true}}});
        let capability = json!({
            "id": "cap:a", "name": "a", "kind": "tool", "input_schema": marked, "output_schema": marked,
            "contract": {
                "side_effects": ["write"],
                "idempotency": {
                    "requirement": "optional", "collision_behavior": "reject_conflict", "key_scope": "principal",
                },
                "execution": {
                    "supports_sync": true, "supports_async": false, "supports_streaming": false,
                    "supports_cancel": false, "supports_retry": false, "expected_completion": "sync",
                    "retry_safety": "unsafe",
                },
                "data": {
                    "sensitivity": "internal", "contains_pii": false, "redaction_required": redaction_required,
                },
            },
        });
        Offer::new(serde_json::from_value(capability).unwrap(), "hash".into()).unwrap()
    }

    fn told(details: Value, redaction_required: bool) -> Value {
        let failed =
            ProtocolError { details: Some(details), ..ProtocolError::of(codes::WORKER_FAILED, "no") };
        error(failed, &offer(redaction_required)).details.unwrap()
    }

    #[test]
    fn marks_hold_at_the_top_and_where_input_or_output_is_repeated() {
        let details =
            json!({"card": "1", "seat": 2, "input": {"card": "1", "seat": 2}, "output": {"card": "1"}});
        let expected = json!({
            "card": "[redacted]", "seat": 2, "input": {"card": "[redacted]", "seat": 2},
            "output": {"card": "[redacted]"},
        });
        assert_eq!(told(details, false), expected);
    }

    #[test]
    fn where_redaction_is_required_only_facts_stay() {
        let details = json!({
            "uncertain_outcome": true, "provider_operation": "op-1", "remote_status": {"body": "1"}, "seat": 2,
        });
        let expected = json!({
            "uncertain_outcome": true, "provider_operation": "op-1", "remote_status": {"body": "[redacted]"},
            "seat": "[redacted]",
        });
        assert_eq!(told(details, true), expected);
        assert_eq!(told(json!(["1"]), true), json!(["[redacted]"]));
    }

    #[test]
    fn a_text_has_a_length() {
        let long = ProtocolError::of(codes::WORKER_FAILED, "é".repeat(REFUSAL_TEXT_BYTES_MAX));
        assert!(error(long, &offer(false)).message.len() <= REFUSAL_TEXT_BYTES_MAX + '…'.len_utf8());
    }
}
