use serde_json::{Value, json};

use super::{KeySet, KeySetError};
use crate::directory::TokenAlgorithm;
use crate::testing::{TokenKey, jwks};

fn set(keys: Vec<Value>) -> KeySet {
    KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
}

fn with(key: &TokenKey, name: &str, value: Value) -> Value {
    let mut jwk = key.jwk();
    jwk[name] = value;
    jwk
}

#[test]
fn each_key_is_pinned_to_one_algorithm() {
    let (ed, ec, rsa) = (TokenKey::ed25519("ed", 9), TokenKey::p256("ec"), TokenKey::rsa("rsa"));
    let set = KeySet::parse(jwks(&[&ed, &ec, &rsa]).as_bytes()).unwrap();
    assert_eq!(set.find(Some("ed")).unwrap().algorithm, TokenAlgorithm::EdDsa);
    assert_eq!(set.find(Some("ec")).unwrap().algorithm, TokenAlgorithm::Es256);
    assert_eq!(set.find(Some("rsa")).unwrap().algorithm, TokenAlgorithm::Rs256);
    assert!(set.find(Some("other")).is_none() && set.find(None).is_none());
}

#[test]
fn no_key_id_is_needed_where_there_is_no_choice() {
    let set = KeySet::parse(jwks(&[&TokenKey::p256("ec")]).as_bytes()).unwrap();
    assert!(set.find(None).is_some());
}

#[test]
fn keys_of_no_use_are_left_out() {
    let (ed, ec, rsa) = (TokenKey::ed25519("ed", 9), TokenKey::p256("ec"), TokenKey::rsa("rsa"));
    let useless = vec![
        with(&ed, "use", json!("enc")),
        with(&ed, "key_ops", json!(["sign"])),
        with(&ed, "alg", json!("ES256")),
        with(&ed, "x", json!("AAAA")),
        with(&ed, "crv", json!("X25519")),
        with(&ec, "crv", json!("P-384")),
        with(&ec, "y", json!("AAAA")),
        with(&rsa, "alg", json!("PS256")),
        with(&rsa, "e", json!("AQABAQABAQAB")),
        with(&rsa, "kty", json!(7)),
        TokenKey::rsa_weak("weak").jwk(),
        json!({ "kty": "oct", "kid": "hmac", "k": "c2VjcmV0" }),
        json!("no key at all"),
    ];
    let count = useless.len();
    let set = set(useless);
    assert_eq!(set.0.len(), 0, "of {count}: {set:?}");
}

#[test]
fn a_set_has_a_bound_and_a_shape() {
    let key = TokenKey::ed25519("ed", 9).jwk();
    let many = json!({ "keys": vec![key; aip_names::limits::JWKS_KEYS_MAX + 1] }).to_string();
    assert_eq!(KeySet::parse(many.as_bytes()).unwrap_err(), KeySetError::TooMany);
    for text in ["", "[]", "{}", "{\"keys\": {}}", "<html>"] {
        assert_eq!(KeySet::parse(text.as_bytes()).unwrap_err(), KeySetError::Shape, "{text}");
    }
}
