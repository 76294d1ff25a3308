//! The schemas that capabilities bring along (sections 9.3 and 22.8): bounded before they are compiled, closed in
//! themselves, with patterns matched in linear time. Compiling is heavy: never do it on an async worker.

use aip_names::limits::{
    SCHEMA_BYTES_MAX, SCHEMA_DEPTH_MAX, SCHEMA_EXPANDED_MAX, SCHEMA_NODES_MAX, SCHEMA_PATTERN_BYTES_MAX,
};
use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use crate::codes::{self, Code};
use crate::read::written_bytes;
use crate::refusal::{Refusal, push_step};

mod expand;

/// The one dialect.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// A schema ready to judge values.
#[derive(Debug)]
pub struct Compiled {
    validator: Validator,
    refused_with: &'static Code,
}

/// Compiles an input schema, which has to be an object. Values that do not fit are refused as invalid input.
pub fn compile(schema: &Value) -> Result<Compiled, Refusal> {
    if !schema.is_object() {
        return Err(Refusal::new(codes::SCHEMA_MALFORMED, "", "an input schema must be an object"));
    }
    build(schema, codes::ACTION_INPUT)
}

/// Compiles an output schema. Values that do not fit are refused as invalid output.
pub fn compile_output(schema: &Value) -> Result<Compiled, Refusal> {
    build(schema, codes::ACTION_OUTPUT)
}

impl Compiled {
    /// Judges a value. The refusal names the first place that does not fit, never what stands there.
    pub fn check(&self, value: &Value) -> Result<(), Refusal> {
        self.validator.validate(value).map_err(|error| {
            Refusal::new(self.refused_with, error.instance_path().as_str(), error.masked().to_string())
        })
    }
}

fn build(schema: &Value, refused_with: &'static Code) -> Result<Compiled, Refusal> {
    if written_bytes(schema) > SCHEMA_BYTES_MAX {
        return Err(Refusal::of(codes::LIMIT_SCHEMA_BYTES));
    }
    let mut nodes = 0;
    bounded(schema, &mut String::new(), 1, &mut nodes)?;
    if expand::expanded(schema)? > SCHEMA_EXPANDED_MAX {
        return Err(Refusal::new(
            codes::LIMIT_SCHEMA_NODES,
            "",
            "too many subschemas once references are followed",
        ));
    }
    let patterns =
        PatternOptions::regex().size_limit(SCHEMA_PATTERN_BYTES_MAX).dfa_size_limit(SCHEMA_PATTERN_BYTES_MAX);
    let validator = jsonschema::options()
        .with_draft(Draft::Draft202012)
        .offline()
        .with_pattern_options(patterns)
        .build(schema)
        .map_err(|error| {
            let pattern = error.instance_path().as_str().contains("pattern");
            let code = if pattern { codes::SCHEMA_PATTERN } else { codes::SCHEMA_MALFORMED };
            Refusal::new(code, error.instance_path().as_str(), code.meaning)
        })?;
    Ok(Compiled { validator, refused_with })
}

/// Bounds on depth and nodes, and no word that leads out of the schema.
fn bounded(value: &Value, path: &mut String, depth: usize, nodes: &mut usize) -> Result<(), Refusal> {
    *nodes += 1;
    if *nodes > SCHEMA_NODES_MAX {
        return Err(Refusal::new(
            codes::LIMIT_SCHEMA_NODES,
            path.as_str(),
            codes::LIMIT_SCHEMA_NODES.meaning,
        ));
    }
    if depth > SCHEMA_DEPTH_MAX {
        return Err(Refusal::new(
            codes::LIMIT_SCHEMA_DEPTH,
            path.as_str(),
            codes::LIMIT_SCHEMA_DEPTH.meaning,
        ));
    }
    let length = path.len();
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                push_step(path, &index.to_string());
                bounded(item, path, depth + 1, nodes)?;
                path.truncate(length);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                push_step(path, name);
                if let Some(text) = member.as_str() {
                    closed(name, text, path)?;
                }
                bounded(member, path, depth + 1, nodes)?;
                path.truncate(length);
            }
        }
        _ => {}
    }
    Ok(())
}

/// References stay inside the schema, by pointer; the dialect is ours. Told by name wherever the name stands, also in
/// data: a schema that hides such words in examples is not worth the doubt.
fn closed(name: &str, text: &str, path: &str) -> Result<(), Refusal> {
    let (allowed, message) = match name {
        "$ref" => (text == "#" || text.starts_with("#/"), "only #/… is followed"),
        "$dynamicRef" | "$recursiveRef" | "$dynamicAnchor" | "$anchor" | "$id" => {
            (false, "not taken in a capability")
        }
        "$schema" => (text.trim_end_matches('#') == DIALECT, "only draft 2020-12 is taken"),
        _ => (true, ""),
    };
    if allowed { Ok(()) } else { Err(Refusal::new(codes::SCHEMA_REFERENCE, path, message)) }
}

#[cfg(test)]
mod tests;
