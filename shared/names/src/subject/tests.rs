use proptest::prelude::*;

use super::*;
use crate::{NameError, Names};

const TRUST_DOMAINS: [&str; 3] = ["aip.local", "b.example/eu west", "plain"];
const MESSAGE_TYPES: [&str; 3] =
    ["aip.core.v1.action", "aip.discovery.v1.event_stream_request", "aip.core.v1.action_result"];
const EVENT_KINDS: [&str; 2] = ["action.completed", "action.input_refused"];

fn names() -> Names {
    Names::new(TRUST_DOMAINS, MESSAGE_TYPES, EVENT_KINDS).unwrap()
}

fn any_service() -> impl Strategy<Value = Service> {
    "[a-z][a-z0-9-]{0,30}".prop_filter_map("reserved suffix", |name| Service::new(&name).ok())
}

fn any_version() -> impl Strategy<Value = Version> {
    (1_u16..).prop_map(|n| Version::new(&format!("v{n}")).unwrap())
}

fn any_atom() -> impl Strategy<Value = Atom> {
    "[!-~]{1,60}".prop_filter_map("not a token", |name| Atom::new(&name).ok())
}

fn any_subject() -> impl Strategy<Value = Subject> {
    let trust_domain = prop::sample::select(&TRUST_DOMAINS[..]).prop_map(|n| TrustDomain::new(n).unwrap());
    let message_type = prop::sample::select(&MESSAGE_TYPES[..]).prop_map(|n| MessageType::new(n).unwrap());
    let kind = prop::sample::select(&EVENT_KINDS[..]).prop_map(|n| EventKind::new(n).unwrap());
    let parts = (trust_domain, any_service(), any_version(), message_type, kind, any_atom(), any::<u16>());
    (parts, 0..6_u8).prop_map(|((trust_domain, service, version, message_type, kind, id, shard), family)| {
        match family {
            0 => Subject::Message { trust_domain, service, version, message_type },
            1 => Subject::Stream { trust_domain, service, version, correlation_id: id },
            2 => Subject::Ledger { trust_domain, service, shard },
            3 => Subject::Queue { trust_domain, service, version, message_type },
            4 => Subject::Chunks { trust_domain, service, action_id: id },
            _ => Subject::Events { trust_domain, service, kind },
        }
    })
}

proptest! {
    #[test]
    fn parsing_is_the_inverse_of_building(subject in any_subject()) {
        prop_assert_eq!(names().parse(&subject.to_string()).unwrap(), subject);
    }

    #[test]
    fn what_parses_is_built_again_to_the_same_text(
        text in "aip\\.v1\\.(aip_local|plain|a\\.b)\\.[a-z-]{1,12}(-ledger|-queue|-chunks|)\\.v[0-9]{1,2}\\.(aip_core_v1_action|stream\\.[a-z0-9_]{1,6}|0{0,2}[0-9]|[!-~]{1,4})"
    ) {
        if let Ok(subject) = names().parse(&text) {
            prop_assert_eq!(subject.to_string(), text);
        }
    }

    #[test]
    fn no_part_can_widen_a_subject(name in ".{0,40}") {
        for token in [
            TrustDomain::new(&name).map(|n| n.token().to_owned()),
            Atom::new(&name).map(|n| n.to_string()),
            Service::new(&name).map(|n| n.to_string()),
        ].into_iter().flatten() {
            prop_assert!(!token.is_empty());
            let widens = |c: char| matches!(c, '.' | '*' | '>' | '/' | '\\') || c.is_whitespace() || c.is_control();
            prop_assert!(!token.contains(widens));
        }
    }
}

#[test]
fn subjects_read_as_the_specification_writes_them() {
    let td = TrustDomain::new("aip.local").unwrap();
    let action = MessageType::new("aip.core.v1.action").unwrap();
    let gateway = Service::gateway();
    assert_eq!(
        Subject::message(&td, &gateway, Version::V1, &action).to_string(),
        "aip.v1.aip_local.gateway.v1.aip_core_v1_action"
    );
    assert_eq!(Subject::service_wide(&td, &gateway, Version::V1), "aip.v1.aip_local.gateway.v1.>");
    assert_eq!(Subject::ledger(&td, &gateway, 0).to_string(), "aip.v1.aip_local.gateway-ledger.v1.0");
}

#[test]
fn two_names_that_fold_to_one_token_are_refused() {
    let refused = Names::new(["a.b", "a_b"], [], []).unwrap_err();
    assert_eq!(
        refused,
        NameError::Ambiguous {
            what: "trust domain",
            first: "a.b".to_owned(),
            second: "a_b".to_owned(),
            token: "a_b".to_owned()
        }
    );
    assert!(matches!(
        Names::new([], ["aip.core.v1.action", "aip.core.v1/action"], []).unwrap_err(),
        NameError::Ambiguous { what: "message type", .. }
    ));
    assert!(Names::new(["a.b", "a.b"], [], []).is_ok(), "the same name twice is one name");
}

#[test]
fn malformed_parts_are_refused() {
    assert!(matches!(TrustDomain::new(""), Err(NameError::Empty { .. })));
    for name in ["a*", ">", "a\tb", "a\u{7f}", "é.example", "a\u{a0}b", "a\nb"] {
        assert!(matches!(TrustDomain::new(name), Err(NameError::Character { .. })), "{name:?}");
    }
    assert!(matches!(TrustDomain::new(&"a".repeat(129)), Err(NameError::TooLong { .. })));
    for name in ["gateway-ledger", "x-queue", "x-chunks", "x-events"] {
        assert!(matches!(Service::new(name), Err(NameError::ReservedService { .. })), "{name:?}");
    }
    for name in ["Gateway", "a_b", "a.b", "-a", "1a"] {
        assert!(matches!(Service::new(name), Err(NameError::ServiceForm { .. })), "{name:?}");
    }
    for name in ["v0", "v01", "1", "v", "v1x", "v99999"] {
        assert!(matches!(Version::new(name), Err(NameError::VersionForm { .. })), "{name:?}");
    }
    assert!(matches!(Atom::new("corr.1"), Err(NameError::Character { .. })));
}

#[test]
fn foreign_subjects_are_not_ours() {
    for subject in
        ["", "aip", "aip.v2.plain.gateway.v1.x", "aip.v1.plain", "aip.v1.plain.gateway.v1.stream.a.b"]
    {
        assert!(names().parse(subject).is_err(), "{subject:?}");
    }
    assert!(matches!(
        names().parse("aip.v1.other.gateway.v1.aip_core_v1_action"),
        Err(NameError::Unknown { what: "trust domain", .. })
    ));
    assert!(names().parse("aip.v1.plain.gateway-ledger.v1.00").is_err(), "one spelling of a number");
}
