//! Any text as a subject: what parses is written back as it came, and no wildcard ever parses.
#![no_main]

use std::sync::LazyLock;

use aip_names::{Names, Service, Subject, TrustDomain, Version};
use aip_wire::{MessageType, events};
use libfuzzer_sys::fuzz_target;

const TRUST_DOMAINS: [&str; 2] = ["aip.local", "example"];

static NAMES: LazyLock<Names> = LazyLock::new(|| {
    let message_types = MessageType::ALL.iter().map(|message_type| message_type.as_str());
    let kinds = events::ALL.iter().map(|kind| kind.name);
    Names::new(TRUST_DOMAINS, message_types, kinds).expect("the registered names do not collide")
});

/// What every subject of the first trust domain begins with, so that the fuzzer need not find it.
static PREFIX: LazyLock<String> = LazyLock::new(|| {
    let trust_domain = TrustDomain::new(TRUST_DOMAINS[0]).expect("a good name");
    let service = Service::gateway();
    let pattern = Subject::all_messages(&trust_domain, &service, Version::V1);
    let end = pattern.find(service.as_str()).expect("the pattern names the service");
    pattern[..end].to_owned()
});

fuzz_target!(|text: &str| {
    check(text);
    check(&format!("{}{text}", *PREFIX));
});

fn check(text: &str) {
    if let Ok(subject) = NAMES.parse(text) {
        assert_eq!(subject.to_string(), text);
        assert!(!text.contains(['*', '>', ' ']));
        assert!(text.split('.').all(|token| !token.is_empty()));
    }
}
