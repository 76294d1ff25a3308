use serde_json::{Value, json};

use aip_wire::codes;

use super::*;
use crate::testing::{
    NOW_MS, action, alice, authentic, authenticate, bob, capability, directory, envelope, value,
};

fn caller(key: &aip_crypto::SigningKey) -> Caller {
    authentic(action(json!({})), key).caller().clone()
}

fn dave() -> Caller {
    authenticate(value(&envelope(action(json!({})))), Some("dave-key")).unwrap().caller().clone()
}

fn id(text: &str) -> PrincipalId {
    PrincipalId::parse(text).unwrap()
}

/// Alice reads her own actions and every receipt of acme and beta, bob every action of beta.
#[test]
fn nobody_reads_beyond_their_scopes_and_tenants() {
    let (alice, bob) = (caller(&alice()), caller(&bob()));
    let (of_alice, of_bob) = (id("service:alice"), id("agent:bob"));
    let cases = [
        (&alice, &of_alice, Some("acme"), Family::Action, true),
        (&alice, &of_alice, Some("beta"), Family::Action, true),
        (&alice, &of_alice, None, Family::Action, true),
        (&alice, &of_alice, Some("gamma"), Family::Action, false),
        (&alice, &of_bob, Some("beta"), Family::Action, false),
        (&alice, &of_bob, Some("beta"), Family::Receipt, true),
        (&alice, &of_bob, Some("gamma"), Family::Receipt, false),
        (&alice, &of_bob, None, Family::Receipt, false),
        (&alice, &of_alice, Some("acme"), Family::Audit, false),
        (&bob, &of_bob, Some("beta"), Family::Action, true),
        (&bob, &of_bob, None, Family::Action, true),
        (&bob, &of_alice, Some("beta"), Family::Action, true),
        (&bob, &of_alice, Some("acme"), Family::Action, false),
        (&bob, &of_bob, Some("acme"), Family::Action, false),
        (&bob, &of_bob, Some("beta"), Family::Receipt, false),
    ];
    for (caller, owner, tenant, family, expected) in cases {
        assert_eq!(
            may_read(caller, owner, tenant, family),
            expected,
            "{} {owner} {tenant:?} {family:?}",
            caller.id()
        );
    }
}

#[test]
fn discovery_shows_what_could_be_invoked() {
    let directory = directory();
    let sees = |caller: &Caller, id: &str, risk: Value| {
        let mut shown = capability(id, Value::Null);
        shown.risk = aip_wire::decode(&risk).unwrap();
        may_discover(caller, &shown, &directory, NOW_MS)
    };
    assert!(sees(&caller(&alice()), "cap:restaurant:book", json!("critical")));
    assert!(!sees(&caller(&alice()), "cap:bank:close", json!("low")));
    assert!(sees(&caller(&bob()), "cap:restaurant:search", json!("medium")));
    assert!(!sees(&caller(&bob()), "cap:restaurant:search", json!("high")));
    assert!(!sees(&caller(&bob()), "cap:restaurant:search", Value::Null));
    // by a grant in force, and not by the one that has expired
    assert!(sees(&dave(), "cap:bank:transfer", json!("low")));
    assert!(!sees(&dave(), "cap:restaurant:book", json!("low")));
}

#[test]
fn what_a_caller_discovers_is_what_admission_lets_in() {
    let directory = directory();
    for (key, id) in
        [(alice(), "cap:restaurant:book"), (alice(), "cap:bank:close"), (bob(), "cap:restaurant:book")]
    {
        let offered = capability(id, Value::Null);
        let asking = authentic(action(json!({ "capability_id": id })), &key);
        let shown = may_discover(asking.caller(), &offered, &directory, NOW_MS);
        assert_eq!(shown, crate::admit(asking, &offered, "h", &directory, NOW_MS).is_ok(), "{id}");
    }
}

#[test]
fn workers_register_what_is_configured_for_them() {
    let directory = directory();
    let register = |caller: &Caller, service: &str, version: &str, ids: &[&str]| {
        let ids: Vec<CapabilityId> = ids.iter().map(|id| CapabilityId::parse(*id).unwrap()).collect();
        may_register(caller, service, version, &ids, &directory)
            .map_err(|refusal| (refusal.code, refusal.path))
    };
    let restaurant = ["cap:restaurant:book", "cap:restaurant:search"];
    assert_eq!(register(&caller(&alice()), "sandbox-restaurant", "v1", &restaurant), Ok(()));
    let denied = |path: &str| Err((codes::MANIFEST_NOT_ALLOWED, path.to_owned()));
    assert_eq!(register(&caller(&bob()), "sandbox-restaurant", "v1", &restaurant), denied(""));
    assert_eq!(register(&caller(&alice()), "sandbox-restaurant", "v2", &restaurant), denied(""));
    assert_eq!(register(&caller(&alice()), "gateway", "v1", &restaurant), denied(""));
    assert_eq!(
        register(
            &caller(&alice()),
            "sandbox-restaurant",
            "v1",
            &["cap:restaurant:book", "cap:bank:transfer"]
        ),
        denied("/body/manifest/capabilities/1/id")
    );
}
