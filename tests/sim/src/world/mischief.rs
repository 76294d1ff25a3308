//! What befalls replicas and the server now and then, and the disaster that a run may hold.

use aip_ledger::Batch;
use rand::Rng as _;

use super::{Event, World};
use crate::disk::Ending;
use crate::invariants::Check;
use crate::oracle::Oracle;
use crate::plan::{Disaster, Mischief};
use crate::{Fault, Subject};

impl<S: Subject> World<S> {
    pub(super) fn mischief(&mut self) -> Check {
        if self.healed {
            return Ok(());
        }
        let gap = self.plan.mischief_gap_ms;
        self.after(gap / 4, gap * 2, Event::Mischief);
        if self.plan.mischief.is_empty() {
            return Ok(());
        }
        let kind = self.plan.mischief[self.rng.random_range(0..self.plan.mischief.len())];
        let node = self.rng.random_range(0..self.nodes.len());
        match kind {
            Mischief::Kill => self.end_life(node, Ending::Killed, Fault::Killed),
            Mischief::PowerLoss => self.end_life(node, Ending::PowerLoss, Fault::PowerLoss),
            Mischief::Drain => {
                if self.nodes[node].life.is_some() {
                    self.fault(Fault::Drained);
                }
                return self.drain(node);
            }
            Mischief::Pause => self.pause(node, 50, 3_000, Fault::Paused),
            Mischief::PauseLong => self.pause_long(node),
            Mischief::ServerRestart => {
                self.fault(Fault::ServerRestart);
                self.restart_server();
            }
            Mischief::LogClock => {
                let jump = self.rng.random_range(-4_000..8_000);
                self.fault(if jump < 0 { Fault::LogClockBack } else { Fault::LogClockForward });
                self.log.skew_ms += jump;
            }
            Mischief::WallClock => {
                self.fault(Fault::WallClockJump);
                self.nodes[node].skew_ms += self.rng.random_range(-5_000..5_000);
            }
            Mischief::Partition => self.partition(node),
            Mischief::DiskError => self.arm_disk(node),
        }
        Ok(())
    }

    fn end_life(&mut self, node: usize, ending: Ending, fault: Fault) {
        if self.nodes[node].life.is_some() {
            self.fault(fault);
            self.kill(node, ending);
        }
    }

    pub(super) fn pause_long(&mut self, node: usize) {
        self.pause(node, 10_000, 16_000, Fault::PausedLong);
    }

    fn pause(&mut self, node: usize, least: u64, most: u64, fault: Fault) {
        let until = self.now + self.rng.random_range(least..most);
        if let Some(life) = &mut self.nodes[node].life {
            life.paused_until = until;
            self.fault(fault);
        }
    }

    fn partition(&mut self, node: usize) {
        self.fault(Fault::Partition);
        self.nodes[node].partitioned_until = self.now + self.rng.random_range(100..6_000);
        if let Some(life) = self.nodes[node].life.as_ref().map(|life| life.id) {
            self.after(10, 5_000, Event::Interrupt { node, life });
        }
    }

    /// The server ends and comes back. What it had sent may still arrive; then the shells notice.
    pub(super) fn restart_server(&mut self) {
        let old = self.log.run;
        self.log.run += 1;
        self.log.up = false;
        self.after(0, 2_000, Event::ServerUp);
        for tail in self.tails.values_mut().filter(|tail| tail.run == old && tail.until.is_none()) {
            tail.until = Some(self.log.stream(tail.version).last());
        }
        for node in 0..self.nodes.len() {
            if let Some(life) = self.nodes[node].life.as_ref().map(|life| life.id) {
                self.after(1, 1_500, Event::Interrupt { node, life });
            }
        }
    }

    /// Another stream stands where the log was. Nothing can mend that here: those who know better must fall silent.
    pub(super) fn strike(&mut self, disaster: Disaster) -> Check {
        self.fault(match disaster {
            Disaster::Cut => Fault::LogCut,
            Disaster::Replaced => Fault::LogReplaced,
            Disaster::Swapped => Fault::LogSwapped,
        });
        self.restart_server();
        let before = self.log.current().clone();
        let known = self.nodes.iter().map(|node| node.hard).min().unwrap_or(0);
        // Most often so far back that every store knows better, whatever it falls back to.
        let most = if known > 1 && self.rng.random_bool(0.7) { known - 1 } else { before.last() };
        let keep = self.rng.random_range(0..=most);
        match disaster {
            Disaster::Replaced => self.log.replace(self.now),
            Disaster::Cut | Disaster::Swapped => self.log.cut(keep),
        }
        let mut oracle = Oracle::new(&self.subject);
        for message in self.log.current().messages() {
            oracle.learn(&self.subject, message)?;
        }
        self.oracles.push(oracle);
        self.floors.push(0);
        self.say(|world| format!("the log ends at {} now", world.log.current().last()));
        if disaster != Disaster::Cut {
            // Another past: what was lost comes again at other times, or others write something else. Not before
            // every shell had its chance to notice, for what a foreign log says at once can't be told from ours.
            let writer = aip_kernel::WriterId {
                replica: aip_kernel::ReplicaId("other".to_owned()),
                life: "0".to_owned(),
            };
            for seq in self.log.current().last() + 1..=before.last() + 3 {
                let lost = before.get(seq).map(|message| message.bytes.clone());
                let bytes = lost.or_else(|| Batch::encode(&writer, seq, &[]).map(Into::into).ok());
                let Some(bytes) = bytes else { continue };
                self.at(self.now + 4_000 + seq, Event::Foreign { bytes });
            }
        }
        Ok(())
    }
}
