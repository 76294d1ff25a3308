//! Step 6: what the contract offers, and what this release does not do yet. A member that would change the meaning of
//! an action is refused while nothing stands behind it, never ignored.

use serde_json::Value;

use aip_names::limits::ADMISSION_TEXT_BYTES_MAX;
use aip_wire::{Action, ActionMode, Envelope, Refusal, codes, codes::Code};

use crate::context::TraceContext;
use crate::contract::ContractView;

const MODE: &str = "/body/action/mode";

/// An action without a mode is a sync one.
pub fn check_mode(action: &Action, contract: &ContractView) -> Result<(), Refusal> {
    let mode = action.mode.unwrap_or(ActionMode::Sync);
    if !contract.supports(mode) {
        let message = format!("the capability does not offer {mode} execution");
        return Err(Refusal::new(codes::CAPABILITY_MODE, MODE, message));
    }
    Ok(())
}

pub fn check_available(envelope: &Envelope, action: &Action, contract: &ContractView) -> Result<(), Refusal> {
    let unavailable: [(bool, &'static Code, &str); 9] = [
        (envelope.session_id.is_some(), codes::UNSUPPORTED_SESSION, "/session_id"),
        (contract.plan_required, codes::UNSUPPORTED_TRANSACTION, "/body/action/capability_id"),
        (action.transaction.is_some(), codes::UNSUPPORTED_TRANSACTION, "/body/action/transaction"),
        (!action.delegation_chain.is_empty(), codes::UNSUPPORTED_DELEGATION, "/body/action/delegation_chain"),
        (action.callback.is_some(), codes::UNSUPPORTED_CALLBACK, "/body/action/callback"),
        (action.federation.is_some(), codes::UNSUPPORTED_FEDERATION, "/body/action/federation"),
        (action.memory_context.is_some(), codes::UNSUPPORTED_MEMORY, "/body/action/memory_context"),
        (action.compliance.is_some(), codes::UNSUPPORTED_COMPLIANCE, "/body/action/compliance"),
        (action.conversation.is_some(), codes::UNSUPPORTED_CONVERSATION, "/body/action/conversation"),
    ];
    match unavailable.into_iter().find(|(present, _, _)| *present) {
        Some((_, code, path)) => Err(Refusal::new(code, path, code.meaning)),
        None => Ok(()),
    }
}

/// The names of the sender's trace. They are no authority, so one that is too long is left out, not refused.
pub fn trace(envelope: &Envelope, action: &Action) -> TraceContext {
    let short =
        |text: Option<&str>| text.filter(|text| text.len() <= ADMISSION_TEXT_BYTES_MAX).map(str::to_owned);
    let observed = action.observability.as_ref();
    let traced = |member| envelope.trace.as_ref().and_then(|trace| trace.get(member)).and_then(Value::as_str);
    TraceContext {
        trace_id: short(observed.and_then(|o| o.trace_id.as_deref()).or_else(|| traced("trace_id"))),
        span_id: short(observed.and_then(|o| o.span_id.as_deref()).or_else(|| traced("span_id"))),
        traceparent: short(traced("traceparent")),
    }
}
