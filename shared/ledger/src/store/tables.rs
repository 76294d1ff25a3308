//! Every table of a service's store, on one screen: the whole durable truth of a replica.
//!
//! Names carry the version of their layout. Tuples of strings keep rows of one entity together and, because ids
//! are time-ordered, new rows near each other: commits touch few pages.

use redb::{ReadOnlyTable, ReadTransaction, Table, TableDefinition, WriteTransaction};

use super::StoreError;

/// `format`, `identity` (JSON), `stream` (creation time, ns), `position` (sequence, message hash), `log_time` (ms).
pub const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta-1");
/// (kind, id) → number of records (8 bytes, big endian), hash of the last (32), state (JSON).
pub const ENTITIES: TableDefinition<(&str, &str), &[u8]> = TableDefinition::new("entities-1");
/// (kind, id, n) → log time in ms (8 bytes, big endian), place in the log (sequence, 8 bytes, and index in its message,
/// 4), the record's bytes as they stand there. With the place a lost log can be told again in its old order.
pub const HISTORY: TableDefinition<(&str, &str, u64), &[u8]> = TableDefinition::new("history-1");
/// claim name → holder (kind, id) and the log time it is held until (`u64::MAX`: until released).
pub const CLAIMS: TableDefinition<&str, (&str, &str, u64)> = TableDefinition::new("claims-1");
/// (held until, claim name): the order in which claims expire.
pub const CLAIM_EXPIRY: TableDefinition<(u64, &str), ()> = TableDefinition::new("claim-expiry-1");
/// (kind, id, n, index) → pending effect (JSON).
pub const EFFECTS: TableDefinition<(&str, &str, u64, u32), &[u8]> = TableDefinition::new("effects-1");
/// (due in ms, kind, id, name) → the replica that set it and so is the first to fire it.
pub const TIMERS: TableDefinition<(u64, &str, &str, &str), &str> = TableDefinition::new("timers-1");
/// (kind, id, name) → when that timer is due.
pub const TIMER_OF: TableDefinition<(&str, &str, &str), u64> = TableDefinition::new("timer-of-1");
/// (index, sort key, kind, id).
pub const INDEX: TableDefinition<(&str, &str, &str, &str), ()> = TableDefinition::new("index-1");
/// writer (replica/life) → number of its last batch that was applied: a copy of a batch is known by it.
pub const WRITERS: TableDefinition<&str, u64> = TableDefinition::new("writers-1");
/// (kind, id) → why the entity is stopped: one of its records could not be applied.
pub const STOPPED: TableDefinition<(&str, &str), &str> = TableDefinition::new("stopped-1");
/// (kind, id) → the record that stopped the entity, as in the history, of which it is no part.
pub const STOPPING: TableDefinition<(&str, &str), &[u8]> = TableDefinition::new("stopping-1");
/// (kind, id, n, hash) → a record that a recovery found and that could not stand any more, as in the history.
pub const ORPHANS: TableDefinition<OrphanKey, &[u8]> = TableDefinition::new("orphans-1");

pub type OrphanKey = (&'static str, &'static str, u64, [u8; 32]);

/// All tables of one write transaction, opened together.
pub struct Tables<'t> {
    pub meta: Table<'t, &'static str, &'static [u8]>,
    pub entities: Table<'t, (&'static str, &'static str), &'static [u8]>,
    pub history: Table<'t, (&'static str, &'static str, u64), &'static [u8]>,
    pub claims: Table<'t, &'static str, (&'static str, &'static str, u64)>,
    pub claim_expiry: Table<'t, (u64, &'static str), ()>,
    pub effects: Table<'t, (&'static str, &'static str, u64, u32), &'static [u8]>,
    pub timers: Table<'t, (u64, &'static str, &'static str, &'static str), &'static str>,
    pub timer_of: Table<'t, (&'static str, &'static str, &'static str), u64>,
    pub index: Table<'t, (&'static str, &'static str, &'static str, &'static str), ()>,
    pub writers: Table<'t, &'static str, u64>,
    pub stopped: Table<'t, (&'static str, &'static str), &'static str>,
    pub stopping: Table<'t, (&'static str, &'static str), &'static [u8]>,
    pub orphans: Table<'t, OrphanKey, &'static [u8]>,
}

/// The tables that reads look at, of one read transaction.
pub struct ReadTables {
    pub entities: ReadOnlyTable<(&'static str, &'static str), &'static [u8]>,
    pub history: ReadOnlyTable<(&'static str, &'static str, u64), &'static [u8]>,
    pub claims: ReadOnlyTable<&'static str, (&'static str, &'static str, u64)>,
    pub claim_expiry: ReadOnlyTable<(u64, &'static str), ()>,
    pub effects: ReadOnlyTable<(&'static str, &'static str, u64, u32), &'static [u8]>,
    pub timers: ReadOnlyTable<(u64, &'static str, &'static str, &'static str), &'static str>,
    pub timer_of: ReadOnlyTable<(&'static str, &'static str, &'static str), u64>,
    pub index: ReadOnlyTable<(&'static str, &'static str, &'static str, &'static str), ()>,
    pub writers: ReadOnlyTable<&'static str, u64>,
    pub stopped: ReadOnlyTable<(&'static str, &'static str), &'static str>,
    pub stopping: ReadOnlyTable<(&'static str, &'static str), &'static [u8]>,
    pub orphans: ReadOnlyTable<OrphanKey, &'static [u8]>,
}

// === impl Tables ===

impl<'t> Tables<'t> {
    pub fn open(txn: &'t WriteTransaction) -> Result<Tables<'t>, StoreError> {
        Ok(Tables {
            meta: txn.open_table(META)?,
            entities: txn.open_table(ENTITIES)?,
            history: txn.open_table(HISTORY)?,
            claims: txn.open_table(CLAIMS)?,
            claim_expiry: txn.open_table(CLAIM_EXPIRY)?,
            effects: txn.open_table(EFFECTS)?,
            timers: txn.open_table(TIMERS)?,
            timer_of: txn.open_table(TIMER_OF)?,
            index: txn.open_table(INDEX)?,
            writers: txn.open_table(WRITERS)?,
            stopped: txn.open_table(STOPPED)?,
            stopping: txn.open_table(STOPPING)?,
            orphans: txn.open_table(ORPHANS)?,
        })
    }
}

// === impl ReadTables ===

impl ReadTables {
    pub fn open(txn: &ReadTransaction) -> Result<ReadTables, StoreError> {
        Ok(ReadTables {
            entities: txn.open_table(ENTITIES)?,
            history: txn.open_table(HISTORY)?,
            claims: txn.open_table(CLAIMS)?,
            claim_expiry: txn.open_table(CLAIM_EXPIRY)?,
            effects: txn.open_table(EFFECTS)?,
            timers: txn.open_table(TIMERS)?,
            timer_of: txn.open_table(TIMER_OF)?,
            index: txn.open_table(INDEX)?,
            writers: txn.open_table(WRITERS)?,
            stopped: txn.open_table(STOPPED)?,
            stopping: txn.open_table(STOPPING)?,
            orphans: txn.open_table(ORPHANS)?,
        })
    }
}
