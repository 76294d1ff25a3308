//! What performers do with the effects that they are handed, and when.

use aip_kernel::{EffectId, EffectMode, Hash};
use aip_ledger::replica::Input;
use aip_names::limits::EFFECT_ADOPT_MS;

use super::{Event, LifeId, World};
use crate::invariants::{self, Check};
use crate::subject::{CommandOf, EffectOf};
use crate::{Fault, Sight, Subject};

impl<S: Subject> World<S> {
    /// Hands an effect to the performer, who starts it now, late, or not now.
    pub(super) fn perform(&mut self, node: usize, life: LifeId, id: EffectId, effect: EffectOf<S>) -> Check {
        let position = self.position(node);
        let oracle = &self.oracles[self.nodes[node].version];
        let fate = invariants::effect_committed(oracle, &id, &effect, position)?;
        let (record, mode) = (fate.record, fate.mode);
        let mut late = false;
        let foreign = self.nodes[node].life.as_ref().is_some_and(|life| life.me != fate.writer);
        if let Some(life) = &mut self.nodes[node].life {
            // Whoever is asked counts, whether or not the performer starts: it may not be another process's.
            let starts = self.started.get(&(id.clone(), record)).copied().unwrap_or(0);
            invariants::started_once(&id, fate, &life.me, starts)?;
            let first = life.tried.insert((id.clone(), record));
            if first && life.me == fate.writer && mode == EffectMode::Repeatable {
                let sent = life.sent.get(&fate.batch).copied().unwrap_or_default();
                let learned = life.learned.get(&fate.since).copied().unwrap_or(self.now);
                invariants::in_time(&id, self.now, sent, learned)?;
                late = self.now >= sent + EFFECT_ADOPT_MS;
            }
        }
        if late {
            self.sight(Sight::OwnEffectLate);
        }
        self.say(|_| format!("r{node} performs {id}: {effect:?}"));
        if foreign {
            self.sight(Sight::EffectAdopted);
        }
        if self.chance(self.plan.not_now) {
            self.fault(Fault::PerformerNotNow);
            let input = Input::Performed { id, outcome: None };
            self.after(1, 500, Event::Deliver { node, life, input });
            return Ok(());
        }
        *self.started.entry((id.clone(), record)).or_default() += 1;
        if mode == EffectMode::Once {
            self.sight(Sight::OnceStarted);
        }
        let outcome = self.subject.outcome(&id, &effect);
        if self.chance(self.plan.slow) {
            self.fault(Fault::PerformerSlow);
            self.after(1_000, 16_000, Event::Worked { node, life, id, record, outcome });
        } else {
            self.after(0, 50, Event::Worked { node, life, id, record, outcome });
        }
        Ok(())
    }

    /// The performer is through, if its process has lived so long. If not, it may have been through before that.
    pub(super) fn worked(
        &mut self,
        node: usize,
        life: LifeId,
        id: EffectId,
        record: Hash,
        outcome: CommandOf<S>,
    ) {
        if self.nodes[node].life(life).is_none() {
            self.fault(Fault::PerformerDied);
            return;
        }
        *self.performed.entry((id.clone(), record)).or_default() += 1;
        self.sight(Sight::EffectPerformed);
        self.push(node, None, Input::Performed { id, outcome: Some(outcome) });
    }
}
