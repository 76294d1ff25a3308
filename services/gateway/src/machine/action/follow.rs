//! How one event moves an action's state (11.5), and the receipts of the transition.

use serde_json::Value;

use aip_kernel::{Bug, Header, Millis};
use aip_wire::ActionLifecycleState as Lifecycle;
use aip_wire::{ActionResult, ActionResultStatus};

use super::event::ActionEvent;
use super::state::{ActionState, Lease};
use crate::machine::{approval, lifecycle, receipts};

/// The state after one event, and the receipts of the transition, sealed into the action's chain. Queries run it over
/// the history to show the receipts that the state only counts.
///
/// # Errors
/// The event can't follow what stands.
pub fn step(
    state: Option<ActionState>,
    event: &ActionEvent,
    header: &Header,
    log_time: Millis,
) -> Result<(ActionState, Vec<Value>), Bug> {
    let mut state = match (state, event) {
        (None, ActionEvent::Accepted(accepted)) => {
            lifecycle::advance(Lifecycle::Unknown, Lifecycle::Accepted)?;
            ActionState::accepted(accepted, log_time)
        }
        (Some(_), ActionEvent::Accepted(_)) => return Err(Bug("an action was accepted twice".to_owned())),
        (None, _) => return Err(Bug("an action went on before it was accepted".to_owned())),
        (Some(state), _) => state,
    };
    match event {
        // they change nothing of an action that has ended
        ActionEvent::LateAnswer(_) => {
            state.late_answers += 1;
            return Ok((state, Vec::new()));
        }
        ActionEvent::StreamClosed { last } => {
            state.stream.last = Some(*last);
            return Ok((state, Vec::new()));
        }
        ActionEvent::ApprovalAsked { .. } | ActionEvent::ApprovalWithdrawn { .. } => {
            return Ok((state, Vec::new()));
        }
        ActionEvent::RevokedLate { .. } => {
            if let Some(approving) = &mut state.approval {
                approving.revoked_late = true;
            }
            return Ok((state, Vec::new()));
        }
        _ => {}
    }
    state.updated_at = log_time;
    follow(&mut state, event, log_time)?;
    let receipts = receipts::of(&mut state, event, header, log_time)?;
    Ok((state, receipts))
}

fn begin(state: &mut ActionState, attempt: u32) -> Result<(), Bug> {
    if attempt != state.attempt + 1 {
        return Err(Bug(format!("attempt {attempt} after attempt {}", state.attempt)));
    }
    state.attempt = attempt;
    Ok(())
}

/// How one event moves the state.
fn follow(state: &mut ActionState, event: &ActionEvent, log_time: Millis) -> Result<(), Bug> {
    match event {
        ActionEvent::Accepted(_)
        | ActionEvent::LateAnswer(_)
        | ActionEvent::StreamClosed { .. }
        | ActionEvent::ApprovalAsked { .. }
        | ActionEvent::ApprovalWithdrawn { .. }
        | ActionEvent::RevokedLate { .. } => {}
        ActionEvent::PendingApproval(pending) => {
            if state.lifecycle != Lifecycle::PendingApproval {
                state.lifecycle = lifecycle::advance(state.lifecycle, Lifecycle::PendingApproval)?;
            }
            approval::pend(state, pending);
        }
        ActionEvent::ApprovalResolved(resolved) => approval::settle(state, resolved)?,
        ActionEvent::Streaming { sequence, .. } => {
            state.lifecycle = lifecycle::advance(state.lifecycle, Lifecycle::Streaming)?;
            state.stream.reached = state.stream.reached.max(*sequence);
        }
        ActionEvent::Dispatched { attempt, .. } => {
            begin(state, *attempt)?;
            state.lifecycle = lifecycle::advance(state.lifecycle, Lifecycle::Running)?;
            state.started_at = state.started_at.or(Some(log_time));
        }
        ActionEvent::Enqueued { attempt } => {
            begin(state, *attempt)?;
            if state.lifecycle != Lifecycle::Queued {
                state.lifecycle = lifecycle::advance(state.lifecycle, Lifecycle::Queued)?;
            }
            state.enqueued = true;
        }
        ActionEvent::Started { attempt, worker, until } => {
            if *attempt != state.attempt {
                return Err(Bug(format!("attempt {attempt} was begun in place of {}", state.attempt)));
            }
            state.lifecycle = lifecycle::advance(state.lifecycle, Lifecycle::Running)?;
            state.lease = Some(Lease { worker: worker.clone(), until: *until, grace: false });
            state.started_at = state.started_at.or(Some(log_time));
        }
        ActionEvent::Leased { until, grace, .. } => {
            let lease = state.lease.as_mut().ok_or_else(|| Bug("a lease that nobody has".to_owned()))?;
            lease.until = *until;
            lease.grace = *grace;
        }
        ActionEvent::CancelRequested { .. } => {
            state.lifecycle = lifecycle::advance(state.lifecycle, Lifecycle::Cancelling)?;
        }
        ActionEvent::AttemptFailed { delivered, .. } => {
            if state.lifecycle != Lifecycle::Queued {
                state.lifecycle = lifecycle::advance(state.lifecycle, Lifecycle::Queued)?;
            }
            state.delivered |= *delivered;
            state.enqueued = false;
            state.lease = None;
        }
        ActionEvent::Cancelled { .. } => {
            let result = ActionResult::bare(state.id.clone(), ActionResultStatus::Cancelled);
            state.end(Lifecycle::Cancelled, result, log_time)?;
        }
        ActionEvent::DeadLettered { error } => {
            let result = ActionResult::failed(state.id.clone(), (**error).clone());
            state.end(Lifecycle::DeadLettered, result, log_time)?;
        }
        ActionEvent::Completed { result, .. } => {
            state.end(Lifecycle::Completed, (**result).clone(), log_time)?;
        }
        ActionEvent::Failed { error, .. } => {
            let result = ActionResult::failed(state.id.clone(), (**error).clone());
            state.end(Lifecycle::Failed, result, log_time)?;
        }
        ActionEvent::Expired { error } => {
            let result = ActionResult::failed(state.id.clone(), (**error).clone());
            state.end(Lifecycle::Expired, result, log_time)?;
        }
    }
    Ok(())
}
