//! Any bytes as the input of `aip validate`: one verdict a line, each the one that the line gets alone, however the
//! input is cut into reads.
#![no_main]

use std::io::BufReader;

use aip_wire::validate;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

// The first byte says how much is read at a time.
fuzz_target!(|input: &[u8]| {
    let Some((capacity, bytes)) = input.split_first() else { return };
    let reader = BufReader::with_capacity(usize::from(*capacity) + 1, bytes);
    let mut output = Vec::new();
    let all_valid = validate::lines(reader, &mut output).expect("memory does not fail");

    let output = String::from_utf8(output).expect("verdicts are text");
    let verdicts: Vec<Value> =
        output.lines().map(|line| serde_json::from_str(line).expect("a verdict is JSON")).collect();
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(verdicts.len(), lines.len());
    for (verdict, line) in verdicts.iter().zip(lines) {
        let line = line.strip_suffix(b"\n").map_or(line, |line| line.strip_suffix(b"\r").unwrap_or(line));
        assert_eq!(verdict["valid"], validate::envelope(line).is_ok());
    }
    assert_eq!(all_valid, verdicts.iter().all(|verdict| verdict["valid"] == true));
});
