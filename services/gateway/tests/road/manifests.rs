use aip_wire::{MessageType, codes};
use serde_json::{Value, json};

use super::world::*;

async fn visible(world: &World, token: &str, filter: Value) -> Vec<String> {
    let manifest =
        world.ask_as(token, MessageType::ManifestRequest, json!({"filter": filter})).await.unwrap();
    let manifest = &manifest["manifest"];
    assert!(!manifest["profiles"].as_array().unwrap().is_empty());
    let none = Vec::new();
    let capabilities = manifest["capabilities"].as_array().unwrap_or(&none);
    capabilities.iter().map(|capability| capability["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_sees_what_it_could_invoke_and_filters_narrow_that() {
    let world = World::empty().await;
    assert!(visible(&world, CLIENT_TOKEN, json!({})).await.is_empty());
    world.registered(&[say("cap:test:say", contract(json!({}))), say("cap:test:read", safe())]).await;
    assert_eq!(visible(&world, CLIENT_TOKEN, json!({})).await, ["cap:test:read", "cap:test:say"]);
    assert_eq!(visible(&world, OTHER_TOKEN, json!({})).await, ["cap:test:say"]);
    let filter = json!({"capability_ids": ["cap:test:read", "cap:test:none"]});
    assert_eq!(visible(&world, CLIENT_TOKEN, filter.clone()).await, ["cap:test:read"]);
    assert!(visible(&world, OTHER_TOKEN, filter).await.is_empty());
    // and can't invoke what it does not see, nor learn that it is there
    let hidden = action(json!({"capability_id": "cap:test:read", "input": {"wrong": 1}}));
    let absent = action(json!({"capability_id": "cap:test:none", "input": {"wrong": 1}}));
    let told = |reply: aip_gateway::front::Outbound| reply.envelope["body"].clone();
    let hidden = told(world.call_as(OTHER_TOKEN, &hidden).await);
    assert_eq!(hidden, told(world.call_as(OTHER_TOKEN, &absent).await));
    assert_eq!(hidden["error"]["error"]["code"], codes::CAPABILITY_UNKNOWN.name);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_contract_stands_beside_until_the_old_one_is_withdrawn() {
    let world = World::new().await;
    let (worker, _serving) = world.serve().await;
    let old = say("cap:test:say", contract(json!({})));
    let mut new = old.clone();
    new["description"] = json!("better");
    let reply = world.register(manifest(std::slice::from_ref(&new))).await;
    let outcome = &reply.envelope["body"]["manifest"]["extensions"]["aip.registration"];
    assert_eq!(outcome, &json!({"added": 1, "withdrawn": 0}));
    let again = world.register(manifest(std::slice::from_ref(&new))).await;
    let outcome = &again.envelope["body"]["manifest"]["extensions"]["aip.registration"];
    assert_eq!(outcome, &json!({"added": 0, "withdrawn": 0}));
    // new actions take the newest
    let first = action(json!({}));
    world.call(&first).await;
    let hash = |id: &Value| worker.dispatches(id.as_str().unwrap())[0].contract_hash.clone();
    let newest = hash(&first["id"]);
    // giving the new one up brings the old one back
    let mut back = manifest(&[old]);
    back["extensions"]["aip.withdraw"] = json!([newest]);
    assert_eq!(world.register(back).await.status, 200);
    let second = action(json!({}));
    world.call(&second).await;
    assert_ne!(hash(&second["id"]), newest);
    // and leaving it out takes the capability away
    world.registered(&[]).await;
    assert_eq!(code(&world.call(&action(json!({}))).await), codes::CAPABILITY_UNKNOWN.name);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_says_too_much_or_too_little_is_refused_whole() {
    let world = World::empty().await;
    let good = || say("cap:test:say", contract(json!({})));
    let changed = |change: fn(&mut Value)| {
        let mut one = manifest(&[good()]);
        change(&mut one);
        one
    };
    for (wrong, expected) in [
        (manifest(&[good(), say("cap:foreign:say", contract(json!({})))]), codes::MANIFEST_NOT_ALLOWED),
        (
            changed(|m| m["extensions"]["aip.worker"]["service"] = json!("sandbox-other")),
            codes::MANIFEST_NOT_ALLOWED,
        ),
        (changed(|m| m["extensions"]["aip.worker"]["version"] = json!("v2")), codes::MANIFEST_NOT_ALLOWED),
        (changed(|m| m["agent"]["id"] = json!("service:client")), codes::MANIFEST_NOT_ALLOWED),
        (changed(|m| m["extensions"]["aip.worker"]["handlers"] = json!([])), codes::MANIFEST_HANDLER),
        (
            changed(|m| m["extensions"]["aip.worker"]["handlers"][0]["modes"] = json!([])),
            codes::MANIFEST_HANDLER,
        ),
        (
            changed(|m| m["capabilities"][0]["contract"]["execution"]["supports_cancel"] = json!(true)),
            codes::MANIFEST_HANDLER,
        ),
        (changed(|m| m["extensions"] = json!({})), codes::MANIFEST_MALFORMED),
        (changed(|m| m["extensions"]["aip.worker"]["more"] = json!(1)), codes::MANIFEST_MALFORMED),
        (changed(|m| m["manifest_version"] = json!("aip-manifest/v2")), codes::ENVELOPE_RULE),
        (
            changed(|m| m["capabilities"][0]["input_schema"] = json!({"$ref": "https://x"})),
            codes::SCHEMA_REFERENCE,
        ),
        (changed(|m| m["capabilities"][0]["input_schema"] = json!({"type": 1})), codes::SCHEMA_MALFORMED),
    ] {
        let reply = world.register(wrong.clone()).await;
        assert_eq!(code(&reply), expected.name, "{wrong}");
    }
    let client = signed(envelope(MessageType::Manifest, manifest(&[good()])), &world.client_key);
    assert_eq!(code(&world.send(&client).await), codes::MANIFEST_NOT_ALLOWED.name);
    assert!(visible(&world, CLIENT_TOKEN, json!({})).await.is_empty());
}
