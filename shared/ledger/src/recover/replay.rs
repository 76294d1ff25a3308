//! Reads the log from its first message into an empty store, as a replica would have learned it.

use aip_kernel::Machine;
use aip_names::limits;

use super::{Log, LogError, Passed, RecoverError};
use crate::LogInfo;
use crate::store::{Judging, Store, StoreError, Tables};

/// Applies messages 1 to `until` and says how the store stood at each of `stops` that lies on the way.
///
/// # Errors
/// The log does not begin at 1, has a hole or can't be read; or a message can't be applied.
pub(crate) fn replay<M: Machine>(
    machine: &M,
    log: &mut dyn Log,
    info: &LogInfo,
    until: u64,
    into: &Store,
    stops: &[u64],
) -> Result<Vec<Passed>, RecoverError> {
    if info.last_seq > 0 && info.first_seq > 1 {
        return Err(RecoverError::Begins(info.first_seq));
    }
    let mut passed = Vec::new();
    let (mut at, mut soft) = (0, 0);
    while at < until {
        // A stop ends a commit, so that the state there can be looked at.
        let end = stops.iter().copied().filter(|stop| *stop > at).fold(until, u64::min);
        let limit = usize::try_from(end - at).unwrap_or(usize::MAX).min(limits::LEDGER_TAIL_BATCH);
        let messages = log.read(at + 1, limit)?;
        soft += 1;
        let hard = u32::is_multiple_of(soft, limits::STORE_SOFT_COMMITS_MAX);
        let txn = into.begin(hard)?;
        let before = at;
        {
            let mut tables = Tables::open(&txn)?;
            for message in &messages {
                if message.seq != at + 1 {
                    return Err(RecoverError::Hole(message.seq));
                }
                match crate::store::apply(machine, &mut tables, message, Judging::Sound) {
                    Err(StoreError::Log { seq, reason }) => {
                        return Err(RecoverError::Foreign { seq, reason });
                    }
                    applied => applied?,
                };
                at = message.seq;
            }
        }
        txn.commit().map_err(crate::StoreError::from)?;
        if at == before {
            return Err(LogError(format!("message {} does not come", at + 1)).into());
        }
        if stops.contains(&at) {
            passed.push(Passed { position: into.standing()?.position, digest: into.snapshot()?.digest()? });
        }
    }
    into.harden()?;
    Ok(passed)
}
