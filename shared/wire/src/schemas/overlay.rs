//! The rules of `rules` that a schema can say, as fragments laid over the shape of a body. What compares two members
//! (equal ids, unique ids, order of times) cannot be said here.

use aip_names::limits::{DELEGATION_HOPS_MAX, PAGE_ROWS_MAX, SETTLEMENT_RECORDS_MAX, WAIT_MS_MAX};
use serde_json::{Value, json};

use crate::types::Manifest;

/// One character that Unicode does not count as white space, spelled so that every regular expression dialect agrees.
const NONBLANK: &str = r"[^\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]";

/// Fragments for the body of this key; none for a body without rules.
pub(super) fn body(key: &str) -> Vec<Value> {
    match key {
        "handshake" => vec![all(["purpose"], nonblank())],
        "heartbeat" => {
            vec![with("progress", json!({ "minimum": f64::from(f32::MIN), "maximum": f64::from(f32::MAX) }))]
        }
        "action" => action(),
        "action_result" => vec![when("status", &["failed"], has("error"))],
        "action_status" => vec![action_status()],
        "action_status_request" | "action_result_request" => {
            vec![all(["tenant_id"], nonblank()), with("wait_ms", json!({ "maximum": WAIT_MS_MAX }))]
        }
        "action_list_request" | "audit_query_request" => vec![all(["tenant_id"], nonblank()), page()],
        "action_list" => vec![rows("actions")],
        "action_events_request" => {
            vec![all(["tenant_id"], nonblank()), with("kinds", json!({ "items": nonblank() })), page()]
        }
        "action_events" => {
            vec![rows("events"), rows("chunks"), with("events", json!({ "items": has("action_id") }))]
        }
        "session_list_request" | "event_stream_request" => vec![page()],
        "session_list" => vec![rows("sessions")],
        "session_close_request" => vec![all(["reason"], nonblank())],
        "session_resume_request" => vec![all(["resume_token"], nonblank())],
        "approval_request" => approval_request(),
        "approval_decision" => approval_decision(),
        "approval_query_request" => vec![all(["tenant_id"], nonblank())],
        "approval_list_request" => vec![page(), all(["status", "tenant_id"], nonblank())],
        "approval_record_view" => vec![
            with("request", json!({ "allOf": approval_request() })),
            with("decision", json!({ "allOf": approval_decision() })),
            all(["status"], nonblank()),
        ],
        "approval_list" => vec![rows("approvals")],
        "callback_delivery_query_request" => vec![all(["delivery_id", "tenant_id"], nonblank())],
        "callback_delivery_list_request" => vec![all(["tenant_id", "target"], nonblank()), page()],
        "callback_delivery_record" => vec![all(["delivery_id", "message_type"], nonblank())],
        "callback_delivery_list" => vec![rows("deliveries")],
        "delegation_request" => {
            vec![all(["scope"], nonblank()), with("child_action", json!({ "allOf": action() }))]
        }
        "delegation_result" => {
            let ended = ["completed", "failed", "cancelled", "requires_human"];
            vec![when("status", &ended, json!({ "anyOf": [has("result"), has("error")] }))]
        }
        "transaction_request" => {
            vec![with("action", json!({ "allOf": action() })), with("action", has("transaction"))]
        }
        "transaction_result" => transaction_result(),
        "transaction_query_request" => vec![
            json!({ "oneOf": [has("transaction_id"), has("plan_id"), has("action_id")] }),
            all(["plan_id", "tenant_id"], nonblank()),
        ],
        "transaction_view" => vec![with("transaction", has("transaction_id")), all(["status"], nonblank())],
        _ => body_of_discovery_and_record(key),
    }
}

fn body_of_discovery_and_record(key: &str) -> Vec<Value> {
    match key {
        "manifest_request" => vec![with("filter", with("resource_kinds", json!({ "items": nonblank() })))],
        "manifest" => manifest(),
        "event_stream" | "audit_query_result" => vec![rows("events")],
        "channel_message" | "conversation" => vec![with("identity", identity())],
        "receipt_chain" => vec![json!({
            "if": with("receipts", json!({ "minItems": 1 })),
            "then": { "allOf": [has("root_hash"), all(["root_hash"], nonblank())] },
        })],
        "receipt_query_request" => {
            vec![json!({ "oneOf": [has("chain_id"), has("receipt_id")] }), all(["chain_id"], nonblank())]
        }
        "audit_event" => vec![all(["action"], nonblank()), with("identity", identity())],
        "resource_list_request" => vec![all(["tenant_id", "kind"], nonblank()), page()],
        "resource_list" => vec![rows("resources")],
        "resource_read_request" => vec![all(["resource_id", "tenant_id", "version"], nonblank())],
        "resource_read_result" => vec![with("resource", all(["id"], nonblank()))],
        "batch_settlement" => vec![with("records", json!({ "maxItems": SETTLEMENT_RECORDS_MAX }))],
        _ => Vec::new(),
    }
}

/// Fragments for a schema of Appendix A that is no body.
pub(super) fn part(stem: &str) -> Vec<Value> {
    match stem {
        "capability_contract" => contract(),
        "identity_context" => vec![identity()],
        "manifest_filter" => vec![with("resource_kinds", json!({ "items": nonblank() }))],
        _ => Vec::new(),
    }
}

// === fragments ===

fn nonblank() -> Value {
    json!({ "pattern": NONBLANK })
}

fn with(member: &str, schema: Value) -> Value {
    json!({ "properties": { member: schema } })
}

/// The same schema for several members.
fn all<const N: usize>(members: [&str; N], schema: Value) -> Value {
    let properties: serde_json::Map<String, Value> =
        members.into_iter().map(|member| (member.to_owned(), schema.clone())).collect();
    json!({ "properties": properties })
}

/// The member is there and not null.
fn has(member: &str) -> Value {
    json!({
        "type": "object",
        "required": [member],
        "properties": { member: { "not": { "type": "null" } } },
    })
}

/// The condition holds when the member has one of these values; null in place of the object has none.
fn when(member: &str, values: &[&str], then: Value) -> Value {
    json!({
        "if": { "type": "object", "properties": { member: { "enum": values } }, "required": [member] },
        "then": then,
    })
}

fn positive() -> Value {
    json!({ "minimum": 1 })
}

fn page() -> Value {
    with("limit", json!({ "minimum": 1, "maximum": PAGE_ROWS_MAX }))
}

fn rows(member: &str) -> Value {
    with(member, json!({ "maxItems": PAGE_ROWS_MAX }))
}

// === the larger bodies ===

fn action() -> Vec<Value> {
    vec![
        with("input", json!({ "not": { "type": "null" } })),
        with("idempotency_key", json!({ "minLength": 1 })),
        with("timeout_ms", positive()),
        with("delegation_chain", json!({ "maxItems": DELEGATION_HOPS_MAX })),
        with("identity", identity()),
        with("approval", json!({ "allOf": approval_decision() })),
        with("approval", with("decision", json!({ "const": "approved" }))),
        with("transaction", when("mode", &["commit"], has("plan_id"))),
        with("transaction", when("mode", &["compensate"], has("compensation_for"))),
    ]
}

fn action_status() -> Value {
    let result_with_error = json!({ "allOf": [has("result"), with("result", has("error"))] });
    when("state", &["failed"], json!({ "anyOf": [has("result_status"), result_with_error] }))
}

fn identity() -> Value {
    let scopes = json!({ "items": nonblank() });
    json!({ "properties": {
        "tenant": all(["id"], nonblank()),
        "external_account": all(["id", "system"], nonblank()),
        "external_user": all(["id", "system"], nonblank()),
        "credential_ref": { "properties": { "id": nonblank(), "issuer": nonblank(), "scopes": scopes } },
        "oauth": { "properties": { "issuer": nonblank(), "scopes": scopes, "client_id": { "minLength": 1 } } },
    } })
}

fn approval_request() -> Vec<Value> {
    vec![all(["reason"], nonblank()), with("identity", identity()), evidence()]
}

fn approval_decision() -> Vec<Value> {
    let constraints = json!({ "items": all(["field", "operator"], nonblank()) });
    vec![all(["reason"], nonblank()), with("constraints", constraints), evidence()]
}

fn evidence() -> Value {
    with("evidence", json!({ "items": all(["id", "kind"], nonblank()) }))
}

fn transaction_result() -> Vec<Value> {
    let failed_result = json!({ "allOf": [has("error"), with("status", json!({ "const": "failed" }))] });
    let explained =
        json!({ "anyOf": [has("error"), { "allOf": [has("result"), with("result", failed_result)] }] });
    vec![
        with("transaction", has("transaction_id")),
        when("status", &["failed"], explained),
        when("status", &["planned"], has("plan")),
    ]
}

fn manifest() -> Vec<Value> {
    let capability = json!({ "properties": {
        "name": nonblank(),
        "input_schema": { "type": "object" },
        "contract": { "allOf": contract() },
    } });
    vec![
        with("manifest_version", json!({ "const": Manifest::VERSION })),
        with("profiles", json!({ "minItems": 1 })),
        with("capabilities", json!({ "items": capability })),
    ]
}

fn contract() -> Vec<Value> {
    let supports = |mode: &str| with(mode, json!({ "const": true }));
    let modes = json!({ "anyOf": [
        supports("supports_sync"), supports("supports_async"), supports("supports_streaming"),
    ] });
    let entries = json!({ "items": nonblank() });
    vec![
        json!({ "properties": { "side_effects": { "minItems": 1 } } }),
        json!({ "if": { "type": "object" }, "then": { "required": ["side_effects"] } }),
        with("idempotency", with("ttl_ms", positive())),
        with("execution", modes),
        with("sla", all(["expected_latency_ms", "timeout_ms", "max_queue_delay_ms"], positive())),
        with("credentials", all(["accepted_issuers", "required_scopes"], entries)),
        with("approval", with("ttl_ms", positive())),
        with("transaction", json!({ "required": ["supported_modes"] })),
        with("transaction", with("supported_modes", json!({ "minItems": 1 }))),
        with("compensation", when("mode", &["supported"], has("compensation_capability_id"))),
        with("compensation", with("compensation_window_ms", positive())),
    ]
}
