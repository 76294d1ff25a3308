//! Commands on their way: waiting to be decided, or for their record to come back.
//!
//! Two commands of one replica never draft for the same entity or claim at the same time: the later one waits until
//! the earlier one's record is through, then decides on what that left. Only replicas race, and the log arbitrates.

use std::collections::{BTreeMap, HashSet, VecDeque};

use aip_kernel::{Decision, Draft, EffectId, EntityKey, Facts, Header, Machine, Read, Record, Verdict};
use aip_names::limits;

use super::barrier::Waiter;
use super::{Now, Output, Replica, Token};
use crate::LedgerError;
use crate::batch::Encoded;
use crate::store::{RecordOutcome, StoreError};

/// Who hears of the outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    Caller(Token),
    Timer {
        entity: EntityKey,
        name: String,
    },
    Effect(EffectId),
    /// The caller was told that the outcome is unknown: it is not decided anew behind its back.
    GaveUp,
}

// === impl Origin ===

impl Origin {
    /// What was done in the world must reach the log: giving up would do it again, or lose what came of it.
    fn must_be_recorded(&self) -> bool {
        matches!(self, Origin::Effect(_))
    }
}

#[derive(Debug)]
pub struct Pending<M: Machine> {
    origin: Origin,
    command: M::Command,
    tries: u32,
    since_ms: u64,
    /// The view holds all that was acknowledged before the command came.
    current: bool,
}

// === impl Pending ===

impl<M: Machine> Pending<M> {
    /// The caller who waits.
    pub fn caller(&self) -> Option<Token> {
        match self.origin {
            Origin::Caller(token) => Some(token),
            _ => None,
        }
    }
}

/// A drafted record that has not come back yet.
#[derive(Debug)]
struct Expected<M: Machine> {
    pending: Pending<M>,
    answer: Option<M::Answer>,
    holds: Vec<Busy>,
    #[cfg_attr(not(feature = "broken"), expect(dead_code))]
    batch: u64,
}

/// What a drafted record is about to change.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Busy {
    Entity(EntityKey),
    Claim(String),
}

#[derive(Debug)]
pub struct Commands<M: Machine> {
    queue: VecDeque<Pending<M>>,
    /// In an order of its own, so that the same inputs give the same outputs.
    expected: BTreeMap<String, Expected<M>>,
    busy: HashSet<Busy>,
    parked: BTreeMap<Busy, VecDeque<Pending<M>>>,
    parked_len: usize,
    swept_at_ms: u64,
}

impl<M: Machine> Default for Commands<M> {
    fn default() -> Commands<M> {
        Commands {
            queue: VecDeque::new(),
            expected: BTreeMap::new(),
            busy: HashSet::new(),
            parked: BTreeMap::new(),
            parked_len: 0,
            swept_at_ms: 0,
        }
    }
}

// === impl Commands ===

impl<M: Machine> Commands<M> {
    pub fn len(&self) -> usize {
        self.queue.len() + self.expected.len() + self.parked_len
    }

    pub fn push(&mut self, now: Now, origin: Origin, command: M::Command) {
        self.queue.push_back(Pending { origin, command, tries: 0, since_ms: now.mono_ms, current: false });
    }

    /// The barrier has passed: what is decided next is decided on the log as it stood when the command came.
    pub fn decide_again(&mut self, pending: Pending<M>) {
        self.queue.push_back(Pending { current: true, ..pending });
    }

    fn park(&mut self, on: Busy, pending: Pending<M>) {
        self.parked_len += 1;
        self.parked.entry(on).or_default().push_back(pending);
    }

    /// The record that held these names is through: who waited for them decides next.
    fn release(&mut self, holds: Vec<Busy>) {
        for hold in holds {
            self.busy.remove(&hold);
            if let Some(waiting) = self.parked.remove(&hold) {
                self.parked_len -= waiting.len();
                for pending in waiting.into_iter().rev() {
                    self.queue.push_front(pending);
                }
            }
        }
    }

    /// Tells callers who have waited too long. What was not published is simply not done; of what was, the outcome
    /// is unknown to them.
    pub fn give_up(&mut self, now: Now, out: &mut Vec<Output<M>>) {
        if now.mono_ms < self.swept_at_ms + limits::LEDGER_SWEEP_MS {
            return;
        }
        self.swept_at_ms = now.mono_ms;
        let late =
            |pending: &Pending<M>| now.mono_ms.saturating_sub(pending.since_ms) >= limits::LEDGER_PATIENCE_MS;
        let mut refuse = |pending: &Pending<M>| {
            let Origin::Caller(token) = pending.origin else { return true };
            if late(pending) {
                let reason = "no record could be written in time".to_owned();
                out.push(Output::Answer { token, answer: Err(LedgerError::NotReady { reason }) });
            }
            !late(pending)
        };
        self.queue.retain(&mut refuse);
        for waiting in self.parked.values_mut() {
            waiting.retain(&mut refuse);
        }
        self.parked.retain(|_, waiting| !waiting.is_empty());
        self.parked_len = self.parked.values().map(VecDeque::len).sum();
        for expected in self.expected.values_mut() {
            if let Origin::Caller(token) = expected.pending.origin
                && late(&expected.pending)
            {
                expected.pending.origin = Origin::GaveUp;
                out.push(Output::Answer { token, answer: Err(LedgerError::Unknown) });
            }
        }
    }
}

impl<M: Machine> Replica<M> {
    pub(super) fn take_command(
        &mut self,
        now: Now,
        token: Token,
        command: M::Command,
        out: &mut Vec<Output<M>>,
    ) {
        if self.load() >= limits::LEDGER_COMMANDS_MAX {
            out.push(Output::Answer { token, answer: Err(LedgerError::Overloaded) });
        } else {
            self.commands.push(now, Origin::Caller(token), command);
        }
    }

    /// Decides every command that waits, on the committed state.
    pub(super) fn decide(&mut self, now: Now, out: &mut Vec<Output<M>>) -> Result<(), StoreError> {
        let mut salt = 0_u128;
        while let Some(pending) = self.commands.queue.pop_front() {
            salt += 1;
            let entropy =
                now.entropy.wrapping_add(salt.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
            let log_time = aip_kernel::View::<M>::log_time(&*self.snapshot);
            let facts = Facts::new(now.wall_ms, log_time, self.me.clone(), entropy);
            match self.machine.decide(&*self.snapshot, &pending.command, &facts) {
                Err(fault) => self.finish(now, pending.origin, Err(LedgerError::Store(fault.0)), out),
                Ok(Decision::Answer(answer)) => self.answer(now, pending, answer, out),
                Ok(Decision::Append { draft, answer }) => {
                    self.draft(now, pending, draft, answer, &facts, out)?;
                }
            }
        }
        Ok(())
    }

    /// Nothing is to be recorded, so the log will not judge the view on which that was decided. A caller hears it only
    /// when the view was current; else the command is decided again behind a barrier.
    fn answer(&mut self, now: Now, pending: Pending<M>, answer: M::Answer, out: &mut Vec<Output<M>>) {
        if pending.caller().is_none() || pending.current || self.answers_from_any_view() {
            self.finish(now, pending.origin, Ok(answer), out);
        } else {
            self.barriers.enter(now, Waiter::Command(pending));
        }
    }

    fn answers_from_any_view(&self) -> bool {
        match self.variant {
            #[cfg(feature = "broken")]
            super::Variant::AnswersWithoutBarrier => true,
            _ => false,
        }
    }

    fn draft(
        &mut self,
        now: Now,
        pending: Pending<M>,
        draft: Draft<M::Event>,
        answer: M::Answer,
        facts: &Facts,
        out: &mut Vec<Output<M>>,
    ) -> Result<(), StoreError> {
        let mut holds = vec![Busy::Entity(draft.entity.clone())];
        holds.extend(draft.claims.iter().map(|claim| Busy::Claim(claim.name.clone())));
        if let Some(on) = holds.iter().find(|hold| self.commands.busy.contains(hold)) {
            self.commands.park(on.clone(), pending);
            return Ok(());
        }
        let record = self.record(draft, facts)?;
        let encoded = match Encoded::new(&record) {
            Ok(encoded) if encoded.len() <= limits::LEDGER_RECORD_BYTES_MAX => encoded,
            Ok(_) => {
                self.finish(now, pending.origin, Err(LedgerError::TooLarge), out);
                return Ok(());
            }
            Err(error) => {
                self.finish(now, pending.origin, Err(LedgerError::Store(error.to_string())), out);
                return Ok(());
            }
        };
        self.commands.busy.extend(holds.iter().cloned());
        let batch = self.writer.next_number();
        let expected = Expected { pending, answer: Some(answer), holds, batch };
        self.commands.expected.insert(record.header.id, expected);
        self.writer.push(encoded);
        Ok(())
    }

    fn record(&self, draft: Draft<M::Event>, facts: &Facts) -> Result<Record<M::Event>, StoreError> {
        let (n, prev) = self.snapshot.head(&draft.entity)?;
        let read = |(entity, n): (EntityKey, u64)| Read { kind: entity.kind, key: entity.id, n };
        let header = Header {
            v: M::VERSION,
            id: facts.id("rec_"),
            kind: draft.entity.kind,
            key: draft.entity.id,
            n: n + 1,
            prev,
            at: facts.now,
            writer: self.me.clone(),
            cause: draft.cause,
            reads: draft.reads.into_iter().map(read).collect(),
            claims: draft.claims,
        };
        Ok(Record { header, events: draft.events })
    }

    /// A record came back through the tail.
    pub(super) fn resolve(&mut self, now: Now, record: RecordOutcome, out: &mut Vec<Output<M>>) {
        let Some(mut expected) = self.commands.expected.remove(&record.id) else { return };
        self.commands.release(std::mem::take(&mut expected.holds));
        let mut pending = expected.pending;
        match record.verdict {
            Verdict::Effective | Verdict::Copy => {
                if let Some(answer) = expected.answer {
                    self.finish(now, pending.origin, Ok(answer), out);
                }
            }
            Verdict::Void(reason) => {
                tracing::debug!(entity = %record.entity, ?reason, tries = pending.tries, "record void");
                metrics::counter!(aip_names::metrics::LEDGER_VOID).increment(1);
                pending.tries += 1;
                // its own message came after all that was acknowledged when the command came
                pending.current = true;
                if pending.origin == Origin::GaveUp {
                } else if pending.tries >= limits::LEDGER_TRIES_MAX && !pending.origin.must_be_recorded() {
                    self.finish(now, pending.origin, Err(LedgerError::Busy), out);
                } else {
                    self.commands.queue.push_front(pending);
                }
            }
        }
    }

    /// A command has its outcome: tell whoever asked.
    fn finish(
        &mut self,
        now: Now,
        origin: Origin,
        answer: Result<M::Answer, LedgerError>,
        out: &mut Vec<Output<M>>,
    ) {
        match origin {
            Origin::Caller(token) => out.push(Output::Answer { token, answer }),
            Origin::Timer { entity, name } => self.timers.fired(now, entity, name),
            Origin::Effect(id) => self.effects.outcome_decided(now, &id),
            Origin::GaveUp => {}
        }
    }

    /// Where a sound road does nothing: the broken one answers as soon as the append is acknowledged.
    #[cfg_attr(not(feature = "broken"), expect(clippy::unused_self, clippy::ptr_arg, unused_variables))]
    pub(super) fn acknowledged_early(&mut self, _now: Now, batch: u64, out: &mut Vec<Output<M>>) {
        #[cfg(feature = "broken")]
        if self.variant == super::Variant::AcknowledgeBeforeTail {
            for expected in self.commands.expected.values_mut().filter(|expected| expected.batch <= batch) {
                if let (Origin::Caller(token), Some(answer)) =
                    (expected.pending.origin.clone(), expected.answer.take())
                {
                    expected.pending.origin = Origin::GaveUp;
                    out.push(Output::Answer { token, answer: Ok(answer) });
                }
            }
        }
    }
}
