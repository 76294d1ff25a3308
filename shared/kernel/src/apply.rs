//! What an applied event leaves behind besides the new state: rows, as data.

use serde::{Deserialize, Serialize};

use crate::{EntityKey, Header, Machine, Millis};

/// Names an effect for ever: the record that implied it and its place there. Receivers drop a second copy by it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct EffectId {
    pub entity: EntityKey,
    pub n: u64,
    pub index: u32,
}

impl std::fmt::Display for EffectId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}#{}.{}", self.entity, self.n, self.index)
    }
}

/// How often an effect may be started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectMode {
    /// At least once, by the record's writer first and by any replica later. Its id makes a second time harmless.
    Repeatable,
    /// By the process that wrote the record, once in its life; the record is its claim, which passes to nobody.
    Once,
}

/// A row of an index: entities of index `index`, in the order of `sort`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct IndexKey {
    pub index: String,
    pub sort: String,
}

/// One row to write or to take away in the commit that applies the record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output<F> {
    Effect {
        id: EffectId,
        effect: F,
        mode: EffectMode,
    },
    EffectDone(EffectId),
    /// Takes away every pending effect of the entity: it has ended.
    EffectsEnd,
    Timer {
        name: String,
        due: Millis,
    },
    TimerDone {
        name: String,
    },
    Index(IndexKey),
    Unindex(IndexKey),
    Release {
        claim: String,
    },
}

/// Where a record stands in the log: the number of its message and its place in there. Log time alone does not tell
/// the records of one millisecond apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LogPlace {
    pub message: u64,
    pub record: u32,
}

/// The pen that `apply` writes rows with. `log_time` and `place` are the same on every replica; so is everything in
/// `header`.
#[derive(Debug)]
pub struct Applying<'a, M: Machine> {
    pub header: &'a Header,
    pub log_time: Millis,
    pub place: LogPlace,
    effects: u32,
    outputs: Vec<Output<M::Effect>>,
}

// === impl Applying ===

impl<'a, M: Machine> Applying<'a, M> {
    pub fn new(header: &'a Header, log_time: Millis, place: LogPlace) -> Applying<'a, M> {
        Applying { header, log_time, place, effects: 0, outputs: Vec::new() }
    }

    /// Something to be done in the world, once this record is committed.
    pub fn effect(&mut self, effect: M::Effect, mode: EffectMode) -> EffectId {
        let id = EffectId { entity: self.header.entity(), n: self.header.n, index: self.effects };
        self.effects += 1;
        self.outputs.push(Output::Effect { id: id.clone(), effect, mode });
        id
    }

    /// The effect has its outcome and is not performed again.
    pub fn effect_done(&mut self, id: EffectId) {
        self.outputs.push(Output::EffectDone(id));
    }

    /// The entity has ended: none of its effects is performed any more.
    pub fn effects_end(&mut self) {
        self.outputs.push(Output::EffectsEnd);
    }

    /// Sets the entity's timer `name`; a timer of that name that was set before is replaced.
    pub fn timer(&mut self, name: impl Into<String>, due: Millis) {
        self.outputs.push(Output::Timer { name: name.into(), due });
    }

    pub fn timer_done(&mut self, name: impl Into<String>) {
        self.outputs.push(Output::TimerDone { name: name.into() });
    }

    pub fn index(&mut self, index: impl Into<String>, sort: impl Into<String>) {
        self.outputs.push(Output::Index(IndexKey { index: index.into(), sort: sort.into() }));
    }

    pub fn unindex(&mut self, index: impl Into<String>, sort: impl Into<String>) {
        self.outputs.push(Output::Unindex(IndexKey { index: index.into(), sort: sort.into() }));
    }

    /// Gives up a claim that this entity holds.
    pub fn release(&mut self, claim: impl Into<String>) {
        self.outputs.push(Output::Release { claim: claim.into() });
    }

    pub fn into_outputs(self) -> Vec<Output<M::Effect>> {
        self.outputs
    }
}
