//! The tail and the position check: a replica reads on only where its store left the log, on the very same log.
//!
//! The first message of every tail must be the one that was applied last (by digest of sequence, time and bytes);
//! after it, sequences have no hole. A log that was cut, replaced or swapped for an older copy stops the replica:
//! it answers and performs nothing and says why, until a tail opens that passes.

use aip_kernel::{Hash, Machine};
use aip_names::limits;

use super::{Now, Output, Replica, Variant};
use crate::store::{Position, Standing, StoreError};
use crate::{LogInfo, LogMessage, Readiness};

#[derive(Debug)]
enum Phase {
    /// No tail is open, or the last one failed the check.
    Closed,
    /// A tail is open; the message at the position has not been seen on it.
    Checking {
        until: u64,
    },
    /// The check has passed; the store learns what the log held when the tail was opened.
    CatchingUp {
        until: u64,
    },
    Ready,
}

#[derive(Debug)]
pub struct Tail {
    position: Position,
    stream: Option<i128>,
    phase: Phase,
    /// Since when something that should have come is missing, or a tail that was asked for has not opened.
    waiting_since_ms: Option<u64>,
    said: Option<Readiness>,
}

// === impl Tail ===

impl Tail {
    pub fn new(standing: Standing) -> Tail {
        Tail {
            position: standing.position,
            stream: standing.stream,
            phase: Phase::Closed,
            waiting_since_ms: None,
            said: None,
        }
    }

    pub fn position(&self) -> Position {
        self.position
    }

    pub fn is_fresh(&self) -> bool {
        self.stream.is_none()
    }

    pub fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    fn say<M: Machine>(&mut self, readiness: Readiness, out: &mut Vec<Output<M>>) {
        if self.said.as_ref() != Some(&readiness) {
            self.said = Some(readiness.clone());
            out.push(Output::Readiness(readiness));
        }
    }

    fn halt<M: Machine>(&mut self, reason: String, out: &mut Vec<Output<M>>) {
        self.phase = Phase::Closed;
        self.say(Readiness::NotReady { reason }, out);
    }

    /// A message could not be applied: nothing of this tail counts.
    pub fn unreadable<M: Machine>(&mut self, standing: Standing, reason: String, out: &mut Vec<Output<M>>) {
        self.position = standing.position;
        self.halt(reason, out);
    }

    pub fn interrupted<M: Machine>(&mut self, now: Now, reason: String, out: &mut Vec<Output<M>>) {
        self.halt(reason, out);
        self.waiting_since_ms = Some(now.mono_ms);
        out.push(Output::OpenTail { from: self.position.seq.max(1) });
    }

    /// The first half of the check: the log as the server describes it.
    fn check(&self, info: &LogInfo) -> Result<(), String> {
        let at = self.position.seq;
        if let Some(known) = self.stream
            && known != info.created_ns
        {
            return Err(
                "the ledger stream is not the one this store learned from: it was created at another \
                        time; restore it or run the ledger recovery"
                    .to_owned(),
            );
        }
        if at == 0 && info.last_seq > 0 && info.first_seq > 1 {
            return Err(format!("the ledger begins at {}, and this store is empty", info.first_seq));
        }
        if info.last_seq < at {
            return Err(format!(
                "the ledger ends at {}, before this store's position {at}: it lost its tail or is an older copy",
                info.last_seq
            ));
        }
        if at > 0 && info.first_seq > at {
            return Err(format!("the ledger begins at {}, after this store's position {at}", info.first_seq));
        }
        Ok(())
    }

    /// The second half: takes the messages that continue the store, in order.
    pub fn accept<M: Machine>(
        &mut self,
        now: Now,
        messages: Vec<LogMessage>,
        variant: Variant,
        out: &mut Vec<Output<M>>,
    ) -> Vec<LogMessage> {
        let mut accepted = Vec::with_capacity(messages.len());
        for message in messages {
            match self.phase {
                Phase::Closed => break,
                Phase::Checking { until } => {
                    let hash = message.hash();
                    if !skips_check(variant) && (message.seq, hash) != (self.position.seq, self.position.hash)
                    {
                        self.halt(other_message(&self.position, &message, &hash), out);
                        break;
                    }
                    self.phase = Phase::CatchingUp { until };
                    self.waiting_since_ms = Some(now.mono_ms);
                    if message.seq > self.position.seq {
                        self.position = Position { seq: message.seq, hash };
                        accepted.push(message);
                    }
                }
                Phase::CatchingUp { .. } | Phase::Ready => {
                    let expected = self.position.seq + 1;
                    if message.seq < expected {
                        continue;
                    }
                    if message.seq > expected && !skips_check(variant) {
                        // A hole may be the reader's fault as well as the log's: read again from the position.
                        let reason = format!("message {} came where {expected} was due", message.seq);
                        self.interrupted(now, reason, out);
                        break;
                    }
                    self.position = Position { seq: message.seq, hash: message.hash() };
                    self.waiting_since_ms = None;
                    accepted.push(message);
                }
            }
        }
        accepted
    }

    /// Becomes ready when the store has learned all that the log held when the tail was opened.
    pub fn caught_up<M: Machine>(&mut self, out: &mut Vec<Output<M>>) {
        let Phase::CatchingUp { until } = self.phase else { return };
        if self.position.seq >= until {
            self.phase = Phase::Ready;
            self.waiting_since_ms = None;
            self.say(Readiness::Ready, out);
        } else {
            self.say(catching_up(self.position.seq, until), out);
        }
    }

    /// Opens the tail anew when something that was promised does not come.
    pub fn watch<M: Machine>(
        &mut self,
        now: Now,
        appended: Option<u64>,
        asked: Option<u64>,
        out: &mut Vec<Output<M>>,
    ) {
        let promised = match self.phase {
            Phase::Closed | Phase::Checking { .. } => u64::MAX,
            Phase::CatchingUp { until } => until,
            Phase::Ready => appended.max(asked).unwrap_or(0),
        };
        if promised <= self.position.seq {
            self.waiting_since_ms = None;
            return;
        }
        let since = *self.waiting_since_ms.get_or_insert(now.mono_ms);
        let patience = match self.phase {
            Phase::Closed => limits::LEDGER_OPEN_TIMEOUT_MS,
            _ => limits::LEDGER_TAIL_STALL_MS,
        };
        if now.mono_ms.saturating_sub(since) >= patience {
            self.waiting_since_ms = Some(now.mono_ms);
            if !matches!(self.phase, Phase::Closed) {
                self.halt("the tail of the ledger stalled".to_owned(), out);
            }
            out.push(Output::OpenTail { from: self.position.seq.max(1) });
        }
    }
}

/// Told in whole percents: often enough to see that it goes on, seldom enough for a log.
fn catching_up(position: u64, until: u64) -> Readiness {
    let percent = position.saturating_mul(100) / until.max(1);
    Readiness::NotReady { reason: format!("catching up with the ledger: {percent} % of {until} messages") }
}

fn other_message(position: &Position, message: &LogMessage, hash: &Hash) -> String {
    format!(
        "the ledger holds another message {} (digest {hash}) than the one this store applied at {} (digest {}): \
         it was replaced or is another copy",
        message.seq, position.seq, position.hash
    )
}

#[cfg_attr(not(feature = "broken"), expect(unused_variables))]
fn skips_check(variant: Variant) -> bool {
    #[cfg(feature = "broken")]
    if variant == Variant::NoPositionCheck {
        return true;
    }
    false
}

impl<M: Machine> Replica<M> {
    pub(super) fn opened(
        &mut self,
        now: Now,
        info: LogInfo,
        out: &mut Vec<Output<M>>,
    ) -> Result<(), StoreError> {
        let check = if skips_check(self.variant) { Ok(()) } else { self.tail.check(&info) };
        if let Err(reason) = check {
            self.tail.halt(reason, out);
            self.tail.waiting_since_ms = Some(now.mono_ms);
            return Ok(());
        }
        if self.tail.stream.is_none() {
            self.store.adopt_stream(info.created_ns)?;
            self.tail.stream = Some(info.created_ns);
        }
        let until = info.last_seq;
        let fresh = self.tail.position.seq == 0;
        self.tail.phase = if fresh { Phase::CatchingUp { until } } else { Phase::Checking { until } };
        self.tail.waiting_since_ms = Some(now.mono_ms);
        let progress = catching_up(self.tail.position.seq, until);
        self.tail.say(progress, out);
        Ok(())
    }
}
