//! Is a store what the log makes of it, and are the chains of its entities whole? Looks only; mends nothing.

use aip_kernel::{Entity, EntityKey, Hash, Machine, Millis, Past, View};
use aip_names::limits;

use crate::recover::{Log, RecoverError, replay};
use crate::store::{Position, Row, Snapshot, Store, StoreError};

/// What a machine can check of one entity and its whole history, for example that its receipts form a chain.
pub type EntityCheck<'a, M> = dyn FnMut(&EntityKey, &Entity<<M as Machine>::State>, &[Past<<M as Machine>::Event>]) -> Result<(), String>
    + 'a;

/// What was looked at and found whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verified {
    pub position: u64,
    /// How far the log goes.
    pub last_seq: u64,
    pub log_time: Millis,
    pub entities: u64,
    pub records: u64,
    /// Entities that a record stopped.
    pub stopped: u64,
    /// Records that a recovery could not bring back.
    pub orphans: u64,
    pub digest: Hash,
}

/// The first thing that is not as it must be.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error(transparent)]
    Recover(#[from] RecoverError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the store is beside the log: {0}")]
    Beside(String),
    #[error("the store is not what the log makes of it: {0}")]
    Differs(String),
    #[error("the chain of {entity} is broken at {n}: {what}")]
    Chain { entity: EntityKey, n: u64, what: String },
}

/// Replays the log up to the store's position into `scratch`, an empty store, and compares; then walks every chain.
///
/// # Errors
/// [`VerifyError`] names the first difference.
pub fn verify<M: Machine>(
    machine: &M,
    log: &mut dyn Log,
    store: &Store,
    scratch: &Store,
    check: &mut EntityCheck<'_, M>,
) -> Result<Verified, VerifyError> {
    let standing = store.standing()?;
    let Position { seq, hash } = standing.position;
    let beside = |why: String| Err(VerifyError::Beside(why));
    let Some(info) = log.info().map_err(RecoverError::from)? else {
        return beside("there is no log".to_owned());
    };
    if standing.stream.is_some_and(|created| created != info.created_ns) {
        return beside("it learned from a stream that was created at another time".to_owned());
    }
    if seq > info.last_seq {
        return beside(format!("the log ends at {}, before its position {seq}", info.last_seq));
    }
    replay(machine, log, &info, seq, scratch, &[])?;
    if scratch.standing()?.position.hash != hash && seq > 0 {
        return beside(format!("the log holds another message {seq} than the one it applied"));
    }
    let (found, wanted) = (store.snapshot()?, scratch.snapshot()?);
    if let Some(difference) = first_difference(&found, &wanted)? {
        return Err(VerifyError::Differs(difference));
    }
    let (entities, records) = chains::<M>(&found, check)?;
    let (stopped, orphans) = found.counts()?;
    let digest = found.digest()?;
    let log_time = standing.log_time;
    Ok(Verified {
        position: seq,
        last_seq: info.last_seq,
        log_time,
        entities,
        records,
        stopped,
        orphans,
        digest,
    })
}

/// The first row that only one of the two has, or that they have differently.
fn first_difference(found: &Snapshot, wanted: &Snapshot) -> Result<Option<String>, StoreError> {
    let (mut found, mut wanted) = (found.rows()?, wanted.rows()?);
    loop {
        let (one, other) = (found.next().transpose()?, wanted.next().transpose()?);
        match (one, other) {
            (None, None) => return Ok(None),
            (Some(one), Some(other)) if one == other => {}
            (Some(Row { table, key, .. }), Some(other)) if (table, &key) == (other.table, &other.key) => {
                return Ok(Some(format!("{table} {key} has another value")));
            }
            (one, other) => {
                let name = |row: Option<Row>| {
                    row.map_or_else(|| "nothing".to_owned(), |row| format!("{} {}", row.table, row.key))
                };
                let (one, other) = (name(one), name(other));
                return Ok(Some(format!("it has {one} where the log says {other}")));
            }
        }
    }
}

/// Walks every entity's records from the first to its head; says how many entities and records there are.
fn chains<M: Machine>(
    snapshot: &Snapshot,
    check: &mut EntityCheck<'_, M>,
) -> Result<(u64, u64), VerifyError> {
    let (mut entities, mut records) = (0, 0);
    let mut after: Option<EntityKey> = None;
    loop {
        let keys = snapshot.entities(after.as_ref(), limits::RECOVERY_ENTITIES_PAGE)?;
        let Some(last) = keys.last() else { return Ok((entities, records)) };
        after = Some(last.clone());
        for key in &keys {
            entities += 1;
            records += chain::<M>(snapshot, key, check)?;
        }
    }
}

fn chain<M: Machine>(
    snapshot: &Snapshot,
    key: &EntityKey,
    check: &mut EntityCheck<'_, M>,
) -> Result<u64, VerifyError> {
    let broken = |n: u64, what: String| VerifyError::Chain { entity: key.clone(), n, what };
    let fault = |error: aip_kernel::Fault| broken(0, error.to_string());
    let past = View::<M>::history(snapshot, key, 0, usize::MAX).map_err(fault)?;
    let (mut n, mut prev, mut time) = (0, Hash::ZERO, 0);
    for (record, hash, log_time) in &past {
        n += 1;
        let header = &record.header;
        if header.entity() != *key || header.n != n {
            return Err(broken(n, format!("record {} of {} stands there", header.n, header.entity())));
        }
        if header.prev != prev {
            return Err(broken(n, "it does not name the hash of the record before".to_owned()));
        }
        if *log_time < time {
            return Err(broken(n, "it is older than the record before".to_owned()));
        }
        (prev, time) = (*hash, *log_time);
    }
    if snapshot.head(key)? != (n, prev) {
        return Err(broken(n, "the entity's head is not its last record".to_owned()));
    }
    // A stopped entity shows no state; its chain is whole all the same.
    if let Ok(Some(entity)) = View::<M>::entity(snapshot, key) {
        check(key, &entity, &past).map_err(|what| broken(n, what))?;
    }
    Ok(n)
}
