use aip_names::limits::MANIFEST_ROWS_MAX;
use aip_wire::CapabilityId;
use serde_json::json;

use super::env::*;
use crate::machine::{Answer, Command, Refusal, keys, manifest};

fn book() -> CapabilityId {
    CapabilityId::parse("cap:book").unwrap()
}

fn newest(env: &Env) -> manifest::Row {
    manifest::newest(&env.memory, &book()).unwrap().unwrap()
}

#[test]
fn the_same_manifest_again_changes_nothing() {
    let mut env = Env::new();
    let same = worker_manifest(vec![capability("cap:book", json!({"type": "object"}))]);
    assert_eq!(env.register(same), Answer::Unchanged);
    assert_eq!(env.manifests().rows.len(), 1);
}

#[test]
fn another_contract_stands_beside_the_old_one_until_that_is_withdrawn() {
    let mut env = Env::new();
    let old = newest(&env);
    env.now += 1;
    let changed = || worker_manifest(vec![capability("cap:book", json!({"type": "object", "title": "2"}))]);
    assert_eq!(env.register(changed()), Answer::Registered { added: 1, withdrawn: 0 });
    let new = newest(&env);
    assert_ne!(old.key.contract_hash, new.key.contract_hash);
    assert_eq!(env.manifests().rows, [old.clone(), new.clone()]);
    // the old worker comes back with what it always had: the newest stays the newest
    env.now += 1;
    let same = worker_manifest(vec![capability("cap:book", json!({"type": "object"}))]);
    assert_eq!(env.register(same), Answer::Unchanged);
    assert_eq!(newest(&env), new);
    // withdrawn by its hash
    let mut register = env.registration(changed());
    register.withdraw = vec![old.key.contract_hash.clone(), "unknown".into()];
    let answer = env.apply(Command::RegisterManifest(Box::new(register)));
    assert_eq!(answer, Answer::Registered { added: 0, withdrawn: 1 });
    assert_eq!(env.manifests().rows, [new]);
}

#[test]
fn what_a_manifest_leaves_out_of_its_service_and_version_is_withdrawn() {
    let mut env = Env::new();
    let two = worker_manifest(vec![capability("cap:book", json!({"a": 1})), capability("cap:b", json!({}))]);
    let mut register = env.registration(two);
    register.version = "v2".into();
    env.apply(Command::RegisterManifest(Box::new(register)));
    assert_eq!(env.manifests().rows.len(), 3);
    // v2 gives up both, v1 stands
    let mut register = env.registration(worker_manifest(vec![]));
    register.version = "v2".into();
    let answer = env.apply(Command::RegisterManifest(Box::new(register)));
    assert_eq!(answer, Answer::Registered { added: 0, withdrawn: 2 });
    assert_eq!(newest(&env).key.version, "v1");
    assert_eq!(env.register(worker_manifest(vec![])), Answer::Registered { added: 0, withdrawn: 1 });
    assert!(manifest::newest(&env.memory, &book()).unwrap().is_none());
    assert!(manifest::all(&env.memory, 10).unwrap().is_empty());
}

#[test]
fn a_row_leads_to_the_capability_it_was_registered_with() {
    let mut env = Env::new();
    env.now += 1;
    let changed = capability("cap:book", json!({"type": "object", "title": "2"}));
    env.register(worker_manifest(vec![changed.clone()]));
    let rows = manifest::all(&env.memory, 10).unwrap();
    assert_eq!(rows.iter().map(|row| row.n).collect::<Vec<_>>(), [2, 1]);
    let provider = keys::manifest(&rows[0].provider.id);
    let stored = manifest::capability(&env.memory, &provider, rows[0].n, &book()).unwrap();
    assert_eq!(stored, Some(changed));
}

#[test]
fn one_capability_is_not_found_under_the_start_of_its_name() {
    let env = Env::new();
    for id in ["cap:boo", "cap:book2", "cap:"] {
        let id = CapabilityId::parse(id).unwrap();
        assert!(manifest::newest(&env.memory, &id).unwrap().is_none(), "{id}");
    }
}

#[test]
fn registrations_are_bounded() {
    let mut env = Env::new();
    let many = |from: usize, to: usize| {
        worker_manifest((from..to).map(|n| capability(&format!("cap:{n}"), json!({}))).collect())
    };
    let register = |version: &str, env: &Env, manifest| {
        let mut register = env.registration(manifest);
        register.version = version.into();
        register.replay = Some(replay(version, START + 1_000));
        Command::RegisterManifest(Box::new(register))
    };
    let fits = register("v2", &env, many(0, MANIFEST_ROWS_MAX - 1));
    assert!(matches!(env.apply(fits), Answer::Registered { .. }));
    let one_more = register("v3", &env, many(0, 1));
    assert_eq!(env.apply(one_more), Answer::Refused(Refusal::TooManyRegistrations));
    let again = register("v3", &env, many(0, 1));
    assert_eq!(env.apply(again), Answer::Refused(Refusal::Replayed));
}
