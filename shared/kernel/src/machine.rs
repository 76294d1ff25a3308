//! What a service must say of itself to travel the road: commands, events, states, effects, and two pure functions.

use std::fmt::Debug;
use std::ops::Bound;

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::{Applying, Claim, EffectId, EntityKey, Facts, Hash, Holder, IndexKey, Millis};

/// A deterministic state machine. Every replica of a service applies the same events in the same order.
pub trait Machine: Sized + Debug + Send + Sync + 'static {
    /// The version written into new records. Older versions must still be applied as they were meant.
    const VERSION: u32;

    type Command: Debug + Send + 'static;
    type Answer: Debug + Send + 'static;
    type Event: Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static;
    type State: Serialize + DeserializeOwned + Clone + PartialEq + Debug + Send + Sync + 'static;
    type Effect: Serialize + DeserializeOwned + Clone + PartialEq + Debug + Send + Sync + 'static;

    /// Decides one command on the state that `view` shows. Called again, with a newer view, when the record it
    /// drafted came back void; it must not keep anything between calls.
    fn decide(
        &self,
        view: &dyn View<Self>,
        command: &Self::Command,
        facts: &Facts,
    ) -> Result<Decision<Self>, Fault>;

    /// Folds one effective event into its entity's state. Reads nothing but its arguments.
    fn apply(
        &self,
        state: Option<Self::State>,
        event: &Self::Event,
        applying: &mut Applying<'_, Self>,
    ) -> Result<Self::State, Bug>;

    /// The command that a due timer stands for.
    fn on_timer(&self, entity: &EntityKey, name: &str) -> Self::Command;

    /// How long an effect that was not done rests before it is performed again, if not for the usual time: what waits
    /// for something outside need not be tried often.
    fn rest_ms(&self, _effect: &Self::Effect) -> Option<Millis> {
        None
    }

    /// The command for an effect of mode `Once` whose performer is known to be gone: a process of this replica that
    /// ended before it recorded an outcome. What was done is not known.
    fn on_abandoned(&self, id: &EffectId, effect: &Self::Effect) -> Self::Command;
}

/// An entity as committed: its state and the head of its records.
#[derive(Clone, PartialEq, Debug)]
pub struct Entity<S> {
    pub state: S,
    pub n: u64,
    pub head: Hash,
}

/// The committed state, as decisions and queries may see it.
pub trait View<M: Machine> {
    fn entity(&self, key: &EntityKey) -> Result<Option<Entity<M::State>>, Fault>;

    /// Who holds `claim` now; an expired claim is held by nobody.
    fn claim(&self, claim: &str) -> Result<Option<Holder>, Fault>;

    /// Entities of `index` between two sort keys, in order, at most `limit`.
    fn scan(
        &self,
        index: &str,
        from: Bound<&str>,
        to: Bound<&str>,
        limit: usize,
    ) -> Result<Vec<(IndexKey, EntityKey)>, Fault>;

    /// The entity's effective records from number `from` on, at most `limit`, each with its log time.
    fn history(&self, key: &EntityKey, from: u64, limit: usize) -> Result<Vec<Past<M::Event>>, Fault>;

    fn log_time(&self) -> Millis;
}

/// A record of an entity's past, with its hash and the log time at which it was applied.
pub type Past<E> = (crate::Record<E>, Hash, Millis);

/// What `decide` says.
#[derive(Debug)]
pub enum Decision<M: Machine> {
    /// Append this; when it came back effective, give `answer`.
    Append { draft: Draft<M::Event>, answer: M::Answer },
    /// Nothing to record.
    Answer(M::Answer),
}

/// A record to be: the road adds number, hash of the one before, writer and time.
#[derive(Clone, PartialEq, Debug)]
pub struct Draft<E> {
    pub entity: EntityKey,
    pub cause: Option<String>,
    /// Other entities that must not change before this record takes its place.
    pub reads: Vec<(EntityKey, u64)>,
    pub claims: Vec<Claim>,
    pub events: Vec<E>,
}

// === impl Draft ===

impl<E> Draft<E> {
    pub fn new(entity: EntityKey, events: Vec<E>) -> Draft<E> {
        Draft { entity, cause: None, reads: Vec::new(), claims: Vec::new(), events }
    }

    #[must_use]
    pub fn cause(mut self, cause: impl Into<String>) -> Draft<E> {
        self.cause = Some(cause.into());
        self
    }

    #[must_use]
    pub fn reads(mut self, entity: EntityKey, n: u64) -> Draft<E> {
        self.reads.push((entity, n));
        self
    }

    #[must_use]
    pub fn claims(mut self, name: impl Into<String>, until: Option<Millis>) -> Draft<E> {
        self.claims.push(Claim { name: name.into(), until });
        self
    }
}

/// Something is down or broken beneath the machine: nothing was decided and nothing is lost.
#[derive(Debug, Error)]
#[error("the store could not answer: {0}")]
pub struct Fault(pub String);

/// An invariant broke: an effective record that its machine can't apply. The entity is stopped, the evidence kept.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[error("{0}")]
pub struct Bug(pub String);
