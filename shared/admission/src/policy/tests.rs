use serde_json::{Value, json};

use aip_names::limits::{
    ACTION_TIMEOUT_DEFAULT_MS, ACTION_TIMEOUT_MAX_MS, ADMISSION_TEXT_BYTES_MAX, DIRECTORY_SCOPES_MAX,
    IDEMPOTENCY_KEY_BYTES_MAX, TRANSPORT_EXTRA_BYTES_MAX,
};
use aip_wire::codes::Code;
use aip_wire::{Timestamp, trusted::Scopes};

use super::*;
use crate::testing::{
    ALICE_KEY, NOW_MS, action, action_value, alice, authentic, authenticate, bob, capability, contract,
    directory, envelope, value, world,
};

const BOOK: &str = "cap:restaurant:book";
const TRANSFER: &str = "cap:bank:transfer";

fn judge(authentic: Authentic, capability: &Capability) -> Result<Admitted, Refusal> {
    admit(authentic, capability, "hash-of-the-contract", &directory(), NOW_MS)
}

/// Alice's action with these members, against a capability with this contract.
fn ask(members: Value, contract_members: Value) -> Result<Admitted, Refusal> {
    let action = action(members);
    let capability = capability(action.capability_id.as_str(), contract(contract_members));
    judge(authentic(action, &alice()), &capability)
}

fn told(result: Result<Admitted, Refusal>) -> (&'static Code, String) {
    let refusal = result.unwrap_err();
    (refusal.code, refusal.path)
}

fn code(result: Result<Admitted, Refusal>) -> &'static Code {
    told(result).0
}

/// Dave's action for alice.
fn for_alice(capability_id: &str) -> Result<Admitted, Refusal> {
    let alice = json!({ "id": "service:alice", "kind": "service" });
    let action =
        action(json!({ "capability_id": capability_id, "identity": { "acted_on_behalf_of": alice } }));
    let authentic = authenticate(value(&envelope(action)), Some("dave-key")).unwrap();
    judge(authentic, &capability(capability_id, contract(json!({}))))
}

#[test]
fn an_admitted_action_has_a_frozen_context() {
    let members = json!({
        "timeout_ms": 5_000,
        "observability": { "trace_id": "t-1", "span_id": "s-1" },
        "identity": {
            "human_actor": { "id": "human:jordan", "kind": "human", "display_name": "Jordan" },
            "external_user": { "id": "u-7", "system": "chat" },
        },
    });
    let admitted = ask(members, json!({})).unwrap();
    let context = admitted.context();
    assert_eq!(context.version, CONTEXT_VERSION);
    assert_eq!((context.principal.id.as_str(), context.trust_domain.as_str()), ("service:alice", "aip.test"));
    assert_eq!(context.tenant.as_deref(), Some("acme"));
    assert_eq!(context.deadline_ms, NOW_MS + 5_000);
    assert_eq!(context.contract_hash, "hash-of-the-contract");
    assert_eq!(context.attempt, 1);
    assert_eq!(context.claims.human_actor.as_ref().unwrap().id, *"human:jordan");
    assert_eq!(context.trace.trace_id.as_deref(), Some("t-1"));
    assert_eq!(context.policy.directory, directory().version());
    assert_eq!(context.policy.rule, "principal service:alice: cap:restaurant:*");
    assert!(
        context.authority.is_none() && context.credential.is_none() && context.delegation_chain.is_empty()
    );
    assert!(admitted.replay().is_some());
    let written = serde_json::to_value(context).unwrap();
    assert_eq!(TrustedContext::read(&written).unwrap(), *context);
}

#[test]
fn only_the_action_that_was_authenticated_is_judged() {
    let authentic = authentic(action(json!({})), &alice());
    assert_eq!(
        code(judge(authentic, &capability("cap:restaurant:search", Value::Null))),
        codes::CAPABILITY_UNKNOWN
    );
    let heartbeat: aip_wire::Heartbeat = aip_wire::decode(&json!({ "sequence": 1 })).unwrap();
    let other = value(&aip_wire::Envelope::new(heartbeat, Timestamp::from_ms(NOW_MS)));
    let other = authenticate(other, Some(ALICE_KEY)).unwrap();
    assert_eq!(code(judge(other, &capability(BOOK, Value::Null))), codes::ENVELOPE_NOT_SERVED);
}

#[test]
fn a_capability_that_no_pattern_covers_does_not_exist() {
    let members = json!({ "capability_id": "cap:bank:close" });
    assert_eq!(code(ask(members, json!({}))), codes::CAPABILITY_UNKNOWN);
    let search = capability("cap:restaurant:search", contract(json!({})));
    let searching = action(json!({ "capability_id": "cap:restaurant:search" }));
    assert!(judge(authentic(searching.clone(), &bob()), &search).is_ok());
    // bob may take medium risk at most; without a word about it a capability is of high risk
    let mut risky = search;
    risky.risk = None;
    assert_eq!(code(judge(authentic(searching.clone(), &bob()), &risky)), codes::POLICY_DENIED);
    assert!(judge(authentic(searching, &alice()), &risky).is_ok());
}

#[test]
fn invoking_needs_the_scope() {
    let world =
        world().replace("scopes = [\"action:write\", \"action:read:any\"]", "scopes = [\"action:read:any\"]");
    let without = Directory::parse(&world, std::path::Path::new("/")).unwrap();
    let searching = authentic(action(json!({ "capability_id": "cap:restaurant:search" })), &bob());
    let search = capability("cap:restaurant:search", Value::Null);
    // also when the scope was taken away after the caller was authenticated
    assert_eq!(code(admit(searching, &search, "h", &without, NOW_MS)), codes::POLICY_SCOPE);
    let gone = Directory::parse("trust_domain = \"aip.test\"", std::path::Path::new("/")).unwrap();
    let booking = authentic(action(json!({})), &alice());
    assert_eq!(
        code(admit(booking, &capability(BOOK, Value::Null), "h", &gone, NOW_MS)),
        codes::POLICY_DENIED
    );
}

#[test]
fn a_tenant_is_chosen_and_never_given() {
    let tenant = |id: &str| json!({ "identity": { "tenant": { "id": id } } });
    for own in ["acme", "beta"] {
        assert_eq!(ask(tenant(own), json!({})).unwrap().context().tenant.as_deref(), Some(own));
    }
    for other in ["gamma", "ACME"] {
        let place = "/body/action/identity/tenant".to_owned();
        assert_eq!(told(ask(tenant(other), json!({}))), (codes::TENANT_MISMATCH, place));
    }
    let mut members = tenant("acme");
    members["capability_id"] = json!("cap:restaurant:search");
    let search = capability("cap:restaurant:search", contract(json!({})));
    assert_eq!(code(judge(authentic(action(members), &bob()), &search)), codes::TENANT_MISMATCH);
}

#[test]
fn a_grant_in_force_makes_acting_for_somebody_more_than_a_claim() {
    let admitted = for_alice(TRANSFER).unwrap();
    let context = admitted.context();
    assert_eq!(context.principal.id, *"agent:dave");
    let authority = context.authority.as_ref().unwrap();
    assert_eq!(authority.principal.id, *"service:alice");
    assert_eq!(authority.scopes, Scopes::new(["action:write".to_owned()]));
    assert_eq!(context.policy.rule, "grant of service:alice to agent:dave: cap:bank:*");
    assert!(context.claims.acted_on_behalf_of.is_none());
    // expired; not alice's to give; dave himself may invoke nothing
    for capability_id in [BOOK, "cap:bank:close"] {
        assert_eq!(code(for_alice(capability_id)), codes::CAPABILITY_UNKNOWN, "{capability_id}");
    }
    let alone =
        authenticate(value(&envelope(action(json!({ "capability_id": TRANSFER })))), Some("dave-key"))
            .unwrap();
    assert_eq!(code(judge(alone, &capability(TRANSFER, contract(json!({}))))), codes::CAPABILITY_UNKNOWN);
}

#[test]
fn acting_for_somebody_without_a_grant_stays_a_claim() {
    let boss = json!({ "id": "human:boss", "kind": "human" });
    let admitted = ask(json!({ "identity": { "acted_on_behalf_of": boss } }), json!({})).unwrap();
    assert!(admitted.context().authority.is_none());
    assert_eq!(admitted.context().claims.acted_on_behalf_of.as_ref().unwrap().id, *"human:boss");
}

fn transfer(identity: Value, policy: Value) -> Result<Admitted, Refusal> {
    ask(json!({ "capability_id": TRANSFER, "identity": identity }), json!({ "credentials": policy }))
}

fn credential(id: &str, scopes: &[&str]) -> Value {
    json!({ "credential_ref": { "id": id, "issuer": "https://bank.example", "scopes": scopes } })
}

fn policy(required: bool, members: Value) -> Value {
    let mut policy = json!({ "required": required, "allow_oauth_refresh": false });
    for (name, member) in members.as_object().unwrap() {
        policy[name] = member.clone();
    }
    policy
}

#[test]
fn a_credential_comes_from_the_directory_of_the_tenant() {
    let admitted = transfer(credential("vault/bank", &[]), policy(true, json!({}))).unwrap();
    let resolved = admitted.context().credential.as_ref().unwrap();
    assert_eq!((resolved.id.as_str(), resolved.issuer.as_str()), ("vault/bank", "https://bank.example"));
    assert_eq!(resolved.scopes.iter().collect::<Vec<_>>(), ["balance", "transfer"]);
    assert_eq!(admitted.context().external_account.as_ref().unwrap().id, "acct-1");
    let narrow = transfer(credential("vault/bank", &["balance"]), policy(true, json!({}))).unwrap();
    assert_eq!(narrow.context().credential.as_ref().unwrap().scopes.iter().collect::<Vec<_>>(), ["balance"]);
}

#[test]
fn each_thing_wrong_with_a_credential_has_its_code() {
    let any = policy(true, json!({}));
    let other_issuer = json!({ "credential_ref": { "id": "vault/bank", "issuer": "https://evil.example" } });
    let cases = [
        (json!({}), any.clone(), codes::CREDENTIAL_REQUIRED),
        (credential("vault/none", &[]), any.clone(), codes::CREDENTIAL_UNKNOWN),
        (credential("vault/beta", &[]), any.clone(), codes::CREDENTIAL_TENANT),
        (credential("vault/expired", &[]), any.clone(), codes::CREDENTIAL_EXPIRED),
        (credential("vault/renewable", &[]), any.clone(), codes::CREDENTIAL_EXPIRED),
        (credential("vault/bank", &["admin"]), any.clone(), codes::CREDENTIAL_SCOPE),
        (other_issuer, any, codes::CREDENTIAL_ISSUER),
        (
            credential("vault/bank", &[]),
            policy(true, json!({ "accepted_issuers": ["https://other.example"] })),
            codes::CREDENTIAL_ISSUER,
        ),
        (
            credential("vault/expired", &[]),
            policy(true, json!({ "allow_oauth_refresh": true })),
            codes::CREDENTIAL_EXPIRED,
        ),
        (
            credential("vault/bank", &[]),
            policy(true, json!({ "required_scopes": ["transfer", "close"] })),
            codes::CREDENTIAL_SCOPE,
        ),
        (
            credential("vault/bank", &["balance"]),
            policy(true, json!({ "required_scopes": ["transfer"] })),
            codes::CREDENTIAL_SCOPE,
        ),
    ];
    for (identity, policy, expected) in cases {
        assert_eq!(code(transfer(identity.clone(), policy.clone())), expected, "{identity} {policy}");
    }
    let renewing = policy(true, json!({ "allow_oauth_refresh": true }));
    assert!(transfer(credential("vault/renewable", &[]), renewing).is_ok());
    // what the sender says about its own grant changes nothing
    let mut claiming = credential("vault/expired", &[]);
    claiming["oauth"] = json!({ "issuer": "https://bank.example", "refresh_available": true });
    assert_eq!(
        code(transfer(claiming, policy(true, json!({ "allow_oauth_refresh": true })))),
        codes::CREDENTIAL_EXPIRED
    );
    // a reference that nothing demands has to resolve all the same
    assert_eq!(
        code(transfer(credential("vault/none", &[]), policy(false, json!({})))),
        codes::CREDENTIAL_UNKNOWN
    );
    assert!(transfer(json!({}), policy(false, json!({}))).is_ok());
}

#[test]
fn an_account_belongs_to_the_tenant_and_to_the_credential() {
    let account = |id: &str, system: &str| json!({ "external_account": { "id": id, "system": system } });
    let of = |identity: Value| transfer(identity, policy(false, json!({})));
    assert_eq!(
        of(account("acct-2", "bank")).unwrap().context().external_account.as_ref().unwrap().id,
        "acct-2"
    );
    for identity in [account("acct-9", "bank"), account("acct-1", "shop")] {
        assert_eq!(code(of(identity)), codes::CREDENTIAL_ACCOUNT);
    }
    let mut both = account("acct-1", "bank");
    both["credential_ref"] = credential("vault/bank", &[])["credential_ref"].clone();
    assert!(of(both.clone()).is_ok());
    both["external_account"]["id"] = json!("acct-2");
    assert_eq!(code(of(both)), codes::CREDENTIAL_ACCOUNT);
    let mut elsewhere = account("acct-1", "bank");
    elsewhere["tenant"] = json!({ "id": "beta" });
    assert_eq!(code(of(elsewhere)), codes::CREDENTIAL_ACCOUNT);
}

#[test]
fn a_mode_has_to_be_offered_and_available() {
    let execution = |sync: bool, rest: bool| {
        json!({ "execution": {
            "supports_sync": sync, "supports_async": rest, "supports_streaming": rest, "supports_cancel": false,
            "supports_retry": false, "expected_completion": "any", "retry_safety": "unsafe",
        }})
    };
    let place = || "/body/action/mode".to_owned();
    assert!(ask(json!({ "mode": "sync" }), execution(true, false)).is_ok());
    assert!(ask(json!({ "mode": "async" }), execution(false, true)).is_ok());
    for mode in ["async", "streaming"] {
        let refused = told(ask(json!({ "mode": mode }), execution(true, false)));
        assert_eq!(refused, (codes::CAPABILITY_MODE, place()));
    }
    assert!(ask(json!({ "mode": "streaming" }), execution(true, true)).is_ok());
    assert_eq!(code(ask(json!({}), execution(false, true))), codes::CAPABILITY_MODE);
}

#[test]
fn the_deadline_is_what_is_asked_within_what_is_offered() {
    let deadline = |members: Value, sla: Value| {
        let sla = if sla.is_null() {
            json!({})
        } else {
            json!({ "sla": { "timeout_ms": sla, "async_expected": false } })
        };
        ask(members, sla).map(|admitted| admitted.context().deadline_ms - NOW_MS)
    };
    assert_eq!(deadline(json!({}), Value::Null), Ok(ACTION_TIMEOUT_DEFAULT_MS));
    assert_eq!(deadline(json!({}), json!(60_000)), Ok(60_000));
    assert_eq!(deadline(json!({ "timeout_ms": 1 }), json!(60_000)), Ok(1));
    assert_eq!(deadline(json!({ "timeout_ms": 90_000 }), json!(60_000)), Ok(60_000));
    assert_eq!(deadline(json!({}), json!(ACTION_TIMEOUT_MAX_MS + 1)), Ok(ACTION_TIMEOUT_MAX_MS));
    assert_eq!(
        deadline(json!({ "timeout_ms": ACTION_TIMEOUT_MAX_MS }), Value::Null),
        Ok(ACTION_TIMEOUT_MAX_MS)
    );
    let long = json!({ "timeout_ms": ACTION_TIMEOUT_MAX_MS + 1 });
    assert_eq!(code(ask(long, json!({}))), codes::LIMIT_TIMEOUT);
}

#[test]
fn an_asynchronous_action_may_take_longer() {
    let granted = |timeout_ms: Value| {
        let execution = json!({ "execution": {
            "supports_sync": false, "supports_async": true, "supports_streaming": false, "supports_cancel": false,
            "supports_retry": false, "expected_completion": "async", "retry_safety": "unsafe",
        }});
        let mut members = json!({ "mode": "async" });
        if !timeout_ms.is_null() {
            members["timeout_ms"] = timeout_ms;
        }
        ask(members, execution).map(|admitted| admitted.context().deadline_ms - NOW_MS)
    };
    assert_eq!(granted(Value::Null), Ok(aip_names::limits::ACTION_ASYNC_TIMEOUT_DEFAULT_MS));
    let most = aip_names::limits::ACTION_ASYNC_TIMEOUT_MAX_MS;
    assert_eq!(granted(json!(most)), Ok(most));
    assert_eq!(granted(json!(most + 1)).unwrap_err().code, codes::LIMIT_TIMEOUT);
}

#[test]
fn what_this_release_does_not_do_is_refused_and_never_ignored() {
    let principal = json!({ "id": "human:boss", "kind": "human" });
    let hop =
        json!({ "from": principal, "to": principal, "scope": "all", "delegated_at": "2026-07-14T08:00:00Z" });
    let callback = json!({ "profile": "aip.http.webhook.v1", "target": "https://x.example" });
    let cases = [
        ("transaction", json!({ "mode": "execute" }), codes::UNSUPPORTED_TRANSACTION),
        ("delegation_chain", json!([hop]), codes::UNSUPPORTED_DELEGATION),
        ("callback", callback, codes::UNSUPPORTED_CALLBACK),
        ("federation", json!({ "trust_domain": "aip.other" }), codes::UNSUPPORTED_FEDERATION),
        ("memory_context", json!({}), codes::UNSUPPORTED_MEMORY),
        ("compliance", json!({}), codes::UNSUPPORTED_COMPLIANCE),
        (
            "conversation",
            json!({ "id": "conv_1", "channel": {}, "status": "open" }),
            codes::UNSUPPORTED_CONVERSATION,
        ),
    ];
    for (member, content, expected) in cases {
        let refusal = told(ask(json!({ member: content }), json!({})));
        assert_eq!(refusal, (expected, format!("/body/action/{member}")));
    }
    let mut session = value(&envelope(action(json!({}))));
    session["session_id"] = json!("sess_1");
    let session = authenticate(session, Some(ALICE_KEY)).unwrap();
    assert_eq!(code(judge(session, &capability(BOOK, contract(json!({}))))), codes::UNSUPPORTED_SESSION);
}

#[test]
fn capabilities_that_need_what_this_release_lacks_cannot_be_invoked() {
    let plan = json!({ "transaction": {
        "supported_modes": ["plan", "commit"], "requires_plan_before_commit": true, "dry_run_fidelity": "schema_only",
    }});
    assert_eq!(code(ask(json!({}), plan)), codes::UNSUPPORTED_TRANSACTION);
}

#[test]
fn an_action_that_waits_for_people_has_the_time_of_an_asynchronous_one() {
    let approval = json!({
        "approval": { "required": true, "approver_selector": { "type": "tenant_policy" } },
        "sla": { "timeout_ms": 5_000, "async_expected": false },
    });
    let given = |contract: Value| ask(json!({}), contract).unwrap().context().deadline_ms - NOW_MS;
    assert_eq!(given(approval), aip_names::limits::ACTION_ASYNC_TIMEOUT_DEFAULT_MS);
    assert_eq!(given(json!({ "sla": { "timeout_ms": 5_000, "async_expected": false } })), 5_000);
}

fn idempotency(requirement: &str, scope: &str) -> Value {
    json!({ "idempotency": {
        "requirement": requirement, "collision_behavior": "revalidate_input_hash", "key_scope": scope, "ttl_ms": 60_000,
    }})
}

#[test]
fn a_key_is_demanded_taken_or_refused() {
    let keyed = || json!({ "idempotency_key": "k" });
    assert_eq!(code(ask(json!({}), idempotency("required", "tenant"))), codes::IDEMPOTENCY_REQUIRED);
    assert_eq!(code(ask(keyed(), idempotency("unsupported", "tenant"))), codes::IDEMPOTENCY_UNSUPPORTED);
    assert!(ask(json!({}), idempotency("unsupported", "tenant")).unwrap().reservation().is_none());
    assert!(ask(json!({}), idempotency("optional", "tenant")).unwrap().reservation().is_none());
    let admitted = ask(keyed(), idempotency("required", "tenant")).unwrap();
    let reservation = admitted.reservation().unwrap();
    assert!(reservation.claim.starts_with("idem:tenant:"), "{}", reservation.claim);
    assert_eq!(reservation.ttl_ms, Some(60_000));
    assert_eq!(code(ask(keyed(), idempotency("optional", "external_account"))), codes::IDEMPOTENCY_SCOPE);
    let long = json!({ "idempotency_key": "k".repeat(IDEMPOTENCY_KEY_BYTES_MAX + 1) });
    assert_eq!(code(ask(long, idempotency("optional", "tenant"))), codes::LIMIT_STRING_BYTES);
}

/// For each scope, which difference between two requests makes the same key another one.
#[test]
fn keys_collide_within_their_scope_and_only_there() {
    let claim = |scope: &str, change: &str| {
        let mut members = json!({ "idempotency_key": "k", "capability_id": "cap:restaurant:search", "identity": {
            "tenant": { "id": "beta" },
        }});
        let mut who = alice();
        match change {
            "action" => members["id"] = json!("act_0190c42f2d5a70008000000000000009"),
            "capability" => members["capability_id"] = json!(BOOK),
            "principal" => who = bob(),
            "tenant" => members["identity"]["tenant"]["id"] = json!("acme"),
            "key" => members["idempotency_key"] = json!("l"),
            "input" => members["input"] = json!({ "other": true }),
            _ => {}
        }
        let action = action(members);
        let capability = capability(action.capability_id.as_str(), contract(idempotency("required", scope)));
        judge(authentic(action, &who), &capability).unwrap().reservation().unwrap().claim.clone()
    };
    let parts = [
        ("action", vec!["action", "capability", "principal", "tenant", "key"]),
        ("capability", vec!["capability", "tenant", "key"]),
        ("principal", vec!["principal", "tenant", "key"]),
        ("tenant", vec!["tenant", "key"]),
    ];
    for (scope, separating) in parts {
        for change in ["action", "capability", "principal", "tenant", "key", "input"] {
            let differs = claim(scope, "none") != claim(scope, change);
            assert_eq!(differs, separating.contains(&change), "{scope} {change}");
        }
    }
}

#[test]
fn keys_of_an_account_are_the_accounts() {
    let claim = |account: &str| {
        let identity = json!({ "external_account": { "id": account, "system": "bank" } });
        let members = json!({ "idempotency_key": "k", "capability_id": TRANSFER, "identity": identity });
        ask(members, idempotency("required", "external_account"))
            .unwrap()
            .reservation()
            .unwrap()
            .claim
            .clone()
    };
    assert_eq!(claim("acct-1"), claim("acct-1"));
    assert_ne!(claim("acct-1"), claim("acct-2"));
}

#[test]
fn the_same_input_is_the_same_however_it_is_written() {
    let hash = |input: &str| {
        let mut value = action_value();
        value["input"] = serde_json::from_str(input).unwrap();
        crate::idempotency::input_hash(&aip_wire::decode(&value).unwrap())
    };
    assert_eq!(hash(r#"{"a":1,"b":[2]}"#), hash(r#"{ "b": [2], "a": 1 }"#));
    assert_ne!(hash(r#"{"a":1}"#), hash(r#"{"a":1.0}"#));
    assert_ne!(hash(r#"{"a":1}"#), hash(r#"{"a":2}"#));
}

#[test]
fn a_capability_without_a_contract_is_read_conservatively() {
    let bare = capability(BOOK, Value::Null);
    let view = ContractView::of(&bare);
    assert!(view.mutates() && !view.may_run_again(true));
    assert!(view.data.redaction_required && view.data.contains_pii);
    let judged = |members: Value| judge(authentic(action(members), &alice()), &bare);
    assert!(judged(json!({})).unwrap().reservation().is_none());
    assert!(judged(json!({ "idempotency_key": "k" })).unwrap().reservation().is_some());
    for mode in ["async", "streaming"] {
        assert_eq!(code(judged(json!({ "mode": mode }))), codes::CAPABILITY_MODE);
    }
    let mut unrated = bare.clone();
    unrated.risk = None;
    assert_eq!(ContractView::of(&unrated).risk, aip_wire::RiskLevel::High);
}

#[test]
fn only_what_cannot_do_harm_runs_again() {
    let view = |effects: Value, retry: bool, safety: &str| {
        let execution = json!({
            "supports_sync": true, "supports_async": false, "supports_streaming": false, "supports_cancel": false,
            "supports_retry": retry, "expected_completion": "sync", "retry_safety": safety,
        });
        let members = json!({ "side_effects": effects, "execution": execution });
        ContractView::of(&capability(BOOK, contract(members)))
    };
    let reads = view(json!(["read"]), false, "unknown");
    assert!(!reads.mutates() && reads.may_run_again(false));
    assert!(view(json!(["write"]), true, "safe").may_run_again(false));
    assert!(!view(json!(["write"]), false, "safe").may_run_again(true));
    let keyed = view(json!(["read", "financial"]), true, "safe_with_idempotency_key");
    assert!(keyed.mutates() && keyed.may_run_again(true) && !keyed.may_run_again(false));
    for safety in ["unsafe", "unknown"] {
        assert!(!view(json!(["external_network"]), true, safety).may_run_again(true));
    }
}

#[test]
fn a_contract_hash_changes_with_anything_declared() {
    let one = capability(BOOK, contract(json!({})));
    let mut other = one.clone();
    other.input_schema = json!({ "type": "object" });
    assert_eq!(crate::contract_hash(&one), crate::contract_hash(&one.clone()));
    assert_ne!(crate::contract_hash(&one), crate::contract_hash(&other));
    assert_eq!(crate::contract_hash(&one).unwrap().len(), 64);
}

#[test]
fn texts_of_the_sender_stay_short() {
    let long = "x".repeat(ADMISSION_TEXT_BYTES_MAX + 1);
    let person = json!({ "id": long, "kind": "human" });
    let cases = [
        (json!({ "id": format!("act_{long}") }), "/body/action/id"),
        (json!({ "identity": { "human_actor": person } }), "/body/action/identity/human_actor/id"),
        (json!({ "identity": { "service_account": person } }), "/body/action/identity/service_account/id"),
        (
            json!({ "identity": { "acted_on_behalf_of": person } }),
            "/body/action/identity/acted_on_behalf_of/id",
        ),
        (
            json!({ "identity": { "external_user": { "id": long, "system": "x" } } }),
            "/body/action/identity/external_user/id",
        ),
    ];
    for (members, path) in cases {
        assert_eq!(told(ask(members, json!({}))), (codes::LIMIT_STRING_BYTES, path.to_owned()));
    }
    // a trace is no more than a name
    let admitted = ask(json!({ "observability": { "trace_id": long } }), json!({})).unwrap();
    assert_eq!(admitted.context().trace.trace_id, None);
}

#[test]
fn the_largest_context_fits_beside_an_envelope() {
    // every character doubles when it is written
    let text = |n: usize| format!("{n:0>4}{}", "\"".repeat(ADMISSION_TEXT_BYTES_MAX - 4));
    let long = text(0);
    let scopes = Scopes::new((0..DIRECTORY_SCOPES_MAX).map(text));
    let mut context = ask(json!({}), json!({})).unwrap().context().clone();
    let person = PrincipalRef {
        id: aip_wire::PrincipalId::parse(long.clone()).unwrap(),
        kind: context.principal.kind,
    };
    let account = aip_wire::ExternalAccountRef { id: long.clone(), system: long.clone() };
    context.trust_domain.clone_from(&long);
    context.action_id = aip_wire::ActionId::opaque(long.clone());
    context.capability_id = aip_wire::CapabilityId::parse(long.clone()).unwrap();
    context.principal = person.clone();
    context.authentication = crate::Method::Bearer { issuer: long.clone() };
    context.scopes = scopes.clone();
    context.authority = Some(crate::context::Authority {
        principal: person.clone(),
        scopes: scopes.clone(),
        expires_at_ms: u64::MAX,
    });
    context.tenant = Some(long.clone());
    context.external_account = Some(account);
    context.credential = Some(crate::context::ResolvedCredential {
        id: long.clone(),
        issuer: long.clone(),
        scopes,
        expires_at_ms: Some(u64::MAX),
    });
    context.claims.human_actor = Some(person.clone());
    context.claims.service_account = Some(person.clone());
    context.claims.acted_on_behalf_of = Some(person);
    context.claims.external_user = Some(aip_wire::ExternalUserRef { id: long.clone(), system: long.clone() });
    context.trace.trace_id = Some(long.clone());
    context.trace.span_id = Some(long.clone());
    context.trace.traceparent = Some(long.clone());
    context.policy.rule = format!("grant of {long} to {long}: {long}");
    let bytes = serde_json::to_vec(&context).unwrap().len();
    assert!(bytes < TRANSPORT_EXTRA_BYTES_MAX - 4_096, "{bytes}");
}
