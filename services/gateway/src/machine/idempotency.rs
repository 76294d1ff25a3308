//! What a key that is held means for the next action that brings it (9.5). A key is reserved by the record that admits
//! its action, so a refusal never uses one up.

use serde::{Deserialize, Serialize};

use aip_kernel::{Fault, Millis, View};
use aip_wire::{ActionId, CapabilityId, IdempotencyCollisionBehavior};

use super::{GatewayMachine, keys, load_action, redrive};

/// A key's claim and how long it stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reservation {
    pub claim: String,
    pub until: Millis,
    pub on_collision: Collision,
}

/// What a held key means for an action with another input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Collision {
    /// The first result is the answer, whatever the input.
    Original,
    Conflict,
}

/// What stands in the way of a key's reservation.
pub(super) enum Held {
    Free,
    /// The first action answers this one too.
    By(ActionId),
    Conflict,
}

// === impl Collision ===

impl From<IdempotencyCollisionBehavior> for Collision {
    /// `revalidate_input_hash` gives the original only to the same input, which every behaviour does; for another
    /// input it is a conflict.
    fn from(behavior: IdempotencyCollisionBehavior) -> Collision {
        match behavior {
            IdempotencyCollisionBehavior::ReturnOriginalResult => Collision::Original,
            IdempotencyCollisionBehavior::RejectConflict
            | IdempotencyCollisionBehavior::RevalidateInputHash => Collision::Conflict,
        }
    }
}

pub(super) fn look(
    view: &dyn View<GatewayMachine>,
    reservation: &Reservation,
    capability_id: &CapabilityId,
    input_hash: &str,
) -> Result<Held, Fault> {
    let Some(holder) = view.claim(&reservation.claim)? else { return Ok(Held::Free) };
    if holder.entity.kind != keys::ACTION {
        return Err(Fault(format!("a key is held by {}", holder.entity)));
    }
    let Some(first) = load_action(view, &holder.entity.id)? else {
        return Err(Fault(format!("a key is held by {}, which is not there", holder.entity)));
    };
    let same_input = first.state.input_hash == input_hash;
    let same_capability = first.state.capability_id == *capability_id;
    // Within a wide scope the holder may be another capability's action, whose result would be no answer at all.
    if same_capability && (same_input || reservation.on_collision == Collision::Original) {
        // a dead letter's key stands for whatever has taken it up
        let latest = redrive::latest(view, &first.state)?;
        Ok(Held::By(latest.unwrap_or_else(|| first.state.id.clone())))
    } else {
        Ok(Held::Conflict)
    }
}
