//! Pages of approvals (16.4): rows of several shelves as if they were one, and cursors that say where a page ended.

use std::collections::BTreeMap;
use std::ops::Bound;

use aip_crypto::SigningKey;
use aip_crypto::seal::Sealer;
use aip_kernel::{EntityKey, Fault, Millis, View};
use aip_names::limits::{
    CURSOR_BYTES_MAX, CURSOR_TTL_MS, INDEX_ROWS_PER_SCAN, PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX,
};
use aip_wire::{Refusal, codes};
use serde::{Deserialize, Serialize};

use crate::machine::PolicyMachine;
use crate::machine::shelf::Shelf;

const PURPOSE: &str = "aip-policy-approval cursor v1";

/// Gives and takes cursors. All replicas hold the same key.
#[derive(Debug)]
pub struct Cursors {
    sealer: Sealer,
}

#[derive(Serialize, Deserialize)]
struct Content {
    at: String,
    expires_at: Millis,
}

/// The next rows behind `after`, at most so many, each once, in order; and whether there may be more.
///
/// # Errors
/// The store can't answer.
pub fn rows(
    view: &dyn View<PolicyMachine>,
    index: &str,
    shelves: &[Shelf],
    after: Option<&str>,
) -> Result<(BTreeMap<String, EntityKey>, bool), Fault> {
    let mut rows = BTreeMap::new();
    // what stands behind the last row of a shelf that has more is for the next time
    let mut horizon: Option<String> = None;
    for shelf in shelves {
        let (start, end) = (shelf.row(after.unwrap_or_default()), shelf.end());
        let from = if after.is_some() { Bound::Excluded(&*start) } else { Bound::Included(&*start) };
        let found = view.scan(index, from, Bound::Excluded(&end), INDEX_ROWS_PER_SCAN)?;
        let is_full = found.len() == INDEX_ROWS_PER_SCAN;
        let mut last = None;
        for (key, entity) in found {
            let Some(at) = shelf.at(&key.sort) else { continue };
            last = Some(at.to_owned());
            rows.insert(at.to_owned(), entity);
        }
        if let (true, Some(last)) = (is_full, last) {
            horizon = Some(horizon.map_or(last.clone(), |horizon| horizon.min(last)));
        }
    }
    if let Some(horizon) = &horizon {
        rows.retain(|at, _| at <= horizon);
    }
    Ok((rows, horizon.is_some()))
}

/// Rows of a page as asked for.
///
/// # Errors
/// `aip.limit.page_rows`: what is out of range is refused, never clamped.
pub fn limit(limit: Option<u32>) -> Result<usize, Refusal> {
    let rows = limit.map_or(PAGE_ROWS_DEFAULT, |limit| limit as usize);
    if (1..=PAGE_ROWS_MAX).contains(&rows) { Ok(rows) } else { Err(Refusal::of(codes::LIMIT_PAGE_ROWS)) }
}

// === impl Cursors ===

impl Cursors {
    pub fn new(key: &SigningKey) -> Cursors {
        Cursors { sealer: Sealer::new(key, PURPOSE) }
    }

    /// A cursor that holds for the same question of the same reader.
    ///
    /// # Errors
    /// `aip.service.internal` when the system gives no randomness.
    pub fn give(&self, question: &str, at: String, now: Millis) -> Result<String, Refusal> {
        let internal = |_| Refusal::of(codes::SERVICE_INTERNAL);
        let content = Content { at, expires_at: now.saturating_add(CURSOR_TTL_MS) };
        let content = serde_json::to_vec(&content).map_err(internal)?;
        let sealed = self.sealer.seal(&content, question.as_bytes());
        sealed.map_err(|_| Refusal::of(codes::SERVICE_INTERNAL))
    }

    /// # Errors
    /// `aip.query.cursor_invalid` and `aip.query.cursor_expired`.
    pub fn take(&self, question: &str, cursor: &str, now: Millis) -> Result<String, Refusal> {
        let invalid = || Refusal::of(codes::QUERY_CURSOR);
        if cursor.len() > CURSOR_BYTES_MAX {
            return Err(invalid());
        }
        let content = self.sealer.open(cursor, question.as_bytes()).ok_or_else(invalid)?;
        let content: Content = serde_json::from_slice(&content).map_err(|_| invalid())?;
        if now >= content.expires_at { Err(Refusal::of(codes::QUERY_CURSOR_EXPIRED)) } else { Ok(content.at) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_holds_for_its_question_and_its_time() {
        let cursors = Cursors::new(&SigningKey::from_seed(&[7; 32]));
        let cursor = cursors.give("q", "here".to_owned(), 1).unwrap();
        assert_eq!(cursors.take("q", &cursor, 2).unwrap(), "here");
        assert_eq!(cursors.take("other", &cursor, 2).unwrap_err().code, codes::QUERY_CURSOR);
        assert_eq!(cursors.take("q", "made up", 2).unwrap_err().code, codes::QUERY_CURSOR);
        let late = cursors.take("q", &cursor, CURSOR_TTL_MS + 2).unwrap_err();
        assert_eq!(late.code, codes::QUERY_CURSOR_EXPIRED);
    }
}
