//! A ledger in memory, for tests: one machine, one view, records applied as soon as they are decided.
//!
//! It judges and folds by the same rules as the road, but has no log, no replicas and no faults: what a machine says
//! is tested here, how its records travel is not.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::{
    Applying, Bug, Decision, Draft, EffectId, EffectMode, Entity, EntityKey, Facts, Fault, Hash, Header,
    Heads, Holder, IndexKey, LogPlace, Machine, Millis, Output, Past, Read, Record, Verdict, View, judge,
};

/// Committed state, and every effective record that led to it.
#[derive(Debug)]
pub struct Memory<M: Machine> {
    machine: M,
    log: Vec<(Record<M::Event>, Millis)>,
    log_time: Millis,
    entities: BTreeMap<EntityKey, Entity<M::State>>,
    history: BTreeMap<EntityKey, Vec<Past<M::Event>>>,
    claims: BTreeMap<String, Holder>,
    index: BTreeSet<(IndexKey, EntityKey)>,
    effects: BTreeMap<EffectId, (M::Effect, EffectMode)>,
    timers: BTreeMap<(EntityKey, String), Millis>,
}

/// What became of a draft.
#[derive(Debug)]
pub enum Appended {
    Effective(Hash),
    Void(Verdict),
}

/// Why a command came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error(transparent)]
    Bug(#[from] Bug),
    #[error("the record came back void: {0:?}")]
    Void(Verdict),
}

// === impl Memory ===

impl<M: Machine> Memory<M> {
    pub fn new(machine: M) -> Memory<M> {
        Memory {
            machine,
            log: Vec::new(),
            log_time: 0,
            entities: BTreeMap::new(),
            history: BTreeMap::new(),
            claims: BTreeMap::new(),
            index: BTreeSet::new(),
            effects: BTreeMap::new(),
            timers: BTreeMap::new(),
        }
    }

    /// Decides a command and applies its record at once, at the log time `facts.now`.
    ///
    /// # Errors
    /// What the machine reports, or that its own record would be void.
    pub fn decide(&mut self, command: &M::Command, facts: &Facts) -> Result<M::Answer, MemoryError> {
        match self.machine.decide(self, command, facts)? {
            Decision::Answer(answer) => Ok(answer),
            Decision::Append { draft, answer } => {
                let record = self.record(draft, facts);
                match self.append(record, facts.now)? {
                    Appended::Effective(_) => Ok(answer),
                    Appended::Void(verdict) => Err(MemoryError::Void(verdict)),
                }
            }
        }
    }

    /// The record that a draft becomes when it is written on the state that stands now.
    pub fn record(&self, draft: Draft<M::Event>, facts: &Facts) -> Record<M::Event> {
        let (n, prev) =
            self.entities.get(&draft.entity).map_or((0, Hash::ZERO), |entity| (entity.n, entity.head));
        let reads = draft.reads.into_iter().map(|(entity, n)| Read { kind: entity.kind, key: entity.id, n });
        let header = Header {
            v: M::VERSION,
            id: facts.id("rec_"),
            kind: draft.entity.kind,
            key: draft.entity.id,
            n: n + 1,
            prev,
            at: facts.now,
            writer: facts.writer.clone(),
            cause: draft.cause,
            reads: reads.collect(),
            claims: draft.claims,
        };
        Record { header, events: draft.events }
    }

    /// Judges a record and, when it is effective, applies it.
    ///
    /// # Errors
    /// The machine can't apply it, which the road would stop the entity for.
    pub fn append(&mut self, record: Record<M::Event>, at: Millis) -> Result<Appended, Bug> {
        let bytes = serde_json::to_vec(&record).map_err(|error| Bug(error.to_string()))?;
        let hash = Hash::of(&bytes);
        self.log_time = self.log_time.max(at);
        let verdict = match judge(&record.header, &hash, self, self.log_time) {
            Ok(verdict) => verdict,
            Err(never) => match never {},
        };
        if verdict != Verdict::Effective {
            return Ok(Appended::Void(verdict));
        }
        let entity = record.header.entity();
        let mut state = self.entities.get(&entity).map(|entity| entity.state.clone());
        let mut applying = Applying::new(
            &record.header,
            self.log_time,
            LogPlace { message: self.log.len() as u64 + 1, record: 0 },
        );
        for event in &record.events {
            state = Some(self.machine.apply(state, event, &mut applying)?);
        }
        let state = state.ok_or_else(|| Bug("a record without events".to_owned()))?;
        let outputs = applying.into_outputs();
        for claim in &record.header.claims {
            let holder = Holder { entity: entity.clone(), until: claim.until };
            self.claims.insert(claim.name.clone(), holder);
        }
        self.entities.insert(entity.clone(), Entity { state, n: record.header.n, head: hash });
        for output in outputs {
            self.output(&entity, output);
        }
        self.history.entry(entity).or_default().push((record.clone(), hash, self.log_time));
        self.log.push((record, self.log_time));
        Ok(Appended::Effective(hash))
    }

    fn output(&mut self, entity: &EntityKey, output: Output<M::Effect>) {
        match output {
            Output::Effect { id, effect, mode } => {
                self.effects.insert(id, (effect, mode));
            }
            Output::EffectDone(id) => {
                self.effects.remove(&id);
            }
            Output::EffectsEnd => self.effects.retain(|id, _| id.entity != *entity),
            Output::Timer { name, due } => {
                self.timers.insert((entity.clone(), name), due);
            }
            Output::TimerDone { name } => {
                self.timers.remove(&(entity.clone(), name));
            }
            Output::Index(row) => {
                self.index.insert((row, entity.clone()));
            }
            Output::Unindex(row) => {
                self.index.remove(&(row, entity.clone()));
            }
            Output::Release { claim } => {
                if self.claims.get(&claim).is_some_and(|holder| holder.entity == *entity) {
                    self.claims.remove(&claim);
                }
            }
        }
    }

    /// The same log, applied again from its first record by `machine`.
    ///
    /// # Errors
    /// The machine can't apply a record.
    pub fn replay(&self, machine: M) -> Result<Memory<M>, Bug> {
        let mut again = Memory::new(machine);
        for (record, at) in &self.log {
            again.append(record.clone(), *at)?;
        }
        Ok(again)
    }

    /// True when both hold the same state and rows.
    pub fn same(&self, other: &Memory<M>) -> bool {
        let states = |memory: &Memory<M>| -> Vec<(EntityKey, M::State, u64, Hash)> {
            let entities = memory.entities.iter();
            entities.map(|(key, entity)| (key.clone(), entity.state.clone(), entity.n, entity.head)).collect()
        };
        states(self) == states(other)
            && self.claims == other.claims
            && self.index == other.index
            && self.effects == other.effects
            && self.timers == other.timers
            && self.log_time == other.log_time
    }

    pub fn effects(&self) -> impl Iterator<Item = (&EffectId, &M::Effect, EffectMode)> {
        self.effects.iter().map(|(id, (effect, mode))| (id, effect, *mode))
    }

    /// Timers with the time at which they are due.
    pub fn timers(&self) -> impl Iterator<Item = (&EntityKey, &str, Millis)> {
        self.timers.iter().map(|((entity, name), due)| (entity, name.as_str(), *due))
    }

    pub fn log(&self) -> &[(Record<M::Event>, Millis)] {
        &self.log
    }
}

impl<M: Machine> Heads for Memory<M> {
    type Error = std::convert::Infallible;

    fn head(&self, entity: &EntityKey) -> Result<Option<(u64, Hash)>, Self::Error> {
        Ok(self.entities.get(entity).map(|entity| (entity.n, entity.head)))
    }

    fn hash_at(&self, entity: &EntityKey, n: u64) -> Result<Option<Hash>, Self::Error> {
        let past = self.history.get(entity).into_iter().flatten();
        Ok(past.filter(|(record, _, _)| record.header.n == n).map(|(_, hash, _)| *hash).next())
    }

    fn holder(&self, claim: &str) -> Result<Option<Holder>, Self::Error> {
        Ok(self.claims.get(claim).cloned())
    }
}

impl<M: Machine> View<M> for Memory<M> {
    fn entity(&self, key: &EntityKey) -> Result<Option<Entity<M::State>>, Fault> {
        Ok(self.entities.get(key).cloned())
    }

    fn claim(&self, claim: &str) -> Result<Option<Holder>, Fault> {
        Ok(self.claims.get(claim).filter(|holder| holder.holds_at(self.log_time)).cloned())
    }

    fn scan(
        &self,
        index: &str,
        from: Bound<&str>,
        to: Bound<&str>,
        limit: usize,
    ) -> Result<Vec<(IndexKey, EntityKey)>, Fault> {
        let within = |row: &&(IndexKey, EntityKey)| {
            let sort = row.0.sort.as_str();
            row.0.index == index
                && match from {
                    Bound::Included(from) => sort >= from,
                    Bound::Excluded(from) => sort > from,
                    Bound::Unbounded => true,
                }
                && match to {
                    Bound::Included(to) => sort <= to,
                    Bound::Excluded(to) => sort < to,
                    Bound::Unbounded => true,
                }
        };
        Ok(self.index.iter().filter(within).take(limit).cloned().collect())
    }

    fn history(&self, key: &EntityKey, from: u64, limit: usize) -> Result<Vec<Past<M::Event>>, Fault> {
        let past = self.history.get(key).into_iter().flatten();
        Ok(past.filter(|(record, _, _)| record.header.n >= from).take(limit).cloned().collect())
    }

    fn log_time(&self) -> Millis {
        self.log_time
    }
}
