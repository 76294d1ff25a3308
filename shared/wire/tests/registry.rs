//! Nothing is emitted that is not registered: no source outside the registries spells a code or event kind of its own,
//! and errors are made from registered codes only (section 25.2).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::path::{Path, PathBuf};

use aip_wire::attempt::STREAM_EXTENSION;
use aip_wire::{codes, events};
use regex::Regex;

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Every source file of the product, without those of tests.
fn product() -> Vec<(PathBuf, String)> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for group in ["shared", "services"] {
        for entry in fs::read_dir(repository.join(group)).unwrap() {
            let folder = entry.unwrap().path().join("src");
            if folder.is_dir() {
                sources(&folder, &mut found);
            }
        }
    }
    let is_test = |path: &PathBuf| {
        path.iter().any(|part| part == "tests" || part == "tests.rs" || part == "testing.rs")
    };
    found.retain(|path| !is_test(path));
    let without_tests = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path, text.split("#[cfg(test)]").next().unwrap().to_owned())
    };
    found.into_iter().map(without_tests).collect()
}

#[test]
fn no_source_spells_a_name_that_is_not_registered() {
    let literal = Regex::new(r#""(aip\.[a-z0-9_]+\.[a-z0-9_]+)""#).unwrap();
    let mut spelled = 0;
    for (path, text) in product() {
        for capture in literal.captures_iter(&text) {
            let name = &capture[1];
            spelled += 1;
            // a family's prefix, to sort codes by, is no name
            let prefix = name.ends_with('_') && codes::ALL.iter().any(|code| code.name.starts_with(name));
            let known = prefix
                || codes::find(name).is_some()
                || events::find(name).is_some()
                || name == STREAM_EXTENSION;
            assert!(known, "{} spells {name}, which is in neither registry", path.display());
        }
    }
    assert!(spelled >= codes::ALL.len() + events::ALL.len(), "the registries themselves were not read");
}

#[test]
fn errors_are_made_from_registered_codes() {
    let by_hand = Regex::new(r"\bProtocolError \{\s*code:").unwrap();
    // the SDK carries what a handler says, under the handler's own namespace
    let allowed = |path: &Path| path.ends_with("wire/src/codes.rs") || path.ends_with("sdk/src/error.rs");
    let offenders: Vec<PathBuf> = product()
        .into_iter()
        .filter(|(path, text)| !allowed(path) && by_hand.is_match(text))
        .map(|(path, _)| path)
        .collect();
    assert!(offenders.is_empty(), "use ProtocolError::of in {offenders:?}");
}
