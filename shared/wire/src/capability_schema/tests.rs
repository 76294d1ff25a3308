use serde_json::json;

use super::*;

fn refused(schema: Value) -> &'static str {
    compile(&schema).unwrap_err().code.name
}

#[test]
fn values_are_judged_and_not_repeated() {
    let schema = json!({
        "type": "object", "required": ["party_size"], "additionalProperties": false,
        "properties": {"party_size": {"type": "integer", "minimum": 1}, "card": {"$ref": "#/$defs/card"}},
        "$defs": {"card": {"type": "string", "pattern": "^[0-9]{4}$"}}
    });
    let compiled = compile(&schema).unwrap();
    assert!(compiled.check(&json!({"party_size": 2, "card": "1234"})).is_ok());
    let refusal = compiled.check(&json!({"party_size": 2, "card": "hunter2"})).unwrap_err();
    assert_eq!((refusal.code.name, refusal.path.as_str()), ("aip.action.invalid_input", "/card"));
    assert!(!refusal.message.contains("hunter2"), "{refusal}");
    let output = compile_output(&json!(false)).unwrap();
    assert_eq!(output.check(&json!(1)).unwrap_err().code, codes::ACTION_OUTPUT);
}

#[test]
fn what_leads_out_or_in_circles_is_refused() {
    for reference in ["https://example.com/x", "file:///etc/passwd", "other.json", "#anchor", "#/nowhere"] {
        assert_eq!(
            refused(json!({"properties": {"a": {"$ref": reference}}})),
            "aip.schema.reference_refused"
        );
    }
    assert_eq!(refused(json!({"$schema": "https://example.com/dialect"})), "aip.schema.reference_refused");
    assert_eq!(
        refused(json!({"$id": "https://example.com/x", "type": "object"})),
        "aip.schema.reference_refused"
    );
    assert_eq!(refused(json!({"$ref": "#"})), "aip.schema.recursive");
    let circle = json!({"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/b"}}, "b": {"not": {"$ref": "#/$defs/a"}}}});
    assert_eq!(refused(circle), "aip.schema.recursive");
}

#[test]
fn each_bound_has_its_code() {
    assert_eq!(refused(json!({"title": "x".repeat(SCHEMA_BYTES_MAX)})), "aip.limit.schema_bytes");
    assert_eq!(refused(json!({"enum": vec![0; SCHEMA_NODES_MAX]})), "aip.limit.schema_nodes");
    let deep = (0..SCHEMA_DEPTH_MAX).fold(json!({}), |inner, _| json!({"not": inner}));
    assert_eq!(refused(deep), "aip.limit.schema_depth");
    let mut defs = serde_json::Map::new();
    defs.insert("d0".into(), json!({"type": "object"}));
    for level in 1..20 {
        let below = format!("#/$defs/d{}", level - 1);
        defs.insert(format!("d{level}"), json!({"allOf": [{"$ref": below}, {"$ref": below}]}));
    }
    assert_eq!(refused(json!({"$ref": "#/$defs/d19", "$defs": defs})), "aip.limit.schema_nodes");
}

#[test]
fn what_is_no_schema_is_refused() {
    assert_eq!(refused(json!(true)), "aip.schema.malformed");
    assert_eq!(refused(json!({"type": "objekt"})), "aip.schema.malformed");
    assert_eq!(refused(json!({"properties": []})), "aip.schema.malformed");
    for pattern in ["(a", "(?=a)b", r"(a)\1", "(a{1000}){1000}"] {
        assert_eq!(
            refused(json!({"properties": {"x": {"pattern": pattern}}})),
            "aip.schema.pattern_refused",
            "{pattern}"
        );
    }
}

#[test]
fn a_pattern_that_makes_others_backtrack_takes_linear_time() {
    let compiled = compile(&json!({"properties": {"x": {"pattern": "^(a+)+$"}}})).unwrap();
    let value = json!({"x": "a".repeat(100_000) + "!"});
    assert!(compiled.check(&value).is_err());
}
