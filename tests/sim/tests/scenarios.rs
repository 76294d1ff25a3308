//! The table of scenarios names tests that are there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::path::Path;

/// Every scenario of the table, in its order.
const SCENARIOS: [&str; 42] = [
    "N1", "N3", "N4", "N5", "N6", "N7", "N9", "N10", "N11", "N13", "N14", "N15", "N16", "N18", "N19", "N22",
    "N23", "N24", "R1", "R3", "R4", "R7", "R8", "R9", "R10", "D1", "D2", "D4", "D6", "D7", "D8", "D9", "D11",
    "P2", "P3", "P4", "P5", "P6", "P7", "P9", "P11", "P12",
];

/// The tests that a row names, each with its file; and whatever is wrong with one of them.
fn look(root: &Path, row: &str) -> (usize, Vec<String>) {
    let (mut file, mut text) = ("", String::new());
    let (mut named, mut wrong) = (0, Vec::new());
    for word in row.split('`').skip(1).step_by(2) {
        if word.contains('.') {
            file = word;
            text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
            if text.is_empty() {
                wrong.push(format!("there is no {file}"));
            }
            continue;
        }
        named += 1;
        let start = format!("fn {word}(");
        if !text.contains(&start) {
            wrong.push(format!("there is no {word} in {file}"));
        }
    }
    (named, wrong)
}

#[test]
fn every_scenario_is_shown_by_tests_that_exist_or_says_what_it_waits_for() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("tests/SCENARIOS.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| |"));
    let mut ids = Vec::new();
    let mut wrong = Vec::new();
    for row in rows {
        let id = row.split('|').nth(1).unwrap().trim();
        ids.push(id);
        let (named, faults) = look(&root, row);
        wrong.extend(faults.into_iter().map(|fault| format!("{id}: {fault}")));
        if named == 0 && !row.contains("not built yet: ") {
            wrong.push(format!("{id} names no test"));
        }
    }
    assert_eq!(ids, SCENARIOS);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_name_that_is_nowhere_is_found() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let row = "| X | y | `tests/sim/tests/scenarios.rs` `a_name_that_is_nowhere_is_found` `of_no_test`, `no/such.rs`";
    let (named, wrong) = look(&root, row);
    assert_eq!((named, wrong.len()), (2, 2), "{wrong:?}");
}
