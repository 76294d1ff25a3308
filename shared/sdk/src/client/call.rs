//! Calling a capability: one action under one id, sent again only where that cannot do it twice (section 19.2).
//!
//! - A refusal that the gateway calls retryable: sent again if the action has an idempotency key or only reads.
//! - No answer, or "unknown": the action may have been taken, so its result is asked for first; only an action that the
//!   gateway does not know is sent again, under the same id.
//! - A result is final, also a failed one.

use std::time::Duration;

use aip_names::limits::{
    ACTION_ASYNC_TIMEOUT_DEFAULT_MS, ACTION_TIMEOUT_DEFAULT_MS, CLIENT_PATIENCE_MS, CLIENT_REPLY_GRACE_MS,
};
use aip_wire::{
    Ack, AckStatus, Action, ActionId, ActionMode, ActionResult, ActionResultStatus, CapabilityId,
    CorrelationId, IdentityContext, MessageBody, ProtocolError, codes,
};
use serde_json::Value;
use tokio::time::Instant;

use super::ask::{Lost, pause};
use super::{Client, ClientError, unexpected, untrusted};

/// How an action is called.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallOptions {
    /// To send again what was sent before; a fresh one if absent.
    pub action_id: Option<ActionId>,
    /// Names the intent: the same key never has a second effect.
    pub idempotency_key: Option<String>,
    /// How long the action may take; [`ACTION_TIMEOUT_DEFAULT_MS`] if absent.
    pub timeout_ms: Option<u64>,
    pub mode: Option<ActionMode>,
    /// The capability's contract declares nothing but reading: it may be sent again without a key.
    pub read_only: bool,
    /// Ties several calls together; a fresh one if absent.
    pub correlation_id: Option<CorrelationId>,
    /// Tenant, account and credential that the action is for: claims, which the gateway checks.
    pub identity: Option<IdentityContext>,
}

struct Call {
    action: Action,
    /// Whose result is asked for: the first action's under an idempotency key.
    awaited: ActionId,
    correlation_id: CorrelationId,
    /// When the action is over.
    deadline: Instant,
    /// When the client stops waiting.
    until: Instant,
    may_resend: bool,
}

/// What to do after an attempt that brought no result.
enum Next {
    /// Send it, after this error.
    Send(ClientError),
    /// It may have been taken: ask for its result.
    Look(ClientError),
    /// It was taken, or another one is its answer: wait for the result of this one.
    Wait(ActionId),
    Stop(ClientError),
}

impl Client {
    /// Calls a capability and waits for the end of the action.
    ///
    /// # Errors
    /// [`ClientError::Failed`] when the action ended without success, [`ClientError::Refused`] when it was not
    /// admitted, [`ClientError::Unknown`] when neither is known in time.
    pub async fn call(
        &self,
        capability: &str,
        input: Value,
        options: CallOptions,
    ) -> Result<ActionResult, ClientError> {
        let mut call = Call::new(capability, input, options)?;
        let mut attempt = 0;
        let mut sending = true;
        let mut waited = false;
        loop {
            attempt += 1;
            let next = if sending { self.send(&call).await } else { self.look(&call).await };
            let (failed, retry_after_ms) = match next {
                Ok(result) => return ended(result),
                Err(Next::Stop(error)) => return Err(error),
                Err(Next::Wait(id)) => {
                    sending = false;
                    call.awaited = id;
                    // the waiting is done by the gateway and is no attempt; the rest keeps a hasty one from being asked at once
                    attempt = 0;
                    if waited && !pause(1, None, call.until).await {
                        return Err(call.unknown("the time is over"));
                    }
                    waited = true;
                    continue;
                }
                Err(Next::Send(error)) => {
                    sending = true;
                    let after = error.protocol_error().and_then(|error| error.retry_after_ms);
                    (error, after)
                }
                Err(Next::Look(error)) => {
                    sending = false;
                    (error, None)
                }
            };
            if !pause(attempt, retry_after_ms, call.until).await {
                return Err(failed);
            }
        }
    }

    /// Has an asynchronous or streaming action taken, and does not wait for its end. The acknowledgement names the action whose
    /// result is asked for: the first one's under an idempotency key.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when it was not admitted, [`ClientError::Unknown`] when that is not known in time.
    pub async fn submit(
        &self,
        capability: &str,
        input: Value,
        options: CallOptions,
    ) -> Result<Ack, ClientError> {
        let mode = options.mode.filter(|mode| *mode == ActionMode::Streaming).unwrap_or(ActionMode::Async);
        let options = CallOptions { mode: Some(mode), ..options };
        let mut call = Call::new(capability, input, options)?;
        // the same id is the same action, so it may be sent until it is acknowledged
        call.may_resend = true;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let action: MessageBody = call.action.clone().into();
            let correlation = Some(call.correlation_id.clone());
            let timeout = Duration::from_millis(CLIENT_PATIENCE_MS);
            let failed = match self.asker.ask(action, correlation, timeout).await {
                Ok(MessageBody::Ack(ack)) => return Ok(*ack),
                Ok(MessageBody::Error(body)) => match call.refused(body.error) {
                    Next::Send(error) | Next::Look(error) => error,
                    Next::Stop(error) => return Err(error),
                    Next::Wait(_) => call.unknown("it is taken"),
                },
                Ok(other) => return Err(unexpected(&other)),
                Err(Lost::NotSent(reason)) => ClientError::Unreachable { reason },
                Err(Lost::Unknown(reason)) => call.unknown(reason),
                Err(Lost::Bad(error)) => return Err(error),
            };
            let after = failed.protocol_error().and_then(|error| error.retry_after_ms);
            if !pause(attempt, after, call.until).await {
                return Err(failed);
            }
        }
    }

    async fn send(&self, call: &Call) -> Result<ActionResult, Next> {
        let now = Instant::now();
        let remaining_ms =
            u64::try_from(call.deadline.saturating_duration_since(now).as_millis()).unwrap_or(0);
        if remaining_ms == 0 {
            return Err(Next::Stop(call.unknown("the time is over")));
        }
        // the deadline stays where it was, however often the action is sent
        let action = Action { timeout_ms: Some(remaining_ms), ..call.action.clone() };
        let timeout =
            Duration::from_millis(remaining_ms.saturating_add(CLIENT_REPLY_GRACE_MS).min(CLIENT_PATIENCE_MS));
        let correlation = Some(call.correlation_id.clone());
        match self.asker.ask(action.into(), correlation, timeout).await {
            Ok(MessageBody::ActionResult(result)) => call.owns(*result).map_err(Next::Stop),
            Ok(MessageBody::Ack(ack)) if ack.status == AckStatus::Rejected => {
                let reason = ack.reason.unwrap_or_default();
                let error = ProtocolError::of(codes::POLICY_DENIED, reason);
                Err(Next::Stop(ClientError::Refused { error: Box::new(error) }))
            }
            Ok(MessageBody::Ack(ack)) => Err(Next::Wait(ack.action_id)),
            Ok(MessageBody::Error(body)) => Err(call.refused(body.error)),
            Ok(other) => Err(Next::Stop(unexpected(&other))),
            Err(Lost::NotSent(reason)) => Err(Next::Send(ClientError::Unreachable { reason })),
            Err(Lost::Unknown(reason)) => Err(Next::Look(call.unknown(reason))),
            Err(Lost::Bad(error)) => Err(Next::Stop(error)),
        }
    }

    /// Asks for the result of an action that may have been taken.
    async fn look(&self, call: &Call) -> Result<ActionResult, Next> {
        let remaining = call.until.saturating_duration_since(Instant::now());
        let wait_ms = u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX).min(CLIENT_PATIENCE_MS);
        match self.result(&call.awaited, Some(wait_ms)).await {
            Ok(result) => Ok(result),
            Err(ClientError::Refused { error }) if error.code == codes::ACTION_NOT_READY.name => {
                Err(Next::Wait(call.awaited.clone()))
            }
            Err(ClientError::Refused { error }) if error.code == codes::ACTION_NOT_FOUND.name => {
                Err(Next::Send(call.unknown("the gateway does not know it")))
            }
            Err(ClientError::Unreachable { reason } | ClientError::NoAnswer { reason }) => {
                Err(Next::Look(call.unknown(reason)))
            }
            Err(error) => Err(Next::Stop(error)),
        }
    }
}

/// A result that is no success is an error to whoever called.
fn ended(result: ActionResult) -> Result<ActionResult, ClientError> {
    match result.status {
        ActionResultStatus::Failed | ActionResultStatus::Cancelled => {
            Err(ClientError::Failed { result: Box::new(result) })
        }
        ActionResultStatus::Completed
        | ActionResultStatus::PendingApproval
        | ActionResultStatus::RequiresHuman => Ok(result),
    }
}

// === impl Call ===

impl Call {
    fn new(capability: &str, input: Value, options: CallOptions) -> Result<Call, ClientError> {
        let capability_id = CapabilityId::parse(capability)
            .map_err(|error| ClientError::Invalid { reason: error.to_string() })?;
        let usual_ms = match options.mode {
            Some(ActionMode::Async | ActionMode::Streaming) => ACTION_ASYNC_TIMEOUT_DEFAULT_MS,
            Some(ActionMode::Sync) | None => ACTION_TIMEOUT_DEFAULT_MS,
        };
        let timeout_ms = options.timeout_ms.unwrap_or(usual_ms);
        let deadline = Instant::now() + Duration::from_millis(timeout_ms);
        let may_resend = options.read_only || options.idempotency_key.is_some();
        let action = Action {
            id: options.action_id.unwrap_or_else(ActionId::generate),
            capability_id,
            input,
            mode: options.mode,
            idempotency_key: options.idempotency_key,
            timeout_ms: Some(timeout_ms),
            conversation: None,
            memory_context: None,
            delegation_chain: Vec::new(),
            federation: None,
            callback: None,
            observability: None,
            compliance: None,
            identity: options.identity,
            approval: None,
            transaction: None,
        };
        Ok(Call {
            awaited: action.id.clone(),
            action,
            correlation_id: options.correlation_id.unwrap_or_else(CorrelationId::generate),
            deadline,
            until: deadline + Duration::from_millis(2 * CLIENT_REPLY_GRACE_MS),
            may_resend,
        })
    }

    /// A result has to be this action's. Under an idempotency key it may be that of the first action with the key.
    fn owns(&self, result: ActionResult) -> Result<ActionResult, ClientError> {
        if result.action_id == self.action.id || self.action.idempotency_key.is_some() {
            Ok(result)
        } else {
            Err(untrusted("the result is of another action"))
        }
    }

    fn refused(&self, error: ProtocolError) -> Next {
        if error.code == codes::SERVICE_UNKNOWN.name {
            return Next::Look(self.unknown(error.message));
        }
        let again = error.retryable == Some(true) && self.may_resend;
        let refused = ClientError::Refused { error: Box::new(error) };
        if again { Next::Send(refused) } else { Next::Stop(refused) }
    }

    fn unknown(&self, reason: impl Into<String>) -> ClientError {
        ClientError::Unknown { action_id: self.action.id.clone(), reason: reason.into() }
    }
}
