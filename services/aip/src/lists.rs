//! `aip action list|stuck|dead`: actions that you may see, the newest first.

use std::process::ExitCode;

use aip_wire::{ActionLifecycleState, ActionListRequest, ActionStatus, CapabilityId, Timestamp};
use clap::Args;
use serde_json::Value;

use crate::output::{self, Failure, because, say};
use crate::profile::Options;

/// Rows asked for at a time.
const PAGE_ROWS: u32 = 200;

#[derive(Args, Debug)]
pub struct List {
    /// Only actions in this state, for example running
    #[arg(long, value_parser = state)]
    state: Option<ActionLifecycleState>,
    /// Only actions of this capability
    #[arg(long)]
    capability: Option<String>,
    /// Only actions in this tenant
    #[arg(long)]
    tenant: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 100)]
    limit: usize,
    #[command(flatten)]
    options: Options,
}

#[derive(Args, Debug)]
pub struct Stuck {
    /// How long nothing may have happened to an action before it counts as stuck, in seconds
    #[arg(long, default_value_t = 60)]
    quiet_s: u64,
    #[command(flatten)]
    options: Options,
}

#[derive(Args, Debug)]
pub struct Dead {
    /// At most so many
    #[arg(long, default_value_t = 100)]
    limit: usize,
    #[command(flatten)]
    options: Options,
}

pub async fn list(args: List) -> Result<ExitCode, Failure> {
    let capability_id = args.capability.as_deref().map(CapabilityId::parse).transpose();
    let capability_id =
        capability_id.map_err(|error| because("the capability's id", &error).json(args.options.json))?;
    let request = ActionListRequest {
        state: args.state,
        capability_id,
        tenant_id: args.tenant,
        ..ActionListRequest::default()
    };
    let found = collect(&args.options, request, args.limit, |_| true).await?;
    show(&found, args.options.json)
}

/// Dead letters: given up, for a person to look at.
pub async fn dead(args: Dead) -> Result<ExitCode, Failure> {
    let state = Some(ActionLifecycleState::DeadLettered);
    let request = ActionListRequest { state, include_results: true, ..ActionListRequest::default() };
    let found = collect(&args.options, request, args.limit, |_| true).await?;
    show(&found, args.options.json)
}

/// Actions that have not ended although their time is over, or to which nothing has happened for long.
pub async fn stuck(args: Stuck) -> Result<ExitCode, Failure> {
    use ActionLifecycleState::{Accepted, Cancelling, Queued, Running, Streaming};
    let now = Timestamp::now().as_ms();
    let quiet_before = now.saturating_sub(args.quiet_s.saturating_mul(1_000));
    let is_stuck = |status: &ActionStatus| {
        let until = status.retry.as_ref().and_then(|retry| retry.get("until")).cloned();
        let until = until.and_then(|until| serde_json::from_value::<Timestamp>(until).ok());
        status.updated_at.as_ms() < quiet_before || until.is_some_and(|until| until.as_ms() < now)
    };
    let mut found = Vec::new();
    for state in [Accepted, Queued, Running, Streaming, Cancelling] {
        let request = ActionListRequest { state: Some(state), ..ActionListRequest::default() };
        found.extend(collect(&args.options, request, usize::MAX, is_stuck).await?);
    }
    show(&found, args.options.json)
}

/// Pages until there are `limit` actions or no more; a page may be short and still not the last.
async fn collect(
    options: &Options,
    mut request: ActionListRequest,
    limit: usize,
    keep: impl Fn(&ActionStatus) -> bool,
) -> Result<Vec<ActionStatus>, Failure> {
    let client = options.client().await?;
    let mut found = Vec::new();
    request.limit = Some(u32::try_from(limit).unwrap_or(PAGE_ROWS).clamp(1, PAGE_ROWS));
    while found.len() < limit {
        let page = client.actions(request.clone()).await;
        let page = page.map_err(|error| because("no list", &error).json(options.json))?;
        let room = limit - found.len();
        found.extend(page.actions.into_iter().filter(|status| keep(status)).take(room));
        request.cursor = page.cursor;
        if request.cursor.is_none() {
            break;
        }
    }
    Ok(found)
}

fn show(found: &[ActionStatus], json: bool) -> Result<ExitCode, Failure> {
    if json {
        output::print_json(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    for status in found {
        let capability = status.capability_id.as_ref().map(ToString::to_string).unwrap_or_default();
        say!("{}  {:<14} {}  {capability}", word(&status.updated_at), word(&status.state), status.action_id);
        if let Some(error) = status.result.as_ref().and_then(|result| result.error.as_ref()) {
            say!("    {}: {}", error.code, error.message);
        }
    }
    if found.is_empty() {
        say!("none");
    }
    Ok(ExitCode::SUCCESS)
}

fn state(text: &str) -> Result<ActionLifecycleState, String> {
    serde_json::from_value(Value::from(text)).map_err(|_| "no such state".to_owned())
}

/// How a value of the wire is spelled there.
pub fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}
