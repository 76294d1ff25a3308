//! The few kinds of check that rules are made of, and the place they report.

use aip_names::limits::{PAGE_ROWS_MAX, WAIT_MS_MAX};

use super::Judged;
use crate::codes::{self, Code};
use crate::refusal::{Refusal, push_step};

/// A place in a message, built on the way down and spelled only when something is refused.
pub(super) enum At<'a> {
    Root,
    Member(&'a At<'a>, &'a str),
    Item(&'a At<'a>, usize),
}

impl At<'_> {
    pub fn member<'a>(&'a self, name: &'a str) -> At<'a> {
        At::Member(self, name)
    }

    pub fn item(&self, index: usize) -> At<'_> {
        At::Item(self, index)
    }

    pub fn refuse(&self, code: &'static Code, message: &str) -> Refusal {
        let mut path = String::new();
        self.spell(&mut path);
        Refusal::new(code, path, message)
    }

    pub fn rule(&self, message: &str) -> Refusal {
        self.refuse(codes::ENVELOPE_RULE, message)
    }

    pub fn disagree(&self, message: &str) -> Refusal {
        self.refuse(codes::ENVELOPE_MEMBERS_DISAGREE, message)
    }

    fn spell(&self, path: &mut String) {
        match self {
            At::Root => {}
            At::Member(parent, name) => {
                parent.spell(path);
                push_step(path, name);
            }
            At::Item(parent, index) => {
                parent.spell(path);
                push_step(path, &index.to_string());
            }
        }
    }
}

/// Empty after trimming Unicode white space.
fn blank(text: &str) -> bool {
    text.trim().is_empty()
}

pub(super) fn nonblank(at: &At<'_>, name: &str, text: &str) -> Judged {
    if blank(text) { Err(at.member(name).rule("must not be blank")) } else { Ok(()) }
}

pub(super) fn nonblank_if(at: &At<'_>, name: &str, text: Option<&str>) -> Judged {
    text.map_or(Ok(()), |text| nonblank(at, name, text))
}

pub(super) fn nonempty(at: &At<'_>, name: &str, text: &str) -> Judged {
    if text.is_empty() { Err(at.member(name).rule("must not be empty")) } else { Ok(()) }
}

pub(super) fn nonempty_if(at: &At<'_>, name: &str, text: Option<&str>) -> Judged {
    text.map_or(Ok(()), |text| nonempty(at, name, text))
}

pub(super) fn no_blank_entry(at: &At<'_>, name: &str, entries: &[String]) -> Judged {
    match entries.iter().position(|entry| blank(entry)) {
        Some(index) => Err(at.member(name).item(index).rule("must not be blank")),
        None => Ok(()),
    }
}

pub(super) fn positive_if(at: &At<'_>, name: &str, number: Option<u64>) -> Judged {
    if number == Some(0) { Err(at.member(name).rule("must be greater than zero")) } else { Ok(()) }
}

/// How many rows a reader asks for.
pub(super) fn page(at: &At<'_>, limit: Option<u32>) -> Judged {
    let allowed = limit.is_none_or(|rows| rows >= 1 && rows as usize <= PAGE_ROWS_MAX);
    if allowed { Ok(()) } else { Err(at.member("limit").refuse(codes::LIMIT_PAGE_ROWS, "must be 1 to 1000")) }
}

/// How many rows an answer holds.
pub(super) fn rows(at: &At<'_>, name: &str, count: usize) -> Judged {
    if count <= PAGE_ROWS_MAX {
        Ok(())
    } else {
        Err(at.member(name).refuse(codes::LIMIT_PAGE_ROWS, "must not hold more than 1000 rows"))
    }
}

/// How long a reader wants to wait.
pub(super) fn wait(at: &At<'_>, wait_ms: Option<u64>) -> Judged {
    if wait_ms.is_none_or(|ms| ms <= WAIT_MS_MAX) {
        Ok(())
    } else {
        Err(at.member("wait_ms").refuse(codes::LIMIT_WAIT, "must not exceed 30000"))
    }
}
