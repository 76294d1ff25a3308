//! What is generated and committed is what the types and registries say today.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use aip_wire::schemas;

const HOW: &str = "is stale: run `cargo run -p aip-wire --example regenerate`";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn schemas_on_disk_are_the_ones_generated() {
    let generated = schemas::generate().unwrap();
    let mut on_disk = BTreeMap::new();
    for entry in fs::read_dir(repository().join("schemas/aip")).unwrap() {
        let entry = entry.unwrap();
        on_disk.insert(entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap());
    }
    let names: Vec<&String> = generated.schemas.keys().collect();
    assert_eq!(on_disk.keys().collect::<Vec<_>>(), names, "schemas/aip {HOW}");
    for (name, text) in &generated.schemas {
        assert!(on_disk[name] == *text, "schemas/aip/{name} {HOW}");
    }
    let registry = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/schemas/files.rs");
    assert!(fs::read_to_string(registry).unwrap() == generated.registry, "src/schemas/files.rs {HOW}");
}

#[test]
fn the_reference_page_is_the_registries() {
    let page = fs::read_to_string(repository().join("schemas/REFERENCE.md")).unwrap();
    assert!(page == aip_wire::reference::page(), "schemas/REFERENCE.md {HOW}");
}

#[test]
fn the_embedded_set_has_its_digest_and_compiles() {
    schemas::check().unwrap();
    let set = schemas::set().unwrap();
    for (name, text) in schemas::files() {
        assert!(set.validator(name).is_some(), "{name}");
        let schema: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(schema["$id"], format!("https://aip.dev/schemas/aip/{name}"));
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        jsonschema::meta::validate(&schema).map_err(|error| error.to_string()).unwrap();
    }
}

#[test]
fn every_file_of_the_standard_registry_is_there() {
    let named = "envelope manifest manifest_filter action ack stream_chunk action_result action_status_request \
        action_status action_result_request action_list_request action_list action_events_request action_events \
        capability_contract identity_context approval_request approval_decision approval_query_request \
        approval_record_view approval_list_request approval_list session_request session_view session_list_request \
        session_list session_close_request session_resume_request session_resume transaction_plan \
        transaction_request transaction_result transaction_query_request transaction_view delegation_request \
        delegation_result resource_list_request resource_list resource_read_request resource_read_result \
        callback_delivery_policy callback_delivery_query_request callback_delivery_list_request \
        callback_delivery_record callback_delivery_list receipt_query_request audit_query_request \
        audit_query_result event event_stream channel_message escalation";
    let files: Vec<&str> = schemas::files().iter().map(|(name, _)| *name).collect();
    for stem in named.split_whitespace() {
        assert!(files.contains(&format!("{stem}.schema.json").as_str()), "{stem}");
    }
    for message_type in aip_wire::MessageType::ALL {
        assert!(
            files.contains(&format!("{}.schema.json", message_type.body_key()).as_str()),
            "{message_type}"
        );
    }
}
