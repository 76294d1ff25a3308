use serde_json::{Value, json};

use super::*;

fn capability(members: Value) -> Capability {
    let mut value = json!({"id": "cap:a", "name": "a", "kind": "tool", "input_schema": {}});
    for (name, member) in members.as_object().unwrap() {
        value[name] = member.clone();
    }
    serde_json::from_value(value).unwrap()
}

fn contract(members: Value) -> Value {
    let mut value = json!({
        "side_effects": ["read"],
        "idempotency": {
            "requirement": "optional", "collision_behavior": "reject_conflict", "key_scope": "principal",
        },
        "execution": {
            "supports_sync": true, "supports_async": false, "supports_streaming": true, "supports_cancel": false,
            "supports_retry": true, "expected_completion": "any", "retry_safety": "safe",
        },
        "data": {"sensitivity": "internal", "contains_pii": false, "redaction_required": false},
    });
    for (name, member) in members.as_object().unwrap() {
        value[name] = member.clone();
    }
    json!({"contract": value, "risk": "low"})
}

fn filter(value: Value) -> ManifestFilter {
    serde_json::from_value(value).unwrap()
}

#[test]
fn each_filter_narrows_and_none_widens() {
    let declared = capability(contract(json!({
        "transaction": {
            "supported_modes": ["execute"], "requires_plan_before_commit": false, "dry_run_fidelity": "schema_only",
        },
    })));
    for (given, passing) in [
        (json!({}), true),
        (json!({"capability_ids": ["cap:a", "cap:b"]}), true),
        (json!({"capability_ids": ["cap:b"]}), false),
        (json!({"profiles": ["aip.native.nats.v1"]}), true),
        (json!({"profiles": ["aip.mcp.compat.v1"]}), false),
        (json!({"risk": ["low", "high"]}), true),
        (json!({"risk": ["high"]}), false),
        (json!({"side_effects": ["read", "write"]}), true),
        (json!({"side_effects": ["write"]}), false),
        (json!({"requires_approval": false}), true),
        (json!({"requires_approval": true}), false),
        (json!({"supports_streaming": true}), true),
        (json!({"supports_streaming": false}), false),
        (json!({"supports_transactions": true}), true),
        (json!({"supports_transactions": false}), false),
        (json!({"risk": ["low"], "side_effects": ["write"]}), false),
    ] {
        assert_eq!(passes(&declared, &filter(given.clone())), passing, "{given}");
    }
}

#[test]
fn what_is_not_declared_is_read_as_admission_reads_it() {
    let bare = capability(json!({}));
    for (given, passing) in [
        (json!({"risk": ["high"]}), true),
        (json!({"risk": ["low"]}), false),
        (json!({"side_effects": ["write"]}), true),
        (json!({"side_effects": ["read"]}), false),
        (json!({"supports_streaming": false}), true),
        (json!({"supports_transactions": true}), false),
    ] {
        assert_eq!(passes(&bare, &filter(given.clone())), passing, "{given}");
    }
}
