//! One action: what its records say and what state they leave (11.5), and here the rows that follow from them.

use aip_kernel::{Applying, Bug, EffectMode};

use super::{Effect, GatewayMachine, keys, redrive, shelf, stamp};

mod event;
mod follow;
mod state;

pub use event::{Accepted, ActionEvent, LateAnswer, Pinned, is_queued};
pub use follow::step;
pub use state::{ActionState, Lease, StreamState};

pub(super) use event::streams_to;

/// Folds one event into the action and writes its rows.
///
/// # Errors
/// The event can't follow what stands: a broken invariant.
pub fn apply(
    state: Option<ActionState>,
    event: &ActionEvent,
    applying: &mut Applying<'_, GatewayMachine>,
) -> Result<ActionState, Bug> {
    let (state, _) = step(state, event, applying.header, applying.log_time)?;
    let log_time = applying.log_time;
    let (owner, tenant) = (&state.requester.id, state.tenant.as_deref());
    if matches!(event, ActionEvent::Accepted(_)) {
        shelf::list(applying, owner, tenant);
    }
    // nothing is told of a lease, of where a stream ends, or of what one service says to another
    let silent = matches!(
        event,
        ActionEvent::Leased { .. }
            | ActionEvent::StreamClosed { .. }
            | ActionEvent::ApprovalAsked { .. }
            | ActionEvent::ApprovalWithdrawn { .. }
    );
    if !silent {
        shelf::tell(applying, owner, tenant);
    }
    match event {
        ActionEvent::Accepted(accepted) => {
            applying.timer(keys::TIMER_DEADLINE, accepted.context.deadline_ms);
            redrive::accepted(&state, applying);
            applying.index(keys::INDEX_AUDIT, stamp::stamp(log_time, &applying.header.id, 0));
        }
        ActionEvent::Dispatched { attempt, mode } => {
            applying.timer_done(keys::TIMER_RETRY);
            applying.effect(Effect::Dispatch { attempt: *attempt }, *mode);
        }
        ActionEvent::Enqueued { attempt } => {
            applying.timer_done(keys::TIMER_RETRY);
            applying.effect(Effect::Enqueue { attempt: *attempt }, EffectMode::Repeatable);
        }
        ActionEvent::Started { until, .. } => {
            applying.effects_end();
            applying.timer(keys::TIMER_LEASE, *until);
        }
        ActionEvent::Leased { until, .. } => applying.timer(keys::TIMER_LEASE, *until),
        ActionEvent::Streaming { .. } => {}
        ActionEvent::StreamClosed { .. } => {
            applying.effects_end();
            if let Some(correlation) = state.correlation_id.as_ref().filter(|_| state.stream.native) {
                applying.release(keys::stream(correlation));
            }
        }
        ActionEvent::PendingApproval(_) => {
            applying.effects_end();
            applying.effect(Effect::AskApproval, EffectMode::Repeatable);
        }
        ActionEvent::ApprovalAsked { .. } => applying.effects_end(),
        ActionEvent::ApprovalWithdrawn { effect } => applying.effect_done(effect.clone()),
        ActionEvent::ApprovalResolved(_) => {
            applying.effects_end();
            applying.index(keys::INDEX_AUDIT, stamp::stamp(log_time, &applying.header.id, 0));
        }
        ActionEvent::RevokedLate { .. } => {
            applying.index(keys::INDEX_AUDIT, stamp::stamp(log_time, &applying.header.id, 0));
        }
        ActionEvent::CancelRequested { tell, .. } => {
            if *tell {
                applying.effect(Effect::TellCancel, EffectMode::Repeatable);
            }
            applying.index(keys::INDEX_AUDIT, stamp::stamp(log_time, &applying.header.id, 0));
        }
        ActionEvent::AttemptFailed { retry_at, .. } => {
            applying.effects_end();
            applying.timer_done(keys::TIMER_LEASE);
            applying.timer(keys::TIMER_RETRY, *retry_at);
        }
        ActionEvent::LateAnswer(_) => {
            applying.index(keys::INDEX_AUDIT, stamp::stamp(log_time, &applying.header.id, 0));
        }
        ActionEvent::Completed { .. }
        | ActionEvent::Failed { .. }
        | ActionEvent::Expired { .. }
        | ActionEvent::Cancelled { .. }
        | ActionEvent::DeadLettered { .. } => {
            redrive::ended(&state, applying);
            applying.effects_end();
            applying.timer_done(keys::TIMER_RETRY);
            applying.timer_done(keys::TIMER_LEASE);
            applying.timer_done(keys::TIMER_DEADLINE);
            if state.pinned.streams {
                applying.effect(Effect::CloseStream, EffectMode::Repeatable);
            }
            if state.approval.as_ref().is_some_and(|approving| approving.is_open()) {
                applying.effect(Effect::WithdrawApproval, EffectMode::Repeatable);
            }
            applying.index(keys::INDEX_AUDIT, stamp::stamp(log_time, &applying.header.id, 0));
        }
    }
    Ok(state)
}
