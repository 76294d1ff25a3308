//! What became of the actions this worker began, in its own redb file: so that a second dispatch is not a second
//! execution. One thread writes it, a batch of jobs a commit, and a job is answered after its commit.
//!
//! A store that cannot commit answers nothing any more: the worker has to stop, because what it would say is not kept.
//!
//! | table | key | value |
//! |---|---|---|
//! | `sdk_actions_v1` | action id | what is known of it, as JSON |
//! | `sdk_ages_v1` | time in milliseconds, action id | bytes of the row: what retention walks, the oldest first |

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use aip_names::limits::{
    STORE_CACHE_BYTES, STORE_SOFT_COMMITS_MAX, STORE_SOFT_MS, WORKER_RESULTS_BYTES_MAX,
    WORKER_RESULTS_KEPT_MS, WORKER_RESULTS_MAX, WORKER_RESULTS_PRUNED_MAX, WORKER_STORE_BATCH_MAX,
    WORKER_STORE_JOBS_MAX,
};
use aip_wire::{ActionId, ActionResult};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, Table, TableDefinition};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

#[cfg(test)]
mod tests;

const ACTIONS: TableDefinition<&str, &[u8]> = TableDefinition::new("sdk_actions_v1");
const AGES: TableDefinition<(u64, &str), u64> = TableDefinition::new("sdk_ages_v1");

/// Why the store cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    #[error("the result store {} is in use by another process", path.display())]
    Locked { path: PathBuf },
    #[error("the result store {} cannot be opened: {detail}", path.display())]
    Open { path: PathBuf, detail: String },
    #[error("the result store failed and is not used any more: {detail}")]
    Failed { detail: String },
}

/// What is known of an action.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Known {
    /// Nothing: it may begin.
    Nothing,
    /// An earlier life of this worker began it and did not finish it.
    Begun,
    Finished(Box<ActionResult>),
    /// The id stands for something else.
    Other,
}

#[derive(Serialize, Deserialize)]
struct Row {
    /// Of capability, tenant and input: what makes a second dispatch the same action.
    digest: String,
    at_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<ActionResult>,
}

enum Job {
    Begin { id: ActionId, digest: String, mark: bool, now_ms: u64, answer: oneshot::Sender<Known> },
    Finish { id: ActionId, row: Box<Row>, durable: bool, answer: oneshot::Sender<()> },
}

/// The store's face to async code.
#[derive(Debug)]
pub(crate) struct Store {
    jobs: SyncSender<Job>,
    failed: tokio::sync::watch::Receiver<Option<StoreError>>,
}

// === impl Store ===

impl Store {
    /// Opens or creates the file and starts its thread, which ends with the last handle.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        let refused = |detail: String| StoreError::Open { path: path.to_owned(), detail };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| refused(error.to_string()))?;
        }
        let opened = Database::builder().set_cache_size(STORE_CACHE_BYTES).create(path);
        let database = opened.map_err(|error| match error {
            redb::DatabaseError::DatabaseAlreadyOpen => StoreError::Locked { path: path.to_owned() },
            error => refused(error.to_string()),
        })?;
        let kept = Kept::read(&database).map_err(|error| refused(error.to_string()))?;
        let (jobs, waiting) = mpsc::sync_channel(WORKER_STORE_JOBS_MAX);
        let (failing, failed) = tokio::sync::watch::channel(None);
        let writer = Writer { database, kept, soft: 0, soft_since: None };
        let thread = std::thread::Builder::new().name("aip-worker-store".to_owned());
        thread.spawn(move || writer.run(&waiting, &failing)).map_err(|error| refused(error.to_string()))?;
        Ok(Store { jobs, failed })
    }

    /// What is known of an action. With `mark`, an unknown one is marked as begun, on the disk, before this returns.
    pub async fn begin(
        &self,
        id: &ActionId,
        digest: &str,
        mark: bool,
        now_ms: u64,
    ) -> Result<Known, StoreError> {
        let (answer, answered) = oneshot::channel();
        let job = Job::Begin { id: id.clone(), digest: digest.to_owned(), mark, now_ms, answer };
        self.ask(job, answered).await
    }

    /// Keeps how an action ended; on the disk before this returns if `durable`.
    pub async fn finish(
        &self,
        id: &ActionId,
        digest: &str,
        result: ActionResult,
        durable: bool,
        now_ms: u64,
    ) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        let row = Box::new(Row { digest: digest.to_owned(), at_ms: now_ms, result: Some(result) });
        self.ask(Job::Finish { id: id.clone(), row, durable, answer }, answered).await
    }

    /// Returns when the store has failed.
    pub async fn failed(&self) -> StoreError {
        let mut failed = self.failed.clone();
        match failed.wait_for(Option::is_some).await {
            Ok(error) => error.clone().unwrap_or_else(ended),
            Err(_) => ended(),
        }
    }

    /// A future that resolves when the file has been closed, which follows the end of the last handle.
    pub fn closed(&self) -> impl Future<Output = ()> + use<> {
        let mut failed = self.failed.clone();
        async move { while failed.changed().await.is_ok() {} }
    }

    async fn ask<T>(&self, job: Job, answered: oneshot::Receiver<T>) -> Result<T, StoreError> {
        self.jobs.try_send(job).map_err(|_| self.why())?;
        answered.await.map_err(|_| self.why())
    }

    fn why(&self) -> StoreError {
        self.failed.borrow().clone().unwrap_or_else(ended)
    }
}

fn ended() -> StoreError {
    StoreError::Failed { detail: "its thread has ended or is far behind".to_owned() }
}

/// How much is kept: what retention compares with its bounds.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Kept {
    rows: u64,
    bytes: u64,
}

struct Writer {
    database: Database,
    kept: Kept,
    /// Commits since the last one that is on the disk.
    soft: u32,
    soft_since: Option<Instant>,
}

// === impl Kept ===

impl Kept {
    fn read(database: &Database) -> Result<Kept, redb::Error> {
        let creating = database.begin_write()?;
        creating.open_table(ACTIONS)?;
        creating.open_table(AGES)?;
        creating.commit()?;
        let mut kept = Kept::default();
        for entry in database.begin_read()?.open_table(AGES)?.iter()? {
            kept.rows += 1;
            kept.bytes += entry?.1.value();
        }
        Ok(kept)
    }
}

// === impl Writer ===

impl Writer {
    fn run(mut self, jobs: &Receiver<Job>, failing: &tokio::sync::watch::Sender<Option<StoreError>>) {
        loop {
            let batch = match jobs.recv_timeout(Duration::from_millis(STORE_SOFT_MS)) {
                Ok(first) => {
                    let rest = jobs.try_iter().take(WORKER_STORE_BATCH_MAX - 1);
                    std::iter::once(first).chain(rest).collect()
                }
                Err(RecvTimeoutError::Timeout) if self.soft == 0 => continue,
                Err(RecvTimeoutError::Timeout) => Vec::new(),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Err(error) = self.commit(batch) {
                let detail = error.to_string();
                tracing::error!(detail, "the result store failed");
                failing.send_replace(Some(StoreError::Failed { detail }));
                return;
            }
        }
        if self.soft > 0
            && let Err(error) = self.commit(Vec::new())
        {
            tracing::error!(%error, "the result store failed while it was closed");
        }
    }

    /// Does all jobs in one transaction, then tells who waits. An empty batch puts soft commits on the disk.
    fn commit(&mut self, batch: Vec<Job>) -> Result<(), redb::Error> {
        let mut kept = self.kept;
        let mut answers = Vec::with_capacity(batch.len());
        let mut writing = self.database.begin_write()?;
        let due =
            self.soft_since.is_some_and(|since| since.elapsed() >= Duration::from_millis(STORE_SOFT_MS));
        let mut durable = batch.is_empty() || due || self.soft >= STORE_SOFT_COMMITS_MAX;
        let mut changed = durable;
        for job in &batch {
            let (on_disk, writes) = job.needs();
            durable |= on_disk;
            changed |= writes;
        }
        writing.set_durability(if durable { Durability::Immediate } else { Durability::None })?;
        writing.set_quick_repair(durable);
        {
            let mut rows = Rows { actions: writing.open_table(ACTIONS)?, ages: writing.open_table(AGES)? };
            let mut now_ms = 0;
            for job in batch {
                now_ms = now_ms.max(job.now_ms());
                answers.push(rows.apply(job, &mut kept)?);
            }
            if changed {
                rows.prune(now_ms, &mut kept)?;
            }
        }
        if changed {
            writing.commit()?;
            self.soft = if durable { 0 } else { self.soft + 1 };
            self.soft_since = if durable { None } else { self.soft_since.or_else(|| Some(Instant::now())) };
            self.kept = kept;
        } else {
            writing.abort()?;
        }
        answers.into_iter().for_each(Answer::tell);
        Ok(())
    }
}

/// An answer that waits for the commit.
enum Answer {
    Known(oneshot::Sender<Known>, Known),
    Done(oneshot::Sender<()>),
}

impl Answer {
    /// Whoever asked may be gone.
    fn tell(self) {
        match self {
            Answer::Known(to, known) => drop(to.send(known)),
            Answer::Done(to) => drop(to.send(())),
        }
    }
}

impl Job {
    /// Whether it has to be on the disk, and whether it writes at all.
    fn needs(&self) -> (bool, bool) {
        match self {
            Job::Begin { mark, .. } => (*mark, *mark),
            Job::Finish { durable, .. } => (*durable, true),
        }
    }

    fn now_ms(&self) -> u64 {
        match self {
            Job::Begin { now_ms, .. } => *now_ms,
            Job::Finish { row, .. } => row.at_ms,
        }
    }
}

/// Both tables of one transaction.
struct Rows<'t> {
    actions: Table<'t, &'static str, &'static [u8]>,
    ages: Table<'t, (u64, &'static str), u64>,
}

impl Rows<'_> {
    fn apply(&mut self, job: Job, kept: &mut Kept) -> Result<Answer, redb::Error> {
        match job {
            Job::Begin { id, digest, mark, now_ms, answer } => {
                let known = match self.row(id.as_str())? {
                    None => Known::Nothing,
                    Some((row, _)) if row.digest != digest => Known::Other,
                    Some((Row { result: Some(result), .. }, _)) => Known::Finished(Box::new(result)),
                    Some((Row { result: None, .. }, _)) => Known::Begun,
                };
                if mark && known == Known::Nothing {
                    self.put(id.as_str(), &Row { digest, at_ms: now_ms, result: None }, kept)?;
                }
                Ok(Answer::Known(answer, known))
            }
            Job::Finish { id, row, answer, .. } => {
                self.put(id.as_str(), &row, kept)?;
                Ok(Answer::Done(answer))
            }
        }
    }

    fn row(&self, id: &str) -> Result<Option<(Row, u64)>, redb::Error> {
        let Some(bytes) = self.actions.get(id)? else { return Ok(None) };
        let row = serde_json::from_slice(bytes.value())
            .map_err(|error| redb::Error::Corrupted(format!("row {id:?}: {error}")))?;
        Ok(Some((row, bytes.value().len() as u64)))
    }

    fn put(&mut self, id: &str, row: &Row, kept: &mut Kept) -> Result<(), redb::Error> {
        if let Some((before, bytes)) = self.row(id)? {
            self.ages.remove((before.at_ms, id))?;
            kept.rows -= 1;
            kept.bytes = kept.bytes.saturating_sub(bytes);
        }
        let bytes = serde_json::to_vec(row).map_err(|error| redb::Error::Corrupted(error.to_string()))?;
        self.actions.insert(id, bytes.as_slice())?;
        self.ages.insert((row.at_ms, id), bytes.len() as u64)?;
        kept.rows += 1;
        kept.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Takes away what is too old, and the oldest of what is too much.
    fn prune(&mut self, now_ms: u64, kept: &mut Kept) -> Result<(), redb::Error> {
        for _ in 0..WORKER_RESULTS_PRUNED_MAX {
            let Some((at_ms, id, bytes)) = self.oldest()? else { return Ok(()) };
            let too_old = now_ms.saturating_sub(at_ms) > WORKER_RESULTS_KEPT_MS;
            if !too_old && kept.rows <= WORKER_RESULTS_MAX && kept.bytes <= WORKER_RESULTS_BYTES_MAX {
                return Ok(());
            }
            self.ages.remove((at_ms, id.as_str()))?;
            self.actions.remove(id.as_str())?;
            kept.rows -= 1;
            kept.bytes = kept.bytes.saturating_sub(bytes);
        }
        Ok(())
    }

    fn oldest(&self) -> Result<Option<(u64, String, u64)>, redb::Error> {
        let Some((key, bytes)) = self.ages.first()? else { return Ok(None) };
        let (at_ms, id) = key.value();
        Ok(Some((at_ms, id.to_owned(), bytes.value())))
    }
}
