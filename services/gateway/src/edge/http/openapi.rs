//! Makes the OpenAPI document from the route table and the code registry, and holds the committed one to it.

use std::collections::{BTreeMap, BTreeSet};

use aip_names::limits;
use aip_wire::{MessageType, RiskLevel, SideEffect};
use serde_json::{Map, Value, json};

use super::table::{Kind, Operation, Parameter, Route, routes};
use super::{answer, head};

/// Set to write the document instead of comparing it.
const UPDATE: &str = "AIP_REGENERATE";

pub(super) fn document() -> Value {
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route in served() {
        paths.entry(route.path).or_default().insert(route.method.as_str().to_lowercase(), operation(route));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "AIP 1.0 over HTTP",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "The native HTTP binding of the gateway, profile aip.native.http.v1.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": { "securitySchemes": { "bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "An API key or a JWT. A signed envelope needs none.",
        } } },
    })
}

fn served() -> impl Iterator<Item = &'static Route> {
    // pages are for people, not for programs
    routes().iter().filter(|route| !matches!(route.operation, Operation::Later(_) | Operation::Page(_)))
}

fn operation(route: &Route) -> Value {
    let mut members = Map::new();
    members.insert("summary".to_owned(), json!(route.summary));
    let parameters = parameters(route);
    if !parameters.is_empty() {
        members.insert("parameters".to_owned(), json!(parameters));
    }
    match route.operation {
        Operation::Message | Operation::Action | Operation::Cancel => {
            members.insert("requestBody".to_owned(), request(route.operation));
            members.insert("security".to_owned(), json!([{ "bearer": [] }, {}]));
        }
        Operation::Decide => {
            members.insert("requestBody".to_owned(), request(route.operation));
            members.insert("security".to_owned(), json!([{ "bearer": [] }]));
        }
        Operation::Read(_) | Operation::Follow(_) => {
            members.insert("security".to_owned(), json!([{ "bearer": [] }]));
        }
        _ => {
            members.insert("security".to_owned(), json!([]));
        }
    }
    members.insert("responses".to_owned(), Value::Object(responses(route)));
    Value::Object(members)
}

fn parameters(route: &Route) -> Vec<Value> {
    let in_path = path_names(route.path)
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 } }));
    let in_query = route.parameters.iter().map(|parameter| {
        let mut member = json!({
            "name": parameter.name,
            "in": "query",
            "description": parameter.summary,
            "schema": schema(parameter),
        });
        if parameter.kind == Kind::List {
            // one parameter with commas, not one for each item
            member["style"] = json!("form");
            member["explode"] = json!(false);
        }
        member
    });
    in_path.chain(in_query).collect()
}

fn path_names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
}

fn schema(parameter: &Parameter) -> Value {
    let item = match parameter.name {
        "risk" => json!({ "type": "string", "enum": RiskLevel::ALL }),
        "side_effect" => json!({ "type": "string", "enum": SideEffect::ALL }),
        _ => json!({ "type": "string", "minLength": 1 }),
    };
    match parameter.kind {
        Kind::Text => item,
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Wait => json!({ "type": "integer", "minimum": 0, "maximum": limits::WAIT_MS_MAX }),
        Kind::Limit => json!({ "type": "integer", "minimum": 1, "maximum": limits::PAGE_ROWS_MAX }),
        Kind::List => {
            json!({ "type": "array", "items": item, "minItems": 1, "maxItems": limits::QUERY_LIST_ITEMS_MAX })
        }
    }
}

fn request(operation: Operation) -> Value {
    let envelope = json!({ "schema": reference("envelope") });
    let content = if operation == Operation::Action {
        let bare = json!({
            "type": "object",
            "required": ["capability_id", "input"],
            "description": "An action; its id may be left out and is then given by the gateway.",
        });
        json!({ head::ENVELOPE: envelope, head::JSON: { "schema": { "anyOf": [reference("envelope"), bare] } } })
    } else if operation == Operation::Cancel {
        let bare = json!({
            "type": "object",
            "properties": { "reason": { "type": "string", "maxLength": limits::CANCEL_REASON_BYTES_MAX } },
            "additionalProperties": false,
        });
        json!({ head::ENVELOPE: envelope, head::JSON: { "schema": { "anyOf": [reference("envelope"), bare] } } })
    } else {
        json!({ head::ENVELOPE: envelope.clone(), head::JSON: envelope })
    };
    json!({ "required": operation != Operation::Cancel, "content": content })
}

fn responses(route: &Route) -> Map<String, Value> {
    let mut responses = Map::new();
    responses.insert("200".to_owned(), success(route.operation));
    if matches!(route.operation, Operation::Follow(_)) {
        let description = "Nothing is left to tell behind the last event id; come back no more.";
        responses.insert("204".to_owned(), json!({ "description": description }));
    }
    let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for code in route.codes() {
        by_status.entry(code.http_status).or_default().push(code.name);
    }
    for (status, names) in by_status {
        let mut response = json!({
            "description": names.join(", "),
            "content": { head::ENVELOPE: { "schema": reference("envelope") } },
        });
        if status == 401 {
            response["headers"] = json!({ "WWW-Authenticate": { "schema": { "type": "string" } } });
        }
        responses.insert(status.to_string(), response);
    }
    if route.operation == Operation::Ready {
        let body = json!({ "schema": { "type": "object", "required": ["status", "reason"] } });
        responses.insert(
            "503".to_owned(),
            json!({ "description": "Not ready.", "content": { head::JSON: body } }),
        );
    }
    responses
}

fn success(operation: Operation) -> Value {
    let (description, media_type, schema) = match operation {
        Operation::Message | Operation::Action => ("The reply.", head::ENVELOPE, reference("envelope")),
        Operation::Read(asked) | Operation::Follow(asked) => {
            let key = answer_key(asked);
            let body = json!({
                "type": "object",
                "required": [key],
                "properties": { key: reference(key) },
                "additionalProperties": false,
            });
            ("The body of the reply.", head::JSON, body)
        }
        Operation::Metrics => ("Prometheus text.", "text/plain", json!({ "type": "string" })),
        _ => ("As asked.", head::JSON, json!({ "type": "object" })),
    };
    let mut content = json!({ media_type: { "schema": schema } });
    if matches!(operation, Operation::Follow(_)) {
        content[head::EVENTS] = json!({ "schema": { "type": "string" } });
    }
    json!({ "description": description, "content": content })
}

/// The body that answers a read request.
fn answer_key(asked: MessageType) -> &'static str {
    let answer = match asked {
        MessageType::ActionStatusRequest => MessageType::ActionStatus,
        MessageType::ActionResultRequest => MessageType::ActionResult,
        MessageType::ReceiptQueryRequest => MessageType::ReceiptChain,
        MessageType::ActionListRequest => MessageType::ActionList,
        MessageType::ActionEventsRequest => MessageType::ActionEvents,
        MessageType::EventStreamRequest => MessageType::EventStream,
        MessageType::AuditQueryRequest => MessageType::AuditQueryResult,
        _ => MessageType::Manifest,
    };
    answer.body_key()
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("https://aip.dev/schemas/aip/{name}.schema.json") })
}

#[test]
fn the_committed_document_is_what_the_table_makes() {
    let made = format!("{:#}\n", document());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(path, made).unwrap();
    } else {
        assert!(made == answer::DOCUMENT, "openapi.json is stale: run this test with {UPDATE}=1");
    }
}

#[test]
fn the_document_says_of_each_route_what_the_table_and_the_codes_say() {
    let document: Value = serde_json::from_str(answer::DOCUMENT).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let described: BTreeSet<(&str, &str)> = paths
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(|method| (path.as_str(), method.as_str()))
        })
        .collect();
    assert_eq!(described.len(), served().count());
    for route in served() {
        let operation = &paths[route.path][route.method.as_str().to_lowercase()];
        let named: BTreeSet<&str> = operation["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        let wanted =
            route.parameters.iter().map(|parameter| parameter.name).chain(path_names(route.path)).collect();
        assert_eq!(named, wanted, "{}", route.path);
        let errors: BTreeSet<u16> = listed(operation).filter(|status| *status >= 400).collect();
        let mut mapped: BTreeSet<u16> = route.codes().map(|code| code.http_status).collect();
        if route.operation == Operation::Ready {
            mapped.insert(503);
        }
        assert_eq!(errors, mapped, "{}", route.path);
        for begin in route.errors.iter().copied().flatten() {
            assert!(route.codes().any(|code| code.name.starts_with(begin)), "no code begins with {begin}");
        }
    }
}

#[test]
fn every_schema_that_the_document_names_is_there() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/aip/");
    let mut names = BTreeSet::new();
    references(&document(), &mut names);
    assert!(names.len() > 4, "{names:?}");
    for name in names {
        let file = name.strip_prefix("https://aip.dev/schemas/aip/").unwrap();
        let text = std::fs::read_to_string(format!("{folder}{file}")).unwrap();
        let schema: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(schema["$id"], json!(name));
    }
}

fn listed(operation: &Value) -> impl Iterator<Item = u16> {
    operation["responses"].as_object().unwrap().keys().map(|status| status.parse().unwrap())
}

/// The statuses that the document lists for a route.
pub(super) fn statuses(method: &str, path: &str) -> BTreeSet<u16> {
    listed(&document()["paths"][path][method.to_lowercase()]).collect()
}

fn references(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            names.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
            members.values().for_each(|member| references(member, names));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, names)),
        _ => {}
    }
}
