//! A step of a replica: what it is given, what it did to its store, and what happens when that fails.

use aip_kernel::EntityKey;
use aip_ledger::Position;
use aip_ledger::replica::{Input, Now, Output};
use rand::Rng as _;

use super::{Event, LifeId, World};
use crate::disk::Ending;
use crate::invariants::{self, Check};
use crate::log::Version;
use crate::{Invariant, Subject, Violation};

impl<S: Subject> World<S> {
    /// Puts something before the replica, which takes it with its next step.
    pub(super) fn push(&mut self, node: usize, from: Option<Version>, input: Input<S::M>) {
        let Some(life) = &mut self.nodes[node].life else { return };
        life.inbox.push((from, input));
        if !life.step_due {
            life.step_due = true;
            let (id, paused) = (life.id, life.paused_until.saturating_sub(self.now));
            self.after(paused, paused + 3, Event::Step { node, life: id });
        }
    }

    pub(super) fn tick(&mut self, node: usize, life: LifeId) {
        if self.nodes[node].life(life).is_some() {
            self.push(node, None, Input::Tick);
            let paused = self.nodes[node].life(life).map_or(0, |life| life.paused_until);
            let paused = paused.saturating_sub(self.now);
            self.after(paused + 20, paused + self.plan.tick_ms, Event::Tick { node, life });
        }
    }

    pub(super) fn step(&mut self, node: usize, id: LifeId) -> Check {
        let now = self.now;
        let entropy = self.rng.random();
        let most = if self.rng.random_bool(0.3) { self.rng.random_range(1..4) } else { usize::MAX };
        let wall_ms = self.wall_ms(node);
        let breaks = self.chance(self.plan.disk_step);
        let Some(life) = self.nodes[node].life(id) else { return Ok(()) };
        if life.paused_until > now {
            let paused = life.paused_until - now;
            self.after(paused, paused + 3, Event::Step { node, life: id });
            return Ok(());
        }
        let inputs: Vec<_> = life.inbox.drain(..most.min(life.inbox.len())).collect();
        life.step_due = !life.inbox.is_empty();
        let again = life.step_due;
        let before = life.position;
        let (mut moved, mut reached) = (false, 0);
        let mut given = Vec::with_capacity(inputs.len());
        for (from, input) in inputs {
            match &input {
                Input::Interrupted { .. } => life.open = None,
                Input::Opened(_) => life.open = from.map(|version| (version, false)),
                Input::Message(message) => {
                    moved = true;
                    reached = reached.max(message.seq);
                    life.open = life.open.map(|(version, _)| (version, true));
                }
                _ => {}
            }
            given.push(input);
        }
        if breaks && moved {
            self.arm_disk(node);
        }
        let Some(life) = self.nodes[node].life(id) else { return Ok(()) };
        let mut out = Vec::new();
        let at = Now { wall_ms, mono_ms: now - life.began, entropy };
        let stepped = life.replica.step(at, given, &mut out);
        self.nodes[node].reached = self.nodes[node].reached.max(reached);
        self.counts.steps += 1;
        if again {
            self.after(0, 2, Event::Step { node, life: id });
        }
        match stepped {
            Ok(()) => self.stepped(node, id, before, moved, out),
            Err(error) => self.failed(node, id, &error.to_string(), out),
        }
    }

    /// Checks what a step did to the store, and hands out what it said.
    fn stepped(
        &mut self,
        node: usize,
        id: LifeId,
        before: Position,
        moved: bool,
        out: Vec<Output<S::M>>,
    ) -> Check {
        let at = self.now;
        let open = self.nodes[node].life.as_ref().and_then(|life| life.open);
        if moved {
            let Some(life) = self.nodes[node].life(id) else { return Ok(()) };
            match life.replica.store().standing() {
                Ok(standing) => life.position = standing.position,
                Err(error) => return self.failed(node, id, &error.to_string(), out),
            }
        }
        let Some(life) = self.nodes[node].life(id) else { return Ok(()) };
        let (position, idle) = (life.position, life.replica.is_idle());
        let said = out.iter().filter_map(|output| match output {
            Output::Changed(entities) => Some(entities.clone()),
            _ => None,
        });
        let said: Vec<_> = said.flatten().collect();
        if idle {
            self.nodes[node].hard = position.seq;
        }
        if position != before {
            if let Some(life) = self.nodes[node].life(id) {
                life.learned.extend((before.seq + 1..=position.seq).map(|seq| (seq, at)));
            }
            let version = open.map_or(self.nodes[node].version, |(version, _)| version);
            for position in [&before, &position] {
                invariants::may_speak(Some(self.log.stream(version)), position, "a message is applied")?;
            }
            self.nodes[node].version = version;
            if let Err(violation) = self.learned(node, before, position, &said) {
                return self.unless_disk_failed(node, violation);
            }
        }
        self.speak_all(node, id, open, out)
    }

    fn learned(&self, node: usize, before: Position, position: Position, said: &[EntityKey]) -> Check {
        let Some(life) = &self.nodes[node].life else { return Ok(()) };
        let oracle = &self.oracles[self.nodes[node].version];
        invariants::judged(oracle, before.seq, position.seq, said)?;
        let snapshot = life.replica.snapshot();
        if position.seq.is_multiple_of(8) {
            return invariants::store_agrees(oracle, snapshot, position.seq);
        }
        for key in said {
            invariants::entity_agrees(oracle, snapshot, position.seq, key)?;
        }
        Ok(())
    }

    /// A store that can't be read is no lie when its disk is broken: then the process ends.
    fn unless_disk_failed(&mut self, node: usize, violation: Violation) -> Check {
        if self.take_disk_faults(node) {
            self.kill(node, Ending::Killed);
            return Ok(());
        }
        Err(violation)
    }

    /// The store failed, so the process ends. A shell may or may not come to hand out what the step had said.
    pub(super) fn failed(&mut self, node: usize, id: LifeId, error: &str, out: Vec<Output<S::M>>) -> Check {
        self.say(|_| format!("r{node} fails: {error}"));
        if !self.take_disk_faults(node) {
            let detail = format!("the store of r{node} failed on a good disk: {error}");
            return Err(Violation::new(Invariant::Durable, detail));
        }
        if self.rng.random_bool(0.8) {
            let open = self.nodes[node].life.as_ref().and_then(|life| life.open);
            self.speak_all(node, id, open, out)?;
        }
        let ending = if self.rng.random() { Ending::Killed } else { Ending::PowerLoss };
        self.kill(node, ending);
        Ok(())
    }
}
