//! What a replica has learned from the log: one redb file, written by one thread.
//!
//! Commits are soft, with a hard one now and then; a store that comes back after a crash stands at its last hard
//! commit and reads on from there. No transaction is held over an await, and a failed commit ends the process: a
//! poisoned handle is never used again.

mod fold;
mod past;
mod rows;
mod tables;
mod view;

use std::path::Path;

use redb::{
    Database, Durability, ReadTransaction, ReadableDatabase, ReadableTable, StorageBackend, WriteTransaction,
};
use serde::{Deserialize, Serialize};

use aip_kernel::{Hash, Millis};

pub use fold::{Applied, Judging, NewEffect, RecordOutcome, apply};
pub(crate) use past::{Kept, PastRow, Place};
pub(crate) use rows::Row;
pub use tables::{ReadTables, Tables};
pub use view::{PendingEffect, PendingTimer, Snapshot};

/// The layout of the tables. A newer one is refused.
const FORMAT: u32 = 1;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("store: {0}")]
    Redb(#[from] redb::Error),
    #[error("the store is in use by another process")]
    Locked,
    #[error("the store belongs to {found}, not to {wanted}")]
    WrongStore { found: String, wanted: String },
    #[error("the store has format {0}, newer than this program")]
    Newer(u32),
    #[error("the store is damaged: {0}")]
    Damaged(String),
    #[error("log message {seq} can't be read: {reason}")]
    Log { seq: u64, reason: String },
}

macro_rules! from_redb {
    ($($error:ty),*) => {$(
        impl From<$error> for StoreError {
            fn from(error: $error) -> StoreError {
                StoreError::Redb(error.into())
            }
        }
    )*};
}
from_redb!(
    redb::TransactionError,
    redb::TableError,
    redb::StorageError,
    redb::CommitError,
    redb::SetDurabilityError
);

impl From<std::io::Error> for StoreError {
    fn from(error: std::io::Error) -> StoreError {
        StoreError::Redb(redb::Error::Io(error))
    }
}

impl From<redb::DatabaseError> for StoreError {
    fn from(error: redb::DatabaseError) -> StoreError {
        match error {
            redb::DatabaseError::DatabaseAlreadyOpen => StoreError::Locked,
            other => StoreError::Redb(other.into()),
        }
    }
}

/// Whose store it is. A file of another service, domain or shard is refused, untouched.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Identity {
    pub service: String,
    pub trust_domain: String,
    pub shard: u32,
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} (shard {})", self.service, self.trust_domain, self.shard)
    }
}

/// How far the store has come: the last applied message and its digest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    pub seq: u64,
    pub hash: Hash,
}

/// Where a store stands, read when it is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    pub position: Position,
    pub log_time: Millis,
    /// Creation time of the log stream in nanoseconds, once one was seen.
    pub stream: Option<i128>,
}

#[derive(Debug)]
pub struct Store {
    db: Database,
}

// === impl Store ===

impl Store {
    /// Opens or creates the store file.
    ///
    /// # Errors
    /// `Locked`, `WrongStore`, `Newer`, or what redb says of a foreign file, which is left as it is, or of a damaged one,
    /// which it may have begun to repair.
    pub fn open(path: &Path, identity: &Identity) -> Result<Store, StoreError> {
        if path.try_exists()? { Store::open_theirs(path, identity) } else { Store::found(path, identity) }
    }

    /// Whatever opens a file for writing writes into it, so a file that may be another's is looked at first.
    fn open_theirs(path: &Path, identity: &Identity) -> Result<Store, StoreError> {
        match Database::builder().open_read_only(path) {
            Ok(db) => looked_at(&db, identity)?,
            // its last writer died: only one that writes can mend it, and it says whose it is then
            Err(redb::DatabaseError::RepairAborted) => {}
            Err(error) => return Err(error.into()),
        }
        Store::open_file(path, identity)
    }

    fn open_file(path: &Path, identity: &Identity) -> Result<Store, StoreError> {
        let db = Database::builder().set_cache_size(aip_names::limits::STORE_CACHE_BYTES).create(path)?;
        Store::prepare(db, identity)
    }

    /// Makes a store under another name and puts it in its place when it is whole: a half-made file at the path
    /// would be refused for ever. The draft is locked while it is made, so one process at a time makes one.
    fn found(path: &Path, identity: &Identity) -> Result<Store, StoreError> {
        let draft = path.with_extension("new");
        let store = match Store::open_file(&draft, identity) {
            Ok(store) => store,
            Err(StoreError::Locked) => return Err(StoreError::Locked),
            Err(_) => {
                // Left by a process that died while making it.
                std::fs::remove_file(&draft)?;
                Store::open_file(&draft, identity)?
            }
        };
        if path.try_exists()? {
            std::fs::remove_file(&draft)?;
            return Store::open_theirs(path, identity);
        }
        std::fs::rename(&draft, path)?;
        if let Some(folder) = path.parent() {
            std::fs::File::open(folder)?.sync_all()?;
        }
        Ok(store)
    }

    /// The same on any storage, for the simulation.
    pub fn with_backend(backend: impl StorageBackend, identity: &Identity) -> Result<Store, StoreError> {
        let db = Database::builder()
            .set_cache_size(aip_names::limits::STORE_CACHE_BYTES)
            .create_with_backend(backend)?;
        Store::prepare(db, identity)
    }

    fn prepare(db: Database, identity: &Identity) -> Result<Store, StoreError> {
        let store = Store { db };
        let txn = store.begin(true)?;
        let empty = txn.list_tables()?.next().is_none();
        {
            let mut tables = Tables::open(&txn)?;
            if !is_known(&tables.meta, identity)? {
                if !empty {
                    return Err(foreign());
                }
                tables.meta.insert("format", FORMAT.to_be_bytes().as_slice())?;
                let identity = serde_json::to_vec(identity).map_err(damaged)?;
                tables.meta.insert("identity", identity.as_slice())?;
            }
        }
        txn.commit()?;
        Ok(store)
    }

    /// Begins the one write transaction. Hard commits can be reopened at once after a crash (quick repair).
    pub fn begin(&self, hard: bool) -> Result<WriteTransaction, StoreError> {
        let mut txn = self.db.begin_write()?;
        txn.set_durability(if hard { Durability::Immediate } else { Durability::None })?;
        txn.set_quick_repair(hard);
        Ok(txn)
    }

    /// Reads beside the writer, also tables that are no part of a store.
    pub(crate) fn read(&self) -> Result<ReadTransaction, StoreError> {
        Ok(self.db.begin_read()?)
    }

    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        Snapshot::open(&self.db.begin_read()?)
    }

    pub fn standing(&self) -> Result<Standing, StoreError> {
        let txn = self.db.begin_read()?;
        let meta = txn.open_table(tables::META)?;
        let position = match meta.get("position")? {
            Some(row) => read_position(row.value())?,
            None => Position { seq: 0, hash: Hash::ZERO },
        };
        let log_time = match meta.get("log_time")? {
            Some(row) => read_u64(row.value())?,
            None => 0,
        };
        let stream = match meta.get("stream")? {
            Some(row) => Some(i128::from_be_bytes(row.value().try_into().map_err(damaged)?)),
            None => None,
        };
        Ok(Standing { position, log_time, stream })
    }

    /// Remembers which stream this store learns from.
    pub fn adopt_stream(&self, created_ns: i128) -> Result<(), StoreError> {
        let txn = self.begin(true)?;
        txn.open_table(tables::META)?.insert("stream", created_ns.to_be_bytes().as_slice())?;
        Ok(txn.commit()?)
    }

    /// A commit that changes nothing and makes all soft commits before it hard.
    pub fn harden(&self) -> Result<(), StoreError> {
        Ok(self.begin(true)?.commit()?)
    }
}

fn foreign() -> StoreError {
    damaged("a redb file of another program")
}

/// Refuses a store that is another's, by reading alone.
fn looked_at(db: &redb::ReadOnlyDatabase, identity: &Identity) -> Result<(), StoreError> {
    let txn = db.begin_read()?;
    if txn.list_tables()?.next().is_none() {
        return Ok(());
    }
    match txn.open_table(tables::META) {
        Ok(meta) if is_known(&meta, identity)? => Ok(()),
        Ok(_) | Err(redb::TableError::TableDoesNotExist(_)) => Err(foreign()),
        Err(error) => Err(error.into()),
    }
}

/// Whether it is this service's store; an error if it is another's, false if nothing says whose it is.
fn is_known(
    meta: &impl ReadableTable<&'static str, &'static [u8]>,
    identity: &Identity,
) -> Result<bool, StoreError> {
    let Some(format) = meta.get("format")? else { return Ok(false) };
    let found = <[u8; 4]>::try_from(format.value()).map(u32::from_be_bytes).map_err(damaged)?;
    if found > FORMAT {
        return Err(StoreError::Newer(found));
    }
    let row = meta.get("identity")?.map(|row| row.value().to_vec());
    let found: Identity = serde_json::from_slice(&row.unwrap_or_default()).map_err(damaged)?;
    if &found == identity {
        return Ok(true);
    }
    Err(StoreError::WrongStore { found: found.to_string(), wanted: identity.to_string() })
}

pub(crate) fn damaged(error: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged(error.to_string())
}

fn read_u64(bytes: &[u8]) -> Result<u64, StoreError> {
    Ok(u64::from_be_bytes(bytes.try_into().map_err(damaged)?))
}

fn read_position(bytes: &[u8]) -> Result<Position, StoreError> {
    let (seq, hash) = bytes.split_at_checked(8).ok_or_else(|| damaged("position"))?;
    let hash = Hash::from_slice(hash).ok_or_else(|| damaged("position"))?;
    Ok(Position { seq: read_u64(seq)?, hash })
}

fn write_position(position: &Position) -> [u8; 40] {
    let mut bytes = [0; 40];
    let (seq, hash) = bytes.split_at_mut(8);
    seq.copy_from_slice(&position.seq.to_be_bytes());
    hash.copy_from_slice(&position.hash.0);
    bytes
}

#[cfg(test)]
mod tests;
