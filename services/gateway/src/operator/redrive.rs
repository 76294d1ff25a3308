//! Takes up a dead letter as a new action: the same capability, input, owner, tenant and mode, admitted again by what
//! holds now. The dead letter stays as it is.

use std::sync::Arc;

use aip_admission::{Admitted, Family, Reader, Thing, admit_again, idempotency, recall};
use aip_kernel::Millis;
use aip_names::limits::{ID_BYTES_MAX, MANIFEST_ROWS_MAX, OPERATOR_REASON_LENGTH_MAX};
use aip_names::operator::GATEWAY_REDRIVE;
use aip_wire::{
    Action, ActionId, ActionLifecycleState, CapabilityId, CorrelationId, ProtocolError, Refusal, codes,
    codes::Code,
};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Desk, Order, Verb};
use crate::admit;
use crate::catalog::{Offer, Place};
use crate::errors;
use crate::machine::action::{Accepted, ActionEvent};
use crate::machine::manifest::{self, Row};
use crate::machine::{self, ActionState, Answer, Command, Event, Redrive, keys, stamp};
use crate::query;
use aip_service::{clock, fault};

pub(super) const VERB: Verb = Verb { capability, perform };

#[derive(Deserialize)]
struct Input {
    action_id: ActionId,
}

/// A dead letter that its reader may see, with the record of its admission.
struct Letter {
    state: ActionState,
    accepted: Accepted,
}

fn capability() -> Value {
    let id = json!({"type": "string", "minLength": 1, "maxLength": ID_BYTES_MAX});
    json!({
        "id": GATEWAY_REDRIVE,
        "name": "Redrive a dead letter",
        "kind": "tool",
        "description": "Has a dead-lettered action done again, as a new action of its owner that names it.",
        "risk": "high",
        "stability": "experimental",
        "input_schema": {
            "type": "object",
            "additionalProperties": false,
            "required": ["action_id"],
            "properties": {
                "action_id": id,
                "reason": {"type": "string", "maxLength": OPERATOR_REASON_LENGTH_MAX},
            },
        },
        "output_schema": {
            "type": "object",
            "required": ["action_id", "redriven"],
            "properties": {"action_id": {"type": "string"}, "redriven": {"type": "string"}},
        },
        "contract": {
            "side_effects": ["write"],
            "idempotency": {
                "requirement": "optional", "collision_behavior": "reject_conflict", "key_scope": "principal",
            },
            "execution": {
                "supports_sync": true, "supports_async": false, "supports_streaming": false,
                "supports_cancel": false, "supports_retry": true, "expected_completion": "sync",
                "retry_safety": "safe",
            },
            "data": {"sensitivity": "internal", "contains_pii": false, "redaction_required": false},
        },
    })
}

fn perform(desk: Desk, order: Order) -> BoxFuture<'static, Result<Value, ProtocolError>> {
    Box::pin(async move { desk.redrive(&order).await })
}

// === impl Desk ===

impl Desk {
    async fn redrive(&self, order: &Order) -> Result<Value, ProtocolError> {
        let input = Input::deserialize(&order.accepted.action.input);
        let of = input.map_err(|_| errors::of(codes::ACTION_INPUT))?.action_id;
        // every replica, every time, comes to the same id: an order makes one action
        let stamp = stamp::stamp(order.state.accepted_at, order.state.id.as_str(), 0);
        let id = ActionId::opaque(format!("{}{stamp}", ActionId::PREFIX));
        let done = json!({"action_id": id, "redriven": of});
        let read = self.ledger.read(|view| {
            let first = view.history(&keys::action(of.as_str()), 1, 1)?.into_iter().next();
            Ok((
                query::action(view, &of)?,
                first.map(|(record, _, _)| record.events),
                query::action(view, &id)?,
            ))
        });
        let (dead, first, before) = read.await.map_err(|error| fault::of_ledger(&error))?;
        // what is done is done, whatever may be forbidden since
        let before = before.and_then(|state| state.redrives);
        if before.is_some_and(|redrives| redrives.order == order.state.id) {
            return Ok(done);
        }
        let letter = self.letter(order, dead, first.unwrap_or_default())?;
        let now = clock::now_ms();
        let (admitted, offer, row) = self.admitted(&letter, &id, now).await?;
        let mut admit = admit::command(&admitted, &offer, row, self.gateway.clone(), now)?;
        admit.message_id = order.accepted.message_id.clone();
        let redrive = Redrive {
            admit,
            of: of.clone(),
            order: order.state.id.clone(),
            by: order.state.requester.clone(),
        };
        let decided = self.ledger.decide(Command::Redrive(Box::new(redrive))).await;
        match decided.map_err(|error| fault::of_ledger(&error))? {
            Answer::Admitted | Answer::Nothing => Ok(done),
            Answer::Duplicate { first } => {
                Err(errors::with_details(codes::ACTION_REDRIVEN, json!({"action_id": first, "redriven": of})))
            }
            // what was found registered is gone: it is looked for again
            Answer::Refused(machine::Refusal::CapabilityChanged) => {
                Err(errors::of(codes::SERVICE_OVERLOADED))
            }
            Answer::Refused(refusal) => Err(errors::of(errors::of_refusal(refusal))),
            other => {
                tracing::error!(?other, "a redrive was answered with something else");
                Err(errors::of(codes::SERVICE_INTERNAL))
            }
        }
    }

    /// The dead letter with the record of its admission. What the operator may not see is not there.
    fn letter(&self, order: &Order, dead: Option<ActionState>, first: Vec<Event>) -> Result<Letter, Refusal> {
        let directory = self.authenticator.directory();
        let operator = recall(&order.accepted.context, &directory)?;
        let reader = Reader::new(&operator, &directory, clock::now_ms());
        let state = dead.filter(|state| query::readable(&reader, state, None, Family::Action));
        let state = state.ok_or_else(|| Refusal::of(codes::ACTION_NOT_FOUND))?;
        let thing =
            Thing { owner: &state.requester.id, tenant: state.tenant.as_deref(), capability_id: None };
        if !reader.may_itself(thing, Family::Action) {
            let message = "a grant to read an action is none to have it done again";
            return Err(Refusal::new(codes::POLICY_DENIED, "", message));
        }
        if state.lifecycle != ActionLifecycleState::DeadLettered {
            let message =
                format!("only a dead-lettered action can be redriven: this one is {}", state.lifecycle);
            return Err(Refusal::new(codes::ACTION_NOT_DEAD, "", message));
        }
        let accepted = first.into_iter().find_map(|event| match event {
            Event::Action(ActionEvent::Accepted(accepted)) => Some(*accepted),
            _ => None,
        });
        let accepted = accepted.filter(|accepted| is_kept(&accepted.action, &state.input_hash));
        let accepted = accepted.ok_or_else(|| Refusal::of(codes::ACTION_INPUT_GONE))?;
        Ok(Letter { state, accepted })
    }

    /// The dead letter's action under its new id, as admission judges it now, under the contract that it had.
    async fn admitted(
        &self,
        letter: &Letter,
        id: &ActionId,
        now: Millis,
    ) -> Result<(Admitted, Arc<Offer>, Row), ProtocolError> {
        let pinned = &letter.state.pinned;
        let row = self.row(&letter.state.capability_id, &pinned.contract_hash)?;
        let place = Place {
            provider: &row.provider.id,
            registration_n: row.n,
            capability_id: &row.key.capability_id,
            contract_hash: &row.key.contract_hash,
        };
        let offer = self.catalog.offer(&self.ledger, place).await?;
        offer.check_input(&letter.accepted.action.input)?;
        let action = Action { id: id.clone(), ..letter.accepted.action.clone() };
        let admitted = admit_again(
            &letter.accepted.context,
            action,
            // the dead letter's stream may still be open under its own
            Some(CorrelationId::generate()),
            (&offer.capability, &offer.contract_hash),
            &self.authenticator.directory(),
            now,
        );
        let owner = &letter.state.requester.id;
        let admitted = admitted.map_err(|refusal| {
            let error = ProtocolError::from(refusal);
            ProtocolError { details: Some(json!({"owner": owner})), ..error }
        })?;
        Ok((admitted, offer, row))
    }

    /// The newest registration under the very contract that the dead letter was admitted under.
    fn row(&self, capability: &CapabilityId, contract_hash: &str) -> Result<Row, Refusal> {
        let rows = self.ledger.peek(|view| manifest::of(view, capability, MANIFEST_ROWS_MAX));
        let rows = rows.map_err(|error| fault::of_ledger(&error))?;
        let missing: &Code =
            if rows.is_empty() { codes::CAPABILITY_UNKNOWN } else { codes::CAPABILITY_CONTRACT };
        let row = rows.into_iter().find(|row| row.key.contract_hash == contract_hash);
        row.ok_or_else(|| Refusal::of(missing))
    }
}

/// True while the recorded action has the input that it was admitted with.
fn is_kept(action: &Action, input_hash: &str) -> bool {
    idempotency::input_hash(action) == input_hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_that_was_taken_away_or_changed_is_not_kept() {
        let action = |input: Value| -> Action {
            let action = json!({"id": "act_1", "capability_id": "cap:a", "input": input});
            serde_json::from_value(action).unwrap()
        };
        let hash = idempotency::input_hash(&action(json!({"card": "1"})));
        assert!(is_kept(&action(json!({"card": "1"})), &hash));
        for input in [json!({"card": "[redacted]"}), json!({}), Value::Null] {
            assert!(!is_kept(&action(input), &hash));
        }
    }
}
