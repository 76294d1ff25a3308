use std::path::Path;

use super::*;
use crate::caller::Method;

const NOW_MS: u64 = 1_784_017_800_000;

/// Ann belongs to acme and beta, ben reads all of acme, cid may look at ann's restaurants in acme until the grant ends.
fn directory() -> Directory {
    let text = r#"
trust_domain = "aip.test"
tenant = [{ id = "acme" }, { id = "beta" }]

[[principal]]
id = "agent:ann"
kind = "agent"
tenants = ["acme", "beta"]
scopes = ["action:write", "action:read"]
capabilities = ["cap:*"]

[[principal]]
id = "agent:ben"
kind = "agent"
tenants = ["acme"]
scopes = ["action:read:any"]
capabilities = ["cap:*"]

[[principal]]
id = "agent:cid"
kind = "agent"
tenants = ["acme"]
scopes = ["action:read", "receipt:read"]
capabilities = ["cap:*"]

[[grant]]
delegate = "agent:cid"
principal = "agent:ann"
scopes = ["action:read", "receipt:read"]
capabilities = ["cap:restaurant:*"]
tenant = "acme"
expires_at = 2026-07-14T08:31:00Z
"#;
    Directory::parse(text, Path::new("/nowhere")).unwrap()
}

fn id(text: &str) -> PrincipalId {
    PrincipalId::parse(text).unwrap()
}

fn reader(name: &str, now_ms: u64) -> Reader {
    let directory = directory();
    let party = directory.party(&id(name)).unwrap();
    Reader::new(&Caller::new(party, Method::ApiKey { id: "k".to_owned() }), &directory, now_ms)
}

fn thing<'a>(owner: &'a PrincipalId, tenant: Option<&'a str>, capability: &'a str) -> Thing<'a> {
    Thing { owner, tenant, capability_id: Some(capability) }
}

#[test]
fn a_grant_shows_what_it_covers_and_no_more() {
    let ann = id("agent:ann");
    let cid = reader("agent:cid", NOW_MS);
    let search = "cap:restaurant:search";
    assert!(cid.may(thing(&ann, Some("acme"), search), Family::Action));
    assert!(!cid.may(thing(&ann, Some("beta"), search), Family::Action));
    assert!(!cid.may(thing(&ann, None, search), Family::Action));
    assert!(!cid.may(thing(&ann, Some("acme"), "cap:bank:transfer"), Family::Action));
    // nobody lends what they may not see themselves
    assert!(!cid.may(thing(&ann, Some("acme"), search), Family::Receipt));
    assert_eq!(cid.until_ms(), Some(1_784_017_860_000));
    let later = reader("agent:cid", 1_784_017_860_000);
    assert!(!later.may(thing(&ann, Some("acme"), search), Family::Action));
    assert_eq!(later.until_ms(), None);
}

#[test]
fn a_list_looks_only_where_its_reader_may() {
    let own = |name: &str| Place::Owner(id(name));
    assert_eq!(
        reader("agent:cid", NOW_MS).places(Family::Action, None),
        [own("agent:ann"), own("agent:cid")]
    );
    assert_eq!(reader("agent:cid", NOW_MS).places(Family::Receipt, None), [own("agent:cid")]);
    assert_eq!(reader("agent:cid", NOW_MS).places(Family::Event, None), []);
    let acme = Place::Tenant("acme".to_owned());
    assert_eq!(reader("agent:ben", NOW_MS).places(Family::Action, None), [own("agent:ben"), acme]);
    assert_eq!(reader("agent:ben", NOW_MS).places(Family::Action, Some("beta")), [own("agent:ben")]);
    assert_eq!(reader("agent:ann", NOW_MS).places(Family::Action, None), [own("agent:ann")]);
    assert_eq!(reader("agent:ann", NOW_MS).require(Family::Audit).unwrap_err().code, codes::POLICY_SCOPE);
}
