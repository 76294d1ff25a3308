use std::path::Path;

use aip_wire::ActionId;
use aip_wire::trusted::Scopes;
use serde_json::json;

use super::*;
use crate::testing::{
    NOW_MS, action, alice, authentic, authenticate, capability, contract, directory, envelope, value, world,
};

const LATER_MS: u64 = NOW_MS + 600_000;

fn first(members: serde_json::Value) -> Admitted {
    let action = action(members);
    let capability = capability(action.capability_id.as_str(), contract(json!({})));
    admit(authentic(action, &alice()), &capability, "hash", &directory(), NOW_MS).unwrap()
}

/// The same action under another id, judged by this directory.
fn again(before: &Admitted, context: &TrustedContext, directory: &Directory) -> Result<Admitted, Refusal> {
    let action = Action { id: ActionId::opaque("act_again"), ..before.action().clone() };
    let capability = capability(action.capability_id.as_str(), contract(json!({})));
    admit_again(context, action, None, (&capability, "hash"), directory, LATER_MS)
}

fn changed(from: &str, to: &str) -> Directory {
    let text = world();
    assert!(text.contains(from), "{from}");
    Directory::parse(&text.replace(from, to), Path::new("/nowhere")).unwrap()
}

#[test]
fn it_is_the_same_intent_of_the_same_principal_with_time_of_its_own() {
    let tenant = json!({"tenant": {"id": "beta"}});
    let before = first(json!({"timeout_ms": 5_000, "idempotency_key": "k", "identity": tenant}));
    let later = again(&before, before.context(), &directory()).unwrap();
    let (was, is) = (before.context(), later.context());
    assert_eq!((&is.principal, &is.tenant), (&was.principal, &was.tenant));
    assert_eq!((&is.scopes, &is.authentication), (&was.scopes, &was.authentication));
    assert_eq!((is.action_id.as_str(), is.deadline_ms), ("act_again", LATER_MS + 5_000));
    assert_eq!(later.reservation(), before.reservation());
    assert_eq!(later.replay(), None);
}

#[test]
fn a_tenant_that_was_meant_by_default_stays_the_one() {
    let before = first(json!({}));
    assert_eq!(before.context().tenant.as_deref(), Some("acme"));
    let turned = changed(r#"tenants = ["acme", "beta"]"#, r#"tenants = ["beta", "acme"]"#);
    assert_eq!(again(&before, before.context(), &turned).unwrap().context().tenant.as_deref(), Some("acme"));
    let left = Directory::parse(
        world()
            .replace(r#"tenants = ["acme", "beta"]"#, r#"tenants = ["beta"]"#)
            .split("[[grant]]")
            .next()
            .unwrap(),
        Path::new("/nowhere"),
    );
    let refusal = again(&before, before.context(), &left.unwrap()).unwrap_err();
    assert_eq!(refusal.code, codes::TENANT_MISMATCH);
}

#[test]
fn what_the_principal_may_not_any_more_is_refused() {
    let before = first(json!({}));
    let code = |directory: &Directory| again(&before, before.context(), directory).unwrap_err().code;
    let less = changed(r#"capabilities = ["cap:restaurant:*", "cap:bank:transfer"]"#, "capabilities = []");
    assert_eq!(code(&less), codes::CAPABILITY_UNKNOWN);
    let muted = changed(r#"scopes = ["action:write", "action:read", "receipt:read:any"]"#, "scopes = []");
    assert_eq!(code(&muted), codes::POLICY_SCOPE);
    let nobody = Directory::parse("trust_domain = \"aip.test\"", Path::new("/nowhere")).unwrap();
    assert_eq!(code(&nobody), codes::POLICY_DENIED);
    // and what it could not do then, it can't do by being admitted again
    let mut context = before.context().clone();
    context.scopes = Scopes::new(["action:read".to_owned()]);
    let refusal = again(&before, &context, &directory()).unwrap_err();
    assert_eq!(refusal.code, codes::POLICY_SCOPE);
}

#[test]
fn a_grant_has_to_stand_still() {
    let alice = json!({ "id": "service:alice", "kind": "service" });
    let members =
        json!({ "capability_id": "cap:bank:transfer", "identity": { "acted_on_behalf_of": alice } });
    let authentic = authenticate(value(&envelope(action(members))), Some("dave-key")).unwrap();
    let transfer = capability("cap:bank:transfer", contract(json!({})));
    let before = admit(authentic, &transfer, "hash", &directory(), NOW_MS).unwrap();
    assert!(before.context().authority.is_some());
    assert!(again(&before, before.context(), &directory()).is_ok());
    // dave may by himself now, but for alice no more
    let text = world().split("[[grant]]").next().unwrap().replace(
        "tenants = [\"acme\"]\nscopes = [\"action:write\"]\napi_keys",
        "tenants = [\"acme\"]\nscopes = [\"action:write\"]\ncapabilities = [\"cap:bank:*\"]\napi_keys",
    );
    let alone = Directory::parse(&text, Path::new("/nowhere")).unwrap();
    assert_eq!(again(&before, before.context(), &alone).unwrap_err().code, codes::POLICY_DENIED);
}
