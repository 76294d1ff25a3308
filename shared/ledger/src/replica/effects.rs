//! Effects: who performs what, and when.
//!
//! A repeatable effect is performed by the writer of its record first, if it learns of it before a not-after time by
//! its own monotonic clock, reckoned from before the record was sent: a writer that was paused comes too late and is
//! as any other. When the effect is still pending some time later, any replica may take it up, perhaps two at once,
//! and its id makes that harmless. An effect of mode `Once` is performed only by the process whose record it is; when that process is known to be gone (the same
//! replica lives again), the machine is asked what an unknown outcome means. It never passes to another by time.

use std::collections::HashMap;

use aip_kernel::{EffectId, EffectMode, Machine};
use aip_names::limits;

use super::commands::Origin;
use super::{Now, Output, Replica};
use crate::store::{NewEffect, PendingEffect, StoreError};

#[derive(Debug)]
pub struct Effects<M: Machine> {
    /// Handed to the performer, or their outcome is on its way to the log.
    running: HashMap<EffectId, Running>,
    /// Pending and not running: when this replica may take them up (monotonic).
    due_ms: HashMap<EffectId, u64>,
    scan_after: Option<EffectId>,
    round_at_ms: u64,
    machine: std::marker::PhantomData<M>,
}

/// An effect that was started.
#[derive(Debug, Clone, Copy)]
struct Running {
    mode: EffectMode,
    /// Until it is tried again, if it can't be done now.
    rest_ms: u64,
}

impl<M: Machine> Default for Effects<M> {
    fn default() -> Effects<M> {
        Effects {
            running: HashMap::new(),
            due_ms: HashMap::new(),
            scan_after: None,
            round_at_ms: 0,
            machine: std::marker::PhantomData,
        }
    }
}

// === impl Effects ===

impl<M: Machine> Effects<M> {
    /// The effect's row is gone: done, or its entity has ended.
    pub fn gone(&mut self, id: &EffectId) {
        self.running.remove(id);
        self.due_ms.remove(id);
    }

    /// The performer's outcome was decided. If the row is still there, nothing could be recorded (a stopped entity):
    /// a repeatable effect rests before it is taken up again; one of mode `Once` was started and never is again by
    /// this process.
    pub fn outcome_decided(&mut self, now: Now, id: &EffectId) {
        if self.running.get(id).is_some_and(|running| running.mode == EffectMode::Repeatable) {
            self.rest(id, now.mono_ms + limits::EFFECT_ADOPT_MS);
        }
    }

    fn rest(&mut self, id: &EffectId, until_ms: u64) {
        if self.running.remove(id).is_some() {
            self.due_ms.insert(id.clone(), until_ms);
        }
    }

    fn start(
        &mut self,
        id: EffectId,
        effect: M::Effect,
        running: Running,
        again: bool,
        out: &mut Vec<Output<M>>,
    ) {
        self.due_ms.remove(&id);
        if self.running.insert(id.clone(), running).is_none() {
            out.push(Output::Perform { id, effect, again });
        }
    }
}

impl<M: Machine> Replica<M> {
    /// A commit wrote an effect. Its writer performs it now, if it is in time; the others only remember it. `sent_ms`
    /// is the time before its record was sent, if this process sent it.
    pub(super) fn effect_learned(
        &mut self,
        now: Now,
        new: NewEffect<M::Effect>,
        sent_ms: Option<u64>,
        out: &mut Vec<Output<M>>,
    ) {
        let in_time = sent_ms.is_some_and(|sent| self.is_in_time(now, sent));
        let fresh = self.tail.is_ready() && in_time;
        let room = self.effects.running.len() < limits::EFFECTS_RUNNING_MAX;
        let mine = new.writer == self.me;
        if mine && (new.mode == EffectMode::Once || (fresh && room)) {
            let running = self.running_as(&new.effect, new.mode);
            self.effects.start(new.id, new.effect, running, false, out);
        } else {
            self.effects.due_ms.insert(new.id, now.mono_ms + limits::EFFECT_ADOPT_MS);
        }
    }

    pub(super) fn performed(&mut self, now: Now, id: EffectId, outcome: Option<M::Command>) {
        match outcome {
            Some(command) => self.commands.push(now, Origin::Effect(id), command),
            None => {
                let rest_ms = self.effects.running.get(&id).map_or(limits::EFFECT_RETRY_MS, |r| r.rest_ms);
                self.effects.rest(&id, now.mono_ms + rest_ms);
            }
        }
    }

    fn running_as(&self, effect: &M::Effect, mode: EffectMode) -> Running {
        Running { mode, rest_ms: self.machine.rest_ms(effect).unwrap_or(limits::EFFECT_RETRY_MS) }
    }

    /// Looks through pending effects, a bounded number a round, and takes up what is this replica's to take.
    pub(super) fn adopt_effects(&mut self, now: Now, out: &mut Vec<Output<M>>) -> Result<(), StoreError> {
        if now.mono_ms < self.effects.round_at_ms {
            return Ok(());
        }
        self.effects.round_at_ms = now.mono_ms + limits::LEDGER_ROUND_MS;
        let after = self.effects.scan_after.take();
        let rows = self.snapshot.effects::<M::Effect>(after.as_ref(), limits::EFFECT_SCAN_MAX)?;
        if rows.len() == limits::EFFECT_SCAN_MAX {
            self.effects.scan_after = rows.last().map(|(id, _)| id.clone());
        }
        for (id, pending) in rows {
            if !self.effects.running.contains_key(&id) {
                self.consider(now, id, pending, out);
            }
        }
        Ok(())
    }

    fn consider(
        &mut self,
        now: Now,
        id: EffectId,
        pending: PendingEffect<M::Effect>,
        out: &mut Vec<Output<M>>,
    ) {
        let mine_once = pending.mode == EffectMode::Once && !self.passes_by_time();
        if mine_once {
            // A retry of this process's own, or what an earlier life of this replica left behind.
            if pending.writer == self.me {
                if self.effects.due_ms.get(&id).is_some_and(|due| *due <= now.mono_ms) {
                    let running = self.running_as(&pending.effect, pending.mode);
                    self.effects.start(id, pending.effect, running, false, out);
                }
            } else if pending.writer.replica == self.me.replica {
                let command = self.machine.on_abandoned(&id, &pending.effect);
                let running = self.running_as(&pending.effect, EffectMode::Once);
                self.effects.running.insert(id.clone(), running);
                self.commands.push(now, Origin::Effect(id), command);
            }
            return;
        }
        let own_past = pending.writer.replica == self.me.replica && pending.writer != self.me;
        let wait_ms = if own_past { 0 } else { limits::EFFECT_ADOPT_MS };
        let due = *self.effects.due_ms.entry(id.clone()).or_insert(now.mono_ms + wait_ms);
        if due <= now.mono_ms && self.effects.running.len() < limits::EFFECTS_RUNNING_MAX {
            tracing::info!(effect = %id, writer = %pending.writer, "taking up a pending effect");
            metrics::counter!(aip_names::metrics::EFFECTS_ADOPTED).increment(1);
            let running = self.running_as(&pending.effect, pending.mode);
            self.effects.start(id, pending.effect, running, true, out);
        }
    }

    /// Others may have taken up what a record implies that was sent so long ago.
    fn is_in_time(&self, now: Now, sent_ms: u64) -> bool {
        match self.variant {
            #[cfg(feature = "broken")]
            super::Variant::EffectsWithoutNotAfter => true,
            _ => now.mono_ms.saturating_sub(sent_ms) < limits::EFFECT_ADOPT_MS,
        }
    }

    fn passes_by_time(&self) -> bool {
        match self.variant {
            #[cfg(feature = "broken")]
            super::Variant::ClaimsPassByTime => true,
            _ => false,
        }
    }
}
