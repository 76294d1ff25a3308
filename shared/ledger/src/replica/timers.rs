//! Timers: any replica may fire a due one, and the log lets one win. The replica that set it goes first, so that
//! void tries are rare.

use std::collections::HashMap;

use aip_kernel::{EntityKey, Machine};
use aip_names::limits;

use super::commands::Origin;
use super::{Now, Replica};
use crate::store::StoreError;

#[derive(Debug, Default)]
pub struct Timers {
    /// Fired, with the time at which they may fire again if they still stand.
    fired_until_ms: HashMap<(EntityKey, String), u64>,
    round_at_ms: u64,
}

// === impl Timers ===

impl Timers {
    /// The timer's command has its outcome; if it recorded nothing, the timer rests.
    pub fn fired(&mut self, now: Now, entity: EntityKey, name: String) {
        self.fired_until_ms.insert((entity, name), now.mono_ms + limits::TIMER_RETRY_MS);
    }
}

impl<M: Machine> Replica<M> {
    pub(super) fn fire_timers(&mut self, now: Now) -> Result<(), StoreError> {
        if now.mono_ms < self.timers.round_at_ms {
            return Ok(());
        }
        self.timers.round_at_ms = now.mono_ms + limits::LEDGER_ROUND_MS;
        self.timers.fired_until_ms.retain(|_, until| *until > now.mono_ms);
        for timer in self.snapshot.due(now.wall_ms, limits::TIMERS_ROUND_MAX)? {
            let own = timer.replica == self.me.replica.0;
            if !own && timer.due.saturating_add(limits::TIMER_FOREIGN_MS) > now.wall_ms {
                continue;
            }
            let key = (timer.entity, timer.name);
            if self.timers.fired_until_ms.contains_key(&key) {
                continue;
            }
            self.timers.fired_until_ms.insert(key.clone(), now.mono_ms + limits::LEDGER_PATIENCE_MS);
            let command = self.machine.on_timer(&key.0, &key.1);
            self.commands.push(now, Origin::Timer { entity: key.0, name: key.1 }, command);
        }
        Ok(())
    }
}
