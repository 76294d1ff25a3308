//! The writer: one append message in flight, which carries every record that waits.
//!
//! An append whose fate is not known is sent again under the same number until it comes back through the tail;
//! copies are harmless. Nothing is sent while the replica is not ready.

use std::collections::VecDeque;

use bytes::Bytes;
use serde_json::value::RawValue;

use aip_kernel::Machine;
use aip_names::limits;

use super::{Now, Output, Replica};
use crate::batch::{Batch, Encoded};
use crate::store::{StoreError, damaged};

#[derive(Debug)]
struct InFlight {
    number: u64,
    bytes: Bytes,
    /// Before it was sent first: what its effects' not-after time is reckoned from.
    sent_ms: u64,
    /// When the copy that is under way is given up and sent again; `None`: send at the next chance.
    resend_at_ms: Option<u64>,
    /// The sequence it was acknowledged at.
    seq: Option<u64>,
}

#[derive(Debug, Default)]
pub struct Writer {
    last: u64,
    waiting: VecDeque<Encoded>,
    in_flight: Option<InFlight>,
    /// A read waits for an empty message of ours.
    barrier_wanted: bool,
}

// === impl Writer ===

impl Writer {
    pub fn push(&mut self, record: Encoded) {
        self.waiting.push_back(record);
    }

    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_none()
    }

    /// The number of the next message that has not been formed yet; every record pushed now goes out with it or
    /// a later one.
    pub fn next_number(&self) -> u64 {
        self.last + 1
    }

    pub fn want_barrier(&mut self) {
        self.barrier_wanted = true;
    }

    /// The sequence that must come through the tail, because the log acknowledged it.
    pub fn promised(&self) -> Option<u64> {
        self.in_flight.as_ref().and_then(|batch| batch.seq)
    }

    /// Own message `number` came through the tail. Returns the time before it was sent first; none for a copy.
    pub fn came_back(&mut self, number: u64) -> Option<u64> {
        let back = self.in_flight.take_if(|batch| batch.number == number);
        back.map(|batch| batch.sent_ms)
    }

    pub fn unsure(&mut self, now: Now, number: u64) {
        if let Some(batch) = self.in_flight.as_mut().filter(|batch| batch.number == number) {
            batch.resend_at_ms = Some(now.mono_ms + limits::LEDGER_APPEND_RETRY_MS);
        }
    }

    pub fn interrupted(&mut self, now: Now) {
        if let Some(batch) = &mut self.in_flight {
            batch.resend_at_ms = Some(now.mono_ms);
            batch.seq = None;
        }
    }

    fn form(&mut self) -> Option<Vec<Box<RawValue>>> {
        if self.waiting.is_empty() && !self.barrier_wanted {
            return None;
        }
        self.barrier_wanted = false;
        let (mut records, mut bytes) = (Vec::new(), 0);
        while let Some(next) = self.waiting.front() {
            let full = records.len() >= limits::LEDGER_BATCH_RECORDS_MAX
                || bytes + next.len() > limits::LEDGER_BATCH_BYTES_MAX;
            if full && !records.is_empty() {
                break;
            }
            bytes += next.len() + 1;
            records.extend(self.waiting.pop_front().map(|record| record.raw));
        }
        Some(records)
    }
}

impl<M: Machine> Replica<M> {
    pub(super) fn appended(&mut self, now: Now, batch: u64, seq: u64, out: &mut Vec<Output<M>>) {
        if let Some(in_flight) = self.writer.in_flight.as_mut().filter(|flying| flying.number == batch) {
            in_flight.seq = Some(seq);
            in_flight.resend_at_ms = None;
        }
        self.acknowledged_early(now, batch, out);
    }

    /// Sends the next message when none is under way, and again the one whose fate is not known.
    pub(super) fn append(&mut self, now: Now, out: &mut Vec<Output<M>>) -> Result<(), StoreError> {
        if self.writer.in_flight.is_none()
            && let Some(records) = self.writer.form()
        {
            let number = self.writer.next_number();
            let bytes = Batch::encode(&self.me, number, &records).map_err(damaged)?;
            let bytes = Bytes::from(bytes);
            self.writer.last = number;
            let (sent_ms, resend_at_ms) = (now.mono_ms, Some(now.mono_ms));
            self.writer.in_flight = Some(InFlight { number, bytes, sent_ms, resend_at_ms, seq: None });
        }
        if let Some(batch) = &mut self.writer.in_flight
            && batch.seq.is_none()
            && batch.resend_at_ms.is_some_and(|at| at <= now.mono_ms)
        {
            batch.resend_at_ms = Some(now.mono_ms + limits::LEDGER_APPEND_TIMEOUT_MS);
            out.push(Output::Append { batch: batch.number, bytes: batch.bytes.clone() });
        }
        Ok(())
    }
}
