//! What the log says, folded by the kernel's own judge into a plain model in memory; every store must say the same.
//!
//! The model remembers what it was at each sequence, so that a store that lags or fell back is compared with what
//! the log said up to there.

use std::collections::{BTreeMap, BTreeSet};

use aip_kernel::{
    Appended, EffectId, EffectMode, EntityKey, Hash, Heads, Holder, Machine, Memory, Millis, Record, Verdict,
    View, VoidReason, WriterId,
};
use aip_ledger::{Batch, LogMessage};

use crate::subject::{EffectOf, StateOf};
use crate::{Evidence, Invariant, Sight, Subject, Violation};

/// An entity as it stood from `seq` on.
#[derive(Debug)]
pub struct Stood<T> {
    pub seq: u64,
    pub n: u64,
    pub head: Hash,
    pub state: T,
}

/// What something was from each sequence on.
type Noted<T> = Vec<(u64, Option<T>)>;

/// An effect from the record that implied it to the record that ended it.
#[derive(Debug)]
pub struct Fate<F> {
    pub effect: F,
    pub mode: EffectMode,
    pub writer: WriterId,
    /// The writer's number of the message that brought the record.
    pub batch: u64,
    /// Hash of the record, which tells it from one of the same name beside this log.
    pub record: Hash,
    pub since: u64,
    pub gone: Option<u64>,
    /// Its entity came to an end, so it need not have been performed.
    pub ended: bool,
}

/// Where a record stands in the log.
#[derive(Clone, Copy, Debug)]
struct At {
    seq: u64,
    batch: u64,
}

/// What one message meant.
#[derive(Debug, Default)]
pub struct Meant {
    /// Entities with a new record, in order.
    pub changed: Vec<EntityKey>,
    pub log_time: Millis,
    pub sights: Vec<Sight>,
}

#[derive(Debug)]
pub struct Oracle<S: Subject> {
    memory: Memory<S::M>,
    writers: BTreeMap<String, u64>,
    meant: Vec<Meant>,
    entities: BTreeMap<EntityKey, Vec<Stood<StateOf<S>>>>,
    pub stopped: BTreeMap<EntityKey, u64>,
    claims: BTreeMap<String, Noted<Holder>>,
    /// When a timer is due, and a replica that set it so.
    timers: BTreeMap<(EntityKey, String), Noted<(Millis, String)>>,
    pub effects: BTreeMap<EffectId, Fate<EffectOf<S>>>,
    causes: BTreeMap<Evidence, u64>,
}

// === impl Oracle ===

impl<S: Subject> Oracle<S> {
    pub fn new(subject: &S) -> Oracle<S> {
        Oracle {
            memory: Memory::new(subject.machine()),
            writers: BTreeMap::new(),
            meant: Vec::new(),
            entities: BTreeMap::new(),
            stopped: BTreeMap::new(),
            claims: BTreeMap::new(),
            timers: BTreeMap::new(),
            effects: BTreeMap::new(),
            causes: BTreeMap::new(),
        }
    }

    /// Folds the next message of the log.
    pub fn learn(&mut self, subject: &S, message: &LogMessage) -> Result<&Meant, Violation> {
        let batch = Batch::decode(&message.bytes).map_err(|error| {
            Violation::new(Invariant::Judged, format!("message {}: {error}", message.seq))
        })?;
        let time = batch.recovered.as_ref().map_or(message.time_ms(), |lost| lost.log_time);
        let log_time = self.log_time_at(message.seq.saturating_sub(1)).max(time);
        let mut meant = Meant { log_time, ..Meant::default() };
        let last = self.writers.entry(batch.writer.to_string()).or_default();
        if batch.number <= *last {
            meant.sights.push(Sight::BatchCopy);
        } else {
            *last = batch.number;
            if batch.records.len() > 1 {
                meant.sights.push(Sight::ManyRecordsInOneMessage);
            }
            for encoded in &batch.records {
                let record = serde_json::from_str(encoded.raw.get());
                let record: Record<<S::M as Machine>::Event> = record.map_err(|error| {
                    Violation::new(Invariant::Judged, format!("message {}: {error}", message.seq))
                })?;
                let at = At { seq: message.seq, batch: batch.number };
                self.record(subject, at, record, encoded.hash, &mut meant)?;
            }
        }
        self.meant.push(meant);
        Ok(&self.meant[self.meant.len() - 1])
    }

    fn record(
        &mut self,
        subject: &S,
        at: At,
        record: Record<<S::M as Machine>::Event>,
        hash: Hash,
        meant: &mut Meant,
    ) -> Result<(), Violation> {
        let seq = at.seq;
        let entity = record.header.entity();
        if self.stopped.contains_key(&entity) {
            return Ok(());
        }
        let claims = record.header.claims.clone();
        let holders: Vec<Option<Holder>> = claims.iter().map(|claim| self.holder(&claim.name)).collect();
        let (writer, cause) = (record.header.writer.clone(), record.header.cause.clone());
        match self.memory.append(record, meant.log_time) {
            Err(_) => {
                meant.sights.push(Sight::EntityStopped);
                self.stopped.insert(entity, seq);
            }
            Ok(Appended::Void(verdict)) => meant.sights.push(match verdict {
                Verdict::Effective | Verdict::Copy | Verdict::Void(VoidReason::Superseded { .. }) => {
                    Sight::RecordSuperseded
                }
                Verdict::Void(VoidReason::StaleRead { .. }) => Sight::RecordStaleRead,
                Verdict::Void(VoidReason::Claimed { .. }) => Sight::RecordClaimed,
            }),
            Ok(Appended::Effective(written)) => {
                if written != hash {
                    let detail = format!("record of {entity} in message {seq} reads back as another");
                    return Err(Violation::new(Invariant::Judged, detail));
                }
                meant.sights.push(Sight::RecordEffective);
                for (claim, holder) in claims.iter().zip(holders) {
                    crate::invariants::claim_was_free(&claim.name, &entity, holder.as_ref(), meant.log_time)?;
                    if holder.is_some_and(|holder| holder.entity != entity) {
                        meant.sights.push(Sight::ClaimTakenAfterExpiry);
                    }
                    self.claims.entry(claim.name.clone()).or_default();
                }
                if let Some(cause) = cause {
                    self.causes.insert(Evidence { entity: entity.clone(), cause }, seq);
                }
                self.changed(subject, at, &entity, &writer, &mut meant.sights);
                meant.changed.push(entity);
            }
        }
        Ok(())
    }

    /// Notes what an effective record of `entity` has changed.
    fn changed(
        &mut self,
        subject: &S,
        At { seq, batch }: At,
        entity: &EntityKey,
        writer: &WriterId,
        sights: &mut Vec<Sight>,
    ) {
        let Ok(Some(now)) = self.memory.entity(entity) else { return };
        let ended = subject.ended(&now.state);
        let (head, n) = (now.head, now.n);
        self.entities.entry(entity.clone()).or_default().push(Stood { seq, n, head, state: now.state });
        for (name, stood) in &mut self.claims {
            let holder = match Heads::holder(&self.memory, name) {
                Ok(holder) => holder,
                Err(never) => match never {},
            };
            note(stood, seq, holder);
        }
        let mut by_other = false;
        let set = self.memory.timers().filter(|(key, _, _)| *key == entity);
        let set: BTreeMap<String, Millis> = set.map(|(_, name, due)| (name.to_owned(), due)).collect();
        for name in set.keys() {
            self.timers.entry((entity.clone(), name.clone())).or_default();
        }
        for ((key, name), stood) in &mut self.timers {
            if key == entity {
                let before = stood.last().and_then(|(_, timer)| timer.clone());
                let due = set.get(name).copied();
                if before.as_ref().map(|(due, _)| *due) != due {
                    by_other |= due.is_none() && before.is_some_and(|(_, setter)| setter != writer.replica.0);
                    stood.push((seq, due.map(|due| (due, writer.replica.0.clone()))));
                }
            }
        }
        if by_other {
            sights.push(Sight::TimerEndedByOther);
        }
        let pending: BTreeSet<&EffectId> =
            self.memory.effects().map(|(id, _, _)| id).filter(|id| id.entity == *entity).collect();
        for (id, fate) in &mut self.effects {
            if id.entity == *entity && fate.gone.is_none() && !pending.contains(id) {
                fate.gone = Some(seq);
                fate.ended = ended;
            }
        }
        for (id, effect, mode) in self.memory.effects() {
            if id.entity == *entity && id.n == n {
                let (effect, writer) = (effect.clone(), writer.clone());
                let record = head;
                let fate = Fate { effect, mode, writer, batch, record, since: seq, gone: None, ended: false };
                self.effects.insert(id.clone(), fate);
            }
        }
    }

    fn holder(&self, claim: &str) -> Option<Holder> {
        match Heads::holder(&self.memory, claim) {
            Ok(holder) => holder,
            Err(never) => match never {},
        }
    }

    /// How many messages were folded.
    pub fn last(&self) -> u64 {
        self.meant.len() as u64
    }

    pub fn meant(&self, seq: u64) -> Option<&Meant> {
        let index = usize::try_from(seq.checked_sub(1)?).ok()?;
        self.meant.get(index)
    }

    pub fn log_time_at(&self, seq: u64) -> Millis {
        self.meant(seq).map_or(0, |meant| meant.log_time)
    }

    /// Entities with records up to `seq`.
    pub fn entities_at(&self, seq: u64) -> impl Iterator<Item = (&EntityKey, &Stood<StateOf<S>>)> {
        self.entities.iter().filter_map(move |(key, stood)| Some((key, at(stood, seq)?)))
    }

    pub fn entity_at(&self, key: &EntityKey, seq: u64) -> Option<&Stood<StateOf<S>>> {
        at(self.entities.get(key)?, seq)
    }

    pub fn claims_at(&self, seq: u64) -> impl Iterator<Item = (&str, Option<&Holder>)> {
        self.claims.iter().map(move |(name, stood)| (name.as_str(), noted(stood, seq)))
    }

    pub fn timers_at(&self, seq: u64) -> impl Iterator<Item = (&EntityKey, &str, &(Millis, String))> {
        let timers = self.timers.iter();
        timers.filter_map(move |((key, name), stood)| Some((key, name.as_str(), noted(stood, seq)?)))
    }

    /// Effects that are pending at `seq`.
    pub fn effects_at(&self, seq: u64) -> impl Iterator<Item = (&EffectId, &Fate<EffectOf<S>>)> {
        let pending =
            move |fate: &Fate<EffectOf<S>>| fate.since <= seq && fate.gone.is_none_or(|gone| gone > seq);
        self.effects.iter().filter(move |(_, fate)| pending(fate))
    }

    /// The sequence at which this record became effective.
    pub fn find(&self, evidence: &Evidence) -> Option<u64> {
        self.causes.get(evidence).copied()
    }

    /// The state after the last message.
    pub fn memory(&self) -> &Memory<S::M> {
        &self.memory
    }
}

fn note<T: PartialEq>(stood: &mut Noted<T>, seq: u64, now: Option<T>) {
    if stood.last().map(|(_, before)| before) != Some(&now) {
        stood.push((seq, now));
    }
}

fn noted<T>(stood: &[(u64, Option<T>)], seq: u64) -> Option<&T> {
    let before = stood.partition_point(|(since, _)| *since <= seq);
    stood.get(before.checked_sub(1)?)?.1.as_ref()
}

fn at<T>(stood: &[Stood<T>], seq: u64) -> Option<&Stood<T>> {
    let before = stood.partition_point(|stood| stood.seq <= seq);
    stood.get(before.checked_sub(1)?)
}
