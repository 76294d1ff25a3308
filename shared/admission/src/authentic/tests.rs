use proptest::prelude::*;
use serde_json::{Value, json};

use aip_wire::{PrincipalKind, codes};

use super::*;
use crate::testing::{
    ALICE_KEY, NOW_MS, action, alice, authenticate, authenticator, bob, envelope, run, signed, valid, value,
};

fn message() -> Value {
    value(&envelope(action(json!({}))))
}

fn with(name: &str, member: Value) -> Value {
    let mut message = message();
    message[name] = member;
    message
}

fn code(message: Value, token: Option<&str>) -> &'static codes::Code {
    authenticate(message, token).unwrap_err().code
}

#[test]
fn a_signature_proves_the_principal_that_its_key_is_bound_to() {
    let message = signed(message(), &alice());
    let authentic = authenticate(message.clone(), None).unwrap();
    assert_eq!(*authentic.caller().id(), "service:alice");
    assert_eq!(*authentic.caller().method(), Method::Signature { did: alice().did().to_string() });
    assert_eq!(*authentic.received(), message);
    let from = authentic.envelope().from.as_ref().unwrap();
    assert_eq!((from.id.as_str(), from.kind), ("service:alice", PrincipalKind::Service));
    assert_eq!(from.display_name.as_deref(), Some("Alice"));
    assert_eq!(from.trust_domain.as_deref(), Some("aip.test"));
    assert!(authentic.is_signed());
}

#[test]
fn a_token_proves_its_principal_and_needs_no_replay_claim() {
    let authentic = authenticate(message(), Some(ALICE_KEY)).unwrap();
    assert_eq!(*authentic.caller().id(), "service:alice");
    assert_eq!(authentic.replay(), None);
    assert_eq!(code(message(), None), codes::AUTH_MISSING);
    assert_eq!(code(with("security", Value::Null), None), codes::AUTH_MISSING);
}

#[test]
fn whoever_claims_to_be_somebody_else_is_refused() {
    let good = json!({ "id": "service:alice", "kind": "service" });
    let claim = |name: &str, member: Value| {
        let mut from = good.clone();
        from[name] = member;
        with("from", from)
    };
    let did = alice().did().to_string();
    for message in [
        with("from", good.clone()),
        claim("trust_domain", json!("aip.test")),
        claim("did", json!(did)),
        claim("display_name", json!("The Boss")),
    ] {
        let authentic = authenticate(signed(message.clone(), &alice()), None).unwrap();
        assert_eq!(authentic.caller().principal().display_name.as_deref(), Some("Alice"));
        assert_eq!(authentic.envelope().from.as_ref(), Some(authentic.caller().principal()));
        assert!(authenticate(message, Some(ALICE_KEY)).is_ok());
    }
    for message in [
        claim("id", json!("agent:bob")),
        claim("id", json!("service:ALICE")),
        claim("kind", json!("agent")),
        claim("trust_domain", json!("aip.other")),
        claim("did", json!(bob().did().to_string())),
        claim("did", json!("did:key:zNobody")),
    ] {
        assert_eq!(code(signed(message.clone(), &alice()), None), codes::AUTH_CLAIM, "{message}");
        assert_eq!(code(message, Some(ALICE_KEY)), codes::AUTH_CLAIM);
    }
}

#[test]
fn a_key_that_nobody_is_bound_to_proves_nobody() {
    let stranger = aip_crypto::SigningKey::from_seed(&[7; 32]);
    let refusal = authenticate(signed(message(), &stranger), None).unwrap_err();
    assert_eq!((refusal.code, refusal.path.as_str()), (codes::AUTH_SIGNER, "/security/did"));
}

#[test]
fn token_and_signature_have_to_agree() {
    let authentic = authenticate(signed(message(), &alice()), Some(ALICE_KEY)).unwrap();
    assert_eq!(*authentic.caller().method(), Method::Signature { did: alice().did().to_string() });
    assert!(authentic.replay().is_some(), "a signed message is claimed however else it is proven");
    assert_eq!(code(signed(message(), &bob()), Some(ALICE_KEY)), codes::AUTH_CLAIM);
    assert_eq!(code(signed(message(), &alice()), Some("wrong")), codes::AUTH_TOKEN);
    let mut tampered = signed(message(), &alice());
    tampered["message_id"] = json!("msg_other");
    assert_eq!(code(tampered, Some(ALICE_KEY)), codes::AUTH_SIGNATURE);
}

#[test]
fn whatever_stands_in_security_has_to_verify() {
    let did = alice().did().to_string();
    for security in [
        json!({}),
        json!("signed"),
        json!({ "did": did }),
        json!({ "signature": "AAAA" }),
        json!({ "did": did, "signature": "!" }),
        json!({ "did": 7, "signature": "AAAA" }),
        json!({ "credential": "x" }),
    ] {
        for token in [None, Some(ALICE_KEY)] {
            assert_eq!(code(with("security", security.clone()), token), codes::AUTH_SIGNATURE, "{security}");
        }
    }
}

#[test]
fn signed_messages_are_taken_near_their_time_only() {
    let judge = |now_ms| {
        let authenticator = authenticator();
        run(authenticator.authenticate(valid(signed(message(), &alice())), None, now_ms)).map_err(|r| r.code)
    };
    assert!(judge(NOW_MS + 300_000).is_ok());
    assert_eq!(judge(NOW_MS + 300_001).unwrap_err(), codes::AUTH_SKEW);
    assert!(judge(NOW_MS - 30_000).is_ok());
    assert_eq!(judge(NOW_MS - 30_001).unwrap_err(), codes::AUTH_SKEW);
    // a token's own times count instead
    let message = valid(message());
    let bearer = crate::testing::secret(ALICE_KEY);
    assert!(run(authenticator().authenticate(message, Some(&bearer), NOW_MS + 900_000)).is_ok());
}

#[test]
fn a_replay_claim_outlives_the_message_it_is_for() {
    let limits = crate::testing::directory().limits();
    for now_ms in [NOW_MS - limits.skew_future_ms, NOW_MS, NOW_MS + limits.skew_past_ms] {
        let sent = valid(signed(message(), &alice()));
        let id = sent.envelope().message_id.clone();
        let authentic = run(authenticator().authenticate(sent, None, now_ms)).unwrap();
        let claim = authentic.replay().unwrap();
        assert_eq!(claim.name, format!("replay:{}:{id}", alice().did()));
        let last_taken_ms = NOW_MS + limits.skew_past_ms;
        assert!(claim.expires_at_ms > last_taken_ms, "{claim:?}");
        assert_eq!(claim.expires_at_ms, now_ms.max(NOW_MS) + limits.replay_window_ms);
    }
}

#[test]
fn a_caller_acts_in_its_own_tenants_only() {
    let tenants = |key: &aip_crypto::SigningKey, asked: Option<&str>| {
        let authentic = authenticate(signed(message(), key), None).unwrap();
        authentic.caller().tenant(asked).map(|t| t.map(str::to_owned)).map_err(|refusal| refusal.code)
    };
    let own = |tenant: &str| Ok(Some(tenant.to_owned()));
    assert_eq!(tenants(&alice(), None), own("acme"));
    assert_eq!(tenants(&alice(), Some("acme")), own("acme"));
    assert_eq!(tenants(&alice(), Some("beta")), own("beta"));
    assert_eq!(tenants(&bob(), None), own("beta"));
    assert_eq!(tenants(&bob(), Some("beta")), own("beta"));
    for unknown in ["acme", "gamma", "", "BETA"] {
        assert_eq!(tenants(&bob(), Some(unknown)), Err(codes::TENANT_MISMATCH));
    }
}

/// One change somewhere in a document: which value, and what becomes of it.
fn tamper(document: &mut Value, place: prop::sample::Index, change: &Value) {
    fn paths(value: &Value, at: &str, out: &mut Vec<String>) {
        out.push(at.to_owned());
        match value {
            Value::Object(members) => {
                members.iter().for_each(|(name, v)| paths(v, &format!("{at}/{name}"), out))
            }
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(i, v)| paths(v, &format!("{at}/{i}"), out))
            }
            _ => {}
        }
    }
    let mut all = Vec::new();
    paths(document, "", &mut all);
    let path = place.get(&all).clone();
    match document.pointer_mut(&path) {
        Some(Value::Object(members)) if !change.is_null() => {
            members.insert("added".to_owned(), change.clone());
        }
        Some(Value::String(text)) if change.is_string() => text.push_str(change.as_str().unwrap_or("x")),
        Some(other) => *other = change.clone(),
        None => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever is changed in a signed message, it is refused or it is no change; with or without a token beside it.
    #[test]
    fn no_tampered_message_is_authentic(
        place in any::<prop::sample::Index>(),
        change in prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            "[ -~]{1,8}".prop_map(Value::from),
            Just(json!({})),
            Just(json!([])),
        ],
        token in prop::option::of(Just(ALICE_KEY)),
    ) {
        let mut message = with("extensions", json!({ "signature": "kept", "list": [1, { "did": "x" }] }));
        message["from"] = json!({ "id": "service:alice", "kind": "service" });
        let original = signed(message, &alice());
        let mut tampered = original.clone();
        tamper(&mut tampered, place, &change);
        // most changes do not even leave an envelope
        let Ok(checked) = aip_wire::validate::value(tampered.clone()) else { return Ok(()) };
        let token = token.map(crate::testing::secret);
        let judged = run(authenticator().authenticate(checked.into(), token.as_ref(), NOW_MS));
        let unsigned = tampered.get("security").is_none_or(Value::is_null);
        match judged {
            Ok(_) if unsigned && token.is_some() => {}
            Ok(_) => prop_assert_eq!(tampered, original),
            Err(refusal) => prop_assert!(
                [codes::AUTH_SIGNATURE, codes::AUTH_MISSING].contains(&refusal.code), "{}", refusal
            ),
        }
    }
}
