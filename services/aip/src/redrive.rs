//! `aip action redrive`: has a dead letter taken up as a new action, by the gateway's own capability.

use std::process::ExitCode;

use aip_names::operator::GATEWAY_REDRIVE;
use aip_sdk::{CallOptions, ClientError};
use aip_wire::ActionId;
use clap::Args;
use serde_json::json;

use crate::action::{parse_id, told};
use crate::output::{self, Failure, say};
use crate::profile::Options;

#[derive(Args, Debug)]
pub struct Redrive {
    /// The dead letter, as `aip action dead` lists it
    action_id: String,
    /// Why, in your words
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    options: Options,
}

pub async fn redrive(args: Redrive) -> Result<ExitCode, Failure> {
    let json = args.options.json;
    let letter = parse_id(&args.action_id).map_err(|failure| failure.json(json))?;
    let input = match args.reason {
        Some(reason) => json!({"action_id": letter, "reason": reason}),
        None => json!({"action_id": letter}),
    };
    let client = args.options.client().await?;
    let options = CallOptions { action_id: Some(ActionId::generate()), ..CallOptions::default() };
    let result = client.call(GATEWAY_REDRIVE, input, options).await.map_err(|error| refused(&error, json))?;
    let output = result.output.unwrap_or_default();
    if json {
        output::print_json(&output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let new = output.get("action_id").and_then(|id| id.as_str()).unwrap_or_default();
    say!("redriven {letter}");
    say!("as       {new}");
    Ok(ExitCode::SUCCESS)
}

/// Says also which action it was that took the dead letter up before.
fn refused(error: &ClientError, json: bool) -> Failure {
    let details = error.protocol_error().and_then(|error| error.details.as_ref());
    let taken =
        details.and_then(|details| Some((details.get("redriven")?, details.get("action_id")?.as_str()?)));
    match taken {
        Some((_, by)) => told(error, json).hint(format!("`aip action status {by}` shows what became of it")),
        None => told(error, json),
    }
}
