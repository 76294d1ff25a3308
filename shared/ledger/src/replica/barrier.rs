//! Barriers: a read that begins now must see everything that was acknowledged before, and so must a command whose
//! answer records nothing: only a record is judged by the log. All that wait share one question to it.

use aip_kernel::Machine;
use aip_names::limits;

use super::commands::Pending;
use super::{BarrierMode, Now, Output, Replica, Token};
use crate::LedgerError;

/// What is to go on when the replica has learned what the log held.
#[derive(Debug)]
pub enum Waiter<M: Machine> {
    Read(Token),
    /// Decided on a view that may be old: it is decided again.
    Command(Pending<M>),
}

#[derive(Debug)]
struct Waiting<M: Machine> {
    waiter: Waiter<M>,
    since_ms: u64,
}

/// How far the log must have been learned before those who wait may go on.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    /// The question is under way since the store stood at `from`.
    Asked {
        request: u64,
        from: u64,
    },
    Sequence(u64),
    /// Our own message with this number must come back.
    Batch(u64),
}

// === impl Target ===

impl Target {
    fn asks(&self, wanted: u64) -> bool {
        matches!(self, Target::Asked { request, .. } if *request == wanted)
    }
}

#[derive(Debug)]
pub struct Barriers<M: Machine> {
    entered: Vec<Waiting<M>>,
    asking: Vec<Waiting<M>>,
    target: Option<Target>,
    requests: u64,
}

impl<M: Machine> Default for Barriers<M> {
    fn default() -> Barriers<M> {
        Barriers { entered: Vec::new(), asking: Vec::new(), target: None, requests: 0 }
    }
}

// === impl Barriers ===

impl<M: Machine> Barriers<M> {
    pub fn enter(&mut self, now: Now, waiter: Waiter<M>) {
        self.entered.push(Waiting { waiter, since_ms: now.mono_ms });
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.entered.len() + self.asking.len()
    }

    /// A sequence that must come through the tail, because the log said it is there.
    pub fn promised(&self) -> Option<u64> {
        match self.target {
            Some(Target::Sequence(seq)) => Some(seq),
            _ => None,
        }
    }

    /// The answer to a question. False when the log ends before what had been learned from it when it was asked:
    /// then it is not the same log any more.
    pub fn learned(&mut self, request: u64, seq: Option<u64>) -> bool {
        let Some(Target::Asked { from, .. }) = self.target.take_if(|target| target.asks(request)) else {
            return true;
        };
        match seq {
            Some(seq) if seq >= from => {
                self.target = Some(Target::Sequence(seq));
                true
            }
            _ => {
                self.interrupted();
                seq.is_none()
            }
        }
    }

    /// What was asked before may be answered by another log: ask again.
    pub fn interrupted(&mut self) {
        self.target = None;
        self.asking.append(&mut self.entered);
        std::mem::swap(&mut self.entered, &mut self.asking);
    }

    /// Own message `number` was applied.
    pub fn batch_back(&mut self, number: u64) -> Vec<Waiter<M>> {
        self.let_go(matches!(self.target, Some(Target::Batch(wanted)) if wanted <= number))
    }

    pub fn passed(&mut self, position: u64) -> Vec<Waiter<M>> {
        self.let_go(matches!(self.target, Some(Target::Sequence(seq)) if seq <= position))
    }

    fn let_go(&mut self, reached: bool) -> Vec<Waiter<M>> {
        if !reached {
            return Vec::new();
        }
        self.target = None;
        self.asking.drain(..).map(|waiting| waiting.waiter).collect()
    }

    pub fn give_up(&mut self, now: Now, out: &mut Vec<Output<M>>) {
        let mut keep = |waiting: &Waiting<M>| {
            let late = now.mono_ms.saturating_sub(waiting.since_ms) >= limits::LEDGER_PATIENCE_MS;
            if late {
                let reason = "the ledger could not be asked in time".to_owned();
                let error = LedgerError::NotReady { reason };
                match &waiting.waiter {
                    Waiter::Read(token) => {
                        out.push(Output::BarrierPassed { token: *token, result: Err(error) });
                    }
                    Waiter::Command(pending) => {
                        let answer = Err(error);
                        out.extend(pending.caller().map(|token| Output::Answer { token, answer }));
                    }
                }
            }
            !late
        };
        self.entered.retain(&mut keep);
        self.asking.retain(&mut keep);
    }
}

impl<M: Machine> Replica<M> {
    pub(super) fn ask_barriers(&mut self, _now: Now, out: &mut Vec<Output<M>>) {
        if self.barriers.target.is_some() || self.barriers.entered.is_empty() {
            return;
        }
        self.barriers.asking = std::mem::take(&mut self.barriers.entered);
        match self.barrier_mode {
            BarrierMode::LastSequence => {
                self.barriers.requests += 1;
                let request = self.barriers.requests;
                let from = self.tail.position().seq;
                self.barriers.target = Some(Target::Asked { request, from });
                out.push(Output::AskLastSequence { request });
            }
            BarrierMode::Append => {
                self.writer.want_barrier();
                self.barriers.target = Some(Target::Batch(self.writer.next_number()));
            }
        }
    }

    /// Lets go on who has waited for the log.
    pub(super) fn barriers_passed(&mut self, waiters: Vec<Waiter<M>>, out: &mut Vec<Output<M>>) {
        for waiter in waiters {
            match waiter {
                Waiter::Read(token) => out.push(Output::BarrierPassed { token, result: Ok(()) }),
                Waiter::Command(pending) => self.commands.decide_again(pending),
            }
        }
    }
}
