//! Looks at raw JSON text for what a parsed value no longer shows: numbers that a value cannot keep exactly, and escaped
//! halves of surrogate pairs. Judges nothing else; text that is not JSON is left to the parser.

/// What stands out in a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    /// The first number, counted from zero in text order, that would not survive.
    pub bad_number: Option<usize>,
    pub lone_surrogate: bool,
}

/// No double has more significant decimal digits than this.
const DOUBLE_DIGITS_MAX: usize = 767;

pub(crate) fn scan(text: &str) -> Scan {
    let mut found = Scan::default();
    let mut numbers = 0;
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = match first {
            b'"' => {
                let (after, lone) = string(after);
                found.lone_surrogate |= lone;
                after
            }
            b'-' | b'0'..=b'9' => {
                let length =
                    rest.iter().take_while(|b| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
                let (number, after) = rest.split_at(length.count());
                if found.bad_number.is_none() && !survives(number) {
                    found.bad_number = Some(numbers);
                }
                numbers += 1;
                after
            }
            _ => after,
        };
    }
    found
}

/// Skips a string after its opening quote; says whether it escapes half a pair.
fn string(mut rest: &[u8]) -> (&[u8], bool) {
    let mut lone = false;
    loop {
        match rest {
            [] => return (rest, lone),
            [b'"', after @ ..] => return (after, lone),
            [b'\\', b'u', a, b, c, d, after @ ..] => {
                rest = after;
                match unit(&[*a, *b, *c, *d]) {
                    Some(0xD800..=0xDBFF) => match after {
                        [b'\\', b'u', a, b, c, d, after @ ..]
                            if matches!(unit(&[*a, *b, *c, *d]), Some(0xDC00..=0xDFFF)) =>
                        {
                            rest = after;
                        }
                        _ => lone = true,
                    },
                    Some(0xDC00..=0xDFFF) => lone = true,
                    _ => {}
                }
            }
            [b'\\', _, after @ ..] | [_, after @ ..] => rest = after,
        }
    }
}

fn unit(hex: &[u8; 4]) -> Option<u16> {
    u16::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
}

/// True when the value keeps the number: an integer in the range of i64 or u64, or a text that names a double exactly
/// to the digits it gives. True also for what is no number at all: refusing that is the parser's business.
fn survives(number: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(number) else { return true };
    let Some((integer, digits)) = significant(text) else { return true };
    if integer {
        return text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok();
    }
    if digits.is_empty() {
        return true;
    }
    if digits.len() > DOUBLE_DIGITS_MAX {
        return false;
    }
    let Ok(double) = text.parse::<f64>() else { return false };
    if !double.is_finite() || double == 0.0 {
        return false;
    }
    let printed = format!("{:.*e}", digits.len() - 1, double.abs());
    let mantissa = printed.split('e').next().unwrap_or_default();
    mantissa.bytes().filter(u8::is_ascii_digit).eq(digits.bytes())
}

/// Splits a JSON number: whether it is written as an integer, and its digits without zeros at either end.
fn significant(text: &str) -> Option<(bool, String)> {
    let text = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let exponent_digits = exponent.map(|e| e.strip_prefix(['+', '-']).unwrap_or(e));
    let well_formed = digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent_digits.is_none_or(digits);
    if !well_formed {
        return None;
    }
    let all = [whole, fraction.unwrap_or_default()].concat();
    Some((fraction.is_none() && exponent.is_none(), all.trim_matches('0').to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_survive() {
        for text in [
            "0",
            "-0",
            "18446744073709551615",
            "-9223372036854775808",
            "0.1",
            "1.50",
            "1e20",
            "1E+2",
            "0.0e5",
            "3.141592653589793",
            "0.10000000000000001",
            "1.7976931348623157e308",
            "5e-324",
            "100.0",
        ] {
            assert!(survives(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn numbers_that_do_not() {
        for text in [
            "18446744073709551616",
            "-9223372036854775809",
            "1e400",
            "1e-400",
            "3.141592653589793238",
            "3e-324",
            "9007199254740993.0",
            "0.1000000000000000055",
        ] {
            assert!(!survives(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn halves_of_pairs_are_seen() {
        assert!(scan(r#""\ud800""#).lone_surrogate);
        assert!(scan(r#"{"a":"\udc00 x"}"#).lone_surrogate);
        assert!(scan(r#""\ud800\u0041""#).lone_surrogate);
        assert!(!scan(r#""\ud83d\ude00 \\ud800""#).lone_surrogate);
        assert_eq!(scan(r#"["1e999", 1, 1e999]"#).bad_number, Some(1));
    }
}
