//! Appends what the log lost: in the old order, with the old log time, judged anew. Tried on the scratch store first,
//! so that nothing but what can stand is appended as a record; the rest goes along as evidence.

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;

use aip_kernel::{EntityKey, Machine, Millis, ReplicaId, Verdict, VoidReason, WriterId};
use aip_names::limits;

use super::lost::{self, Group, Lost};
use super::{Log, Options, Orphan, RecoverError, Report, Source, lost_table};
use crate::LogMessage;
use crate::batch::{Batch, Recovered};
use crate::store::{Applied, Judging, Kept, PastRow, Snapshot, Standing, Store, StoreError, Tables, damaged};

/// Appends everything that the sources have and the log has not.
pub fn all<M: Machine>(
    machine: &M,
    log: &mut dyn Log,
    sources: &[Source<'_>],
    standings: &[Standing],
    scratch: &Store,
    options: &mut Options<'_>,
    report: &mut Report,
) -> Result<(), RecoverError> {
    // Another for each log as it is found: a run that appended something finds another log the next time.
    let life = format!("{}-{}", report.last_seq, scratch.snapshot()?.digest()?);
    let writer = WriterId { replica: ReplicaId("recovery".to_owned()), life };
    let mut order: Vec<usize> = (0..sources.len()).collect();
    // The preferred store first, then the one that knows most: what the others share with it is a copy then.
    order.sort_by_key(|i| {
        let lost = report.sources.get(*i).map_or(0, |found| found.lost);
        (options.prefer != Some(*i), std::cmp::Reverse(lost))
    });
    let mut mending = Mending { machine, log, scratch, writer, options, report };
    for source in order.iter().filter_map(|i| Some((lost_table(*i), sources.get(*i)?))) {
        mending.source(source.0, source.1)?;
    }
    // Log time had come further than the last record: claims that had expired must not be held again.
    let log_time = standings.iter().map(|standing| standing.log_time).max().unwrap_or(0);
    if log_time > scratch.standing()?.log_time {
        mending.message(Vec::new(), Recovered { log_time, orphans: Vec::new() })?;
    }
    scratch.harden()?;
    Ok(())
}

struct Mending<'a, 'o, M: Machine> {
    machine: &'a M,
    log: &'a mut dyn Log,
    scratch: &'a Store,
    writer: WriterId,
    options: &'a mut Options<'o>,
    report: &'a mut Report,
}

// === impl Mending ===

impl<M: Machine> Mending<'_, '_, M> {
    fn source(&mut self, number: u32, source: &Source<'_>) -> Result<(), RecoverError> {
        let theirs = source.store.snapshot()?;
        let mut after = 0;
        while let Some(group) = lost::next(self.scratch, number, after)? {
            after = group.seq;
            self.group(group, source.name, &theirs)?;
        }
        Ok(())
    }

    /// Brings back one lost message: first all of it, then without what turned out not to stand.
    fn group(&mut self, group: Group, name: &str, theirs: &Snapshot) -> Result<(), RecoverError> {
        let mended = self.scratch.snapshot()?;
        let (mut records, mut orphans) = (Vec::new(), Vec::new());
        let mut log_time: Millis = 0;
        for lost in group.records {
            // An earlier source may have brought it, or told of it as an orphan.
            if mended.keeps(lost.kept, &lost.header, &lost.hash)?
                || mended.keeps(Kept::Orphan, &lost.header, &lost.hash)?
            {
                continue;
            }
            log_time = log_time.max(lost.past()?.log_time);
            if lost.kept == Kept::Orphan { orphans.push(lost) } else { records.push(lost) }
        }
        drop(mended);
        let mut told = 0;
        while !(records.is_empty() && orphans.is_empty()) {
            let recovered = Recovered { log_time, orphans: raws(&orphans)? };
            let verdicts = self.try_message(&records, recovered)?;
            let Some(verdicts) = verdicts else {
                self.report.records += records.len() as u64;
                self.report.orphans += told;
                return Ok(());
            };
            let mut standing = Vec::with_capacity(records.len());
            for (lost, why) in records.into_iter().zip(verdicts) {
                match why {
                    None => standing.push(lost),
                    Some(why) => {
                        self.tell(&lost, why, name, theirs)?;
                        told += 1;
                        orphans.push(lost);
                    }
                }
            }
            records = standing;
        }
        Ok(())
    }

    /// Appends and commits the message when all of its records stand; else says which do not, and why.
    fn try_message(
        &mut self,
        records: &[Lost],
        recovered: Recovered,
    ) -> Result<Option<Vec<Option<String>>>, RecoverError> {
        let raws = raws(records)?;
        let message = self.form(&raws, &recovered)?;
        let txn = self.begin()?;
        let applied = {
            let mut tables = Tables::open(&txn)?;
            crate::store::apply(self.machine, &mut tables, &message, Judging::Sound)?
        };
        let verdicts: Vec<Option<String>> = records
            .iter()
            .zip(&applied.records)
            .map(|(lost, outcome)| (!stands(lost, &outcome.verdict, &applied)).then(|| why(&outcome.verdict)))
            .collect();
        if verdicts.iter().any(Option::is_some) {
            txn.abort().map_err(StoreError::from)?;
            return Ok(Some(verdicts));
        }
        self.append(message)?;
        txn.commit().map_err(StoreError::from)?;
        Ok(None)
    }

    /// Appends a message without records.
    fn message(&mut self, raws: Vec<Box<RawValue>>, recovered: Recovered) -> Result<(), RecoverError> {
        let message = self.form(&raws, &recovered)?;
        let txn = self.begin()?;
        crate::store::apply(self.machine, &mut Tables::open(&txn)?, &message, Judging::Sound)?;
        self.append(message)?;
        Ok(txn.commit().map_err(StoreError::from)?)
    }

    /// The time at which the log will take it is not known yet; of a recovered message nothing depends on it.
    fn form(&self, raws: &[Box<RawValue>], recovered: &Recovered) -> Result<LogMessage, StoreError> {
        let number = self.report.messages + 1;
        let bytes = Batch::encode_recovered(&self.writer, number, raws, recovered).map_err(damaged)?;
        Ok(LogMessage { seq: self.report.last_seq + 1, time_ns: 0, bytes: Bytes::from(bytes) })
    }

    fn begin(&self) -> Result<redb::WriteTransaction, StoreError> {
        self.scratch.begin(self.report.messages.is_multiple_of(u64::from(limits::STORE_SOFT_COMMITS_MAX)))
    }

    fn append(&mut self, message: LogMessage) -> Result<(), RecoverError> {
        if !self.options.dry_run {
            self.log.append(self.report.last_seq, message.bytes)?;
        }
        self.report.last_seq += 1;
        self.report.messages += 1;
        Ok(())
    }

    fn tell(&mut self, lost: &Lost, why: String, name: &str, theirs: &Snapshot) -> Result<(), StoreError> {
        let Some(hear) = &mut self.options.orphan else { return Ok(()) };
        let (past, header) = (lost.past()?, &lost.header);
        let entity = EntityKey::new(&header.kind, &header.key);
        let record: Value = serde_json::from_slice(past.raw).map_err(damaged)?;
        let first = match theirs.past(&entity, 1)? {
            Some(row) => Some(serde_json::from_slice(PastRow::read(&row)?.raw).map_err(damaged)?),
            // One that stopped its entity stands in no history.
            None => (header.n == 1).then(|| record.clone()),
        };
        hear(Orphan {
            n: header.n,
            record_id: header.id.clone(),
            hash: lost.hash,
            at: header.at,
            writer: header.writer.clone(),
            cause: header.cause.clone(),
            log_time: past.log_time,
            seq: past.place.seq,
            store: name.to_owned(),
            why,
            record,
            first,
            entity,
        });
        Ok(())
    }
}

/// A record that once stopped its entity stands when it stops it again.
fn stands<F>(lost: &Lost, verdict: &Verdict, applied: &Applied<F>) -> bool {
    let stops = || applied.stopped.iter().any(|(entity, _)| *entity == lost.header.entity());
    *verdict == Verdict::Effective || (lost.kept == Kept::Stopping && stops())
}

fn why(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Effective | Verdict::Copy => "it stands already".to_owned(),
        Verdict::Void(VoidReason::Superseded { expected_n }) => {
            format!("its entity has gone another way: record {expected_n} was due")
        }
        Verdict::Void(VoidReason::StaleRead { entity }) => {
            format!("{entity}, on which it depends, has gone another way")
        }
        Verdict::Void(VoidReason::Claimed { name, by }) => format!("{by} holds {name}"),
    }
}

fn raws(records: &[Lost]) -> Result<Vec<Box<RawValue>>, StoreError> {
    records.iter().map(|lost| serde_json::from_slice(lost.past()?.raw).map_err(damaged)).collect()
}
