//! Types and schemas judge generated envelopes alike, and no bytes make the reader panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use aip_wire::{MessageType, codes, decode, read, schemas, validate};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

/// The valid examples of every type: what generated envelopes are made from.
fn seeds() -> &'static [Value] {
    static SEEDS: OnceLock<Vec<Value>> = OnceLock::new();
    SEEDS.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/examples");
        let folders =
            MessageType::ALL.iter().map(|message_type| root.join(message_type.body_key()).join("valid"));
        let files = folders.flat_map(|folder| fs::read_dir(folder).unwrap());
        files.map(|file| serde_json::from_slice(&fs::read(file.unwrap().path()).unwrap()).unwrap()).collect()
    })
}

/// One change somewhere in an envelope.
#[derive(Debug, Clone)]
enum Change {
    Remove(Index),
    Replace(Index, Value),
    Add(Index, &'static str, Value),
    /// Puts a value from elsewhere in the envelope, of the right kind more often than chance.
    Copy(Index, Index),
    Repeat(Index),
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop_oneof![
            Just(0_u64),
            Just(1),
            Just(1_000),
            Just(1_001),
            Just(30_001),
            Just(4_294_967_296),
            any::<u64>()
        ]
        .prop_map(Value::from),
        (-5_i64..0).prop_map(Value::from),
        // never a whole number: a schema takes 1.0 for an integer, the protocol does not
        (0_u8..9).prop_map(|n| Value::from(f64::from(n) + 0.5)),
        Just(json!(1e300)),
        prop_oneof![
            Just(""),
            Just(" "),
            Just("\u{85}\u{2003}"),
            Just("\u{feff}"),
            Just("\u{200b}"),
            Just("x"),
            Just("failed"),
            Just("completed"),
            Just("commit"),
            Just("planned"),
            Just("supported"),
            Just("approved"),
            Just("denied"),
            Just("sync"),
            Just("text"),
            Just("role"),
            Just("any"),
            Just("2026-07-14T08:30:00Z"),
            Just("2026-07-14T08:30:00"),
            Just("2026-13-14T08:30:00Z"),
            Just("2016-12-31T23:59:60Z"),
            Just("aip-manifest/v1"),
            Just("act_2"),
        ]
        .prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!([""])),
        Just(json!([null])),
        Just(json!({"id": ""})),
        Just(json!({"operator": "any", "rules": []})),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let names = prop_oneof![
        Just("surprise"),
        Just("error"),
        Just("plan_id"),
        Just("tenant_id"),
        Just("limit"),
        Just("wait_ms"),
        Just("identity"),
        Just("transaction"),
        Just("type"),
        Just("reason"),
        Just("root_hash"),
        Just("progress"),
    ];
    prop_oneof![
        2 => any::<Index>().prop_map(Change::Remove),
        4 => (any::<Index>(), leaf()).prop_map(|(place, value)| Change::Replace(place, value)),
        2 => (any::<Index>(), names, leaf()).prop_map(|(place, name, value)| Change::Add(place, name, value)),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(to, from)| Change::Copy(to, from)),
        1 => any::<Index>().prop_map(Change::Repeat),
    ]
}

/// Pointers to every value below the root.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let escape = |name: &str| name.replace('~', "~0").replace('/', "~1");
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(members) => {
            members.iter().map(|(name, v)| (format!("{at}/{}", escape(name)), v)).collect()
        }
        Value::Array(items) => items.iter().enumerate().map(|(i, v)| (format!("{at}/{i}"), v)).collect(),
        _ => Vec::new(),
    };
    for (place, value) in inner {
        places(value, &place, found);
        found.push(place);
    }
}

fn apply(envelope: &mut Value, change: &Change) {
    let mut all = Vec::new();
    places(envelope, "", &mut all);
    if all.is_empty() {
        return;
    }
    match change {
        Change::Remove(place) => {
            let (parent, name) = place.get(&all[..]).rsplit_once('/').unwrap();
            match envelope.pointer_mut(parent).unwrap() {
                Value::Object(members) => {
                    members.remove(&name.replace("~1", "/").replace("~0", "~"));
                }
                Value::Array(items) => {
                    items.remove(name.parse().unwrap());
                }
                _ => unreachable!("only containers have places below them"),
            }
        }
        Change::Replace(place, value) => {
            *envelope.pointer_mut(place.get(&all[..]).as_str()).unwrap() = value.clone()
        }
        Change::Add(place, name, value) => {
            match envelope.pointer_mut(place.get(&all[..]).as_str()).unwrap() {
                Value::Object(members) => {
                    members.insert((*name).to_owned(), value.clone());
                }
                Value::Array(items) => items.push(value.clone()),
                other => *other = value.clone(),
            }
        }
        Change::Copy(to, from) => {
            let copied = envelope.pointer(from.get(&all[..]).as_str()).unwrap().clone();
            *envelope.pointer_mut(to.get(&all[..]).as_str()).unwrap() = copied;
        }
        Change::Repeat(place) => {
            if let Value::Array(items) = envelope.pointer_mut(place.get(&all[..]).as_str()).unwrap()
                && let Some(last) = items.last().cloned()
            {
                items.push(last);
            }
        }
    }
}

/// Enough for every run; `PROPTEST_CASES` asks for more.
fn cases() -> u32 {
    ProptestConfig::default().cases.max(4_000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn types_and_schema_agree(seed in any::<Index>(), changes in prop::collection::vec(change(), 0..4)) {
        let mut envelope = seed.get(seeds()).clone();
        for change in &changes {
            apply(&mut envelope, change);
        }
        let bytes = serde_json::to_vec(&envelope).unwrap();
        let by_schema = schemas::set().unwrap().takes_envelope(&envelope);
        match validate::envelope(&bytes) {
            Ok(_) => prop_assert!(by_schema, "only the types take {envelope}"),
            // two members that do not fit are beyond a schema; the rest of the message may still be wrong for it too
            Err(refusal) if refusal.code == codes::ENVELOPE_MEMBERS_DISAGREE => {}
            Err(refusal) => prop_assert!(!by_schema, "only the schema takes {envelope}: {refusal}"),
        }
    }

    #[test]
    fn what_is_taken_is_the_same_when_written_again(seed in any::<Index>()) {
        let envelope = seed.get(seeds());
        let typed: aip_wire::Envelope = decode(envelope).unwrap();
        let again: aip_wire::Envelope = decode(&serde_json::to_value(&typed).unwrap()).unwrap();
        prop_assert_eq!(typed, again);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = validate::envelope(&bytes);
        let _ = validate::frame(&bytes, &read::Bounds::FRAME);
        let _ = validate::lines(&bytes[..], std::io::sink());
    }

    #[test]
    fn no_text_near_json_panics(seed in any::<Index>(), at in any::<Index>(), put in "[\\]{}\",:\\\\u0-9eE+.d8-]{0,6}") {
        let mut bytes = serde_json::to_vec(seed.get(seeds())).unwrap();
        let at = at.index(bytes.len());
        bytes.splice(at..at, put.bytes());
        let _ = validate::envelope(&bytes);
    }

    #[test]
    fn strict_reading_keeps_doubles(number in any::<f64>().prop_filter("finite", |n| n.is_finite())) {
        let text = serde_json::to_string(&number).unwrap();
        prop_assert_eq!(read::strict(text.as_bytes()).unwrap().as_f64().unwrap().to_bits(), number.to_bits());
    }
}
