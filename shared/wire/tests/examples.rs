//! Types with their rules and the schemas judge every committed example alike.
//!
//! A file named `….rule.json` breaks what only the types can tell: the comparison of two members, or an integer written
//! with a fraction. The schema takes it, and the test insists that it does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::path::{Path, PathBuf};

use aip_wire::{MessageType, codes, schemas, validate};
use serde_json::Value;

fn examples(key: &str, kind: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/examples").join(key).join(kind);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|path| {
            (format!("{key}/{kind}/{}", path.file_name().unwrap().to_str().unwrap()), fs::read(path).unwrap())
        })
        .collect()
}

#[test]
fn valid_examples_pass_both_and_come_out_as_they_went_in() {
    let set = schemas::set().unwrap();
    for message_type in MessageType::ALL {
        let key = message_type.body_key();
        let found = examples(key, "valid");
        assert!(!found.is_empty(), "{key} has no valid example");
        let body_schema = set.validator(&format!("{key}.schema.json")).unwrap();
        for (name, bytes) in found {
            let checked = validate::envelope(&bytes).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
            assert_eq!(checked.envelope().message_type, *message_type, "{name}");
            assert!(set.takes_envelope(checked.value()), "{name}: the schema refuses it");
            assert!(
                body_schema.is_valid(&checked.value()["body"][key]),
                "{name}: the body's schema refuses it"
            );

            let emitted = serde_json::to_vec(checked.envelope()).unwrap();
            let again =
                validate::envelope(&emitted).unwrap_or_else(|refusal| panic!("{name} emitted: {refusal}"));
            assert_eq!(again.envelope(), checked.envelope(), "{name}");
            assert!(set.takes_envelope(again.value()), "{name}: the schema refuses what was emitted");
        }
    }
}

#[test]
fn invalid_examples_are_refused_by_both() {
    let set = schemas::set().unwrap();
    for message_type in MessageType::ALL {
        let key = message_type.body_key();
        let found = examples(key, "invalid");
        assert!(found.len() >= 3, "{key} has only {} invalid examples", found.len());
        for (name, bytes) in found {
            let Err(refusal) = validate::envelope(&bytes) else { panic!("{name} passes") };
            let value: Value = serde_json::from_slice(&bytes).unwrap();
            let taken = set.takes_envelope(&value);
            assert_eq!(
                taken,
                name.ends_with(".rule.json"),
                "{name}: schema and types differ, types say {refusal}"
            );
            if taken && !name.contains("written-as-double") {
                assert_eq!(refusal.code, codes::ENVELOPE_MEMBERS_DISAGREE, "{name}: {refusal}");
            }
            let place = value.pointer(&refusal.path).is_some();
            let missing =
                value.pointer(refusal.path.rsplit_once('/').map_or("", |(parent, _)| parent)).is_some();
            assert!(place || missing, "{name}: {refusal} names no place");
        }
    }
}

#[test]
fn emission_follows_the_contract() {
    let text = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/examples").join(name);
        let checked = validate::envelope(&fs::read(path).unwrap()).unwrap();
        serde_json::to_string(checked.envelope()).unwrap()
    };
    // absent optionals are left out, members come in declaration order
    assert_eq!(
        text("heartbeat/valid/null-equals-absent.json"),
        r#"{"aip_version":"1.0","message_type":"aip.core.v1.heartbeat","message_id":"msg_0190c42f2d5a70008000000000000001","sent_at":"2026-07-14T08:30:00Z","body":{"heartbeat":{"sequence":18446744073709551615}}}"#
    );
    // false defaults are written, empty lists are not
    assert!(
        text("event_stream_request/valid/minimal.json").ends_with(r#""body":{"event_stream_request":{}}}"#)
    );
    assert!(
        text("action_result_request/valid/minimal.json")
            .ends_with(r#""include_receipt":false,"include_terminal_events":false}}}"#)
    );
    let policy = text("approval_request/valid/composed-policy.json");
    assert!(
        policy.contains(r#""allow_decision_reuse":false"#)
            && policy.contains(r#""distinct_principals":true"#)
    );
    assert!(policy.contains(r#""minimum_distinct_principals":1,"separation_of_duties":{"requester_must_differ":false,"operator_must_differ":false,"allow_self_approval":false}"#));
}
