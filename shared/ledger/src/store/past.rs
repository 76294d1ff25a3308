//! A record of the past as the store keeps it: when it was applied, where it stood in the log, and its bytes.

use redb::ReadableTable;

use aip_kernel::{EntityKey, Hash, Header, Millis};

use super::{Snapshot, StoreError, damaged, read_u64};

/// Where a record stands in the log: the sequence of its message, and which of the message's records it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    pub seq: u64,
    pub index: u32,
}

/// One row of the past.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PastRow<'a> {
    pub log_time: Millis,
    pub place: Place,
    pub raw: &'a [u8],
}

// === impl PastRow ===

impl<'a> PastRow<'a> {
    pub fn read(bytes: &'a [u8]) -> Result<PastRow<'a>, StoreError> {
        let short = || damaged("history row");
        let (log_time, rest) = bytes.split_at_checked(8).ok_or_else(short)?;
        let (seq, rest) = rest.split_at_checked(8).ok_or_else(short)?;
        let (index, raw) = rest.split_at_checked(4).ok_or_else(short)?;
        let index = u32::from_be_bytes(index.try_into().map_err(damaged)?);
        let place = Place { seq: read_u64(seq)?, index };
        Ok(PastRow { log_time: read_u64(log_time)?, place, raw })
    }

    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(20 + self.raw.len());
        bytes.extend_from_slice(&self.log_time.to_be_bytes());
        bytes.extend_from_slice(&self.place.seq.to_be_bytes());
        bytes.extend_from_slice(&self.place.index.to_be_bytes());
        bytes.extend_from_slice(self.raw);
        bytes
    }

    pub fn hash(&self) -> Hash {
        Hash::of(self.raw)
    }
}

/// As what a store keeps a record of the past.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// Effective, in its entity's history.
    Effective,
    /// The one that stopped its entity.
    Stopping,
    /// One that a recovery found and could not bring back.
    Orphan,
}

impl Snapshot {
    /// Hands every record that the store keeps to `visit`, in the order of entities.
    pub(crate) fn each_kept(
        &self,
        mut visit: impl FnMut(Kept, PastRow<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        for row in self.tables.history.iter()? {
            visit(Kept::Effective, PastRow::read(row?.1.value())?)?;
        }
        for row in self.tables.stopping.iter()? {
            visit(Kept::Stopping, PastRow::read(row?.1.value())?)?;
        }
        for row in self.tables.orphans.iter()? {
            visit(Kept::Orphan, PastRow::read(row?.1.value())?)?;
        }
        Ok(())
    }

    /// True when the store keeps the same record in the same way.
    pub(crate) fn keeps(&self, kept: Kept, header: &Header, hash: &Hash) -> Result<bool, StoreError> {
        let (kind, id) = (header.kind.as_str(), header.key.as_str());
        let found = match kept {
            Kept::Effective => self.tables.history.get((kind, id, header.n))?,
            Kept::Stopping => self.tables.stopping.get((kind, id))?,
            Kept::Orphan => self.tables.orphans.get((kind, id, header.n, hash.0))?,
        };
        let found = found.map(|row| PastRow::read(row.value()).map(|past| past.hash())).transpose()?;
        Ok(found.as_ref() == Some(hash))
    }

    /// The `n`-th effective record of an entity, as the store keeps it.
    pub(crate) fn past(&self, entity: &EntityKey, n: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let row = self.tables.history.get((entity.kind.as_str(), entity.id.as_str(), n))?;
        Ok(row.map(|row| row.value().to_vec()))
    }

    /// How many entities are stopped, and how many orphans are kept.
    pub(crate) fn counts(&self) -> Result<(u64, u64), StoreError> {
        use redb::ReadableTableMetadata;
        Ok((self.tables.stopped.len()?, self.tables.orphans.len()?))
    }
}
