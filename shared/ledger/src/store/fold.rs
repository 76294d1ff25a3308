//! Applies one message of the log: judges each record and writes what it implies. The same on every replica.

use redb::ReadableTable;

use aip_kernel::{
    Applying, EffectId, EffectMode, EntityKey, Hash, Header, Heads, Holder, LogPlace, Machine, Millis,
    Output, Record, Verdict, VoidReason, WriterId, judge,
};

use super::past::{PastRow, Place};
use super::view::{holder, split_entity};
use super::{PendingEffect, Position, StoreError, Tables, damaged, read_u64, write_position};
use crate::LogMessage;
use crate::batch::{Batch, Encoded};

/// What became of one record.
#[derive(Debug)]
pub struct RecordOutcome {
    pub id: String,
    pub entity: EntityKey,
    pub verdict: Verdict,
}

#[derive(Debug)]
pub struct NewEffect<F> {
    pub id: EffectId,
    pub effect: F,
    pub mode: EffectMode,
    pub writer: WriterId,
}

/// What one message changed.
#[derive(Debug)]
pub struct Applied<F> {
    pub writer: WriterId,
    pub batch: u64,
    pub records: Vec<RecordOutcome>,
    pub effects: Vec<NewEffect<F>>,
    pub effects_gone: Vec<EffectId>,
    /// Entities stopped by a record that their machine could not apply (an alarm).
    pub stopped: Vec<(EntityKey, String)>,
}

/// How a store applies messages. The variants besides `Sound` are broken on purpose, for the simulation to catch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Judging {
    #[default]
    Sound,
    #[cfg(feature = "broken")]
    NoVoidCheck,
}

/// Applies `message` and moves the position to it.
///
/// # Errors
/// `Log` when the message is not of this ledger's form: the replica can't go on beside it.
pub fn apply<M: Machine>(
    machine: &M,
    tables: &mut Tables<'_>,
    message: &LogMessage,
    judging: Judging,
) -> Result<Applied<M::Effect>, StoreError> {
    let log_error = |reason: String| StoreError::Log { seq: message.seq, reason };
    let batch = Batch::decode(&message.bytes).map_err(|error| log_error(error.to_string()))?;
    let recovered = batch.recovered.as_ref();
    let log_time = advance(tables, message, recovered.map_or(message.time_ms(), |lost| lost.log_time))?;
    expire_claims(tables, log_time)?;

    let mut applied = Applied {
        writer: batch.writer.clone(),
        batch: batch.number,
        records: Vec::new(),
        effects: Vec::new(),
        effects_gone: Vec::new(),
        stopped: Vec::new(),
    };
    let writer = batch.writer.to_string();
    let last = tables.writers.get(writer.as_str())?.map_or(0, |row| row.value());
    if batch.number <= last {
        return Ok(applied);
    }
    tables.writers.insert(writer.as_str(), batch.number)?;
    let places = (0..).map(|index| Place { seq: message.seq, index });
    for (place, encoded) in places.zip(&batch.records) {
        let record: Record<M::Event> =
            serde_json::from_str(encoded.raw.get()).map_err(|error| log_error(error.to_string()))?;
        if record.header.v > M::VERSION {
            let reason = format!("record of version {}, newer than this program", record.header.v);
            return Err(log_error(reason));
        }
        let mut verdict = verdict(&record.header, &encoded.hash, tables, log_time, judging)?;
        if verdict == Verdict::Effective {
            let mut fold = Fold { machine, tables, log_time, place, applied: &mut applied };
            if !fold.record(&record, encoded)? {
                verdict = Verdict::Void(VoidReason::Superseded { expected_n: record.header.n });
            }
        }
        let (id, entity) = (record.header.id.clone(), record.header.entity());
        applied.records.push(RecordOutcome { id, entity, verdict });
    }
    // Their places follow those of the records.
    let first = u32::try_from(batch.records.len()).map_err(damaged)?;
    let places = (first..).map(|index| Place { seq: message.seq, index });
    for (place, orphan) in places.zip(recovered.iter().flat_map(|lost| &lost.orphans)) {
        keep_orphan(tables, PastRow { log_time, place, raw: orphan.get().as_bytes() })?;
    }
    Ok(applied)
}

/// Evidence of a record that was effective once and could not be brought back.
fn keep_orphan(tables: &mut Tables<'_>, past: PastRow<'_>) -> Result<(), StoreError> {
    let reason =
        |error: serde_json::Error| StoreError::Log { seq: past.place.seq, reason: error.to_string() };
    let header: Header = serde_json::from_slice(past.raw).map_err(reason)?;
    let key = (header.kind.as_str(), header.key.as_str(), header.n, past.hash().0);
    tables.orphans.insert(key, past.write().as_slice())?;
    Ok(())
}

fn verdict(
    header: &Header,
    hash: &Hash,
    tables: &Tables<'_>,
    log_time: Millis,
    judging: Judging,
) -> Result<Verdict, StoreError> {
    let verdict = judge(header, hash, tables, log_time)?;
    match judging {
        Judging::Sound => Ok(verdict),
        #[cfg(feature = "broken")]
        Judging::NoVoidCheck => Ok(Verdict::Effective),
    }
}

/// Moves position and log time to the message: log time never goes back, whatever the server's clock did.
fn advance(tables: &mut Tables<'_>, message: &LogMessage, time: Millis) -> Result<Millis, StoreError> {
    let position = Position { seq: message.seq, hash: message.hash() };
    tables.meta.insert("position", write_position(&position).as_slice())?;
    let before = match tables.meta.get("log_time")? {
        Some(row) => read_u64(row.value())?,
        None => 0,
    };
    let log_time = before.max(time);
    tables.meta.insert("log_time", log_time.to_be_bytes().as_slice())?;
    Ok(log_time)
}

/// Takes away some claims that have expired. The bound is per message, so that all replicas take the same ones.
fn expire_claims(tables: &mut Tables<'_>, log_time: Millis) -> Result<(), StoreError> {
    let mut expired = Vec::new();
    for row in tables
        .claim_expiry
        .range::<(u64, &str)>(..(log_time.saturating_add(1), ""))?
        .take(aip_names::limits::LEDGER_CLAIMS_EXPIRED_PER_MESSAGE_MAX)
    {
        let (key, _) = row?;
        let (until, name) = key.value();
        expired.push((until, name.to_owned()));
    }
    for (until, name) in expired {
        tables.claim_expiry.remove((until, name.as_str()))?;
        let held_until = tables.claims.get(name.as_str())?.map(|row| row.value().2);
        if held_until == Some(until) {
            tables.claims.remove(name.as_str())?;
        }
    }
    Ok(())
}

struct Fold<'a, 't, M: Machine> {
    machine: &'a M,
    tables: &'a mut Tables<'t>,
    log_time: Millis,
    place: Place,
    applied: &'a mut Applied<M::Effect>,
}

// === impl Fold ===

impl<M: Machine> Fold<'_, '_, M> {
    /// Whether the record was applied; it is not when its entity is stopped, or stops with it.
    fn record(&mut self, record: &Record<M::Event>, encoded: &Encoded) -> Result<bool, StoreError> {
        let header = &record.header;
        let (kind, id) = (header.kind.as_str(), header.key.as_str());
        if self.tables.stopped.get((kind, id))?.is_some() {
            return Ok(false);
        }
        let mut state = match self.tables.entities.get((kind, id))? {
            Some(row) => Some(serde_json::from_slice(split_entity(row.value())?.2).map_err(damaged)?),
            None => None,
        };
        let mut applying = Applying::<M>::new(
            header,
            self.log_time,
            LogPlace { message: self.place.seq, record: self.place.index },
        );
        for event in &record.events {
            match self.machine.apply(state.take(), event, &mut applying) {
                Ok(next) => state = Some(next),
                Err(bug) => return self.stop(header, encoded, &bug.0),
            }
        }
        let mut row = Vec::with_capacity(256);
        row.extend_from_slice(&header.n.to_be_bytes());
        row.extend_from_slice(&encoded.hash.0);
        match &state {
            Some(state) => serde_json::to_writer(&mut row, state).map_err(damaged)?,
            None => return self.stop(header, encoded, "a record without events"),
        }
        // From here on the record is applied: one that stops its entity takes no claims.
        for claim in &header.claims {
            self.claim(&claim.name, header, claim.until.unwrap_or(u64::MAX))?;
        }
        self.tables.entities.insert((kind, id), row.as_slice())?;
        self.tables.history.insert((kind, id, header.n), self.past(encoded).as_slice())?;
        for output in applying.into_outputs() {
            self.output(header, output)?;
        }
        Ok(true)
    }

    fn past(&self, encoded: &Encoded) -> Vec<u8> {
        let raw = encoded.raw.get().as_bytes();
        PastRow { log_time: self.log_time, place: self.place, raw }.write()
    }

    /// An invariant broke: this entity goes no further, on any replica; the record is kept as evidence.
    fn stop(&mut self, header: &Header, encoded: &Encoded, why: &str) -> Result<bool, StoreError> {
        let past = self.past(encoded);
        self.tables.stopping.insert((header.kind.as_str(), header.key.as_str()), past.as_slice())?;
        self.tables.stopped.insert((header.kind.as_str(), header.key.as_str()), why)?;
        self.applied.stopped.push((header.entity(), why.to_owned()));
        Ok(false)
    }

    fn claim(&mut self, name: &str, header: &Header, until: u64) -> Result<(), StoreError> {
        let before = self.tables.claims.insert(name, (header.kind.as_str(), header.key.as_str(), until))?;
        let before = before.map(|row| row.value().2);
        if let Some(before) = before.filter(|before| *before != u64::MAX) {
            self.tables.claim_expiry.remove((before, name))?;
        }
        if until != u64::MAX {
            self.tables.claim_expiry.insert((until, name), ())?;
        }
        Ok(())
    }

    fn output(&mut self, header: &Header, output: Output<M::Effect>) -> Result<(), StoreError> {
        let (kind, key) = (header.kind.as_str(), header.key.as_str());
        match output {
            Output::Effect { id, effect, mode } => self.effect(header, id, effect, mode),
            Output::EffectDone(id) => self.effect_gone(id),
            Output::EffectsEnd => self.effects_end(kind, key),
            Output::Timer { name, due } => {
                self.timer_gone(kind, key, &name)?;
                let replica = header.writer.replica.0.as_str();
                self.tables.timers.insert((due, kind, key, name.as_str()), replica)?;
                self.tables.timer_of.insert((kind, key, name.as_str()), due)?;
                Ok(())
            }
            Output::TimerDone { name } => self.timer_gone(kind, key, &name),
            Output::Index(row) => {
                self.tables.index.insert((row.index.as_str(), row.sort.as_str(), kind, key), ())?;
                Ok(())
            }
            Output::Unindex(row) => {
                self.tables.index.remove((row.index.as_str(), row.sort.as_str(), kind, key))?;
                Ok(())
            }
            Output::Release { claim } => self.release(header, &claim),
        }
    }

    fn effect(
        &mut self,
        header: &Header,
        id: EffectId,
        effect: M::Effect,
        mode: EffectMode,
    ) -> Result<(), StoreError> {
        let writer = header.writer.clone();
        let pending = PendingEffect { effect, mode, writer };
        let row = serde_json::to_vec(&pending).map_err(damaged)?;
        let at = (id.entity.kind.as_str(), id.entity.id.as_str(), id.n, id.index);
        self.tables.effects.insert(at, row.as_slice())?;
        let PendingEffect { effect, mode, writer } = pending;
        self.applied.effects.push(NewEffect { id, effect, mode, writer });
        Ok(())
    }

    fn effect_gone(&mut self, id: EffectId) -> Result<(), StoreError> {
        self.tables.effects.remove((id.entity.kind.as_str(), id.entity.id.as_str(), id.n, id.index))?;
        self.applied.effects.retain(|effect| effect.id != id);
        self.applied.effects_gone.push(id);
        Ok(())
    }

    fn effects_end(&mut self, kind: &str, key: &str) -> Result<(), StoreError> {
        let mut gone = Vec::new();
        for row in self.tables.effects.range((kind, key, 0, 0)..=(kind, key, u64::MAX, u32::MAX))? {
            let (at, _) = row?;
            let (_, _, n, index) = at.value();
            gone.push(EffectId { entity: EntityKey::new(kind, key), n, index });
        }
        gone.into_iter().try_for_each(|id| self.effect_gone(id))
    }

    fn timer_gone(&mut self, kind: &str, key: &str, name: &str) -> Result<(), StoreError> {
        let due = self.tables.timer_of.remove((kind, key, name))?.map(|row| row.value());
        if let Some(due) = due {
            self.tables.timers.remove((due, kind, key, name))?;
        }
        Ok(())
    }

    fn release(&mut self, header: &Header, claim: &str) -> Result<(), StoreError> {
        let held = self.tables.claims.get(claim)?.map(|row| {
            let (kind, key, until) = row.value();
            (kind == header.kind && key == header.key, until)
        });
        if let Some((true, until)) = held {
            self.tables.claims.remove(claim)?;
            self.tables.claim_expiry.remove((until, claim))?;
        }
        Ok(())
    }
}

impl Heads for Tables<'_> {
    type Error = StoreError;

    fn head(&self, entity: &EntityKey) -> Result<Option<(u64, Hash)>, StoreError> {
        let Some(row) = self.entities.get((entity.kind.as_str(), entity.id.as_str()))? else {
            return Ok(None);
        };
        let (n, head, _) = split_entity(row.value())?;
        Ok(Some((n, head)))
    }

    fn hash_at(&self, entity: &EntityKey, n: u64) -> Result<Option<Hash>, StoreError> {
        let Some(row) = self.history.get((entity.kind.as_str(), entity.id.as_str(), n))? else {
            return Ok(None);
        };
        Ok(Some(PastRow::read(row.value())?.hash()))
    }

    fn holder(&self, claim: &str) -> Result<Option<Holder>, StoreError> {
        Ok(self.claims.get(claim)?.map(|row| holder(row.value())))
    }
}
