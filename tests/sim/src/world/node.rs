//! A replica's process: it starts on its disk, steps, is paused, and ends.

use std::collections::{BTreeMap, BTreeSet};

use aip_kernel::{EffectId, Hash, ReplicaId, WriterId};
use aip_ledger::replica::{Input, Replica};
use aip_ledger::{Identity, Position, Store};
use rand::Rng as _;

use super::clients::Waiting;
use super::network::TailId;
use super::{Event, LifeId, World};
use crate::disk::{Disk, Ending, Operation};
use crate::invariants::{self, Check};
use crate::log::Version;
use crate::{Fault, Rng, Sight, Subject};

/// A replica: its disk, over any number of process lives.
pub struct Node<S: Subject> {
    pub disk: Disk,
    pub life: Option<Life<S>>,
    pub skew_ms: i64,
    /// Which log the store has learned from.
    pub version: Version,
    /// The store can't fall back behind this.
    pub hard: u64,
    /// The last message that the last life was given; a commit that failed may have taken it all the same.
    pub reached: u64,
    pub partitioned_until: u64,
    /// A whole store was made. Until then each try begins anew, as it does with files.
    founded: bool,
}

pub struct Life<S: Subject> {
    pub id: LifeId,
    pub me: WriterId,
    pub replica: Replica<S::M>,
    pub position: Position,
    pub began: u64,
    /// What waits for the next step; what a tail brought, with the log it was read from.
    pub inbox: Vec<(Option<Version>, Input<S::M>)>,
    pub step_due: bool,
    pub paused_until: u64,
    /// The tail the shell reads now; what others bring is dropped.
    pub tail: Option<TailId>,
    /// The tail that the replica knows of, and whether a message of it was seen.
    pub open: Option<(Version, bool)>,
    pub ready: bool,
    pub waiting: BTreeMap<u64, Waiting>,
    /// When each of its messages was sent first.
    pub sent: BTreeMap<u64, u64>,
    /// When it learned each message of the log.
    pub learned: BTreeMap<u64, u64>,
    /// The effects it was told to perform.
    pub tried: BTreeSet<(EffectId, Hash)>,
    /// The log that answered the last question for its last sequence, and the answer.
    pub asked: Option<(Version, u64)>,
    /// What the disk did to this life.
    pub disk_failed: bool,
}

// === impl Life ===

impl<S: Subject> Life<S> {
    /// The shell reads this tail from now on; what others have brought is dropped.
    pub fn read_tail(&mut self, tail: TailId) {
        self.tail = Some(tail);
        self.inbox.retain(|(from, _)| from.is_none());
    }
}

// === impl Node ===

impl<S: Subject> Node<S> {
    pub fn new(skew_ms: i64, rng: &mut Rng) -> Node<S> {
        Node {
            disk: Disk::default(),
            life: None,
            skew_ms: rng.random_range(-skew_ms..=skew_ms),
            version: 0,
            hard: 0,
            reached: 0,
            partitioned_until: 0,
            founded: false,
        }
    }

    pub fn is_founded(&self) -> bool {
        self.founded
    }

    /// Another disk, whose store stands at `place` of that log; without one there is no store on it.
    pub fn put(&mut self, disk: Disk, version: Version, place: Option<u64>) {
        self.disk = disk;
        self.version = version;
        self.founded = place.is_some();
        self.hard = place.unwrap_or(0);
        self.reached = self.hard;
    }

    pub fn life(&mut self, life: LifeId) -> Option<&mut Life<S>> {
        self.life.as_mut().filter(|now| now.id == life)
    }
}

pub(super) fn identity() -> Identity {
    Identity { service: "toy".to_owned(), trust_domain: "sim.local".to_owned(), shard: 0 }
}

impl<S: Subject> World<S> {
    /// A process starts on the node's disk, if none runs there.
    pub(super) fn start(&mut self, node: usize) -> Check {
        if self.nodes[node].life.is_some() {
            return Ok(());
        }
        if !self.nodes[node].founded {
            self.nodes[node].disk = Disk::default();
        }
        if self.chance(self.plan.disk_step) {
            self.arm_disk(node);
        }
        let opened = Store::with_backend(self.nodes[node].disk.mount(), &identity());
        let failed = self.take_disk_faults(node);
        let Some(store) = invariants::opens(opened, failed)? else {
            self.power_off(node, Ending::PowerLoss);
            self.restart_later(node);
            return Ok(());
        };
        self.lives += 1;
        let me = WriterId { replica: ReplicaId(format!("r{node}")), life: self.lives.to_string() };
        let made = store.standing().and_then(|standing| {
            let machine = self.subject.machine();
            Ok((standing, Replica::new(machine, store, me.clone(), self.plan.barrier, self.variant)?))
        });
        let failed = self.take_disk_faults(node);
        let Some((standing, replica)) = invariants::opens(made, failed)? else {
            self.power_off(node, Ending::PowerLoss);
            self.restart_later(node);
            return Ok(());
        };
        let (position, from) = (standing.position, &self.nodes[node]);
        invariants::came_back(position.seq, from.hard, from.reached)?;
        if position.seq < from.reached && from.founded {
            self.sight(Sight::StoreFellBack);
        }
        invariants::store_agrees(&self.oracles[self.nodes[node].version], replica.snapshot(), position.seq)?;
        let id = self.lives;
        self.say(|_| format!("r{node} starts life {id} at {}", position.seq));
        self.nodes[node].founded = true;
        self.nodes[node].reached = position.seq;
        self.nodes[node].life = Some(Life {
            id,
            me,
            replica,
            position,
            began: self.now,
            inbox: Vec::new(),
            step_due: false,
            paused_until: 0,
            tail: None,
            open: None,
            ready: false,
            waiting: BTreeMap::new(),
            sent: BTreeMap::new(),
            learned: BTreeMap::new(),
            tried: BTreeSet::new(),
            asked: None,
            disk_failed: false,
        });
        self.push(node, None, Input::Interrupted { reason: "starting".to_owned() });
        self.after(1, 100, Event::Tick { node, life: id });
        Ok(())
    }

    pub(super) fn arm_disk(&mut self, node: usize) {
        let operation = [Operation::Read, Operation::Write, Operation::Sync][self.rng.random_range(0..3)];
        let after = [0, 0, 1, 3, 12][self.rng.random_range(0..5)];
        self.nodes[node].disk.arm(operation, after);
    }

    /// Whether the disk has failed this process.
    pub(super) fn take_disk_faults(&mut self, node: usize) -> bool {
        let fired = self.nodes[node].disk.take_fired();
        let errors = [Fault::DiskReadError, Fault::DiskWriteError, Fault::DiskSyncError];
        let failed = fired.iter().any(|fault| errors.contains(fault));
        for fault in fired {
            self.fault(fault);
        }
        match &mut self.nodes[node].life {
            Some(life) => {
                life.disk_failed |= failed;
                life.disk_failed
            }
            None => failed,
        }
    }

    /// The process ends at once; its callers lose their connection.
    pub(super) fn kill(&mut self, node: usize, ending: Ending) {
        let Some(life) = self.nodes[node].life.take() else { return };
        self.say(|_| format!("r{node} ends: {ending:?}"));
        self.nodes[node].disk.unmount();
        self.gone(life);
        self.power_off(node, ending);
        self.restart_later(node);
    }

    /// The process ends in good order: everything is hard.
    pub(super) fn drain(&mut self, node: usize) -> Check {
        let Some(mut life) = self.nodes[node].life.take() else { return Ok(()) };
        self.say(|_| format!("r{node} drains"));
        if let Err(error) = life.replica.harden_now() {
            self.nodes[node].life = Some(life);
            return self.failed(node, 0, &error.to_string(), Vec::new());
        }
        self.nodes[node].hard = life.position.seq;
        self.gone(life);
        self.nodes[node].disk.unmount();
        self.power_off(node, Ending::Killed);
        self.restart_later(node);
        Ok(())
    }

    fn gone(&mut self, life: Life<S>) {
        self.tails.retain(|_, tail| tail.life != life.id);
        let waiting = life.waiting.clone();
        drop(life);
        for waiting in waiting.into_values() {
            self.disconnected(waiting);
        }
    }

    fn power_off(&mut self, node: usize, ending: Ending) {
        let disk = self.nodes[node].disk.clone();
        disk.unmount();
        disk.disarm();
        disk.settle(ending, &mut self.rng);
        self.take_disk_faults(node);
    }

    fn restart_later(&mut self, node: usize) {
        if self.healed {
            self.after(10, 100, Event::Start { node });
        } else if self.rng.random_bool(0.15) {
            self.after(12_000, 16_000, Event::Start { node });
        } else {
            self.after(20, 3_000, Event::Start { node });
        }
    }
}
