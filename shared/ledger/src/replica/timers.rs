//! Timers: any replica may fire a due one, and the log lets one win. The replica that set it goes first, so that
//! void tries are rare.

use std::collections::HashMap;

use aip_kernel::{EntityKey, Machine, Millis};
use aip_names::limits;

use super::commands::Origin;
use super::{Now, Replica};
use crate::store::StoreError;

#[derive(Debug, Default)]
pub struct Timers {
    /// Fired: when each was due, and when it may fire again if it still stands so. Set anew, it is another timer.
    fired: HashMap<(EntityKey, String), (Millis, u64)>,
    round_at_ms: u64,
}

// === impl Timers ===

impl Timers {
    /// The timer's command has its outcome; if it recorded nothing, the timer rests.
    pub fn fired(&mut self, now: Now, entity: EntityKey, name: String) {
        if let Some((_, until_ms)) = self.fired.get_mut(&(entity, name)) {
            *until_ms = now.mono_ms + limits::TIMER_RETRY_MS;
        }
    }
}

impl<M: Machine> Replica<M> {
    pub(super) fn fire_timers(&mut self, now: Now) -> Result<(), StoreError> {
        if now.mono_ms < self.timers.round_at_ms {
            return Ok(());
        }
        self.timers.round_at_ms = now.mono_ms + limits::LEDGER_ROUND_MS;
        self.timers.fired.retain(|_, (_, until_ms)| *until_ms > now.mono_ms);
        for timer in self.snapshot.due(now.wall_ms, limits::TIMERS_ROUND_MAX)? {
            let own = timer.replica == self.me.replica.0;
            if !own && timer.due.saturating_add(limits::TIMER_FOREIGN_MS) > now.wall_ms {
                continue;
            }
            let key = (timer.entity, timer.name);
            if self.timers.fired.get(&key).is_some_and(|(due, _)| *due == timer.due) {
                continue;
            }
            self.timers.fired.insert(key.clone(), (timer.due, now.mono_ms + limits::LEDGER_PATIENCE_MS));
            let command = self.machine.on_timer(&key.0, &key.1);
            self.commands.push(now, Origin::Timer { entity: key.0, name: key.1 }, command);
        }
        Ok(())
    }
}
