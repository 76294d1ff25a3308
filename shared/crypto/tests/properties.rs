//! What must hold for every value: the canonical form reads back, signatures survive nothing but what JSON itself
//! doesn't see, and a chain shows the exact receipt that was touched.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use aip_crypto::receipt::{self, ChainError, ChainVerifier, Fault, Verified, verify_chain};
use aip_crypto::{SignError, SigningKey, canonical, sign_envelope, verify_envelope};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Names that collide often, and with the members that signing and hashing treat specially.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("security".to_owned()),
        Just("signature".to_owned()),
        Just("hash".to_owned()),
        "[a-cé\u{ff5e}\u{1f600}]{0,3}",
        any::<String>(),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (any::<i32>(), -20..20).prop_map(|(n, e)| Value::from(format!("{n}e{e}").parse::<f64>().unwrap())),
        (-1000i32..1000).prop_map(|n| Value::from(f64::from(n) / 8.0)),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            btree_map(name(), inner, 0..5).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn envelope() -> impl Strategy<Value = Value> {
    btree_map(name(), value(), 0..5).prop_map(|members| {
        let mut members: Map<String, Value> = members.into_iter().collect();
        if members.get("security").is_some_and(|security| !security.is_object()) {
            members.remove("security");
        }
        Value::Object(members)
    })
}

fn chain(contents: Vec<Value>) -> Value {
    let mut previous: Option<String> = None;
    let mut receipts = Vec::new();
    for (number, data) in contents.into_iter().enumerate() {
        let mut receipt = json!({"id": format!("rcpt_{number}"), "data": data});
        previous = Some(receipt::seal(&mut receipt, previous.as_deref()).unwrap());
        receipts.push(receipt);
    }
    let root = receipt::root(receipts.iter().map(|receipt| receipt["hash"].as_str().unwrap()));
    json!({"chain_id": "c", "receipts": receipts, "root_hash": root})
}

fn fault(chain: &Value) -> (u64, Fault) {
    match verify_chain(chain).unwrap_err() {
        ChainError::Receipt { index, fault, .. } => (index, fault),
        other => panic!("{other}"),
    }
}

proptest! {
    #[test]
    fn the_canonical_form_reads_back_and_is_what_serde_writes_sorted(value in value()) {
        let form = canonical::to_vec(&value);
        prop_assert_eq!(&serde_json::from_slice::<Value>(&form).unwrap(), &value);
        prop_assert_eq!(form, serde_json::to_vec(&value).unwrap());
    }

    #[test]
    fn the_order_of_arrival_does_not_matter(members in vec((name(), value()), 0..6), seed in any::<[u8; 32]>()) {
        let mut names = std::collections::HashSet::new();
        let members: Vec<_> = members.into_iter().filter(|(name, _)| names.insert(name.clone())).collect();
        let text = |members: Vec<&(String, Value)>| {
            let body: Vec<_> = members.iter().map(|(n, v)| format!("{}:{v}", Value::from(n.as_str()))).collect();
            serde_json::from_str::<Value>(&format!("{{{}}}", body.join(", "))).unwrap()
        };
        let (forth, back) = (text(members.iter().collect()), text(members.iter().rev().collect()));
        prop_assert_eq!(canonical::hash(&forth), canonical::hash(&back));
        let key = SigningKey::from_seed(&seed);
        let (mut forth, mut back) = (json!({"body": forth}), json!({"body": back}));
        sign_envelope(&mut forth, &key).unwrap();
        sign_envelope(&mut back, &key).unwrap();
        prop_assert_eq!(forth, back);
    }

    #[test]
    fn what_is_signed_verifies_and_names_its_signer(mut envelope in envelope(), seed in any::<[u8; 32]>()) {
        let key = SigningKey::from_seed(&seed);
        sign_envelope(&mut envelope, &key).unwrap();
        prop_assert_eq!(verify_envelope(&envelope), Ok(key.did().clone()));
        let text = serde_json::to_string_pretty(&envelope).unwrap();
        prop_assert_eq!(verify_envelope(&serde_json::from_str(&text).unwrap()), Ok(key.did().clone()));
    }

    #[test]
    fn one_changed_byte_is_refused(mut envelope in envelope(), at in any::<prop::sample::Index>(), byte: u8) {
        sign_envelope(&mut envelope, &SigningKey::from_seed(&[1; 32])).unwrap();
        let mut text = serde_json::to_vec(&envelope).unwrap();
        let at = at.index(text.len());
        text[at] = byte;
        refuse_unless_equal(&text, &envelope);
    }

    #[test]
    fn one_changed_receipt_is_found_where_it_is(
        contents in vec(value(), 1..8), at in any::<prop::sample::Index>(), other in value(),
    ) {
        let mut chain = chain(contents);
        verify_chain(&chain).unwrap();
        let at = at.index(chain["receipts"].as_array().unwrap().len());
        prop_assume!(chain["receipts"][at]["data"] != other);
        chain["receipts"][at]["data"] = other;
        prop_assert_eq!(fault(&chain), (at as u64, Fault::HashMismatch));
    }

    #[test]
    fn a_receipt_removed_moved_or_forged_is_found_where_the_chain_breaks(
        contents in vec(value(), 3..8), at in any::<prop::sample::Index>(),
    ) {
        let whole = chain(contents);
        let count = whole["receipts"].as_array().unwrap().len();
        let at = 1 + at.index(count - 2);

        let mut removed = whole.clone();
        removed["receipts"].as_array_mut().unwrap().remove(at);
        prop_assert_eq!(fault(&removed), (at as u64, Fault::LinkMismatch));

        let mut swapped = whole.clone();
        swapped["receipts"].as_array_mut().unwrap().swap(at, at + 1);
        prop_assert_eq!(fault(&swapped), (at as u64, Fault::LinkMismatch));

        let mut forged = whole;
        forged["receipts"][at]["data"] = json!("forged and hashed again");
        forged["receipts"][at]["hash"] = json!(receipt::hash(&forged["receipts"][at]).unwrap());
        prop_assert_eq!(fault(&forged), (at as u64 + 1, Fault::LinkMismatch));
    }
}

fn refuse_unless_equal(text: &[u8], original: &Value) {
    if let Ok(changed) = serde_json::from_slice::<Value>(text)
        && &changed != original
    {
        let verdict = verify_envelope(&changed);
        assert!(verdict.is_err(), "accepted {}", String::from_utf8_lossy(text));
    }
}

#[test]
fn every_changed_bit_of_an_envelope_is_refused() {
    let mut envelope = json!({
        "aip_version": "1.0", "message_type": "aip.core.v1.ack", "message_id": "msg_1",
        "sent_at": "2026-12-01T08:00:00Z", "body": {"ack": {"n": 10, "x": 1.5, "t": true, "u": null}},
    });
    sign_envelope(&mut envelope, &SigningKey::from_seed(&[1; 32])).unwrap();
    let text = serde_json::to_vec(&envelope).unwrap();
    for bit in 0..text.len() * 8 {
        let mut changed = text.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        refuse_unless_equal(&changed, &envelope);
    }
}

#[test]
fn only_objects_with_a_fitting_security_are_signed() {
    let key = SigningKey::from_seed(&[1; 32]);
    assert_eq!(sign_envelope(&mut json!([]), &key), Err(SignError::NotAnObject));
    assert_eq!(sign_envelope(&mut json!({"security": "s"}), &key), Err(SignError::SecurityNotAnObject));
}

#[test]
fn a_broken_verifier_stays_broken() {
    let mut good = chain(vec![json!(1), json!(2)]);
    let root = good["root_hash"].take();
    let mut verifier = ChainVerifier::default();
    let first = verifier.push(&json!({"id": "rcpt_x"})).unwrap_err();
    for receipt in good["receipts"].as_array().unwrap() {
        assert_eq!(verifier.push(receipt).as_ref(), Err(&first));
    }
    assert_eq!(verifier.finish(root.as_str()), Err(first));
}

#[test]
fn a_long_chain_verifies_one_receipt_at_a_time() {
    let mut verifier = ChainVerifier::default();
    let mut hashes: Vec<String> = Vec::new();
    for number in 0..20_000 {
        let mut receipt = json!({"id": format!("rcpt_{number:032x}"), "data": {"n": number}});
        let hash = receipt::seal(&mut receipt, hashes.last().map(String::as_str)).unwrap();
        verifier.push(&receipt).unwrap();
        hashes.push(hash);
    }
    let root_hash = receipt::root(hashes.iter().map(String::as_str));
    let verified = verifier.finish(Some(&root_hash)).unwrap();
    assert_eq!(verified, Verified { receipts: 20_000, root_hash });
}
