//! One replica of a service's ledger, without I/O: the road from a command to its answer.
//!
//! Inputs are what happened (a message of the log, an acknowledgement, a command, a tick), outputs are what is to be
//! done (append these bytes, perform this effect, give this answer). [`Replica::step`] takes some inputs, makes at
//! most one commit, and hands out outputs only after it: nobody hears of anything that is not committed, and every
//! await point of the shell lies between two steps. The shell in `drive` runs this on JetStream; the simulation
//! runs the same code on a log of its own.

mod barrier;
mod commands;
mod effects;
mod tail;
mod timers;
mod writer;

use std::sync::Arc;

use bytes::Bytes;

use aip_kernel::{EffectId, EntityKey, Machine, Millis, Verdict, WriterId};
use aip_names::limits;

use crate::store::{Judging, Snapshot, Store, StoreError, Tables};
use crate::{LedgerError, LogInfo, LogMessage, Readiness};

use barrier::{Barriers, Waiter};
use commands::Commands;
use effects::Effects;
use tail::Tail;
use timers::Timers;
use writer::Writer;

/// Names a waiting caller of the shell.
pub type Token = u64;

/// How a read learns how far it must wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BarrierMode {
    /// Ask a single server for the stream's last sequence.
    LastSequence,
    /// Append an empty message and wait for it: in a cluster stream information may come from a stale leader.
    Append,
}

/// The time as the shell knows it, at one step.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub wall_ms: Millis,
    /// Never goes back; counts within one process life.
    pub mono_ms: u64,
    /// Random bits for the ids of this step.
    pub entropy: u128,
}

/// What happened.
#[derive(Debug)]
pub enum Input<M: Machine> {
    Command {
        token: Token,
        command: M::Command,
    },
    Barrier {
        token: Token,
    },
    /// The tail was opened at the position that `Output::OpenTail` named, on this log.
    Opened(LogInfo),
    Message(LogMessage),
    /// The log acknowledged the append with this number.
    Appended {
        batch: u64,
        seq: u64,
    },
    /// Whether the append arrived is not known.
    AppendUnsure {
        batch: u64,
    },
    LastSequence {
        request: u64,
        seq: Option<u64>,
    },
    /// The performer is through with an effect: a command that records its outcome, or nothing yet.
    Performed {
        id: EffectId,
        outcome: Option<M::Command>,
    },
    /// The connection or the server changed: nothing counts until the position was checked again.
    Interrupted {
        reason: String,
    },
    Tick,
}

/// What is to be done.
#[derive(Debug)]
pub enum Output<M: Machine> {
    /// Open (again) a tail whose first message is the one at `from`.
    OpenTail {
        from: u64,
    },
    Append {
        batch: u64,
        bytes: Bytes,
    },
    AskLastSequence {
        request: u64,
    },
    Perform {
        id: EffectId,
        effect: M::Effect,
        /// It may have been performed before, by this process or by another: what does not come to pass now is not
        /// known to be undone.
        again: bool,
    },
    Answer {
        token: Token,
        answer: Result<M::Answer, LedgerError>,
    },
    BarrierPassed {
        token: Token,
        result: Result<(), LedgerError>,
    },
    /// These entities have new records; wake whoever waits for them.
    Changed(Vec<EntityKey>),
    Readiness(Readiness),
    /// An invariant broke: an entity was stopped.
    Alarm {
        entity: EntityKey,
        why: String,
    },
}

/// How the road runs. The variants besides `Sound` are broken on purpose, for the simulation to catch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Variant {
    #[default]
    Sound,
    #[cfg(feature = "broken")]
    AcknowledgeBeforeTail,
    #[cfg(feature = "broken")]
    NoVoidCheck,
    #[cfg(feature = "broken")]
    NoPositionCheck,
    #[cfg(feature = "broken")]
    EffectsBeforeCommit,
    #[cfg(feature = "broken")]
    ClaimsPassByTime,
    #[cfg(feature = "broken")]
    EffectsWithoutNotAfter,
    #[cfg(feature = "broken")]
    AnswersWithoutBarrier,
}

/// How much of the store is on disk.
#[derive(Debug, Default)]
struct Softness {
    soft_commits: u32,
    since_ms: Option<u64>,
}

pub struct Replica<M: Machine> {
    machine: M,
    store: Store,
    snapshot: Arc<Snapshot>,
    me: WriterId,
    variant: Variant,
    barrier_mode: BarrierMode,
    tail: Tail,
    writer: Writer,
    commands: Commands<M>,
    barriers: Barriers<M>,
    effects: Effects<M>,
    timers: Timers,
    softness: Softness,
}

// === impl Replica ===

impl<M: Machine> Replica<M> {
    pub fn new(
        machine: M,
        store: Store,
        me: WriterId,
        barrier_mode: BarrierMode,
        variant: Variant,
    ) -> Result<Replica<M>, StoreError> {
        let standing = store.standing()?;
        let snapshot = Arc::new(store.snapshot()?);
        Ok(Replica {
            machine,
            store,
            snapshot,
            writer: Writer::default(),
            me,
            variant,
            barrier_mode,
            tail: Tail::new(standing),
            commands: Commands::default(),
            barriers: Barriers::default(),
            effects: Effects::default(),
            timers: Timers::default(),
            softness: Softness::default(),
        })
    }

    /// The sequence at which the tail is to be opened.
    pub fn tail_from(&self) -> u64 {
        self.tail.position().seq.max(1)
    }

    /// The sequence that was applied last.
    pub fn position(&self) -> u64 {
        self.tail.position().seq
    }

    /// The store has never learned from a log: one may be made for it.
    pub fn is_fresh(&self) -> bool {
        self.tail.is_fresh()
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The same, for others to look at.
    pub fn shared_snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Nothing is waiting for the log or for a commit.
    pub fn is_idle(&self) -> bool {
        self.load() == 0 && self.writer.is_idle() && self.softness.since_ms.is_none()
    }

    /// Commands, records and reads that wait.
    pub fn load(&self) -> usize {
        self.commands.len() + self.barriers.len()
    }

    /// Takes what happened and says what is to be done.
    ///
    /// # Errors
    /// Only when the store failed: the process must end, for nothing can be kept any more.
    pub fn step(
        &mut self,
        now: Now,
        inputs: impl IntoIterator<Item = Input<M>>,
        out: &mut Vec<Output<M>>,
    ) -> Result<(), StoreError> {
        let mut messages = Vec::new();
        for input in inputs {
            self.take(now, input, &mut messages, out)?;
        }
        self.apply(now, messages, out)?;
        self.tail.watch(now, self.writer.promised(), self.barriers.promised(), out);
        if self.tail.is_ready() {
            self.fire_timers(now)?;
            self.adopt_effects(now, out)?;
            self.decide(now, out)?;
            self.ask_barriers(now, out);
            self.append(now, out)?;
        }
        self.commands.give_up(now, out);
        self.barriers.give_up(now, out);
        self.harden(now)
    }

    fn take(
        &mut self,
        now: Now,
        input: Input<M>,
        messages: &mut Vec<LogMessage>,
        out: &mut Vec<Output<M>>,
    ) -> Result<(), StoreError> {
        match input {
            Input::Command { token, command } => self.take_command(now, token, command, out),
            Input::Barrier { token } => self.barriers.enter(now, Waiter::Read(token)),
            Input::Opened(info) => {
                // What came before belongs to the tail that was open then.
                let earlier = std::mem::take(messages);
                self.apply(now, earlier, out)?;
                self.opened(now, info, out)?;
            }
            Input::Message(message) => messages.push(message),
            Input::Appended { batch, seq } => self.appended(now, batch, seq, out),
            Input::AppendUnsure { batch } => self.writer.unsure(now, batch),
            Input::LastSequence { request, seq } => {
                if !self.barriers.learned(request, seq) {
                    let reason = "the ledger is shorter than what was learned from it".to_owned();
                    self.tail.interrupted(now, reason, out);
                }
            }
            Input::Performed { id, outcome } => self.performed(now, id, outcome),
            Input::Interrupted { reason } => {
                self.writer.interrupted(now);
                self.barriers.interrupted();
                self.tail.interrupted(now, reason, out);
            }
            Input::Tick => {}
        }
        Ok(())
    }

    /// Applies messages in one commit, then says what that means for those who wait.
    fn apply(
        &mut self,
        now: Now,
        messages: Vec<LogMessage>,
        out: &mut Vec<Output<M>>,
    ) -> Result<(), StoreError> {
        let messages = self.tail.accept(now, messages, self.variant, out);
        if !messages.is_empty() {
            let hard = self.hard_commit_due(now);
            let txn = self.store.begin(hard)?;
            let mut all = Vec::with_capacity(messages.len());
            {
                let mut tables = Tables::open(&txn)?;
                for message in &messages {
                    match crate::store::apply(&self.machine, &mut tables, message, self.judging()) {
                        Ok(applied) => all.push(applied),
                        Err(StoreError::Log { seq, reason }) => {
                            // Not ours to skip: stand where the store stands, serve nothing, say why.
                            let reason = format!("message {seq} of the ledger can't be applied: {reason}");
                            self.tail.unreadable(self.store.standing()?, reason, out);
                            return Ok(());
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
            self.before_commit(now, &mut all, out);
            txn.commit()?;
            self.committed(now, hard);
            self.snapshot = Arc::new(self.store.snapshot()?);
            for applied in all {
                self.learn(now, applied, out);
            }
        }
        self.tail.caught_up(out);
        if self.tail.is_ready() {
            let passed = self.barriers.passed(self.tail.position().seq);
            self.barriers_passed(passed, out);
        }
        Ok(())
    }

    /// What one applied message means here: answers, effects, wake-ups.
    fn learn(&mut self, now: Now, applied: crate::store::Applied<M::Effect>, out: &mut Vec<Output<M>>) {
        let mut sent_ms = None;
        if applied.writer == self.me {
            sent_ms = self.writer.came_back(applied.batch);
            let passed = self.barriers.batch_back(applied.batch);
            self.barriers_passed(passed, out);
        }
        let mut changed = Vec::new();
        for record in applied.records {
            let verdict = match record.verdict {
                Verdict::Effective => "effective",
                Verdict::Copy => "copy",
                Verdict::Void(_) => "void",
            };
            metrics::counter!(aip_names::metrics::LEDGER_RECORDS, "verdict" => verdict).increment(1);
            if record.verdict == Verdict::Effective {
                changed.push(record.entity.clone());
            }
            self.resolve(now, record, out);
        }
        for id in applied.effects_gone {
            self.effects.gone(&id);
        }
        for effect in applied.effects {
            self.effect_learned(now, effect, sent_ms, out);
        }
        for (entity, why) in applied.stopped {
            out.push(Output::Alarm { entity, why });
        }
        if !changed.is_empty() {
            out.push(Output::Changed(changed));
        }
    }

    fn judging(&self) -> Judging {
        match self.variant {
            #[cfg(feature = "broken")]
            Variant::NoVoidCheck => Judging::NoVoidCheck,
            _ => Judging::Sound,
        }
    }

    /// Where a sound road does nothing; the broken one lets effects out too early.
    #[cfg_attr(not(feature = "broken"), expect(clippy::unused_self, clippy::ptr_arg, unused_variables))]
    fn before_commit(
        &mut self,
        now: Now,
        all: &mut [crate::store::Applied<M::Effect>],
        out: &mut Vec<Output<M>>,
    ) {
        #[cfg(feature = "broken")]
        if self.variant == Variant::EffectsBeforeCommit {
            for applied in all {
                for effect in std::mem::take(&mut applied.effects) {
                    self.effect_learned(now, effect, Some(now.mono_ms), out);
                }
            }
        }
    }

    fn hard_commit_due(&self, now: Now) -> bool {
        self.softness.soft_commits >= limits::STORE_SOFT_COMMITS_MAX
            || self
                .softness
                .since_ms
                .is_some_and(|since| now.mono_ms.saturating_sub(since) >= limits::STORE_SOFT_MS)
    }

    fn committed(&mut self, now: Now, hard: bool) {
        if hard {
            self.softness = Softness::default();
        } else {
            self.softness.soft_commits += 1;
            self.softness.since_ms.get_or_insert(now.mono_ms);
        }
    }

    /// Makes soft commits hard when it is time.
    fn harden(&mut self, now: Now) -> Result<(), StoreError> {
        if self.hard_commit_due(now) {
            self.harden_now()?;
        }
        Ok(())
    }

    /// Makes soft commits hard now, as at drain.
    pub fn harden_now(&mut self) -> Result<(), StoreError> {
        self.store.harden()?;
        self.softness = Softness::default();
        Ok(())
    }
}
