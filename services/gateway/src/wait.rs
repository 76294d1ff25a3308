//! Waiting for an action to end. A waiter wakes on its own replica's tail, whichever replica recorded the end.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use aip_kernel::Millis;
use aip_ledger::{Ledger, LedgerError, Watch};
use aip_wire::ActionId;

use crate::machine::{ActionState, GatewayMachine, State, keys};
use aip_service::clock;

/// A watch on an action, made before anything is asked, so that no end is missed.
pub struct Waiter {
    ledger: Ledger<GatewayMachine>,
    watch: Watch<GatewayMachine>,
    id: ActionId,
}

// === impl Waiter ===

impl Waiter {
    pub fn new(ledger: &Ledger<GatewayMachine>, id: &ActionId) -> Waiter {
        let watch = ledger.watch(&keys::action(id.as_str()));
        Waiter { ledger: ledger.clone(), watch, id: id.clone() }
    }

    /// The action's end, or how it stands when `until` (wall clock) has come. None when there is nothing to be seen
    /// of it by then: there is no such action, or the ledger can't be read.
    ///
    /// # Errors
    /// The store is broken or closed: waiting longer would not help.
    pub async fn ended(mut self, until: Millis) -> Result<Option<ActionState>, LedgerError> {
        let patience = Duration::from_millis(until.saturating_sub(clock::now_ms()));
        let deadline = Instant::now() + patience;
        let mut readiness = self.ledger.readiness();
        loop {
            let seen = match self.look() {
                Ok(seen) => seen,
                // an interrupted ledger comes back; what was admitted is still there
                Err(LedgerError::NotReady { .. }) => None,
                Err(error) => return Err(error),
            };
            if seen.as_ref().is_some_and(ActionState::is_terminal) {
                return Ok(seen);
            }
            let woken = async {
                tokio::select! {
                    () = self.watch.changed() => true,
                    changed = readiness.changed() => changed.is_ok(),
                }
            };
            match timeout_at(deadline, woken).await {
                Ok(true) => {}
                Ok(false) => return Err(LedgerError::Closed),
                Err(_) => return Ok(seen),
            }
        }
    }

    fn look(&self) -> Result<Option<ActionState>, LedgerError> {
        let entity = self.ledger.peek(|view| view.entity(&keys::action(self.id.as_str())))?;
        Ok(entity.and_then(|entity| match entity.state {
            State::Action(state) => Some(*state),
            State::Manifest(_) | State::Message(_) => None,
        }))
    }
}
