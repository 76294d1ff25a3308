use serde_json::json;

use super::*;

fn refused(text: &str) -> (&'static str, String) {
    let refusal = strict(text.as_bytes()).unwrap_err();
    (refusal.code.name, refusal.path)
}

#[test]
fn what_is_said_is_kept() {
    let text = r#" {"a":[1,-2,18446744073709551615,0.1,1e20,true,null,"\ud83d\ude00"],"b":{"":""}} "#;
    let value = strict(text.as_bytes()).unwrap();
    assert_eq!(value, json!({"a":[1,-2,18446744073709551615u64,0.1,1e20,true,null,"😀"],"b":{"":""}}));
}

#[test]
fn each_fault_has_its_code_and_place() {
    assert_eq!(refused(r#"{"a":{"b":1,"b":1}}"#), ("aip.json.duplicate_member", "/a/b".into()));
    assert_eq!(refused(r#"{"a":{"b":1,"\u0062":1}}"#), ("aip.json.duplicate_member", "/a/b".into()));
    assert_eq!(refused(r#"[0,{"x/y":"\ud800"}]"#), ("aip.json.lone_surrogate", "/1/x~1y".into()));
    assert_eq!(refused(r#"[1,[2,1e400]]"#), ("aip.json.number_not_exact", "/1/1".into()));
    assert_eq!(refused(r#"{"n":18446744073709551616}"#), ("aip.json.number_not_exact", "/n".into()));
    assert_eq!(refused(r#"{"n":3.141592653589793238}"#), ("aip.json.number_not_exact", "/n".into()));
    for text in
        ["", "{", "{}{}", "nul", "01", "[1,]", "{\"a\":1,}", "'a'", "\u{feff}{}", "\"\u{1}\"", "1.2.3", "NaN"]
    {
        assert_eq!(refused(text).0, "aip.json.malformed", "{text}");
    }
    assert_eq!(strict(b"\"\xff\"").unwrap_err().code, codes::JSON_UTF8);
    assert_eq!(strict(b"\"\xed\xa0\x80\"").unwrap_err().code, codes::JSON_UTF8);
}

#[test]
fn each_bound_has_its_code() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(strict(nested(JSON_DEPTH_MAX).as_bytes()).is_ok());
    assert_eq!(refused(&nested(JSON_DEPTH_MAX + 1)).0, "aip.limit.depth");
    assert_eq!(refused(&nested(200_000)).0, "aip.limit.depth");

    let zeros = |count: usize| format!("[{}]", vec!["0"; count].join(","));
    assert!(strict(zeros(JSON_COLLECTION_ITEMS_MAX).as_bytes()).is_ok());
    assert_eq!(refused(&zeros(JSON_COLLECTION_ITEMS_MAX + 1)).0, "aip.limit.collection_items");
    let members: Vec<String> = (0..=JSON_COLLECTION_ITEMS_MAX).map(|i| format!("\"{i}\":0")).collect();
    assert_eq!(refused(&format!("{{{}}}", members.join(","))).0, "aip.limit.collection_items");

    let many = format!("[{}]", vec![zeros(9_999); 5].join(","));
    assert_eq!(refused(&many), ("aip.limit.nodes", "/4/9998".into()));

    let text = |length: usize| format!("\"{}\"", "x".repeat(length));
    assert!(strict(text(JSON_STRING_BYTES_MAX).as_bytes()).is_ok());
    assert_eq!(refused(&text(JSON_STRING_BYTES_MAX + 1)).0, "aip.limit.string_bytes");
    assert_eq!(refused(&format!("{{{}:1}}", text(JSON_STRING_BYTES_MAX + 1))).0, "aip.limit.string_bytes");

    let spaces = " ".repeat(ENVELOPE_BYTES_MAX - 1);
    assert!(strict(format!("1{spaces}").as_bytes()).is_ok());
    assert_eq!(refused(&format!("1 {spaces}")).0, "aip.limit.envelope_bytes");
}

#[test]
fn a_value_that_grows_when_written_again_is_counted_as_written() {
    let list = format!("[{}]", vec!["1e15"; 9_000].join(","));
    let lists = format!("[{}]", vec![list; 4].join(","));
    assert!(lists.len() < ENVELOPE_BYTES_MAX / 2);
    assert_eq!(refused(&lists).0, "aip.limit.envelope_bytes");
}
