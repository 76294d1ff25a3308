//! Counts the subschemas of a schema with every reference followed. A schema whose references run in a circle, or that
//! unfolds without measure, could make validation as expensive as its author likes.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::codes;
use crate::refusal::Refusal;

/// Keywords whose value is one schema.
const ONE: &[&str] = &[
    "not",
    "if",
    "then",
    "else",
    "items",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "propertyNames",
    "contentSchema",
];
/// Keywords whose value is a list of schemas.
const LIST: &[&str] = &["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords whose value is an object of schemas.
const NAMED: &[&str] = &["properties", "patternProperties", "dependentSchemas"];

/// How many subschemas validation may visit for one place of a value, all references followed.
pub(super) fn expanded(schema: &Value) -> Result<usize, Refusal> {
    Expander { root: schema, known: HashMap::new(), open: HashSet::new() }.count(schema)
}

struct Expander<'s> {
    root: &'s Value,
    /// By reference: what it unfolds to.
    known: HashMap<&'s str, usize>,
    /// References being followed right now.
    open: HashSet<&'s str>,
}

impl<'s> Expander<'s> {
    fn count(&mut self, schema: &'s Value) -> Result<usize, Refusal> {
        let Value::Object(members) = schema else { return Ok(1) };
        let mut total: usize = 1;
        for (name, value) in members {
            let within = match (name.as_str(), value) {
                ("$ref", Value::String(reference)) => self.follow(reference)?,
                (name, value) if ONE.contains(&name) => self.count(value)?,
                (name, Value::Array(schemas)) if LIST.contains(&name) => self.sum(schemas.iter())?,
                (name, Value::Object(schemas)) if NAMED.contains(&name) => self.sum(schemas.values())?,
                _ => 0,
            };
            total = total.saturating_add(within);
        }
        Ok(total)
    }

    fn sum(&mut self, schemas: impl Iterator<Item = &'s Value>) -> Result<usize, Refusal> {
        let mut total: usize = 0;
        for schema in schemas {
            total = total.saturating_add(self.count(schema)?);
        }
        Ok(total)
    }

    fn follow(&mut self, reference: &'s str) -> Result<usize, Refusal> {
        if let Some(count) = self.known.get(reference) {
            return Ok(*count);
        }
        let pointer = reference.strip_prefix('#').unwrap_or(reference);
        // a percent-encoded pointer names nothing here, and is refused as what it looks like
        let Some(target) = self.root.pointer(pointer) else {
            return Err(Refusal::new(codes::SCHEMA_REFERENCE, pointer, "the reference names nothing"));
        };
        if !self.open.insert(reference) {
            return Err(Refusal::new(codes::SCHEMA_RECURSIVE, pointer, codes::SCHEMA_RECURSIVE.meaning));
        }
        let count = self.count(target)?;
        self.open.remove(reference);
        self.known.insert(reference, count);
        Ok(count)
    }
}
