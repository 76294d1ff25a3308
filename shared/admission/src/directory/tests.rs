use std::path::Path;

use aip_wire::PrincipalId;

use super::{Directory, DirectoryError};
use crate::testing::{NOW_MS, OLD_KEY, alice, digest, directory, world};

fn parse(text: &str) -> Result<Directory, DirectoryError> {
    Directory::parse(text, Path::new("/nowhere"))
}

/// The places of all problems, after a change to the world.
fn places(from: &str, to: &str) -> Vec<String> {
    let text = world();
    assert!(text.contains(from), "the world has no {from}");
    match parse(&text.replacen(from, to, 1)) {
        Err(DirectoryError::Invalid(problems)) => problems.into_iter().map(|problem| problem.place).collect(),
        other => panic!("{to} gave {other:?}"),
    }
}

#[test]
fn a_directory_knows_who_is_bound_to_what() {
    let directory = directory();
    let alice_id = PrincipalId::parse("service:alice").unwrap();
    let party = directory.party_of_did(alice().did().as_str()).unwrap();
    assert_eq!(party.principal.id, alice_id);
    assert_eq!(party.principal.trust_domain.as_deref(), Some("aip.test"));
    assert_eq!(party.tenant_default(), Some("acme"));
    assert_eq!(
        directory.party_of_subject(crate::testing::ISS, "alice-at-idp").unwrap().principal.id,
        alice_id
    );
    assert!(directory.party_of_subject("https://other.example", "alice-at-idp").is_none());
    assert!(directory.party_of_did("did:key:zUnknown").is_none());
    assert_eq!(directory.version().len(), 64);
}

#[test]
fn the_version_follows_the_meaning_and_not_the_layout() {
    let version = directory().version().to_owned();
    let spaced = world().replace("\n[[", "\n# a comment\n\n[[");
    assert_eq!(parse(&spaced).unwrap().version(), version);
    let changed = world().replace("risk_max = \"medium\"", "risk_max = \"high\"");
    assert_ne!(parse(&changed).unwrap().version(), version);
}

#[test]
fn every_contradiction_is_found_at_its_place() {
    let cases = [
        ("trust_domain = \"aip.test\"", "trust_domain = \"aip.*\"", "trust_domain"),
        ("{ id = \"beta\" }", "{ id = \"acme\" }", "tenant[1]"),
        ("id = \"agent:bob\"", "id = \"service:alice\"", "principal[1]"),
        ("tenants = [\"beta\"]", "tenants = [\"gamma\"]", "principal[1].tenants[0]"),
        ("tenants = [\"beta\"]", "tenants = [\"beta\", \"beta\"]", "principal[1].tenants[1]"),
        ("[\"cap:restaurant:search\"]", "[\"cap:*:search\"]", "principal[1].capabilities[0]"),
        ("scopes = [\"action:read\"]", "scopes = [\" \"]", "principal[2].scopes[0]"),
        ("algorithms = [\"EdDSA\", \"ES256\", \"RS256\"]", "algorithms = []", "issuer[0].algorithms"),
        ("jwks_file = \"jwks.json\"", "", "issuer[0]"),
        ("jwks_file = \"jwks.json\"", "jwks_url = \"http://id.example/jwks\"", "issuer[0].jwks_url"),
        ("audience = \"aip\"", "audience = \"aip\"\nrefresh_ms = 1", "issuer[0].refresh_ms"),
        ("audience = \"aip\"", "audience = \"aip\"\nleeway_ms = 86400000", "issuer[0].leeway_ms"),
        (
            "principal = \"service:alice\"\nservice",
            "principal = \"service:eve\"\nservice",
            "worker[0].principal",
        ),
        ("service = \"sandbox-restaurant\"", "service = \"a.b\"", "worker[0].service"),
        ("tenant = \"acme\"\nissuer", "tenant = \"gamma\"\nissuer", "credential[0].tenant"),
        ("id = \"vault/expired\"", "id = \"vault/bank\"", "credential[1]"),
        ("delegate = \"agent:dave\"", "delegate = \"agent:eve\"", "grant[0].delegate"),
        ("tenant = \"acme\"\nexpires_at", "tenant = \"gamma\"\nexpires_at", "grant[0].tenant"),
        ("expires_at = 2026-07-14T09:00:00Z", "expires_at = 2026-07-14", "grant[0].expires_at"),
        ("iss = \"https://id.example\"\n", "iss = \"https://new.example\"\n", "principal[0].subjects[0]"),
        ("id = \"k2\"", "id = \"k1\"", "principal[0].api_keys[1]"),
    ];
    for (from, to, place) in cases {
        let places = places(from, to);
        assert!(places.iter().any(|found| found == place), "{to}: {places:?}");
    }
}

#[test]
fn one_proof_belongs_to_one_principal() {
    let bob = crate::testing::bob().did().to_string();
    assert_eq!(places(&bob, alice().did().as_str()), ["principal[1].dids[0]"]);
    assert_eq!(places(&bob, "did:web:bob.example"), ["principal[1].dids[0]"]);
    assert_eq!(places(&digest("dave-key"), &digest(OLD_KEY)), ["principal[3].api_keys[0].sha256"]);
    assert_eq!(places(&digest("dave-key"), "00"), ["principal[3].api_keys[0].sha256"]);
}

#[test]
fn all_problems_are_told_at_once() {
    let text = world().replace("tenants = [\"beta\"]", "tenants = [\"x\"]").replace("acct-2", "");
    let Err(error) = parse(&text) else { panic!("a broken directory was taken") };
    let told = error.to_string();
    assert!(told.contains("principal[1].tenants[0]: tenant \"x\" is not configured"), "{told}");
    assert!(told.contains("tenant[0]: external account id: is blank"), "{told}");
}

#[test]
fn a_window_shorter_than_the_skews_would_let_replays_in() {
    let limits = "trust_domain = \"aip.test\"\n[limits]\nreplay_window_ms = 329999\n";
    let Err(DirectoryError::Invalid(problems)) = parse(limits) else { panic!("taken") };
    assert_eq!(problems[0].place, "limits.replay_window_ms");
    assert!(parse(&limits.replace("329999", "330000")).is_ok());
}

#[test]
fn unknown_members_are_refused_without_showing_what_stands_there() {
    let text = world().replace("id = \"k1\",", "id = \"k1\", key = \"secret-text\",");
    let error = parse(&text).unwrap_err().to_string();
    assert!(error.contains("line ") && error.contains("unknown field `key`"), "{error}");
    assert!(!error.contains("secret-text") && !error.contains(&digest(crate::testing::ALICE_KEY)), "{error}");
}

#[test]
fn digests_are_not_printed() {
    let directory = directory();
    let printed = format!("{directory:?}");
    assert!(printed.contains("k1") && !printed.contains(&digest(OLD_KEY)));
    let config: super::Config = toml::from_str(&world()).unwrap();
    assert!(!format!("{config:?}").contains(&digest(OLD_KEY)));
    assert!(Directory::check(&config).is_empty());
}

#[test]
fn a_file_is_read_with_its_own_folder_as_base() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("directory.toml");
    std::fs::write(&path, world()).unwrap();
    let directory = Directory::load(&path).unwrap();
    let keys = &directory.issuer(crate::testing::ISS).unwrap().keys;
    assert_eq!(*keys, super::KeySource::File(folder.path().join("jwks.json")));
    assert!(matches!(Directory::load(&folder.path().join("none")), Err(DirectoryError::Read { .. })));
}

#[test]
fn expired_grants_do_not_exist() {
    let directory = directory();
    let dave = PrincipalId::parse("agent:dave").unwrap();
    assert_eq!(directory.grants_to(&dave, NOW_MS - 1).count(), 2);
    assert_eq!(directory.grants_to(&dave, NOW_MS).count(), 1);
    assert_eq!(directory.grants_to(&PrincipalId::parse("agent:bob").unwrap(), 0).count(), 0);
}
