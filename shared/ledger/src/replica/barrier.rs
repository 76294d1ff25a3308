//! Read barriers: a read that begins now must see everything that was acknowledged before. All reads that wait
//! share one question to the log.

use aip_kernel::Machine;
use aip_names::limits;

use super::{BarrierMode, Now, Output, Replica, Token};
use crate::LedgerError;

#[derive(Debug)]
struct Waiting {
    token: Token,
    since_ms: u64,
}

/// How far the log must have been learned before a group of reads may go on.
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

#[derive(Debug, Default)]
pub struct Barriers {
    entered: Vec<Waiting>,
    asking: Vec<Waiting>,
    target: Option<Target>,
    requests: u64,
}

// === impl Barriers ===

impl Barriers {
    pub fn enter(&mut self, now: Now, token: Token) {
        self.entered.push(Waiting { token, since_ms: now.mono_ms });
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
    pub fn batch_back<M: Machine>(&mut self, number: u64, out: &mut Vec<Output<M>>) {
        if matches!(self.target, Some(Target::Batch(wanted)) if wanted <= number) {
            self.let_go(out);
        }
    }

    pub fn passed<M: Machine>(&mut self, position: u64, out: &mut Vec<Output<M>>) {
        if matches!(self.target, Some(Target::Sequence(seq)) if seq <= position) {
            self.let_go(out);
        }
    }

    fn let_go<M: Machine>(&mut self, out: &mut Vec<Output<M>>) {
        self.target = None;
        for Waiting { token, .. } in self.asking.drain(..) {
            out.push(Output::BarrierPassed { token, result: Ok(()) });
        }
    }

    pub fn give_up<M: Machine>(&mut self, now: Now, out: &mut Vec<Output<M>>) {
        let mut keep = |waiting: &Waiting| {
            let late = now.mono_ms.saturating_sub(waiting.since_ms) >= limits::LEDGER_PATIENCE_MS;
            if late {
                let reason = "the ledger could not be asked in time".to_owned();
                let result = Err(LedgerError::NotReady { reason });
                out.push(Output::BarrierPassed { token: waiting.token, result });
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
}
