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
