//! The states of an action and how one follows another (11.5): one table, which every change of state goes through.
//!
//! The wire knows no transitions, only states; these are ours. Rows that only later verbs use (streams, approvals,
//! cancellation, queues) stand here already, so that the table is judged as a whole.

use aip_kernel::Bug;
use aip_wire::ActionLifecycleState::{self as State, *};

/// From each state, the states that may follow. `unknown` stands for an action that has no record.
pub const TRANSITIONS: &[(State, &[State])] = &[
    (Unknown, &[Accepted]),
    (Accepted, &[Queued, Running, Streaming, PendingApproval, Cancelling, Failed, Expired]),
    (Queued, &[Running, Streaming, PendingApproval, Cancelling, Cancelled, Failed, Expired, DeadLettered]),
    (Running, &[Queued, Streaming, PendingApproval, Cancelling, Completed, Failed, Expired]),
    (Streaming, &[Queued, PendingApproval, Cancelling, Completed, Failed, Expired]),
    (PendingApproval, &[Queued, Running, Streaming, Cancelling, Cancelled, Failed, Expired]),
    (Cancelling, &[Cancelled, Completed, Failed, Expired]),
    (Cancelled, &[]),
    (Completed, &[]),
    (Failed, &[]),
    (Expired, &[]),
    (DeadLettered, &[]),
];

/// True for the states that an action never leaves.
pub fn is_terminal(state: State) -> bool {
    matches!(state, Cancelled | Completed | Failed | Expired | DeadLettered)
}

pub fn may_follow(from: State, to: State) -> bool {
    TRANSITIONS.iter().any(|(state, next)| *state == from && next.contains(&to))
}

/// # Errors
/// The table does not have the transition: whoever recorded it broke the rule.
pub fn advance(from: State, to: State) -> Result<State, Bug> {
    if may_follow(from, to) { Ok(to) } else { Err(Bug(format!("an action went from {from} to {to}"))) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_table_has_every_state_once() {
        let rows: Vec<State> = TRANSITIONS.iter().map(|(state, _)| *state).collect();
        assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), rows.len());
        assert_eq!(rows.iter().collect::<BTreeSet<_>>(), State::ALL.iter().collect());
    }

    #[test]
    fn terminal_states_never_reopen_and_only_they_end() {
        for (state, next) in TRANSITIONS {
            assert_eq!(next.is_empty(), is_terminal(*state), "{state}");
        }
    }

    #[test]
    fn every_state_but_unknown_is_reached_and_every_state_can_end() {
        for state in State::ALL {
            let reached = TRANSITIONS.iter().any(|(_, next)| next.contains(state));
            assert_eq!(reached, *state != Unknown, "{state}");
            let mut seen = BTreeSet::from([*state]);
            while let Some(more) = TRANSITIONS
                .iter()
                .filter(|(from, _)| seen.contains(from))
                .flat_map(|(_, next)| next.iter())
                .find(|next| !seen.contains(next))
            {
                seen.insert(*more);
            }
            assert!(seen.iter().any(|state| is_terminal(*state)), "{state}");
        }
    }

    #[test]
    fn nothing_follows_itself_and_nothing_ends_unseen() {
        for state in State::ALL {
            assert!(!may_follow(*state, *state), "{state}");
            assert!(!may_follow(*state, Unknown), "{state}");
        }
        assert!(!may_follow(Unknown, Completed) && !may_follow(Accepted, Completed));
        assert!(advance(Completed, Running).is_err());
    }
}
