//! Takes out of a value what others than its sender may not see (section 22.9): what the capability's schema marks, or
//! everything if its contract says so. In doubt it takes out more. The shape stays, so that the rest can be read.

use aip_names::limits::{JSON_DEPTH_MAX, REDACTION_STEPS_MAX};
use serde_json::{Map, Value};

use crate::types::DataContract;

/// What stands where something was taken out.
pub const REDACTED: &str = "[redacted]";
/// The annotation of a schema that marks a value as not for others. `writeOnly` does the same.
pub const ANNOTATION: &str = "x-aip-redact";

/// Redacts what a schema marks. Without a schema nothing is marked.
pub fn redact(value: &Value, schema: &Value) -> Value {
    let mut walk = Walk { root: schema, steps: 0 };
    walk.value(value, &[schema], 0)
}

/// Redacts every leaf, and keeps the shape.
pub fn redact_all(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            Value::Object(members.iter().map(|(name, member)| (name.clone(), redact_all(member))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(redact_all).collect()),
        _ => Value::String(REDACTED.to_owned()),
    }
}

/// Redacts as the contract of a capability demands: everything, or what the schema marks.
pub fn redact_for(value: &Value, schema: &Value, data: &DataContract) -> Value {
    if data.redaction_required { redact_all(value) } else { redact(value, schema) }
}

struct Walk<'s> {
    root: &'s Value,
    steps: usize,
}

impl<'s> Walk<'s> {
    /// Redacts a value that all of these schemas speak about.
    fn value(&mut self, value: &Value, schemas: &[&'s Value], depth: usize) -> Value {
        let mut all = Vec::new();
        for schema in schemas {
            self.gather(schema, &mut all, 0);
        }
        if depth > JSON_DEPTH_MAX
            || self.steps > REDACTION_STEPS_MAX
            || all.iter().any(|schema| marked(schema))
        {
            return redact_all(value);
        }
        match value {
            Value::Object(members) => Value::Object(
                members
                    .iter()
                    .map(|(name, member)| {
                        let within = member_schemas(&all, name);
                        (name.clone(), self.value(member, &within, depth + 1))
                    })
                    .collect(),
            ),
            Value::Array(items) => Value::Array(
                items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| self.value(item, &item_schemas(&all, index), depth + 1))
                    .collect(),
            ),
            leaf => leaf.clone(),
        }
    }

    /// Collects a schema and all that apply at the same place, whether or not they would match: in doubt, redact.
    fn gather(&mut self, schema: &'s Value, all: &mut Vec<&'s Map<String, Value>>, depth: usize) {
        self.steps += 1;
        let Value::Object(members) = schema else { return };
        if depth > JSON_DEPTH_MAX || self.steps > REDACTION_STEPS_MAX {
            self.steps = REDACTION_STEPS_MAX + 1;
            return;
        }
        all.push(members);
        if let Some(reference) = members.get("$ref").and_then(Value::as_str)
            && let Some(target) = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer))
        {
            self.gather(target, all, depth + 1);
        }
        for list in ["allOf", "anyOf", "oneOf"] {
            for part in members.get(list).and_then(Value::as_array).into_iter().flatten() {
                self.gather(part, all, depth + 1);
            }
        }
        for one in ["if", "then", "else"] {
            if let Some(part) = members.get(one) {
                self.gather(part, all, depth + 1);
            }
        }
        for part in
            members.get("dependentSchemas").and_then(Value::as_object).into_iter().flat_map(Map::values)
        {
            self.gather(part, all, depth + 1);
        }
    }
}

fn marked(schema: &Map<String, Value>) -> bool {
    [ANNOTATION, "writeOnly"].iter().any(|mark| schema.get(*mark) == Some(&Value::Bool(true)))
}

fn member_schemas<'s>(all: &[&'s Map<String, Value>], name: &str) -> Vec<&'s Value> {
    let mut within = Vec::new();
    for schema in all {
        within.extend(schema.get("properties").and_then(|properties| properties.get(name)));
        // which pattern matches is not worth knowing: whatever one of them marks is redacted
        within.extend(
            schema.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::values),
        );
        let named = schema.get("properties").is_some_and(|properties| properties.get(name).is_some());
        if !named {
            within.extend(schema.get("additionalProperties"));
            within.extend(schema.get("unevaluatedProperties"));
        }
    }
    within
}

fn item_schemas<'s>(all: &[&'s Map<String, Value>], index: usize) -> Vec<&'s Value> {
    let mut within = Vec::new();
    for schema in all {
        let prefix = schema.get("prefixItems").and_then(Value::as_array);
        match prefix.and_then(|schemas| schemas.get(index)) {
            Some(item) => within.push(item),
            None => within.extend(schema.get("items")),
        }
        within.extend(schema.get("contains"));
        within.extend(schema.get("unevaluatedItems"));
    }
    within
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_marked_goes_and_the_rest_stays() {
        let schema = json!({
            "properties": {
                "name": {"type": "string"},
                "card": {"$ref": "#/$defs/card"},
                "guests": {"items": {"allOf": [{"properties": {"phone": {"writeOnly": true}}}]}},
                "pair": {"prefixItems": [{}, {"x-aip-redact": true}]}
            },
            "patternProperties": {"^x-": {"x-aip-redact": false}},
            "anyOf": [{"properties": {"note": {"x-aip-redact": true}}}, {}],
            "$defs": {"card": {"x-aip-redact": true}}
        });
        let value = json!({
            "name": "Jordan", "card": {"number": "4111", "codes": [1, 2]}, "note": "n",
            "guests": [{"phone": "1", "seat": 1}], "pair": [1, 2, 3], "other": null
        });
        let expected = json!({
            "name": "Jordan", "card": {"number": REDACTED, "codes": [REDACTED, REDACTED]}, "note": REDACTED,
            "guests": [{"phone": REDACTED, "seat": 1}], "pair": [1, REDACTED, 3], "other": null
        });
        assert_eq!(redact(&value, &schema), expected);
        assert_eq!(redact(&value, &json!({"writeOnly": true})), redact_all(&value));
        assert_eq!(redact(&value, &json!(true)), value);
    }

    #[test]
    fn a_schema_without_end_redacts_everything() {
        let value = json!({"a": {"b": "secret"}});
        assert_eq!(redact(&value, &json!({"$ref": "#"})), redact_all(&value));
        let twice = json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}]});
        assert_eq!(redact(&value, &twice), redact_all(&value));
    }
}
