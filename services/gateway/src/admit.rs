//! The road of one action (11.3): look up its capability, judge the input, ask admission, make it durable, wait for its
//! end. Each step takes only what the step before it gives; a refusal at any of them leaves nothing behind but a note.

use std::sync::Arc;

use serde_json::json;

use aip_admission::{Admitted, Authentic, Directory, admit, idempotency, may_read};
use aip_kernel::{EffectMode, Millis, View};
use aip_names::limits::{
    ADMIT_TRIES_MAX, ID_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX, IDEMPOTENCY_TTL_DEFAULT_MS, RESULT_GRACE_MS,
};
use aip_names::metrics as names;
use aip_service::fault;
use aip_wire::trusted::PrincipalRef;
use aip_wire::{
    Ack, AckStatus, Action, ActionId, ActionMode, ActionResult, ActionResultStatus, ApprovalId, MessageBody,
    MessagePart, Refusal, codes,
};

use crate::approve;
use crate::catalog::{Offer, Place};
use crate::errors;
use crate::gateway::Gateway;
use crate::machine::action::{Pinned, is_queued};
use crate::machine::manifest::{self, Row};
use crate::machine::{
    ActionState, Admit, Answer, Collision, Command, GatewayMachine, ReplayClaim, Reservation, State, keys,
};
use crate::road::Stop;
use crate::wait::Waiter;

/// What the sender of an action is told.
pub enum Told {
    /// The end of the action.
    Ended {
        result: Box<ActionResult>,
        /// It was another request's action: nothing was dispatched for this one.
        cached: bool,
    },
    /// The action is durable; its end is asked for by the id in the acknowledgement.
    Acknowledged(Ack),
    /// The action is durable and waits for this approval.
    Pending { body: MessageBody, approval: ApprovalId },
}

/// What the ledger made of an action.
struct Reserved {
    admitted: Admitted,
    answer: Answer,
    waiter: Waiter,
    /// What it waits for, if it was admitted.
    approval: Option<ApprovalId>,
}

/// How much of the log a look at the catalogue rests on.
#[derive(Debug, Clone, Copy)]
enum Seen {
    /// What this replica has learned.
    Here,
    /// All that was acknowledged before.
    Everything,
}

// === impl Gateway ===

impl Gateway {
    /// Admits an action and waits for its end, if it is not an asynchronous one.
    pub(crate) async fn act(&self, authentic: Authentic, now: Millis) -> Result<Told, Stop> {
        let sender = authentic.caller().clone();
        let Reserved { admitted, answer, waiter, approval } = self.reserve(authentic, now).await?;
        let until = admitted.context().deadline_ms.saturating_add(RESULT_GRACE_MS);
        let mode = admitted.action().mode;
        let waits = !is_queued(mode);
        let queued =
            if mode == Some(ActionMode::Streaming) { AckStatus::Streaming } else { AckStatus::Queued };
        match answer {
            Answer::Admitted => {
                count("admitted");
                if let Some(approval) = approval {
                    return Ok(pending(admitted.action().id.clone(), approval, waits));
                }
                if !waits {
                    let id = admitted.action().id.clone();
                    return Ok(Told::Acknowledged(acknowledged(id, queued)));
                }
                let result = Box::new(self.end_of(waiter, until).await?);
                Ok(Told::Ended { result, cached: false })
            }
            Answer::Duplicate { first } => {
                count("duplicate");
                let before = self.look(&first).map_err(Stop::noted)?;
                let own =
                    before.requester.id == *sender.id() && before.requester.kind == sender.principal().kind;
                let inside = before
                    .tenant
                    .as_ref()
                    .is_none_or(|tenant| sender.tenants().iter().any(|own| own == tenant));
                let family = aip_admission::Family::Action;
                if !(own && inside
                    || may_read(&sender, &before.requester.id, before.tenant.as_deref(), family))
                {
                    return Err(Stop::noted(Refusal::of(codes::IDEMPOTENCY_CONFLICT)));
                }
                let open = before.approval.as_ref().filter(|_| before.is_pending());
                if let Some(approving) = open {
                    return Ok(pending(first, approving.request.id.clone(), waits));
                }
                if !waits {
                    let status = if before.is_terminal() { AckStatus::Cached } else { queued };
                    return Ok(Told::Acknowledged(acknowledged(first, status)));
                }
                let waiter = Waiter::new(self.ledger(), &first);
                // the first may be an asynchronous one, with far more time than this request has
                let until = match before.queued {
                    true => until,
                    false => before.deadline.saturating_add(RESULT_GRACE_MS),
                };
                let result = Box::new(self.end_of(waiter, until).await?);
                Ok(Told::Ended { result, cached: true })
            }
            other => {
                tracing::error!(?other, "an admission was answered with something else");
                Err(Stop::noted(Refusal::of(codes::SERVICE_INTERNAL)))
            }
        }
    }

    /// Takes the action through admission and into the ledger. The registration that was looked at may be gone when
    /// the log judges; then it is looked up again.
    async fn reserve(&self, mut authentic: Authentic, now: Millis) -> Result<Reserved, Stop> {
        let directory = self.authenticator().directory();
        for _ in 0..ADMIT_TRIES_MAX {
            let action = action_of(&authentic)?;
            let waiter = Waiter::new(self.ledger(), &action.id);
            // a refusal must rest on the log as it stands, not on what this replica has learned of it so far
            let (admitted, row, offer) =
                match self.judge(authentic.clone(), &directory, Seen::Here, now).await {
                    Err(_) => self.judge(authentic, &directory, Seen::Everything, now).await?,
                    Ok(judged) => judged,
                };
            let command = command(&admitted, &offer, row, self.me(), now)?;
            let approval = command.approval.as_ref().map(|request| request.id.clone());
            if let Some(approval) = &approval {
                self.approvals_are_there(approval).await?;
            }
            let answer = self.decide(Command::Admit(Box::new(command))).await.map_err(Stop::noted)?;
            match answer {
                Answer::Refused(crate::machine::Refusal::CapabilityChanged) => {
                    authentic = admitted.authentic().clone();
                }
                Answer::Refused(refusal) => {
                    let code = errors::of_refusal(refusal);
                    count(code.name);
                    return Err(Stop::noted(Refusal::of(code)));
                }
                answer => return Ok(Reserved { admitted, answer, waiter, approval }),
            }
        }
        Err(Stop::noted(Refusal::of(codes::SERVICE_OVERLOADED)))
    }

    /// Whether the sender may have this done, by the newest registration of the capability that was seen.
    async fn judge(
        &self,
        authentic: Authentic,
        directory: &Directory,
        seen: Seen,
        now: Millis,
    ) -> Result<(Admitted, Row, Arc<Offer>), Refusal> {
        let action = action_of(&authentic)?;
        let (row, offer) = self.offer_of(action, seen).await?;
        let input = offer.check_input(&action.input);
        let admitted = admit(authentic, &offer.capability, &offer.contract_hash, directory, now)?;
        // only who may invoke it learns what the capability wants
        input?;
        Ok((admitted, row, offer))
    }

    async fn offer_of(&self, action: &Action, seen: Seen) -> Result<(Row, Arc<Offer>), Refusal> {
        if let Some(verb) = self.operator().find(&action.capability_id) {
            return Ok((self.operator().row(verb), self.operator().offer(verb).await?));
        }
        let newest = |view: &dyn View<GatewayMachine>| manifest::newest(view, &action.capability_id);
        let row = match seen {
            Seen::Here => self.ledger().peek(newest),
            Seen::Everything => self.ledger().read(newest).await,
        };
        let row = row.map_err(|error| fault::of_ledger(&error))?;
        let row = row.ok_or_else(|| Refusal::of(codes::CAPABILITY_UNKNOWN))?;
        let place = Place {
            provider: &row.provider.id,
            registration_n: row.n,
            capability_id: &row.key.capability_id,
            contract_hash: &row.key.contract_hash,
        };
        let offer = self.catalog().offer(self.ledger(), place).await?;
        Ok((row, offer))
    }

    /// The committed action, which is known to be there.
    fn look(&self, id: &ActionId) -> Result<ActionState, Refusal> {
        let entity = self.ledger().peek(|view| view.entity(&keys::action(id.as_str())));
        match entity.map_err(|error| fault::of_ledger(&error))?.map(|entity| entity.state) {
            Some(State::Action(state)) => Ok(*state),
            _ => Err(Refusal::of(codes::SERVICE_UNKNOWN)),
        }
    }

    async fn end_of(&self, waiter: Waiter, until: Millis) -> Result<ActionResult, Stop> {
        // whatever keeps us from seeing the end, the action is taken: no error of a read may say that nothing was done
        let ended = waiter.ended(until).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the end of an action can't be seen");
            None
        });
        let result = ended.filter(ActionState::is_terminal).and_then(|state| result_of(&state));
        result.ok_or_else(|| {
            let message = "the action is taken and its end is not known yet: ask for its result";
            Stop::noted(Refusal::new(codes::SERVICE_UNKNOWN, "", message))
        })
    }
}

fn acknowledged(action_id: ActionId, status: AckStatus) -> Ack {
    Ack { action_id, status, reason: None, retry_after_ms: None, queue: None }
}

/// Nobody holds a request open while people decide: whoever sent the action is told at once, and by which name to ask.
fn pending(action_id: ActionId, approval: ApprovalId, waits: bool) -> Told {
    let text = format!("waits for approval {approval}");
    let body = match waits {
        false => {
            let ack = acknowledged(action_id, AckStatus::Accepted);
            Ack { reason: Some(text), ..ack }.into()
        }
        true => {
            let result = ActionResult::bare(action_id, ActionResultStatus::PendingApproval);
            ActionResult { message: vec![MessagePart::Text { text, format: None }], ..result }.into()
        }
    };
    Told::Pending { body, approval }
}

/// The result of an action that has ended, with the receipt it ended with.
pub(crate) fn result_of(state: &ActionState) -> Option<ActionResult> {
    let mut result = state.result.as_deref()?.clone();
    result.receipt.clone_from(&state.receipts.head);
    Some(result)
}

fn action_of(authentic: &Authentic) -> Result<&Action, Refusal> {
    match &authentic.envelope().body {
        aip_wire::MessageBody::Action(action) => named(&action.id).map(|()| &**action),
        _ => Err(Refusal::new(codes::ENVELOPE_NOT_SERVED, "/body", "the message is not an action")),
    }
}

/// Ids are opaque (5.3), but an action is asked for by its own: in a path, in a log line, as a key.
fn named(id: &ActionId) -> Result<(), Refusal> {
    let id = id.as_str();
    if id.len() > ID_BYTES_MAX {
        return Err(Refusal::new(codes::LIMIT_STRING_BYTES, "/body/action/id", "the id is too long"));
    }
    if id.is_empty() || id.chars().any(char::is_control) {
        let message = "the id is empty or holds control characters";
        return Err(Refusal::new(codes::ENVELOPE_RULE, "/body/action/id", message));
    }
    Ok(())
}

/// What admission proved, as the machine takes it.
pub(crate) fn command(
    admitted: &Admitted,
    offer: &Offer,
    row: Row,
    gateway: PrincipalRef,
    now: Millis,
) -> Result<Admit, Refusal> {
    let (action, envelope) = (admitted.action(), admitted.authentic().envelope());
    let mut reservations = Vec::new();
    if let Some(reserved) = admitted.reservation() {
        reservations.push(Reservation {
            claim: reserved.claim.clone(),
            until: now.saturating_add(reserved.ttl_ms.unwrap_or(IDEMPOTENCY_TTL_DEFAULT_MS)),
            on_collision: Collision::from(reserved.collision),
        });
    }
    if let Some(key) = &envelope.idempotency_key {
        reservations.push(delivery(admitted, key, now)?);
    }
    let approval = approve::request(admitted, offer, &row.provider, now)?;
    Ok(Admit {
        action: action.clone(),
        context: admitted.context().clone(),
        gateway,
        message_id: envelope.message_id.clone(),
        correlation_id: envelope.correlation_id.clone(),
        input_hash: idempotency::input_hash(action),
        pinned: pinned(action, offer, row),
        reservations,
        approval,
        replay: admitted
            .replay()
            .map(|replay| ReplayClaim { name: replay.name.clone(), until: replay.expires_at_ms }),
        received_at: now,
    })
}

/// The contract that an action is bound to, and who performs it.
pub(crate) fn pinned(action: &Action, offer: &Offer, row: Row) -> Pinned {
    let repeatable = offer.contract.may_run_again(action.idempotency_key.is_some());
    Pinned {
        provider: row.provider,
        registration_n: row.n,
        contract_hash: row.key.contract_hash,
        service: row.key.service,
        version: row.key.version,
        mutation: offer.contract.mutates(),
        dispatch: if repeatable { EffectMode::Repeatable } else { EffectMode::Once },
        cancel: offer.contract.execution.supports_cancel,
        streams: offer.contract.execution.supports_streaming && is_queued(action.mode),
    }
}

/// The envelope's key: one delivery of its sender, whatever action it carries.
fn delivery(admitted: &Admitted, key: &str, now: Millis) -> Result<Reservation, Refusal> {
    if key.len() > IDEMPOTENCY_KEY_BYTES_MAX {
        return Err(Refusal::new(codes::LIMIT_STRING_BYTES, "/idempotency_key", "the key is too long"));
    }
    let context = admitted.context();
    let digest = aip_crypto::canonical::hash(&json!([context.principal.id, context.tenant, key]));
    Ok(Reservation {
        claim: format!("delivery:{digest}"),
        until: now.saturating_add(IDEMPOTENCY_TTL_DEFAULT_MS),
        on_collision: Collision::Conflict,
    })
}

fn count(answer: &'static str) {
    metrics::counter!(names::GATEWAY_ACTIONS, "answer" => answer).increment(1);
}
