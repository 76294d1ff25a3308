//! The vectors of an independent implementation, both ways. How they were made: `vectors/README.md`. Those of the
//! session profile are read beside its code, because only there can an ephemeral secret be chosen.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use aip_crypto::receipt::{self, ChainError, Verified, verify_chain};
use aip_crypto::{Did, SigningKey, canonical, sign_envelope, verify_envelope};
use serde_json::Value;

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn list<'a>(value: &'a Value, member: &str) -> &'a [Value] {
    let items = value[member].as_array().unwrap();
    assert!(!items.is_empty());
    items
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap()
}

fn bytes32(value: &Value, member: &str) -> [u8; 32] {
    hex::decode(text(value, member)).unwrap().try_into().unwrap()
}

/// The variant's name, without what it holds.
fn variant(error: impl std::fmt::Debug) -> String {
    let shown = format!("{error:?}");
    shown.split(['(', ' ']).next().unwrap().to_owned()
}

#[test]
fn canonical_form_and_hash() {
    let vectors = read(include_str!("vectors/canonical.json"));
    for vector in vectors.as_array().unwrap() {
        let value = read(text(vector, "text"));
        let form = String::from_utf8(canonical::to_vec(&value)).unwrap();
        assert_eq!(form, text(vector, "canonical"), "{}", vector["name"]);
        assert_eq!(canonical::hash(&value), text(vector, "sha256"), "{}", vector["name"]);
        assert_eq!(canonical::to_vec(&read(&form)), form.as_bytes(), "the form of a form is itself");
    }
}

#[test]
fn dids_of_keys() {
    let vectors = read(include_str!("vectors/did.json"));
    for vector in list(&vectors, "valid") {
        let did = text(vector, "did");
        let public_key = bytes32(vector, "public_key");
        assert_eq!(SigningKey::from_seed(&bytes32(vector, "seed")).did().as_str(), did);
        assert_eq!(Did::from_public_key(&public_key).unwrap().to_string(), did);
        assert_eq!(did.parse::<Did>().unwrap().public_key(), &public_key);
    }
    for vector in list(&vectors, "refused") {
        let refused = text(vector, "did").parse::<Did>().unwrap_err();
        assert_eq!(format!("{refused:?}"), text(vector, "error"), "{}", vector["name"]);
    }
}

#[test]
fn signed_envelopes() {
    let vectors = read(include_str!("vectors/envelopes.json"));
    for vector in list(&vectors, "signed") {
        let key = SigningKey::from_seed(&bytes32(vector, "seed"));
        let signed = &vector["signed"];
        assert_eq!(&verify_envelope(signed).unwrap(), key.did(), "{}", vector["name"]);
        let mut ours = vector["unsigned"].clone();
        sign_envelope(&mut ours, &key).unwrap();
        assert_eq!(&ours, signed, "{}", vector["name"]);
        let mut bare = signed.clone();
        bare["security"].as_object_mut().unwrap().remove("signature");
        let bytes = String::from_utf8(canonical::to_vec(&bare)).unwrap();
        assert_eq!(bytes, text(vector, "signing_text"), "{}", vector["name"]);
    }
    for vector in list(&vectors, "refused") {
        let refused = verify_envelope(&vector["envelope"]).unwrap_err();
        assert_eq!(variant(refused), text(vector, "error"), "{}", vector["name"]);
    }
}

#[test]
fn receipts_and_chains() {
    let vectors = read(include_str!("vectors/receipts.json"));
    for vector in list(&vectors, "good") {
        let chain = &vector["chain"];
        let verified = verify_chain(chain).unwrap();
        let receipts = chain["receipts"].as_array().unwrap();
        let root_hash = receipt::root(receipts.iter().map(|receipt| text(receipt, "hash")));
        assert_eq!(verified, Verified { receipts: receipts.len() as u64, root_hash: root_hash.clone() });
        assert!(chain["root_hash"].is_null() || chain["root_hash"] == root_hash.as_str());

        let mut previous = None;
        for theirs in receipts {
            let mut ours = theirs.clone();
            ours["hash"] = Value::Null;
            ours.as_object_mut().unwrap().remove("previous_hash");
            previous = Some(receipt::seal(&mut ours, previous.as_deref()).unwrap());
            assert_eq!(&ours, theirs, "{}", vector["name"]);
        }
    }
    for vector in list(&vectors, "tampered") {
        let (index, fault) = match verify_chain(&vector["chain"]).unwrap_err() {
            ChainError::Receipt { index, fault, .. } => (Some(index), variant(fault)),
            other => (None, variant(other)),
        };
        let found = (index, fault.as_str());
        assert_eq!(found, (vector["index"].as_u64(), text(vector, "fault")), "{}", vector["name"]);
    }
}
