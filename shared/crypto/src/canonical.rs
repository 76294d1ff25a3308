//! The canonical JSON form: what is signed (22.2) and hashed (5.5, 18.2). It must never depend on the order in which
//! members arrived, and it must never fail.
//!
//! The form, completely:
//!
//! - UTF-8, no white space, no byte order mark;
//! - the members of every object in ascending order of their names, compared as UTF-8 bytes (which is the order of
//!   Unicode code points, not the UTF-16 order of RFC 8785); arrays keep their order;
//! - strings escape `"` and `\` with a backslash, U+0008, U+0009, U+000A, U+000C and U+000D as `\b \t \n \f \r`, other
//!   characters below U+0020 as `\u00xx` in lower case, and nothing else: not `/`, not U+007F, nothing beyond ASCII;
//! - integers from -2^63 to 2^64-1 that were written without fraction and exponent are written in decimal;
//! - every other number is the IEEE 754 double it was read as, written with the fewest digits that read back as the
//!   same double, always with a fraction or an exponent. With the decimal point after digit p: plain notation if
//!   -5 < p <= 16 (`1.0`, `0.00001`, `1000000000000000.0`), else one digit before the point and an exponent with its
//!   sign and without leading zeros (`1e+16`, `1.5e-7`). `-0` and `-0.0` are `-0.0`.
//!
//! So `1` and `1.0` are different, and `1.0`, `1.00` and `10e-1` are the same. Numbers that a double cannot hold are
//! refused where envelopes are read, before anything is hashed.
//!
//! This is what `serde_json` 1.0.154 writes for a received number. It is written out here and not left to the library,
//! which has changed the spelling of exponents before: a hash must outlive an update.

use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};

/// Room for an ordinary envelope without growing.
const CAPACITY: usize = 2048;

/// The canonical bytes of `value`.
///
/// Recursion follows the depth of the value, as dropping it does; readers bound that depth.
pub fn to_vec(value: &Value) -> Vec<u8> {
    to_vec_without(value, &[])
}

/// The SHA-256 of the canonical bytes of `value`, in lower-case hexadecimal.
pub fn hash(value: &Value) -> String {
    hash_without(value, &[])
}

/// The canonical bytes of `value` as if the one member that `path` leads to were not there.
///
/// `path` names object members from the outside in; an empty path leaves nothing out.
pub(crate) fn to_vec_without(value: &Value, path: &[&str]) -> Vec<u8> {
    let mut out = Vec::with_capacity(CAPACITY);
    write_value(&mut out, value, path);
    out
}

pub(crate) fn hash_without(value: &Value, path: &[&str]) -> String {
    hex::encode(Sha256::digest(to_vec_without(value, path)))
}

fn write_value(out: &mut Vec<u8>, value: &Value, omit: &[&str]) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => write_array(out, items),
        Value::Object(members) => write_object(out, members, omit),
    }
}

fn write_number(out: &mut Vec<u8>, number: &Number) {
    match (number.as_u64(), number.as_i64()) {
        (Some(n), _) => write_u64(out, n),
        (None, Some(n)) => {
            out.push(b'-');
            write_u64(out, n.unsigned_abs());
        }
        (None, None) => write_double(out, number.as_f64().unwrap_or_default()),
    }
}

fn write_u64(out: &mut Vec<u8>, mut n: u64) {
    let start = out.len();
    loop {
        out.push(b'0' + (n % 10) as u8);
        n /= 10;
        if n == 0 {
            break;
        }
    }
    if let Some(digits) = out.get_mut(start..) {
        digits.reverse();
    }
}

fn write_double(out: &mut Vec<u8>, number: f64) {
    // The standard library gives the digits, with one before the point: `-1.25e-5`.
    let text = format!("{number:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let point = exponent.parse::<i32>().unwrap_or_default() + 1;
    if point <= -5 || point > 16 {
        let sign = if point > 0 { "e+" } else { "e" };
        return out.extend([mantissa, sign, exponent].iter().flat_map(|part| part.bytes()));
    }
    let digits = mantissa.trim_start_matches('-');
    if digits.len() < mantissa.len() {
        out.push(b'-');
    }
    let digits = digits.bytes().filter(|byte| *byte != b'.');
    if point <= 0 {
        out.extend_from_slice(b"0.");
        out.extend((point..0).map(|_| b'0'));
        return out.extend(digits);
    }
    let point = point.unsigned_abs() as usize;
    let zeros = std::iter::repeat(b'0');
    let start = out.len();
    out.extend(digits.clone().chain(zeros).take(point));
    out.push(b'.');
    out.extend(digits.skip(point));
    if out.len() == start + point + 1 {
        out.push(b'0');
    }
}

fn write_array(out: &mut Vec<u8>, items: &[Value]) {
    out.push(b'[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_value(out, item, &[]);
    }
    out.push(b']');
}

fn write_object(out: &mut Vec<u8>, members: &Map<String, Value>, omit: &[&str]) {
    out.push(b'{');
    // The map is sorted unless some crate of the build turned on serde_json/preserve_order, which this must survive.
    if members.keys().is_sorted() {
        write_members(out, members.iter(), omit);
    } else {
        let mut sorted: Vec<_> = members.iter().collect();
        sorted.sort_unstable_by_key(|(name, _)| *name);
        write_members(out, sorted.into_iter(), omit);
    }
    out.push(b'}');
}

fn write_members<'a>(
    out: &mut Vec<u8>,
    members: impl Iterator<Item = (&'a String, &'a Value)>,
    omit: &[&str],
) {
    let mut first = true;
    for (name, value) in members {
        let omit_below = match omit {
            [last] if name == last => continue,
            [head, rest @ ..] if name == head => rest,
            _ => &[],
        };
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        write_string(out, name);
        out.push(b':');
        write_value(out, value, omit_below);
    }
}

fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| matches!(byte, 0..=0x1f | b'"' | b'\\')) {
        let (plain, tail) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((&byte, tail)) = tail.split_first() else { break };
        write_escape(out, byte);
        rest = tail;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn write_escape(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'"' => out.extend_from_slice(br#"\""#),
        b'\\' => out.extend_from_slice(br"\\"),
        0x08 => out.extend_from_slice(br"\b"),
        0x09 => out.extend_from_slice(br"\t"),
        0x0a => out.extend_from_slice(br"\n"),
        0x0c => out.extend_from_slice(br"\f"),
        0x0d => out.extend_from_slice(br"\r"),
        _ => {
            let low = byte & 0x0f;
            let digit = if low < 10 { b'0' + low } else { b'a' + (low - 10) };
            out.extend_from_slice(br"\u00");
            out.extend_from_slice(&[b'0' + (byte >> 4), digit]);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(value: &Value, path: &[&str]) -> String {
        String::from_utf8(to_vec_without(value, path)).unwrap()
    }

    #[test]
    fn leaves_out_exactly_the_member_the_path_leads_to() {
        let value = json!({"a": {"x": 1, "y": 2}, "b": {"x": 3}, "x": 4, "c": [{"a": {"x": 5}}]});
        let expected = r#"{"a":{"y":2},"b":{"x":3},"c":[{"a":{"x":5}}],"x":4}"#;
        assert_eq!(text(&value, &["a", "x"]), expected);
        assert_eq!(text(&json!({"x": 1}), &["x"]), "{}");
        assert_eq!(text(&json!({"a": {"x": 1}}), &["a", "x"]), r#"{"a":{}}"#);
        assert_eq!(text(&json!({"a": [{"x": 1}]}), &["a", "x"]), r#"{"a":[{"x":1}]}"#);
    }

    #[test]
    fn sorts_members_that_come_unsorted() {
        let unsorted = json!({"b": 1, "é": 2, "a": 3, "\u{1f600}": 4, "\u{ff5e}": 5});
        let mut members: Vec<_> = unsorted.as_object().unwrap().iter().collect();
        members.reverse();
        let mut sorted = members.clone();
        sorted.sort_unstable_by_key(|(name, _)| *name);
        let mut out = Vec::new();
        write_members(&mut out, sorted.into_iter(), &[]);
        // U+FF5E stands before U+1F600, as code points do and UTF-16 code units do not
        assert_eq!(String::from_utf8(out).unwrap(), "\"a\":3,\"b\":1,\"é\":2,\"\u{ff5e}\":5,\"\u{1f600}\":4");
    }
}
