//! Makes the schema files from the types and the overlays. Called by the example that writes them and by the test that
//! compares them; never at run time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::{ENVELOPE, digest, overlay};
use crate::envelope::{AIP_VERSION, Envelope};
use crate::message::MessageType;

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
const BASE: &str = "https://aip.dev/schemas/aip/";

/// Objects of Appendix A that are no bodies: file stem, type, and the rules that hold wherever the object is judged.
const PARTS: &[(&str, &str)] = &[
    ("manifest_filter", "ManifestFilter"),
    ("capability_contract", "CapabilityContract"),
    ("identity_context", "IdentityContext"),
    ("transaction_plan", "TransactionPlan"),
    ("callback_delivery_policy", "CallbackDeliveryPolicy"),
    ("event", "Event"),
];

/// Everything that is generated from the types.
pub struct Generated {
    /// File name and text of `schemas/aip`.
    pub schemas: BTreeMap<String, String>,
    /// The text of `src/schemas/files.rs`.
    pub registry: String,
}

/// Makes all files anew.
pub fn generate() -> Result<Generated, serde_json::Error> {
    let defs = definitions();
    let mut schemas = BTreeMap::new();
    for message_type in MessageType::ALL {
        let rules = overlay::body(message_type.body_key());
        let root = ruled(message_type.payload(), rules);
        add(&mut schemas, message_type.body_key(), message_type.payload(), root, &defs)?;
    }
    for (stem, type_name) in PARTS {
        add(&mut schemas, stem, type_name, ruled(type_name, overlay::part(stem)), &defs)?;
    }
    let (root, with_bodies) = envelope(&defs);
    add(&mut schemas, "envelope", "Envelope", root, &with_bodies)?;
    let registry = registry(&schemas);
    Ok(Generated { schemas, registry })
}

/// Every type that an envelope can reach, by name.
fn definitions() -> Map<String, Value> {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    generator.subschema_for::<Envelope>();
    let mut defs = generator.take_definitions(true);
    for schema in defs.values_mut() {
        bound_integers(schema);
    }
    defs
}

/// An integer has an upper bound, which its format alone does not enforce.
fn bound_integers(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let bound = match members.get("format").and_then(Value::as_str) {
                Some("uint32") => Some(u64::from(u32::MAX)),
                Some("uint64") => Some(u64::MAX),
                _ => None,
            };
            if let Some(bound) = bound {
                members.insert("maximum".into(), json!(bound));
            }
            members.values_mut().for_each(bound_integers);
        }
        Value::Array(items) => items.iter_mut().for_each(bound_integers),
        _ => {}
    }
}

/// A type, and the rules on top of it.
fn ruled(type_name: &str, rules: Vec<Value>) -> Value {
    let shape = json!({ "$ref": format!("#/$defs/{type_name}") });
    if rules.is_empty() {
        return shape;
    }
    let mut parts = vec![shape];
    parts.extend(rules);
    json!({ "allOf": parts })
}

fn envelope(defs: &Map<String, Value>) -> (Value, Map<String, Value>) {
    let mut defs = defs.clone();
    let mut root = defs.remove("Envelope").unwrap_or_default();
    defs.remove("MessageBody");
    let mut agreements = Vec::new();
    for message_type in MessageType::ALL {
        let key = message_type.body_key();
        let rules = overlay::body(key);
        let mut name = message_type.payload().to_owned();
        if !rules.is_empty() {
            name.push_str("Body");
            defs.insert(name.clone(), ruled(message_type.payload(), rules));
        }
        agreements.push(json!({
            "if": { "properties": { "message_type": { "const": message_type } }, "required": ["message_type"] },
            "then": { "properties": { "body": {
                "properties": { key: { "$ref": format!("#/$defs/{name}") } },
                "required": [key],
                "additionalProperties": false,
            } } },
        }));
    }
    if let Some(members) = root.as_object_mut() {
        if let Some(properties) = members.get_mut("properties").and_then(Value::as_object_mut) {
            properties.insert("aip_version".into(), json!({ "const": AIP_VERSION }));
            properties.insert("message_id".into(), json!({ "type": "string", "minLength": 1 }));
            properties
                .insert("idempotency_key".into(), json!({ "type": ["string", "null"], "minLength": 1 }));
            let description = "one member, whose name goes with message_type";
            properties.insert("body".into(), json!({ "type": "object", "description": description }));
        }
        members.insert("allOf".into(), Value::Array(agreements));
    }
    (root, defs)
}

fn add(
    schemas: &mut BTreeMap<String, String>,
    stem: &str,
    title: &str,
    root: Value,
    defs: &Map<String, Value>,
) -> Result<(), serde_json::Error> {
    let name = format!("{stem}.schema.json");
    let mut file = root.as_object().cloned().unwrap_or_default();
    let mut wanted = BTreeSet::new();
    reach(&root, defs, &mut wanted);
    let kept: Map<String, Value> =
        defs.iter().filter(|(name, _)| wanted.contains(*name)).map(|(n, s)| (n.clone(), s.clone())).collect();
    file.insert("$schema".into(), json!(DIALECT));
    file.insert("$id".into(), json!(format!("{BASE}{name}")));
    file.insert("title".into(), json!(title));
    file.insert("$defs".into(), Value::Object(kept));
    let text = serde_json::to_string_pretty(&file)? + "\n";
    schemas.insert(name, text);
    Ok(())
}

/// Names of the definitions that a schema refers to, directly or not.
fn reach(schema: &Value, defs: &Map<String, Value>, wanted: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            if let Some(name) =
                members.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix("#/$defs/"))
                && wanted.insert(name.to_owned())
                && let Some(target) = defs.get(name)
            {
                reach(target, defs, wanted);
            }
            members.values().for_each(|member| reach(member, defs, wanted));
        }
        Value::Array(items) => items.iter().for_each(|item| reach(item, defs, wanted)),
        _ => {}
    }
}

fn registry(schemas: &BTreeMap<String, String>) -> String {
    let mut text = String::from(
        "//! Generated by `cargo run -p aip-wire --example regenerate`; do not edit.\n\n\
         macro_rules! file {\n    ($name:literal) => {\n        \
         ($name, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/../../schemas/aip/\", $name)))\n    };\n}\n\n\
         pub(super) const FILES: &[(&str, &str)] = &[\n",
    );
    for name in schemas.keys() {
        // writing to a string cannot fail
        let _ = writeln!(text, "    file!(\"{name}\"),");
    }
    let sum = digest(schemas.iter().map(|(name, text)| (name.as_str(), text.as_str())));
    let _ = writeln!(text, "];\n\n/// What the set hashes to.\npub const DIGEST: &str = \"{sum}\";");
    debug_assert!(schemas.contains_key(ENVELOPE));
    text
}
