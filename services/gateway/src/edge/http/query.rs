//! Reads a query strictly into members of a request: what is unknown, said twice, badly encoded or out of range is
//! refused with the parameter's name, never dropped or clamped.

use aip_names::limits;
use aip_wire::{Refusal, codes};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use super::table::{Kind, Parameter};

/// The members that a query makes.
pub(super) fn read(query: Option<&str>, parameters: &[Parameter]) -> Result<Map<String, Value>, Refusal> {
    let mut members = Map::new();
    let query = query.unwrap_or_default();
    // every pair is known and different or refused, so the table bounds this loop
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, text) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, text) = (decode(name)?, decode(text)?);
        let Some(parameter) = parameters.iter().find(|parameter| parameter.name == name) else {
            return Err(refuse(codes::QUERY_INVALID, &name, "this path has no such parameter"));
        };
        if members.insert(parameter.member.to_owned(), value(parameter, &text)?).is_some() {
            return Err(refuse(codes::QUERY_INVALID, &name, "given more than once"));
        }
    }
    Ok(members)
}

fn value(parameter: &Parameter, text: &str) -> Result<Value, Refusal> {
    let invalid = |why: &str| refuse(codes::QUERY_INVALID, parameter.name, why);
    match parameter.kind {
        Kind::Text if text.trim().is_empty() => Err(invalid("must not be blank")),
        Kind::Text => Ok(json!(text)),
        Kind::Flag => match text {
            "true" => Ok(json!(true)),
            "false" => Ok(json!(false)),
            _ => Err(invalid("must be true or false")),
        },
        Kind::Wait => wait_ms(text).ok_or_else(|| {
            let why = format!("must be a whole number of milliseconds from 0 to {}", limits::WAIT_MS_MAX);
            refuse(codes::LIMIT_WAIT, parameter.name, &why)
        }),
        Kind::Limit => limit(text).ok_or_else(|| {
            let why = format!("must be a whole number from 1 to {}", limits::PAGE_ROWS_MAX);
            refuse(codes::LIMIT_PAGE_ROWS, parameter.name, &why)
        }),
        Kind::List => {
            let items: Vec<&str> = text.split(',').collect();
            if items.iter().any(|item| item.trim().is_empty()) {
                return Err(invalid("must be texts with single commas between them"));
            }
            if items.len() > limits::QUERY_LIST_ITEMS_MAX {
                let why = format!("must have at most {} items", limits::QUERY_LIST_ITEMS_MAX);
                return Err(refuse(codes::LIMIT_COLLECTION_ITEMS, parameter.name, &why));
            }
            Ok(json!(items))
        }
    }
}

fn limit(text: &str) -> Option<Value> {
    let rows = number(text)?;
    (1..=limits::PAGE_ROWS_MAX as u64).contains(&rows).then(|| json!(rows))
}

fn number(text: &str) -> Option<u64> {
    // from_str would take a leading plus
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn wait_ms(text: &str) -> Option<Value> {
    let wait_ms = number(text)?;
    (wait_ms <= limits::WAIT_MS_MAX).then(|| json!(wait_ms))
}

fn decode(text: &str) -> Result<String, Refusal> {
    let bad = || Refusal::new(codes::QUERY_INVALID, "", "the query is not percent-encoded UTF-8");
    for (at, _) in text.match_indices('%') {
        let escape = text.as_bytes().get(at + 1..at + 3);
        if !escape.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            return Err(bad());
        }
    }
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8().map_err(|_| bad())?;
    if decoded.chars().any(char::is_control) { Err(bad()) } else { Ok(decoded.into_owned()) }
}

fn refuse(code: &'static codes::Code, parameter: &str, why: &str) -> Refusal {
    Refusal::new(code, "", format!("query parameter {parameter:?}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::http::table;

    const PARAMETERS: &[Parameter] = &[
        Parameter { name: "tenant_id", member: "tenant_id", kind: Kind::Text, summary: "" },
        Parameter { name: "include_result", member: "include_result", kind: Kind::Flag, summary: "" },
        Parameter { name: "wait_ms", member: "wait_ms", kind: Kind::Wait, summary: "" },
        Parameter { name: "risk", member: "risks", kind: Kind::List, summary: "" },
    ];

    #[test]
    fn members_are_typed_and_named_as_the_request_names_them() {
        let read =
            read(Some("tenant_id=a%20b%2Bc&include_result=true&wait_ms=30000&risk=low,high"), PARAMETERS);
        let expected = json!({ "tenant_id": "a b+c", "include_result": true, "wait_ms": 30000, "risks": ["low", "high"] });
        assert_eq!(Value::Object(read.unwrap()), expected);
    }

    #[test]
    fn nothing_is_dropped_or_clamped() {
        for (query, code) in [
            ("limit=1", codes::QUERY_INVALID),
            ("wait_ms=30001", codes::LIMIT_WAIT),
            ("wait_ms=-1", codes::LIMIT_WAIT),
            ("wait_ms=%2B1", codes::LIMIT_WAIT),
            ("wait_ms=1.5", codes::LIMIT_WAIT),
            ("wait_ms=", codes::LIMIT_WAIT),
            ("wait_ms=99999999999999999999", codes::LIMIT_WAIT),
            ("wait_ms=1&wait_ms=1", codes::QUERY_INVALID),
            ("include_result=1", codes::QUERY_INVALID),
            ("include_result", codes::QUERY_INVALID),
            ("tenant_id=", codes::QUERY_INVALID),
            ("tenant_id=%20", codes::QUERY_INVALID),
            ("tenant_id=%zz", codes::QUERY_INVALID),
            ("tenant_id=%2", codes::QUERY_INVALID),
            ("tenant_id=%ff", codes::QUERY_INVALID),
            ("tenant_id=%00", codes::QUERY_INVALID),
            ("risk=low,,high", codes::QUERY_INVALID),
            ("risk=", codes::QUERY_INVALID),
        ] {
            assert_eq!(read(Some(query), PARAMETERS).unwrap_err().code, code, "{query}");
        }
        let long = format!("risk={}", vec!["low"; limits::QUERY_LIST_ITEMS_MAX + 1].join(","));
        assert_eq!(read(Some(&long), PARAMETERS).unwrap_err().code, codes::LIMIT_COLLECTION_ITEMS);
    }

    #[test]
    fn names_and_members_are_unique_in_each_route() {
        for route in table::routes() {
            let mut seen = std::collections::BTreeSet::new();
            for parameter in route.parameters {
                assert!(seen.insert(parameter.member), "{} {}", route.path, parameter.member);
            }
        }
    }
}
