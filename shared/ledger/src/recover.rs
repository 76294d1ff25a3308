//! Mends a ledger whose log or stores were lost, swapped or cut, by command, while the service is stopped.
//!
//! The log as it is found is read into a fresh store. What the given stores know beyond it is appended in its old
//! order and with its old log time, judged by the same rule as ever: what can't stand any more is an orphan, kept in
//! the log and in the stores as evidence and reported. Then every store is built anew from the mended log, and the
//! old file is set aside. Nothing is overwritten: no message of the log and no store is changed or deleted, and a
//! command that was interrupted is simply run again. A service never does any of this by itself.

mod append;
mod files;
mod jetstream;
mod lost;
mod replay;

use std::path::PathBuf;

use bytes::Bytes;
use serde_json::Value;

use aip_kernel::{EntityKey, Hash, Machine, Millis, WriterId};

use crate::store::{Position, Standing, Store, StoreError};
use crate::{LogInfo, LogMessage};

pub use files::{recover, verify};
pub use jetstream::JetStreamLog;
pub(crate) use replay::replay;

#[cfg(test)]
mod tests;

/// The log as recovery and verification use it: from a thread that may wait, with the service stopped.
pub trait Log {
    /// `None` when there is no stream.
    fn info(&mut self) -> Result<Option<LogInfo>, LogError>;
    /// Makes the stream that is missing.
    fn create(&mut self) -> Result<LogInfo, LogError>;
    /// At least one and at most `limit` messages from `from` on, in order; the log has them.
    fn read(&mut self, from: u64, limit: usize) -> Result<Vec<LogMessage>, LogError>;
    /// Appends a message behind number `after`, which must be the last.
    fn append(&mut self, after: u64, bytes: Bytes) -> Result<(), LogError>;
}

/// The log did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LogError(pub String);

/// Why nothing, or not all, was mended. Stores are as they were; what was appended to the log is found there by the
/// next run.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    #[error("the log: {0}")]
    Log(#[from] LogError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the store {}: {source}", path.display())]
    OfStore { path: PathBuf, source: StoreError },
    #[error("there is no store at {}", .0.display())]
    NoStore(PathBuf),
    #[error("{} stores are given; at most {} are taken", .0, aip_names::limits::RECOVERY_STORES_MAX)]
    TooMany(usize),
    #[error("the preferred store {} is none of those that were given", .0.display())]
    NotGiven(PathBuf),
    #[error("{what} {}: {source}", path.display())]
    File { what: &'static str, path: PathBuf, source: std::io::Error },
    #[error(
        "the log begins at {0}: what stood before is gone; set the stream's data aside, so that a new one can be filled \
         from the stores"
    )]
    Begins(u64),
    #[error(
        "the log has a hole before message {0}: set the stream's data aside, so that a new one can be filled from the \
         stores"
    )]
    Hole(u64),
    #[error(
        "message {seq} of the log is not ours: {reason}; somebody else may write into its subject: take that right away, \
         then set the stream's data aside, so that a new one can be filled from the stores, which have all before it"
    )]
    Foreign { seq: u64, reason: String },
    #[error("{one} and {other} contradict each other: {what}; name the one to follow as the preferred store")]
    Contradiction { one: String, other: String, what: String },
    #[error(
        "the mended log does not replay to what was recovered: {wanted} became {found}; no store was changed"
    )]
    Replay { wanted: Hash, found: Hash },
}

/// A store that takes part.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// What it is called in the report.
    pub name: &'a str,
    pub store: &'a Store,
}

/// How to recover.
#[derive(Default)]
pub struct Options<'a> {
    /// The source to follow where sources contradict each other.
    pub prefer: Option<usize>,
    /// Find out everything, append nothing, change no store.
    pub dry_run: bool,
    /// Hears of each orphan.
    pub orphan: Option<&'a mut dyn FnMut(Orphan)>,
}

/// A record that was effective once and can't be again.
#[derive(Clone, PartialEq, Debug)]
pub struct Orphan {
    pub entity: EntityKey,
    pub n: u64,
    pub record_id: String,
    pub hash: Hash,
    pub at: Millis,
    pub writer: WriterId,
    pub cause: Option<String>,
    pub log_time: Millis,
    /// Where it stood in the log that lost it.
    pub seq: u64,
    /// The store that had it.
    pub store: String,
    pub why: String,
    /// The record, and the first one of its entity in that store, which says who had asked.
    pub record: Value,
    pub first: Option<Value>,
}

/// How a source stood beside the log as it was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    pub name: String,
    pub position: u64,
    /// It is a beginning of the log; otherwise the reason.
    pub beside: Option<String>,
    /// Records that the log did not have.
    pub lost: u64,
}

/// What was found and done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// `None`: there was no stream.
    pub log_found: Option<LogInfo>,
    pub sources: Vec<Found>,
    /// Records appended again, and messages that carry them.
    pub records: u64,
    pub messages: u64,
    pub orphans: u64,
    /// Nothing had to be done.
    pub whole: bool,
    /// The digest of the state that every store has in the end.
    pub digest: Hash,
    pub last_seq: u64,
    /// Each rebuilt store, with the file that was set aside for it.
    pub rebuilt: Vec<(PathBuf, PathBuf)>,
}

/// Reads the log into `scratch`, an empty store, and appends what the sources know beyond it.
///
/// # Errors
/// See [`RecoverError`]; before the first append when sources contradict each other.
pub fn mend<M: Machine>(
    machine: &M,
    log: &mut dyn Log,
    sources: &[Source<'_>],
    scratch: &Store,
    options: &mut Options<'_>,
) -> Result<Report, RecoverError> {
    let log_found = log.info()?;
    let last_seq = log_found.map_or(0, |info| info.last_seq);
    let standings: Vec<Standing> =
        sources.iter().map(|source| source.store.standing()).collect::<Result<_, _>>()?;
    let stops: Vec<u64> = standings.iter().map(|standing| standing.position.seq).collect();
    let passed = match log_found {
        Some(info) => replay(machine, log, &info, info.last_seq, scratch, &stops)?,
        None => Vec::new(),
    };
    let mut found = Vec::with_capacity(sources.len());
    for (i, (source, standing)) in sources.iter().zip(&standings).enumerate() {
        let beside = beside(log_found.as_ref(), source.store, standing, &passed)?;
        let lost = lost::gather(lost_table(i), &source.store.snapshot()?, scratch)?;
        found.push(Found { name: source.name.to_owned(), position: standing.position.seq, beside, lost });
    }
    let whole = found.iter().all(|source| source.lost == 0 && source.beside.is_none());
    let mut report = Report {
        log_found,
        sources: found,
        records: 0,
        messages: 0,
        orphans: 0,
        whole,
        digest: Hash::ZERO,
        last_seq,
        rebuilt: Vec::new(),
    };
    if !whole {
        if options.prefer.is_none() {
            lost::contradictions(sources, &standings, scratch)?;
        }
        if log_found.is_none() && !options.dry_run {
            log.create()?;
        }
        append::all(machine, log, sources, &standings, scratch, options, &mut report)?;
    }
    report.digest = scratch.snapshot()?.digest()?;
    Ok(report)
}

/// Builds an empty store from the whole log.
///
/// # Errors
/// See [`RecoverError`].
pub fn rebuild<M: Machine>(machine: &M, log: &mut dyn Log, fresh: &Store) -> Result<Hash, RecoverError> {
    let info = log.info()?.ok_or_else(|| LogError("the stream is gone".to_owned()))?;
    replay(machine, log, &info, info.last_seq, fresh, &[])?;
    fresh.adopt_stream(info.created_ns)?;
    Ok(fresh.snapshot()?.digest()?)
}

/// Why a store is no beginning of the log; nothing when it is one.
fn beside(
    log: Option<&LogInfo>,
    store: &Store,
    standing: &Standing,
    passed: &[Passed],
) -> Result<Option<String>, StoreError> {
    let Position { seq, hash } = standing.position;
    let Some(info) = log else {
        return Ok(Some("there is no log".to_owned()));
    };
    if let Some(created) = standing.stream
        && created != info.created_ns
    {
        return Ok(Some("it learned from a stream that was created at another time".to_owned()));
    }
    if seq == 0 {
        return Ok(None);
    }
    let Some(there) = passed.iter().find(|passed| passed.position.seq == seq) else {
        return Ok(Some(format!("the log ends at {}, before it", info.last_seq)));
    };
    if there.position.hash != hash {
        return Ok(Some(format!("the log holds another message {seq}")));
    }
    if there.digest != store.snapshot()?.digest()? {
        return Ok(Some(format!("it is not what the log makes of a store at {seq}")));
    }
    Ok(None)
}

/// The state of the log's replay at one position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    pub position: Position,
    pub digest: Hash,
}

fn lost_table(source: usize) -> u32 {
    u32::try_from(source).unwrap_or(u32::MAX)
}
