//! Constraints that approvers attach to an approval (12.4): conditions on the input of the governed action. What can't
//! be understood can't be enforced, so it is refused; what is not there does not fulfil anything.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use aip_names::limits::{APPROVAL_CONSTRAINTS_MAX, APPROVAL_TEXT_BYTES_MAX};
use aip_wire::{ApprovalConstraint, Refusal, codes};

/// The operators there are: equality, order between two numbers or two texts, and membership of a list.
const OPERATORS: [&str; 8] = ["eq", "ne", "lt", "lte", "gt", "gte", "in", "not_in"];

/// Whether these constraints can be enforced.
///
/// # Errors
/// `aip.approval.constraint_unsupported`, with the place of the first that can't be.
pub fn check(constraints: &[ApprovalConstraint]) -> Result<(), Refusal> {
    let no = |index: usize, message: &str| {
        let path = format!("/body/approval_decision/constraints/{index}");
        Err(Refusal::new(codes::APPROVAL_CONSTRAINT, path, message))
    };
    if constraints.len() > APPROVAL_CONSTRAINTS_MAX {
        return no(APPROVAL_CONSTRAINTS_MAX, "there are too many constraints");
    }
    for (index, constraint) in constraints.iter().enumerate() {
        let ApprovalConstraint { field, operator, value } = constraint;
        if field.len() > APPROVAL_TEXT_BYTES_MAX || path(field).is_none() {
            return no(index, "the field is neither a JSON pointer nor names with dots between them");
        }
        let fits = match operator.as_str() {
            "lt" | "lte" | "gt" | "gte" => value.is_number() || value.is_string(),
            "in" | "not_in" => value.is_array(),
            operator => OPERATORS.contains(&operator),
        };
        if !OPERATORS.contains(&operator.as_str()) {
            return no(index, "the operator is none of eq, ne, lt, lte, gt, gte, in, not_in");
        }
        if !fits {
            return no(index, "the value is not of the kind that the operator compares with");
        }
    }
    Ok(())
}

/// The first constraint that the input does not fulfil. One that can't be understood is not fulfilled.
pub fn violated<'c>(constraints: &'c [ApprovalConstraint], input: &Value) -> Option<&'c ApprovalConstraint> {
    constraints.iter().find(|constraint| !holds(constraint, input))
}

fn holds(constraint: &ApprovalConstraint, input: &Value) -> bool {
    let found = path(&constraint.field).and_then(|pointer| input.pointer(&pointer));
    let Some(found) = found else { return false };
    let wanted = &constraint.value;
    match constraint.operator.as_str() {
        "eq" => same(found, wanted),
        "ne" => !same(found, wanted),
        "lt" => order(found, wanted) == Some(Ordering::Less),
        "lte" => matches!(order(found, wanted), Some(Ordering::Less | Ordering::Equal)),
        "gt" => order(found, wanted) == Some(Ordering::Greater),
        "gte" => matches!(order(found, wanted), Some(Ordering::Greater | Ordering::Equal)),
        "in" => wanted.as_array().is_some_and(|list| list.iter().any(|one| same(found, one))),
        "not_in" => wanted.as_array().is_some_and(|list| !list.iter().any(|one| same(found, one))),
        _ => false,
    }
}

/// The JSON pointer of a field: one as it stands, or names with dots between them.
fn path(field: &str) -> Option<String> {
    if field.starts_with('/') {
        return Some(field.to_owned());
    }
    let names: Vec<&str> = field.split('.').collect();
    let named = names.iter().all(|name| !name.is_empty());
    let escaped = names.iter().map(|name| name.replace('~', "~0").replace('/', "~1"));
    named.then(|| escaped.fold(String::new(), |pointer, name| format!("{pointer}/{name}")))
}

/// Equal as values: 1 and 1.0 are one number.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => numbers(one, other) == Some(Ordering::Equal),
        _ => one == other,
    }
}

fn order(one: &Value, other: &Value) -> Option<Ordering> {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => numbers(one, other),
        (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
        _ => None,
    }
}

/// Exact between integers; a double on either side makes it a comparison of doubles.
fn numbers(one: &Number, other: &Number) -> Option<Ordering> {
    let whole = |number: &Number| number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn constraint(field: &str, operator: &str, value: Value) -> ApprovalConstraint {
        ApprovalConstraint { field: field.to_owned(), operator: operator.to_owned(), value }
    }

    #[test]
    fn each_operator_compares_as_its_name_says() {
        let input = json!({"amount": 100, "to": {"iban": "DE1", "a.b": 1}, "rate": 1.5, "big": u64::MAX});
        for (field, operator, value, holds) in [
            ("amount", "eq", json!(100), true),
            ("amount", "eq", json!(100.0), true),
            ("amount", "ne", json!(100), false),
            ("/amount", "lt", json!(101), true),
            ("amount", "lt", json!(100), false),
            ("amount", "lte", json!(100), true),
            ("amount", "gt", json!(99.5), true),
            ("amount", "gte", json!(101), false),
            ("big", "gt", json!(i64::MAX), true),
            ("big", "lt", json!(-1), false),
            ("to.iban", "in", json!(["DE1", "DE2"]), true),
            ("to.iban", "not_in", json!(["DE1"]), false),
            ("to.iban", "gte", json!("DE"), true),
            ("/to/a.b", "eq", json!(1), true),
            // of another kind, or not there
            ("to.iban", "lt", json!(5), false),
            ("nothing", "ne", json!(5), false),
            ("nothing", "not_in", json!([5]), false),
            ("amount.deeper", "eq", json!(100), false),
        ] {
            let constraint = constraint(field, operator, value);
            check(std::slice::from_ref(&constraint)).unwrap();
            assert_eq!(
                violated(std::slice::from_ref(&constraint), &input).is_none(),
                holds,
                "{constraint:?}"
            );
        }
    }

    #[test]
    fn what_cannot_be_enforced_is_refused_and_never_holds() {
        for bad in [
            constraint("amount", "matches", json!(".*")),
            constraint("amount", "LTE", json!(1)),
            constraint("amount", "lte", json!({"a": 1})),
            constraint("amount", "in", json!(1)),
            constraint("a..b", "eq", json!(1)),
        ] {
            assert_eq!(check(std::slice::from_ref(&bad)).unwrap_err().code, codes::APPROVAL_CONSTRAINT);
            assert!(violated(&[bad], &json!({"amount": 1, "a": {"b": 1}})).is_some());
        }
        let many = vec![constraint("a", "eq", json!(1)); APPROVAL_CONSTRAINTS_MAX + 1];
        assert!(check(&many).is_err());
    }
}
