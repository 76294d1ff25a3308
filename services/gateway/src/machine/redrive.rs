//! Makes a new action of a dead letter. The dead letter has ended and stays so (11.5): the new action names it, and an
//! index leads from the first dead letter of a line to all that were made of it. One claim a line sees to it that no two
//! of them can both come to something; it is given up when the one that holds it is dead-lettered as well.

use std::ops::Bound;

use serde::{Deserialize, Serialize};

use aip_kernel::{Applying, Decision, Facts, Fault, View};
use aip_wire::trusted::PrincipalRef;
use aip_wire::{ActionId, ActionLifecycleState as Lifecycle};

use super::action::ActionState;
use super::admit::Admit;
use super::{Answer, GatewayMachine, Refusal, keys, load_action};

/// How an action came from a dead letter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Redrives {
    /// The dead letter that was taken up.
    pub of: ActionId,
    /// The first dead letter of the line.
    pub root: ActionId,
    /// The operator's own action, which ordered it.
    pub order: ActionId,
    /// The operator.
    pub by: PrincipalRef,
}

/// A dead letter's action, admitted again under an id that follows from the order. Made only by the verb.
#[derive(Debug)]
pub struct Redrive {
    pub(crate) admit: Admit,
    pub(crate) of: ActionId,
    pub(crate) order: ActionId,
    pub(crate) by: PrincipalRef,
}

pub(super) fn decide(
    view: &dyn View<GatewayMachine>,
    redrive: &Redrive,
    facts: &Facts,
) -> Result<Decision<GatewayMachine>, Fault> {
    let Redrive { admit, of, order, by } = redrive;
    let refused = |refusal| Ok(Decision::Answer(Answer::Refused(refusal)));
    if let Some(before) = load_action(view, admit.action.id.as_str())? {
        // the same order, performed once more
        return match before.state.redrives.is_some_and(|redrives| redrives.order == *order) {
            true => Ok(Decision::Answer(Answer::Nothing)),
            false => refused(Refusal::ActionIdConflict),
        };
    }
    let Some(dead) = load_action(view, of.as_str())? else { return refused(Refusal::NoSuchAction) };
    if dead.state.lifecycle != Lifecycle::DeadLettered {
        return refused(Refusal::NotDeadLettered);
    }
    let root = root(&dead.state).clone();
    if let Some(first) = alive(view, &root)? {
        return Ok(Decision::Answer(Answer::Duplicate { first }));
    }
    if let Some(correlation) = admit.streams_to()
        && view.claim(&keys::stream(correlation))?.is_some()
    {
        return refused(Refusal::CorrelationInUse);
    }
    if facts.now.max(facts.log_time) >= admit.context.deadline_ms {
        return refused(Refusal::DeadlinePassed);
    }
    let Some(standing) = admit.stands(view)? else { return refused(Refusal::CapabilityChanged) };
    let Some(reservations) = free(view, admit, &root)? else { return refused(Refusal::IdempotencyConflict) };
    let claim = keys::redrive_claim(root.as_str());
    let redrives = Redrives { of: of.clone(), root, order: order.clone(), by: by.clone() };
    let draft = Admit { reservations, ..admit.clone() }.draft(Some(redrives));
    let draft = standing.drafted(draft).claims(claim, None);
    Ok(Decision::Append { draft, answer: Answer::Admitted })
}

/// The keys that the new action reserves itself. One that an action of the line still holds goes on standing for the
/// line; none when another action has got one meanwhile, for that one was the same intent.
fn free(
    view: &dyn View<GatewayMachine>,
    admit: &Admit,
    line: &ActionId,
) -> Result<Option<Vec<super::Reservation>>, Fault> {
    let mut free = Vec::new();
    for reservation in &admit.reservations {
        let Some(holder) = view.claim(&reservation.claim)? else {
            free.push(reservation.clone());
            continue;
        };
        let holder = load_action(view, &holder.entity.id)?;
        if holder.is_none_or(|holder| root(&holder.state) != line) {
            return Ok(None);
        }
    }
    Ok(Some(free))
}

/// The first dead letter of the line that an action belongs to: itself, if it was not made of one.
fn root(state: &ActionState) -> &ActionId {
    state.redrives.as_ref().map_or(&state.id, |redrives| &redrives.root)
}

/// The action that was made of a dead letter of this line and has not been dead-lettered.
fn alive(view: &dyn View<GatewayMachine>, root: &ActionId) -> Result<Option<ActionId>, Fault> {
    let holder = view.claim(&keys::redrive_claim(root.as_str()))?;
    Ok(holder.map(|holder| ActionId::opaque(holder.entity.id)))
}

/// The newest action that was made of this dead letter or of its line, if there is one behind it.
///
/// # Errors
/// The store can't answer.
pub fn latest(view: &dyn View<GatewayMachine>, state: &ActionState) -> Result<Option<ActionId>, Fault> {
    if state.lifecycle != Lifecycle::DeadLettered {
        return Ok(None);
    }
    let (from, to) = keys::redrives_of(root(state).as_str());
    let found = view.scan(keys::INDEX_REDRIVES, Bound::Included(&from), Bound::Excluded(&to), 1)?;
    let newest = found.into_iter().next().map(|(_, entity)| ActionId::opaque(entity.id));
    Ok(newest.filter(|newest| *newest != state.id))
}

/// The rows of an action that takes up a dead letter.
pub(super) fn accepted(state: &ActionState, applying: &mut Applying<'_, GatewayMachine>) {
    if let Some(redrives) = &state.redrives {
        applying.index(keys::INDEX_REDRIVES, keys::redrive(redrives.root.as_str(), applying.place));
    }
}

/// Lets the line be taken up again when this came to nothing.
pub(super) fn ended(state: &ActionState, applying: &mut Applying<'_, GatewayMachine>) {
    if let Some(redrives) = &state.redrives
        && state.lifecycle == Lifecycle::DeadLettered
    {
        applying.release(keys::redrive_claim(redrives.root.as_str()));
    }
}
