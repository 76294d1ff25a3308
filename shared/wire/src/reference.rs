//! The reference page of error codes and event kinds, made from the registries (section 25.2).

use std::fmt::Write;

use crate::{codes, events};

/// The page as markdown; committed as `schemas/REFERENCE.md`.
pub fn page() -> String {
    let mut page = String::from(
        "# Error codes and event kinds\n\n\
         Generated from the registries in `shared/wire` (`cargo run -p aip-wire --example regenerate`); do not edit.\n\
         Names are stable, texts are not. \"Retry\" says whether the same request may succeed later; section 19.2 of the\n\
         specification says when a client may try.\n\n\
         ## Error codes\n\n\
         | code | meaning | category | HTTP | retry | details are |\n|---|---|---|---|---|---|\n",
    );
    for code in codes::ALL {
        let retry = if code.retryable { "yes" } else { "no" };
        // writing to a string cannot fail
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {retry} | {} |",
            code.name, code.meaning, code.category, code.http_status, code.classification
        );
    }
    page.push_str("\n## Event kinds\n\n| kind | meaning | delivery | data is |\n|---|---|---|---|\n");
    for kind in events::ALL {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} |",
            kind.name,
            kind.meaning,
            kind.delivery.as_str(),
            kind.classification
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_namespaced_and_stand_once() {
        let names: Vec<&str> =
            codes::ALL.iter().map(|c| c.name).chain(events::ALL.iter().map(|k| k.name)).collect();
        for name in &names {
            let parts: Vec<&str> = name.split('.').collect();
            let plain = |part: &&str| {
                !part.is_empty()
                    && part.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit())
            };
            assert!(parts.len() == 3 && parts[0] == "aip" && parts.iter().all(plain), "{name}");
        }
        assert_eq!(codes::ALL.iter().map(|c| c.name).collect::<BTreeSet<_>>().len(), codes::ALL.len());
        assert_eq!(events::ALL.iter().map(|k| k.name).collect::<BTreeSet<_>>().len(), events::ALL.len());
        assert!(codes::find("aip.json.malformed").is_some() && events::find("aip.action.admitted").is_some());
    }

    #[test]
    fn statuses_are_errors() {
        assert!(
            codes::ALL.iter().all(|code| (400..600).contains(&code.http_status) && !code.meaning.is_empty())
        );
    }
}
