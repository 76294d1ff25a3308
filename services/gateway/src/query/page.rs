//! Pages (16.4): walks an index over the shelves of one reader, and fills a page within its bounds of rows, bytes and
//! values.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use serde::Serialize;
use serde_json::Value;

use aip_admission::{Family, Place, Reader};
use aip_kernel::{EntityKey, Fault, View};
use aip_names::limits::{
    INDEX_ROWS_PER_SCAN, PAGE_BYTES_MAX, PAGE_NODES_MAX, PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX,
};
use aip_wire::{Refusal, codes};

use crate::machine::GatewayMachine;
use crate::machine::shelf::Shelf;

/// The shelves that a reader may look at.
pub fn shelves(reader: &Reader, family: Family, tenant: Option<&str>) -> Vec<Shelf> {
    let shelf = |place| match place {
        Place::Owner(owner) => Shelf::owner(&owner),
        Place::Tenant(tenant) => Shelf::tenant(&tenant),
    };
    reader.places(family, tenant).into_iter().map(shelf).collect()
}

/// Rows of a page as asked for; 1 to 1000 (16.4).
///
/// # Errors
/// `aip.limit.page_rows`: what is out of range is refused, never clamped.
pub fn rows(limit: Option<u32>) -> Result<usize, Refusal> {
    let rows = limit.map_or(PAGE_ROWS_DEFAULT, |limit| limit as usize);
    if (1..=PAGE_ROWS_MAX).contains(&rows) {
        return Ok(rows);
    }
    Err(Refusal::new(codes::LIMIT_PAGE_ROWS, "", codes::LIMIT_PAGE_ROWS.meaning))
}

/// One row of an index: where it stands on its shelves, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub at: String,
    pub entity: EntityKey,
}

/// Goes through the rows of several shelves as if they were one; a row that stands on two is met once.
pub struct Walk<'v> {
    view: &'v dyn View<GatewayMachine>,
    index: &'static str,
    shelves: Vec<Shelf>,
    from: Bound<String>,
    before: Option<String>,
    waiting: VecDeque<Row>,
    ended: bool,
}

/// What a page may still take.
#[derive(Debug)]
pub struct Budget {
    rows: usize,
    bytes: usize,
    nodes: usize,
    empty: bool,
}

// === impl Walk ===

impl<'v> Walk<'v> {
    /// From `from` on, to the end or to `before`, which is not met.
    pub fn new(
        view: &'v dyn View<GatewayMachine>,
        index: &'static str,
        shelves: Vec<Shelf>,
        from: Bound<String>,
        before: Option<String>,
    ) -> Walk<'v> {
        Walk { view, index, shelves, from, before, waiting: VecDeque::new(), ended: false }
    }

    /// # Errors
    /// The store can't answer.
    pub fn next(&mut self) -> Result<Option<Row>, Fault> {
        while self.waiting.is_empty() && !self.ended {
            self.fetch()?;
        }
        Ok(self.waiting.pop_front())
    }

    /// Each shelf gives its next rows; what stands behind the last row of a shelf that has more waits for the next time.
    fn fetch(&mut self) -> Result<(), Fault> {
        let mut rows = BTreeMap::new();
        let mut horizon: Option<String> = None;
        for shelf in &self.shelves {
            let from = match &self.from {
                Bound::Included(at) => Bound::Included(shelf.row(at)),
                Bound::Excluded(at) => Bound::Excluded(shelf.row(at)),
                Bound::Unbounded => Bound::Included(shelf.row("")),
            };
            let end = self.before.as_ref().map_or_else(|| shelf.end(), |before| shelf.row(before));
            let (from, end) = (from.as_ref().map(String::as_str), Bound::Excluded(end.as_str()));
            if !is_range(&from, &end) {
                continue;
            }
            let found = self.view.scan(self.index, from, end, INDEX_ROWS_PER_SCAN)?;
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
        match horizon {
            Some(horizon) => {
                rows.retain(|at, _| *at <= horizon);
                self.from = Bound::Excluded(horizon);
            }
            None => self.ended = true,
        }
        self.waiting.extend(rows.into_iter().map(|(at, entity)| Row { at, entity }));
        Ok(())
    }
}

/// An empty range is no question: a store may refuse one whose ends are crossed.
fn is_range(from: &Bound<&str>, end: &Bound<&str>) -> bool {
    match (from, end) {
        (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(end)) => from < end,
        _ => true,
    }
}

// === impl Budget ===

impl Budget {
    pub fn new(rows: usize) -> Budget {
        Budget { rows, bytes: PAGE_BYTES_MAX, nodes: PAGE_NODES_MAX, empty: true }
    }

    pub fn is_spent(&self) -> bool {
        self.rows == 0
    }

    /// Whether something may be added; the first row may, whatever its size.
    pub fn takes(&mut self, row: &impl Serialize) -> bool {
        // what is of our making can be written as JSON
        let row = serde_json::to_value(row).unwrap_or_default();
        let (bytes, nodes) = (row.to_string().len(), nodes(&row));
        let fits = self.rows > 0 && (self.empty || bytes <= self.bytes && nodes <= self.nodes);
        if fits {
            self.rows -= 1;
            self.bytes = self.bytes.saturating_sub(bytes);
            self.nodes = self.nodes.saturating_sub(nodes);
            self.empty = false;
        }
        fits
    }
}

/// Whether something can be a row of a page beside others.
pub fn is_small(row: &impl Serialize) -> bool {
    let row = serde_json::to_value(row).unwrap_or_default();
    row.to_string().len() <= PAGE_BYTES_MAX && nodes(&row) <= PAGE_NODES_MAX
}

/// Values in a value, itself counted. Its depth is bounded by the wire's rules.
fn nodes(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(nodes).sum(),
        Value::Object(members) => members.values().map(nodes).sum(),
        _ => 0,
    }
}
