use serde::Deserialize;

use super::*;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Question {
    #[allow(dead_code)]
    text: String,
}

#[derive(Serialize, JsonSchema)]
struct Reply {
    #[schemars(extend("x-aip-redact" = true))]
    name: String,
}

fn spec() -> CapabilitySpec {
    CapabilitySpec::read("cap:test:ask", "Ask", "Answers.")
}

#[test]
fn schemas_come_from_the_types() {
    let offered =
        Offered::new(spec(), async |_: Context, _: Question| Ok(Reply { name: "n".to_owned() })).unwrap();
    let input = aip_wire::capability_schema::compile(&offered.capability.input_schema).unwrap();
    assert!(input.check(&serde_json::json!({"text": "hi"})).is_ok());
    assert!(input.check(&serde_json::json!({"text": "hi", "more": 1})).is_err());
    let output = offered.capability.output_schema.unwrap();
    let seen = aip_wire::redact::redact(&serde_json::json!({"name": "Ada"}), &output);
    assert_eq!(seen["name"], aip_wire::redact::REDACTED);
}

#[test]
fn an_input_that_is_no_object_is_refused() {
    let refused = Offered::new(spec(), async |_: Context, text: String| Ok(text)).err().unwrap();
    assert!(refused.to_string().contains("no object"), "{refused}");
    let nameless = CapabilitySpec { id: String::new(), ..spec() };
    assert!(Offered::new(nameless, async |_: Context, _: Question| Ok(1)).is_err());
}

#[test]
fn only_what_is_declared_harmless_may_run_again() {
    let write = |safety| CapabilitySpec::write("cap:test:do", "Do", "", SideEffect::Write, safety).contract;
    assert!(may_run_again(&spec().contract, false));
    assert!(may_run_again(&write(RetrySafety::Safe), false));
    assert!(may_run_again(&write(RetrySafety::SafeWithIdempotencyKey), true));
    assert!(!may_run_again(&write(RetrySafety::SafeWithIdempotencyKey), false));
    assert!(!may_run_again(&write(RetrySafety::Unsafe), true));
    assert!(!may_run_again(&write(RetrySafety::Unknown), true));
}
