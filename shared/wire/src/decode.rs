//! From a value to a type, without the leniencies of the ordinary decoder: an object is never a list, an enum never an
//! object (rule 132). Errors name members and kinds, never the values that were found.

use std::fmt;

use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, Unexpected,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Value;

use crate::codes;
use crate::refusal::{Refusal, push_step};

/// Decodes a value that was read strictly. The refusal carries the place.
pub fn decode<T: DeserializeOwned>(value: &Value) -> Result<T, Refusal> {
    // the place costs time to keep track of, so it is sought only once something is wrong
    T::deserialize(Strict(value))
        .or_else(|_| serde_path_to_error::deserialize(Strict(value)).map_err(|e| located(&e)))
}

fn located(error: &serde_path_to_error::Error<DecodeError>) -> Refusal {
    use serde_path_to_error::Segment;
    let mut path = String::new();
    for segment in error.path().iter() {
        match segment {
            Segment::Seq { index } => push_step(&mut path, &index.to_string()),
            Segment::Map { key } => push_step(&mut path, key),
            Segment::Enum { variant } => push_step(&mut path, variant),
            Segment::Unknown => {}
        }
    }
    let inner = error.inner();
    if let Some(member) = &inner.member {
        push_step(&mut path, member);
    }
    Refusal::new(codes::ENVELOPE_SHAPE, path, inner.message.clone())
}

/// What is wrong with a shape.
#[derive(Debug, Clone)]
pub(crate) struct DecodeError {
    message: String,
    /// The member that is missing, when that is what is wrong: it has no place of its own yet.
    member: Option<String>,
}

impl DecodeError {
    fn new(message: impl Into<String>) -> DecodeError {
        DecodeError { message: message.into(), member: None }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.member {
            Some(member) => write!(f, "{}: {member}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for DecodeError {}

fn kind(found: Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "a boolean",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) => "an integer",
        Unexpected::Float(_) => "a number with a fraction or exponent",
        Unexpected::Char(_) | Unexpected::Str(_) | Unexpected::Bytes(_) => "a string",
        Unexpected::Unit | Unexpected::Option => "null",
        Unexpected::Seq => "a list",
        Unexpected::Map => "an object",
        _ => "something else",
    }
}

impl de::Error for DecodeError {
    fn custom<T: fmt::Display>(message: T) -> DecodeError {
        DecodeError::new(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn de::Expected) -> DecodeError {
        DecodeError::new(format!("expected {expected}, found {}", kind(found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn de::Expected) -> DecodeError {
        DecodeError::new(format!("expected {expected}, found {} out of range", kind(found)))
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> DecodeError {
        DecodeError::new(format!("not one of the {} names that stand here", expected.len()))
    }

    fn unknown_field(member: &str, _: &'static [&'static str]) -> DecodeError {
        DecodeError::new(format!("unknown member {member}"))
    }

    fn missing_field(member: &'static str) -> DecodeError {
        DecodeError { message: "required member is missing".into(), member: Some(member.into()) }
    }
}

/// The decoder: the ordinary one for values, closed where that one is lenient.
#[derive(Clone, Copy)]
pub(crate) struct Strict<'de>(pub &'de Value);

impl Strict<'_> {
    fn wrong(self, expected: &str) -> DecodeError {
        let found = match self.0 {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        DecodeError::new(format!("expected {expected}, found {found}"))
    }
}

impl<'de> Deserializer<'de> for Strict<'de> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => {
                if let Some(value) = number.as_u64() {
                    visitor.visit_u64(value)
                } else if let Some(value) = number.as_i64() {
                    visitor.visit_i64(value)
                } else {
                    visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN))
                }
            }
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => {
                visitor.visit_seq(de::value::SeqDeserializer::new(items.iter().map(Strict)))
            }
            Value::Object(members) => visitor.visit_map(de::value::MapDeserializer::new(
                members.iter().map(|(name, value)| (name.as_str(), Strict(value))),
            )),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        if self.0.is_object() { self.deserialize_any(visitor) } else { Err(self.wrong("an object")) }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        if self.0.is_object() { self.deserialize_any(visitor) } else { Err(self.wrong("an object")) }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let Value::Object(members) = self.0 else { return Err(self.wrong("an object with one member")) };
        let mut members = members.iter();
        match (members.next(), members.next()) {
            (Some((name, value)), None) => visitor.visit_enum(OneMember { name, value }),
            _ => Err(DecodeError::new("expected an object with exactly one member")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, DecodeError> for Strict<'de> {
    type Deserializer = Strict<'de>;

    fn into_deserializer(self) -> Strict<'de> {
        self
    }
}

/// An externally tagged union: one member, whose name chooses what its value is.
struct OneMember<'de> {
    name: &'de str,
    value: &'de Value,
}

impl<'de> EnumAccess<'de> for OneMember<'de> {
    type Error = DecodeError;
    type Variant = Strict<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Strict<'de>), DecodeError> {
        let name = de::value::BorrowedStrDeserializer::new(self.name);
        Ok((seed.deserialize(name)?, Strict(self.value)))
    }
}

impl<'de> VariantAccess<'de> for Strict<'de> {
    type Error = DecodeError;

    fn unit_variant(self) -> Result<(), DecodeError> {
        Err(DecodeError::new("expected a string"))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, DecodeError> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, DecodeError> {
        Err(DecodeError::new("expected an object"))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.deserialize_struct("", fields, visitor)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::types::{Action, ApprovalPolicy, ApproverSelector, Binding, Cancel, Principal};

    fn refused<T: DeserializeOwned + fmt::Debug>(value: Value) -> (String, String) {
        let refusal = decode::<T>(&value).unwrap_err();
        (refusal.path, refusal.message)
    }

    #[test]
    fn places_are_named() {
        let principal = json!({"id": "a", "kind": "agent", "external_refs": [{"system": "s", "type": "t"}]});
        assert_eq!(refused::<Principal>(principal).0, "/external_refs/0/id");
        assert_eq!(refused::<Principal>(json!({"id": "a", "kind": "agent", "x": 1})).0, "/x");
        assert_eq!(refused::<Principal>(json!({"id": "a", "kind": "Agent"})).0, "/kind");
        assert_eq!(
            refused::<Principal>(json!({"id": "a", "kind": "agent", "external_refs": null})).0,
            "/external_refs"
        );
        assert_eq!(refused::<Cancel>(json!({"target": {"action": 7}})).0, "/target/action");
        assert!(decode::<Principal>(&json!({"id": "a", "kind": "agent", "did": null})).is_ok());
    }

    #[test]
    fn values_stay_out_of_messages() {
        for value in [
            json!({"id": {"pw": "hunter2"}, "kind": "agent"}),
            json!({"id": "a", "kind": "hunter2"}),
            json!({"id": "a", "kind": "agent", "did": ["hunter2"]}),
            json!({"id": "a", "kind": "agent", "external_refs": "hunter2"}),
        ] {
            let (path, message) = refused::<Principal>(value);
            assert!(!message.contains("hunter2") && !path.contains("hunter2"), "{path} {message}");
        }
        let (_, message) = refused::<ApproverSelector>(json!({"type": "hunter2"}));
        assert!(!message.contains("hunter2"), "{message}");
    }

    #[test]
    fn lenient_forms_are_refused() {
        assert_eq!(refused::<Principal>(json!(["a", "agent"])).1, "expected an object, found a list");
        refused::<Principal>(json!({"id": "a", "kind": {"agent": null}}));
        refused::<ApproverSelector>(json!(["principal", {"id": "a"}]));
        refused::<ApproverSelector>(json!({"type": "tenant_policy", "x": 1}));
        refused::<ApproverSelector>(json!({"type": "role"}));
        refused::<Cancel>(json!({"target": {"action": "act_1", "session": "sess_1"}}));
        refused::<Cancel>(json!({"target": "action"}));
        refused::<Action>(json!({"id": "act_1", "capability_id": "c"}));
        refused::<Action>(json!({"id": "act_1", "capability_id": "c", "input": 1, "timeout_ms": 1.0}));
        refused::<Action>(json!({"id": "act_1", "capability_id": "c", "input": 1, "timeout_ms": -1}));
        let nested = json!({"required": true, "approver_selector": {"type": "tenant_policy"},
            "rule": {"operator": "all", "rules": [["any", []]]}});
        refused::<ApprovalPolicy>(nested);
        let nested = json!({"required": true, "approver_selector": {"type": "tenant_policy"},
            "rule": {"operator": "all", "rules": [{"operator": "any", "rules": [], "x": 1}]}});
        refused::<ApprovalPolicy>(nested);
    }

    #[test]
    fn binding_keeps_its_own_members() {
        let value = json!({"profile": "aip.native.http.v1", "path": "/x", "n": 18446744073709551615u64});
        let binding = decode::<Binding>(&value).unwrap();
        assert_eq!(binding.extra.get("path"), Some(&json!("/x")));
        assert_eq!(serde_json::to_value(&binding).unwrap(), value);
    }
}
