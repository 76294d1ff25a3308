//! The way between replicas and the log: appends, tails and questions, each as unreliable as the plan says.

use aip_ledger::replica::Input;
use bytes::Bytes;
use rand::Rng as _;

use super::{Event, LifeId, World};
use crate::invariants::Check;
use crate::log::Version;
use crate::{Fault, Sight, Subject};

pub type TailId = u64;

#[derive(Clone, Debug)]
pub struct Append {
    pub node: usize,
    pub life: LifeId,
    pub batch: u64,
    pub bytes: Bytes,
}

/// A reader of the stream, as the server keeps it. It ends with the server's life.
#[derive(Debug)]
pub struct Tail {
    pub node: usize,
    pub life: LifeId,
    pub version: Version,
    pub run: u64,
    next: u64,
    /// What a server that is gone had still sent.
    pub until: Option<u64>,
    pub dead: bool,
    pumping: bool,
}

impl<S: Subject> World<S> {
    fn reachable(&self, node: usize) -> bool {
        self.log.up && self.nodes[node].partitioned_until <= self.now
    }

    // === appends ===

    pub(super) fn append(&mut self, node: usize, life: LifeId, batch: u64, bytes: Bytes) {
        let append = Append { node, life, batch, bytes };
        if self.chance(self.plan.duplicated) {
            self.fault(Fault::PublishDuplicated);
            let most = if self.rng.random() { 20 } else { 15_000 };
            self.fly(append.clone(), 1, most, true);
        }
        if self.chance(self.plan.lost) {
            self.fault(Fault::PublishLost);
            self.unsure(&append, Fault::UnsureNotStored);
        } else if self.chance(self.plan.delayed) {
            self.fault(Fault::PublishDelayed);
            self.fly(append, 5, 3_000, false);
        } else {
            self.fly(append, 0, 3, false);
        }
    }

    fn fly(&mut self, append: Append, least: u64, most: u64, copy: bool) {
        self.append_ids += 1;
        let id = self.append_ids;
        self.flying.insert(id, append.node);
        self.after(least, most, Event::Arrive { append, id, copy });
    }

    /// The writer does not learn what became of its message; sometimes it learns that it will not.
    fn unsure(&mut self, append: &Append, fault: Fault) -> bool {
        let told = self.rng.random();
        if told {
            self.fault(fault);
            let (node, life, input) = (append.node, append.life, Input::AppendUnsure { batch: append.batch });
            self.after(10, 2_000, Event::Deliver { node, life, input });
        }
        told
    }

    pub(super) fn arrive(&mut self, append: Append, id: u64, copy: bool) -> Check {
        self.flying.remove(&id);
        if !self.reachable(append.node) {
            self.unsure(&append, Fault::UnsureNotStored);
            return Ok(());
        }
        if self.flying.range(..id).any(|(_, node)| *node != append.node) {
            self.fault(Fault::Reordered);
        }
        let copies = self.counts.sights.get(&Sight::BatchCopy).copied();
        self.store(append.bytes.clone())?;
        if copy && self.counts.sights.get(&Sight::BatchCopy).copied() != copies {
            self.fault(Fault::CopyLate);
        }
        if copy {
            return Ok(());
        }
        if self.chance(self.plan.ack_lost) {
            if !self.unsure(&append, Fault::UnsureStored) {
                self.fault(Fault::AckLost);
            }
            return Ok(());
        }
        let input = Input::Appended { batch: append.batch, seq: self.log.current().last() };
        let (node, life) = (append.node, append.life);
        let most = if self.chance(self.plan.delayed) { 1_500 } else { 3 };
        self.after(0, most, Event::Deliver { node, life, input });
        Ok(())
    }

    /// The log takes a message, the model learns it, and it goes out to whoever reads.
    pub(super) fn store(&mut self, bytes: Bytes) -> Check {
        if !self.log.up {
            return Ok(());
        }
        let version = self.log.version();
        let message = self.log.store(self.now, bytes);
        let meant = self.oracles[version].learn(&self.subject, message)?;
        let (seq, changed) = (message.seq, meant.changed.len());
        for sight in meant.sights.clone() {
            self.sight(sight);
        }
        self.say(|_| format!("log takes {seq}, which changes {changed} entities"));
        let run = self.log.run;
        let readers = self.tails.iter().filter(|(_, tail)| tail.run == run).map(|(id, _)| *id);
        for tail in readers.collect::<Vec<_>>() {
            self.pump_soon(tail);
        }
        Ok(())
    }

    // === tails ===

    pub(super) fn ask_tail(&mut self, node: usize, life: LifeId, from: u64) {
        self.tail_ids += 1;
        let tail = self.tail_ids;
        if let Some(life) = self.nodes[node].life(life) {
            life.read_tail(tail);
        }
        self.tails.retain(|_, tail| tail.life != life);
        self.after(0, 5, Event::OpenTail { node, life, tail, from });
    }

    pub(super) fn open_tail(&mut self, node: usize, life: LifeId, tail: TailId, from: u64) {
        let current = self.nodes[node].life(life).is_some_and(|life| life.tail == Some(tail));
        if !current {
            return;
        }
        if !self.reachable(node) {
            // The shell may notice and say so; if not, the replica asks again.
            if self.rng.random() {
                self.after(100, 1_000, Event::Interrupt { node, life });
            }
            return;
        }
        let (version, run) = (self.log.version(), self.log.run);
        let opened =
            Tail { node, life, version, run, next: from.max(1), until: None, dead: false, pumping: false };
        self.tails.insert(tail, opened);
        let input = Input::Opened(self.log.current().info());
        self.bring(tail, version, node, input);
        self.pump_soon(tail);
    }

    fn pump_soon(&mut self, tail: TailId) {
        let Some(state) = self.tails.get_mut(&tail) else { return };
        if !state.pumping && !state.dead {
            state.pumping = true;
            let most = if self.chance(self.plan.delayed) { 500 } else { 3 };
            self.after(0, most, Event::Pump { tail });
        }
    }

    /// The server sends a reader some of what it has not sent yet.
    pub(super) fn pump(&mut self, id: TailId) {
        let (stall, hole, repeat) = (self.plan.stall, self.plan.hole, self.plan.repeat);
        let (stall, hole, repeat) = (self.chance(stall), self.chance(hole), self.chance(repeat));
        let count = self.rng.random_range(1..=16_u64);
        let Some(tail) = self.tails.get_mut(&id) else { return };
        tail.pumping = false;
        let (node, life, next, version) = (tail.node, tail.life, tail.next, tail.version);
        let stream = self.log.stream(tail.version);
        let end = tail.until.unwrap_or(u64::MAX).min(stream.last());
        if tail.dead || self.nodes[node].partitioned_until > self.now || next > end {
            return;
        }
        if stall {
            tail.dead = true;
            self.fault(Fault::TailStalled);
            // Missing heartbeats tell, if nothing else does.
            self.after(5_000, 12_000, Event::Interrupt { node, life });
            return;
        }
        let mut from = next;
        if hole && next < end && next > 1 {
            from += 1;
            self.counts.fault(Fault::TailHole);
        } else if repeat && next > 1 {
            from -= 1;
            self.counts.fault(Fault::TailRepeated);
        }
        let until = end.min(from + count - 1);
        tail.next = until + 1;
        let messages: Vec<_> = (from..=until).filter_map(|seq| stream.get(seq).cloned()).collect();
        for message in messages {
            self.bring(id, version, node, Input::Message(message));
        }
        if until < end {
            self.pump_soon(id);
        }
    }

    // === the shell ===

    pub(super) fn deliver(&mut self, node: usize, life: LifeId, input: Input<S::M>) {
        if self.nodes[node].life(life).is_some() {
            self.push(node, None, input);
        }
    }

    /// What a tail of the log `version` brings counts only while the shell reads that tail.
    fn bring(&mut self, tail: TailId, version: Version, node: usize, input: Input<S::M>) {
        if self.nodes[node].life.as_ref().is_some_and(|life| life.tail == Some(tail)) {
            self.push(node, Some(version), input);
        }
    }

    /// The shell notices that connection or server are not what they were.
    pub(super) fn interrupt(&mut self, node: usize, life: LifeId) {
        let Some(now) = self.nodes[node].life(life) else { return };
        now.tail = None;
        self.tails.retain(|_, tail| tail.life != life);
        self.push(node, None, Input::Interrupted { reason: "the connection changed".to_owned() });
    }

    pub(super) fn ask(&mut self, node: usize, life: LifeId, request: u64) {
        let reachable = self.reachable(node) && !self.chance(self.plan.lost);
        let (version, last) = (self.log.version(), self.log.current().last());
        let Some(now) = self.nodes[node].life(life) else { return };
        if reachable {
            now.asked = Some((version, last));
        }
        let seq = reachable.then_some(last);
        self.say(|_| format!("r{node} asks and hears that the log ends at {seq:?}"));
        let input = Input::LastSequence { request, seq };
        let (least, most) = if reachable { (0, 20) } else { (500, 2_000) };
        self.after(least, most, Event::Deliver { node, life, input });
    }
}
