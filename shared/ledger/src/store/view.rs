//! The committed state at one moment, as decisions, queries and the road itself read it.

use std::ops::Bound;

use redb::ReadTransaction;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use aip_kernel::{
    EffectId, EffectMode, Entity, EntityKey, Fault, Hash, Holder, IndexKey, Machine, Millis, Past, Record,
    WriterId,
};

use super::past::PastRow;
use super::{ReadTables, StoreError, damaged, read_u64, tables};

/// A consistent picture of the store; later commits don't change it.
pub struct Snapshot {
    pub(super) tables: ReadTables,
    pub(super) log_time: Millis,
}

/// An effect that waits for its outcome.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PendingEffect<F> {
    pub effect: F,
    pub mode: EffectMode,
    pub writer: WriterId,
}

/// A timer as it stands in the order of due times.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PendingTimer {
    pub due: Millis,
    pub entity: EntityKey,
    pub name: String,
    /// The replica that set it.
    pub replica: String,
}

// === impl Snapshot ===

impl Snapshot {
    pub fn open(txn: &ReadTransaction) -> Result<Snapshot, StoreError> {
        let meta = txn.open_table(tables::META)?;
        let log_time = match meta.get("log_time")? {
            Some(row) => read_u64(row.value())?,
            None => 0,
        };
        Ok(Snapshot { tables: ReadTables::open(txn)?, log_time })
    }

    /// Pending effects after `after`, in the order of their ids, at most `limit`.
    pub fn effects<F: DeserializeOwned>(
        &self,
        after: Option<&EffectId>,
        limit: usize,
    ) -> Result<Vec<(EffectId, PendingEffect<F>)>, StoreError> {
        let from = match after {
            Some(id) => Bound::Excluded((id.entity.kind.as_str(), id.entity.id.as_str(), id.n, id.index)),
            None => Bound::Unbounded,
        };
        let mut found = Vec::new();
        for row in self.tables.effects.range::<(&str, &str, u64, u32)>((from, Bound::Unbounded))?.take(limit)
        {
            let (key, value) = row?;
            let (kind, id, n, index) = key.value();
            let id = EffectId { entity: EntityKey::new(kind, id), n, index };
            found.push((id, serde_json::from_slice(value.value()).map_err(damaged)?));
        }
        Ok(found)
    }

    /// Timers due at `now` or before, the earliest first, at most `limit`.
    pub fn due(&self, now: Millis, limit: usize) -> Result<Vec<PendingTimer>, StoreError> {
        let mut found = Vec::new();
        let until = now.saturating_add(1);
        for row in self.tables.timers.range::<(u64, &str, &str, &str)>(..(until, "", "", ""))?.take(limit) {
            let (key, value) = row?;
            let (due, kind, id, name) = key.value();
            let (entity, replica) = (EntityKey::new(kind, id), value.value().to_owned());
            found.push(PendingTimer { due, entity, name: name.to_owned(), replica });
        }
        Ok(found)
    }

    /// Keys of all entities after `after`, in order, at most `limit`.
    pub fn entities(&self, after: Option<&EntityKey>, limit: usize) -> Result<Vec<EntityKey>, StoreError> {
        let from = match after {
            Some(key) => Bound::Excluded((key.kind.as_str(), key.id.as_str())),
            None => Bound::Unbounded,
        };
        let rows = self.tables.entities.range::<(&str, &str)>((from, Bound::Unbounded))?.take(limit);
        rows.map(|row| {
            let (key, _) = row?;
            let (kind, id) = key.value();
            Ok(EntityKey::new(kind, id))
        })
        .collect()
    }

    /// Number and hash of the entity's last record; zero and zeros before its first.
    pub fn head(&self, key: &EntityKey) -> Result<(u64, Hash), StoreError> {
        match self.tables.entities.get((key.kind.as_str(), key.id.as_str()))? {
            Some(row) => split_entity(row.value()).map(|(n, head, _)| (n, head)),
            None => Ok((0, Hash::ZERO)),
        }
    }

    fn read_entity<S: DeserializeOwned>(&self, key: &EntityKey) -> Result<Option<Entity<S>>, StoreError> {
        let at = (key.kind.as_str(), key.id.as_str());
        if let Some(why) = self.tables.stopped.get(at)? {
            return Err(damaged(format!("{key} is stopped: {}", why.value())));
        }
        let Some(row) = self.tables.entities.get(at)? else { return Ok(None) };
        let (n, head, state) = split_entity(row.value())?;
        Ok(Some(Entity { state: serde_json::from_slice(state).map_err(damaged)?, n, head }))
    }

    fn read_history<E: DeserializeOwned>(
        &self,
        key: &EntityKey,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Past<E>>, StoreError> {
        let (kind, id) = (key.kind.as_str(), key.id.as_str());
        let mut found = Vec::new();
        for row in self.tables.history.range((kind, id, from)..=(kind, id, u64::MAX))?.take(limit) {
            let (_, value) = row?;
            let past = PastRow::read(value.value())?;
            let record: Record<E> = serde_json::from_slice(past.raw).map_err(damaged)?;
            found.push((record, past.hash(), past.log_time));
        }
        Ok(found)
    }

    fn read_claim(&self, claim: &str) -> Result<Option<Holder>, StoreError> {
        Ok(self.tables.claims.get(claim)?.map(|row| holder(row.value())))
    }

    fn read_index(
        &self,
        index: &str,
        from: Bound<&str>,
        to: Bound<&str>,
        limit: usize,
    ) -> Result<Vec<(IndexKey, EntityKey)>, StoreError> {
        // A key that is a prefix of another sorts before it, so the empty string opens a range and the highest
        // scalar value closes it.
        let low = match from {
            Bound::Included(sort) => Bound::Included((index, sort, "", "")),
            Bound::Excluded(sort) => Bound::Excluded((index, sort, LAST, LAST)),
            Bound::Unbounded => Bound::Included((index, "", "", "")),
        };
        let high = match to {
            Bound::Included(sort) => Bound::Included((index, sort, LAST, LAST)),
            Bound::Excluded(sort) => Bound::Excluded((index, sort, "", "")),
            Bound::Unbounded => Bound::Included((index, LAST, LAST, LAST)),
        };
        let mut found = Vec::new();
        for row in self.tables.index.range::<(&str, &str, &str, &str)>((low, high))?.take(limit) {
            let (key, _) = row?;
            let (index, sort, kind, id) = key.value();
            let sort = sort.to_owned();
            found.push((IndexKey { index: index.to_owned(), sort }, EntityKey::new(kind, id)));
        }
        Ok(found)
    }
}

/// Sorts after every key part in use: parts are printable text.
const LAST: &str = "\u{10ffff}";

impl<M: Machine> aip_kernel::View<M> for Snapshot {
    fn entity(&self, key: &EntityKey) -> Result<Option<Entity<M::State>>, Fault> {
        self.read_entity(key).map_err(fault)
    }

    fn claim(&self, claim: &str) -> Result<Option<Holder>, Fault> {
        let holder = self.read_claim(claim).map_err(fault)?;
        Ok(holder.filter(|holder| holder.holds_at(self.log_time)))
    }

    fn scan(
        &self,
        index: &str,
        from: Bound<&str>,
        to: Bound<&str>,
        limit: usize,
    ) -> Result<Vec<(IndexKey, EntityKey)>, Fault> {
        self.read_index(index, from, to, limit).map_err(fault)
    }

    fn history(&self, key: &EntityKey, from: u64, limit: usize) -> Result<Vec<Past<M::Event>>, Fault> {
        self.read_history(key, from, limit).map_err(fault)
    }

    fn log_time(&self) -> Millis {
        self.log_time
    }
}

fn fault(error: StoreError) -> Fault {
    Fault(error.to_string())
}

pub(super) fn holder((kind, id, until): (&str, &str, u64)) -> Holder {
    Holder { entity: EntityKey::new(kind, id), until: (until != u64::MAX).then_some(until) }
}

pub(crate) fn split_entity(bytes: &[u8]) -> Result<(u64, Hash, &[u8]), StoreError> {
    let (n, rest) = bytes.split_at_checked(8).ok_or_else(|| damaged("entity row"))?;
    let (head, state) = rest.split_at_checked(32).ok_or_else(|| damaged("entity row"))?;
    Ok((read_u64(n)?, Hash::from_slice(head).ok_or_else(|| damaged("entity row"))?, state))
}
