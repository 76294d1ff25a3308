//! All that replicas must agree on, row by row: for the digest, and to name the first row where two stores differ.

use std::fmt::Debug;

use redb::{Key, ReadOnlyTable, Value};

use aip_kernel::Hash;

use super::{Snapshot, StoreError};

/// A row of any table, written out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    pub table: &'static str,
    pub key: String,
    pub value: Vec<u8>,
}

type Rows = Box<dyn Iterator<Item = Result<Row, StoreError>>>;

fn of<K, V>(
    table: &'static str,
    rows: &ReadOnlyTable<K, V>,
    value: impl Fn(&V::SelfType<'_>) -> Vec<u8> + 'static,
) -> Result<Rows, StoreError>
where
    K: Key + 'static,
    V: Value + 'static,
    for<'a> K::SelfType<'a>: Debug,
{
    let rows = rows.range::<K::SelfType<'_>>(..)?;
    Ok(Box::new(rows.map(move |row| {
        let (key, found) = row?;
        Ok(Row { table, key: format!("{:?}", key.value()), value: value(&found.value()) })
    })))
}

impl Snapshot {
    /// Every row that all replicas must agree on at one position, in a fixed order. Position and stream are not
    /// among them: a mended log holds the same at other places.
    pub(crate) fn rows(&self) -> Result<impl Iterator<Item = Result<Row, StoreError>> + use<>, StoreError> {
        let tables = &self.tables;
        let log_time =
            Row { table: "log time", key: String::new(), value: self.log_time.to_be_bytes().into() };
        let log_time: Rows = Box::new(std::iter::once(Ok(log_time)));
        let all = [
            of("entities", &tables.entities, |value| value.to_vec())?,
            of("history", &tables.history, |value| value.to_vec())?,
            of("claims", &tables.claims, |value| format!("{value:?}").into_bytes())?,
            of("claim expiry", &tables.claim_expiry, |()| Vec::new())?,
            of("effects", &tables.effects, |value| value.to_vec())?,
            of("timers", &tables.timers, |value| value.as_bytes().to_vec())?,
            of("timer of", &tables.timer_of, |value| value.to_be_bytes().to_vec())?,
            of("index", &tables.index, |()| Vec::new())?,
            of("writers", &tables.writers, |value| value.to_be_bytes().to_vec())?,
            of("stopped", &tables.stopped, |value| value.as_bytes().to_vec())?,
            of("stopping", &tables.stopping, |value| value.to_vec())?,
            of("orphans", &tables.orphans, |value| value.to_vec())?,
            log_time,
        ];
        Ok(all.into_iter().flatten())
    }

    /// The digest of all rows that replicas must agree on.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn digest(&self) -> Result<Hash, StoreError> {
        let mut total = Hash::ZERO;
        for row in self.rows()? {
            let Row { table, key, value } = row?;
            total = Hash::of_parts(&[&total.0, table.as_bytes(), key.as_bytes(), &value]);
        }
        Ok(total)
    }
}
