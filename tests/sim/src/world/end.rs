//! How a run goes: a storm, after a disaster silence and recovery, and then, when all faults have ceased, everything
//! that was promised.

use aip_kernel::{EffectMode, EntityKey, Hash, Millis, ReplicaId, WriterId};
use aip_ledger::replica::{BarrierMode, Input, Now, Replica, Variant};
use aip_ledger::{Identity, LogInfo, Store};
use rand::Rng as _;
use redb::backends::InMemoryBackend;

use super::{Event, World};
use crate::invariants::{self, Check};
use crate::log::Version;
use crate::{Invariant, Sight, Subject, Violation};

/// How long a healed world may take to bring everything to its end.
const HEALING_MS: u64 = 150_000;
/// How late a timer may be fired by the replica with the slowest clock.
const PATIENCE_MS: u64 = 10_000;

impl<S: Subject> World<S> {
    /// Faults and commands, until all commands were asked.
    pub(super) fn storm(&mut self) -> Check {
        let mut disaster = self.plan.disaster;
        while self.clients.ops.len() < self.plan.commands as usize {
            self.pass(self.now + 100)?;
            if let Some((kind, _)) = disaster.take_if(|(_, after)| self.clients.ops.len() >= *after as usize)
            {
                self.strike(kind)?;
            }
        }
        let rest = self.rng.random_range(100..4_000);
        self.pass(self.now + rest)
    }

    pub(super) fn end(&mut self) -> Check {
        if self.log.version() > 0 {
            self.pass(self.now + 8_000)?;
            self.heal();
            self.pass(self.now + 5_000)?;
            self.silent()?;
            self.recover()?;
        }
        self.heal();
        let deadline = self.now + HEALING_MS;
        loop {
            self.pass(self.now + 500)?;
            match self.unsettled() {
                None => break,
                Some(violation) if self.now >= deadline => return Err(violation),
                Some(_) => {}
            }
        }
        self.all_kept()
    }

    /// All faults cease, and everyone notices what happened to them.
    fn heal(&mut self) {
        self.say(|_| "healed".to_owned());
        self.healed = true;
        self.log.up = true;
        for node in 0..self.nodes.len() {
            self.nodes[node].partitioned_until = 0;
            self.nodes[node].disk.disarm();
            match &mut self.nodes[node].life {
                None => self.after(0, 100, Event::Start { node }),
                Some(life) => {
                    life.paused_until = 0;
                    let life = life.id;
                    self.after(0, 100, Event::Interrupt { node, life });
                    self.after(0, 100, Event::Step { node, life });
                    self.after(0, 100, Event::Tick { node, life });
                }
            }
        }
    }

    /// After a disaster nobody who knows better serves.
    fn silent(&mut self) -> Check {
        let stream = self.log.current();
        for (index, node) in self.nodes.iter().enumerate() {
            let Some(life) = &node.life else { continue };
            if life.ready && !stream.holds(&life.position) {
                let detail = format!("r{index} serves at {:?} beside the log", life.position);
                return Err(Violation::new(Invariant::Ready, detail));
            }
        }
        Ok(())
    }

    /// What has not come to its end yet.
    fn unsettled(&self) -> Option<Violation> {
        let oracle = &self.oracles[self.log.version()];
        let last = oracle.last();
        for (index, node) in self.nodes.iter().enumerate() {
            let Some(life) = &node.life else {
                return Some(Violation::new(Invariant::Agree, format!("r{index} does not live")));
            };
            if !life.ready || life.position.seq != last {
                let detail = format!("r{index} is at {} of {last}, ready: {}", life.position.seq, life.ready);
                return Some(Violation::new(Invariant::Agree, detail));
            }
            if !life.waiting.is_empty() {
                let detail = format!("r{index} owes answers: {:?}", life.waiting);
                return Some(Violation::new(Invariant::Answered, detail));
            }
        }
        if let Some(op) = self.clients.ops.iter().find(|op| !op.through) {
            return Some(Violation::new(Invariant::Answered, format!("{op:?} is not through")));
        }
        let going = |entity: &EntityKey| !oracle.stopped.contains_key(entity);
        if let Some((id, fate)) = oracle.effects_at(last).find(|(id, _)| going(&id.entity)) {
            return Some(Violation::new(Invariant::Settled, format!("{id} is pending: {fate:?}")));
        }
        let wall_ms = (0..self.nodes.len()).map(|node| self.wall_ms(node)).min().unwrap_or_default();
        let late = |due: Millis| due + PATIENCE_MS <= wall_ms;
        let mut timers = oracle.timers_at(last);
        if let Some((entity, name, (due, _))) =
            timers.find(|(entity, _, (due, _))| going(entity) && late(*due))
        {
            return Some(Violation::new(Invariant::Settled, format!("{name} of {entity} was due at {due}")));
        }
        let flying = self.flying.len();
        let busy = self.nodes.iter().filter_map(|node| node.life.as_ref());
        let busy = busy.filter(|life| life.replica.load() > 0).count();
        (flying > 0 || busy > 0).then(|| {
            Violation::new(Invariant::Settled, format!("{flying} appends fly and {busy} replicas are busy"))
        })
    }

    /// Everything that was promised is there, everywhere the same.
    fn all_kept(&mut self) -> Check {
        let version = self.log.version();
        let oracle = &self.oracles[version];
        let last = oracle.last();
        for seq in 1..=last {
            for (entity, stood) in oracle.entities_at(seq) {
                let sound = self.subject.sound(&stood.state);
                sound.map_err(|why| Violation::new(Invariant::Sound, format!("{entity} at {seq}: {why}")))?;
            }
        }
        for evidence in &self.clients.acknowledged {
            invariants::effective(oracle, evidence, last)?;
        }
        for (id, fate) in &oracle.effects {
            let times = self.performed.get(&(id.clone(), fate.record)).copied().unwrap_or(0);
            invariants::performed(id, fate, times)?;
        }
        let replay = self.replay(version)?;
        for (index, node) in self.nodes.iter().enumerate() {
            let Some(life) = &node.life else { continue };
            let snapshot = life.replica.snapshot();
            invariants::store_agrees(oracle, snapshot, last)?;
            invariants::indexes_agree(&self.subject, oracle, snapshot)?;
            invariants::chained::<S::M>(snapshot)?;
            let digest = snapshot.digest().map_err(unreadable)?;
            invariants::replayed(digest, replay, &format!("r{index}"))?;
        }
        let unknown = oracle.effects.iter().filter(|(id, fate)| {
            let started = self.started.contains_key(&((*id).clone(), fate.record));
            fate.mode == EffectMode::Once && fate.gone.is_some() && !fate.ended && !started
        });
        if unknown.count() > 0 {
            self.sight(Sight::OnceAbandoned);
        }
        Ok(())
    }

    /// The digest of a fresh store that reads the whole log, by a replica that never serves.
    fn replay(&self, version: Version) -> Result<Hash, Violation> {
        let stream = self.log.stream(version);
        let identity = Identity { service: "toy".to_owned(), trust_domain: "sim.local".to_owned(), shard: 0 };
        let me = WriterId { replica: ReplicaId("replay".to_owned()), life: "0".to_owned() };
        let digest = || {
            let store = Store::with_backend(InMemoryBackend::new(), &identity)?;
            let machine: S::M = self.subject.machine();
            let mut replica = Replica::new(machine, store, me, BarrierMode::LastSequence, Variant::Sound)?;
            // A log that is said to go on keeps this one catching up for ever.
            let info = LogInfo { last_seq: stream.last() + 1, ..stream.info() };
            let messages = stream.messages().cloned().map(Input::<S::M>::Message);
            let now = Now { wall_ms: 0, mono_ms: 0, entropy: 0 };
            replica.step(now, [Input::Opened(info)].into_iter().chain(messages), &mut Vec::new())?;
            replica.snapshot().digest()
        };
        digest().map_err(unreadable)
    }
}

fn unreadable(error: aip_ledger::StoreError) -> Violation {
    Violation::new(Invariant::Replay, error.to_string())
}
