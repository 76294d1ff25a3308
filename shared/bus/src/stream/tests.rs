use super::*;

fn wanted() -> Map<String, Value> {
    config(&aip_names::ledger_stream(
        &aip_names::TrustDomain::new("aip.local").unwrap(),
        &aip_names::Service::gateway(),
        0,
        1,
    ))
}

/// What a server answers: defaults left out or filled in.
fn as_served() -> Map<String, Value> {
    let mut config = wanted();
    config.remove("persist_mode");
    config.remove("allow_rollup_hdrs");
    config.insert("compression".to_owned(), json!("none"));
    config.insert("consumer_limits".to_owned(), json!({}));
    config.insert("metadata".to_owned(), json!({ "_nats.ver": "2.15.1", "_nats.req.level": "0" }));
    config.insert("sealed".to_owned(), json!(false));
    config.insert("first_seq".to_owned(), json!(0));
    config
}

#[test]
fn defaults_are_no_drift() {
    assert_eq!(compare(&wanted(), &as_served()), []);
}

#[test]
fn every_changed_setting_is_seen_even_one_we_do_not_know() {
    for (field, value) in [
        ("max_age", json!(3_600)),
        ("max_msgs", json!(10)),
        ("discard", json!("old")),
        ("deny_delete", json!(false)),
        ("deny_purge", json!(true)),
        ("subjects", json!(["aip.>"])),
        ("persist_mode", json!("async")),
        ("storage", json!("memory")),
        ("republish", json!({ "dest": "leak" })),
        ("sources", json!([{ "name": "other" }])),
        ("metadata", json!({ "someone": "else" })),
        ("a_setting_of_next_year", json!(true)),
    ] {
        let mut found = as_served();
        found.insert(field.to_owned(), value.clone());
        let differences = compare(&wanted(), &found);
        assert_eq!(differences.len(), 1, "{field}: {differences:?}");
        assert_eq!(differences[0].field, field);
    }
}

#[test]
fn a_repair_puts_back_what_differs_and_nothing_else() {
    let mut found = as_served();
    found.insert("max_age".to_owned(), json!(3_600));
    found.insert("no_ack".to_owned(), json!(true));
    let config = repaired(&found, &compare(&wanted(), &found));
    assert_eq!(compare(&wanted(), &config), []);
    assert_eq!(config.get("metadata"), found.get("metadata"));
}

#[test]
fn the_refusal_names_all_differences() {
    let differences = vec![
        Difference { field: "storage".into(), wanted: json!("file"), found: json!("memory") },
        Difference { field: "max_age".into(), wanted: Value::Null, found: json!(5) },
    ];
    let text = StreamError::Drift { stream: "s".into(), differences }.to_string();
    assert!(
        text.contains("storage is \"memory\", declared is \"file\"; max_age is 5, declared is null"),
        "{text}"
    );
}
