//! What a store knows and the log does not, in the order in which it once stood in the log.

use redb::TableDefinition;

use aip_kernel::{EntityKey, Hash, Header};

use super::{RecoverError, Source, lost_table};
use crate::store::{Kept, PastRow, Place, Snapshot, Standing, Store, StoreError, damaged};

/// (source, sequence, index) → as what it was kept, the row of the past. Stands in the scratch store only.
const LOST: TableDefinition<(u32, u64, u32), (u8, &[u8])> = TableDefinition::new("lost");

/// One lost record.
#[derive(Debug)]
pub struct Lost {
    pub kept: Kept,
    pub header: Header,
    pub hash: Hash,
    row: Vec<u8>,
}

/// What was lost of one message of the old log.
#[derive(Debug)]
pub struct Group {
    pub seq: u64,
    pub records: Vec<Lost>,
}

// === impl Lost ===

impl Lost {
    pub fn past(&self) -> Result<PastRow<'_>, StoreError> {
        PastRow::read(&self.row)
    }

    fn is(&self, other: &Lost) -> Result<bool, StoreError> {
        Ok(self.kept == other.kept && self.hash == other.hash && self.past()?.place == other.past()?.place)
    }
}

/// Finds what the log's replay in `scratch` lacks, notes it there and says how much it is.
pub fn gather(source: u32, store: &Snapshot, scratch: &Store) -> Result<u64, StoreError> {
    let mended = scratch.snapshot()?;
    let txn = scratch.begin(true)?;
    let mut count = 0;
    {
        let mut lost = txn.open_table(LOST)?;
        store.each_kept(|kept, past| {
            let header: Header = serde_json::from_slice(past.raw).map_err(damaged)?;
            let hash = past.hash();
            // What an earlier recovery had to leave stands in the log as an orphan.
            if !mended.keeps(kept, &header, &hash)? && !mended.keeps(Kept::Orphan, &header, &hash)? {
                let Place { seq, index } = past.place;
                lost.insert((source, seq, index), (code(kept), past.write().as_slice()))?;
                count += 1;
            }
            Ok(())
        })?;
    }
    txn.commit()?;
    Ok(count)
}

/// The next message of which something was lost, after sequence `after`.
pub fn next(scratch: &Store, source: u32, after: u64) -> Result<Option<Group>, StoreError> {
    let txn = scratch.read()?;
    let lost = txn.open_table(LOST)?;
    let mut group: Option<Group> = None;
    for row in lost.range((source, after.saturating_add(1), 0)..=(source, u64::MAX, u32::MAX))? {
        let (key, value) = row?;
        let (_, seq, _) = key.value();
        let group = group.get_or_insert_with(|| Group { seq, records: Vec::new() });
        if group.seq != seq {
            break;
        }
        let (code, bytes) = value.value();
        let row = bytes.to_vec();
        let past = PastRow::read(bytes)?;
        let header = serde_json::from_slice(past.raw).map_err(damaged)?;
        group.records.push(Lost { kept: kept(code), header, hash: past.hash(), row });
    }
    Ok(group)
}

/// Two stores that both know more than the log must know the same, as far as both go.
pub fn contradictions(
    sources: &[Source<'_>],
    standings: &[Standing],
    scratch: &Store,
) -> Result<(), RecoverError> {
    let mut knowing = Vec::new();
    for (i, (source, standing)) in sources.iter().zip(standings).enumerate() {
        if next(scratch, lost_table(i), 0)?.is_some() {
            knowing.push((lost_table(i), source, standing));
        }
    }
    for (k, (i, one, at)) in knowing.iter().enumerate() {
        for (j, other, there) in knowing.iter().skip(k + 1) {
            let what = if at.stream == there.stream {
                let until = at.position.seq.min(there.position.seq);
                same_positions(scratch, *i, *j, until)?
            } else {
                same_entities(scratch, *i, other)?
            };
            if let Some(what) = what {
                let (one, other) = (one.name.to_owned(), other.name.to_owned());
                return Err(RecoverError::Contradiction { one, other, what });
            }
        }
    }
    Ok(())
}

/// Stores of one stream hold the same at the same positions.
fn same_positions(scratch: &Store, i: u32, j: u32, until: u64) -> Result<Option<String>, StoreError> {
    let mut after = 0;
    loop {
        let within = |group: &Group| group.seq <= until;
        let one = next(scratch, i, after)?.filter(within);
        let other = next(scratch, j, after)?.filter(within);
        let (seq, same) = match (one, other) {
            (None, None) => return Ok(None),
            (Some(one), Some(other)) => (one.seq.min(other.seq), same(&one, &other)?),
            (Some(only), None) | (None, Some(only)) => (only.seq, false),
        };
        if !same {
            return Ok(Some(format!("they hold different records at position {seq} of the same stream")));
        }
        after = seq;
    }
}

fn same(one: &Group, other: &Group) -> Result<bool, StoreError> {
    if one.seq != other.seq || one.records.len() != other.records.len() {
        return Ok(false);
    }
    for (record, counterpart) in one.records.iter().zip(&other.records) {
        if !record.is(counterpart)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Positions of different streams mean nothing to each other: the stores must agree on each entity they share.
fn same_entities(scratch: &Store, i: u32, other: &Source<'_>) -> Result<Option<String>, StoreError> {
    let (mended, theirs) = (scratch.snapshot()?, other.store.snapshot()?);
    let mut after = 0;
    while let Some(group) = next(scratch, i, after)? {
        for lost in group.records.iter().filter(|lost| lost.kept == Kept::Effective) {
            let entity = EntityKey::new(&lost.header.kind, &lost.header.key);
            let Some(row) = theirs.past(&entity, lost.header.n)? else { continue };
            let hash = PastRow::read(&row)?.hash();
            if hash != lost.hash && !mended.keeps(Kept::Effective, &lost.header, &hash)? {
                return Ok(Some(format!("they hold different records {} of {entity}", lost.header.n)));
            }
        }
        after = group.seq;
    }
    Ok(None)
}

fn code(kept: Kept) -> u8 {
    match kept {
        Kept::Effective => 0,
        Kept::Stopping => 1,
        Kept::Orphan => 2,
    }
}

fn kept(code: u8) -> Kept {
    match code {
        0 => Kept::Effective,
        1 => Kept::Stopping,
        _ => Kept::Orphan,
    }
}
