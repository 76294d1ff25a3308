//! `aip action`: call a capability, ask how an action stands, fetch its result.

use std::io::Read;
use std::process::ExitCode;

use aip_sdk::{CallOptions, ClientError};
use aip_wire::{Ack, AckStatus, ActionId, ActionMode};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;

use crate::lists::word;
use crate::output::{self, Failure, because, say};
use crate::profile::Options;
use crate::{events, lists, redrive, stream};

/// Standard input, as an input's name.
const STDIN: &str = "-";
/// Nothing is known of the outcome: a program must not take it for a no.
const EXIT_UNKNOWN: u8 = 3;

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Call a capability and wait for its result
    Call(Call),
    /// Ask to cancel an action; it ends when its worker says how
    Cancel(Cancel),
    /// Show how an action stands
    Status(Status),
    /// Show the result of an action
    Result(Status),
    /// List actions, the newest first
    List(lists::List),
    /// Show what happened to an action
    Events(events::OfAction),
    /// List actions that should have ended by now, or that nothing happens to
    Stuck(lists::Stuck),
    /// List actions that were given up, for a person to look at
    Dead(lists::Dead),
    /// Have a dead letter done again, as a new action that names it
    Redrive(redrive::Redrive),
}

#[derive(Args, Debug)]
pub struct Call {
    /// The capability, for example cap:restaurant:table:search
    capability: String,
    /// Its input: JSON, @FILE, or - for standard input
    #[arg(default_value = "{}")]
    input: String,
    /// Names the intent: the same key never has a second effect
    #[arg(long)]
    key: Option<String>,
    /// Send again what was sent before, under its id
    #[arg(long)]
    action_id: Option<String>,
    /// How long the action may take, in milliseconds
    #[arg(long)]
    timeout_ms: Option<u64>,
    /// How: wait for its result, leave it in the worker's queue, or leave it there and have the worker stream
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Show what its worker streams, as it happens, to its end; streaming if no mode is given
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    options: Options,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Mode {
    Sync,
    Async,
    Streaming,
}

#[derive(Args, Debug)]
pub struct Cancel {
    action_id: String,
    /// Why, in your words
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    options: Options,
}

#[derive(Args, Debug)]
pub struct Status {
    action_id: String,
    /// Wait up to so many milliseconds for its end
    #[arg(long)]
    wait_ms: Option<u64>,
    #[command(flatten)]
    options: Options,
}

pub async fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Call(args) => call(args).await,
        Command::Cancel(args) => cancel(args).await,
        Command::Status(args) => status(args).await,
        Command::Result(args) => result(args).await,
        Command::List(args) => lists::list(args).await,
        Command::Events(args) => events::of_action(args).await,
        Command::Stuck(args) => lists::stuck(args).await,
        Command::Dead(args) => lists::dead(args).await,
        Command::Redrive(args) => redrive::redrive(args).await,
    }
}

async fn call(args: Call) -> Result<ExitCode, Failure> {
    let json = args.options.json;
    let input = read_input(&args.input).map_err(|failure| failure.json(json))?;
    let action_id = args.action_id.as_deref().map(parse_id).transpose()?.unwrap_or_else(ActionId::generate);
    let mode = match (args.mode, args.follow) {
        (Some(Mode::Sync) | None, false) => ActionMode::Sync,
        (Some(Mode::Async), _) => ActionMode::Async,
        (Some(Mode::Streaming), _) | (None, true) => ActionMode::Streaming,
        (Some(Mode::Sync), true) => {
            let failure = Failure::new("a synchronous action can't be followed").json(json);
            return Err(failure.hint("leave --mode away, or say --mode async"));
        }
    };
    let live = if args.follow { Some(args.options.live_client()?) } else { None };
    let client = args.options.client().await?;
    output::progress(json, &format!("calling {} as {action_id} …", args.capability));
    let options = CallOptions {
        action_id: Some(action_id),
        idempotency_key: args.key,
        timeout_ms: args.timeout_ms,
        mode: Some(mode),
        ..CallOptions::default()
    };
    let refused = |error| told(&error, json);
    if mode == ActionMode::Sync {
        let result = client.call(&args.capability, input, options).await.map_err(refused)?;
        stream::show_result(&result, json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let ack = client.submit(&args.capability, input, options).await.map_err(refused)?;
    match live {
        Some(live) => stream::show(live.follow(&ack.action_id, true).map_err(refused)?, json).await,
        None => {
            acknowledge(&ack, json)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn cancel(args: Cancel) -> Result<ExitCode, Failure> {
    let json = args.options.json;
    let id = parse_id(&args.action_id).map_err(|failure| failure.json(json))?;
    let client = args.options.client().await?;
    let ack = client.cancel(&id, args.reason).await.map_err(|error| told(&error, json))?;
    acknowledge(&ack, json)?;
    Ok(if ack.status == AckStatus::Rejected { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn acknowledge(ack: &Ack, json: bool) -> Result<(), Failure> {
    if json {
        return output::print_json(ack);
    }
    say!("{} {}", word(&ack.status), ack.action_id);
    if let Some(reason) = &ack.reason {
        say!("{reason}");
    }
    Ok(())
}

async fn status(args: Status) -> Result<ExitCode, Failure> {
    let json = args.options.json;
    let id = parse_id(&args.action_id).map_err(|failure| failure.json(json))?;
    let client = args.options.client().await?;
    let status = client.status(&id, args.wait_ms).await.map_err(|error| told(&error, json))?;
    if json {
        output::print_json(&status)?;
        return Ok(ExitCode::SUCCESS);
    }
    say!("action      {}", status.action_id);
    if let Some(capability) = &status.capability_id {
        say!("capability  {capability}");
    }
    say!("state       {}", word(&status.state));
    say!("updated     {}", word(&status.updated_at));
    for (link, name) in [("redrive_of", "redrives"), ("redriven_as", "redriven as")] {
        if let Some((_, id)) = status.links.get(link).and_then(|path| path.rsplit_once('/')) {
            say!("{name:<11} {id}");
        }
    }
    if let Some(result) = &status.result {
        stream::show_result(result, false)?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn result(args: Status) -> Result<ExitCode, Failure> {
    let json = args.options.json;
    let id = parse_id(&args.action_id).map_err(|failure| failure.json(json))?;
    let client = args.options.client().await?;
    let result = client.result(&id, args.wait_ms).await.map_err(|error| told(&error, json))?;
    stream::show_result(&result, json)?;
    Ok(if result.error.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

pub fn told(error: &ClientError, json: bool) -> Failure {
    let mut failure = Failure::new(error.to_string()).json(json);
    if let Some(protocol) = error.protocol_error() {
        failure = failure.code(protocol.code.clone());
    }
    match error {
        ClientError::Unknown { action_id, .. } => failure.exit(EXIT_UNKNOWN).hint(format!(
            "ask with `aip action status {action_id}`, or send it again with --action-id {action_id}"
        )),
        ClientError::Unreachable { .. } => failure.hint("`aip doctor` says what is wrong"),
        _ => failure,
    }
}

pub fn parse_id(text: &str) -> Result<ActionId, Failure> {
    ActionId::parse(text)
        .map_err(|_| Failure::new(format!("{text} is not an action's id")).hint("ids begin with act_"))
}

fn read_input(input: &str) -> Result<Value, Failure> {
    let text = match input.strip_prefix('@') {
        Some(path) => {
            std::fs::read_to_string(path).map_err(|error| because(&format!("can't read {path}"), &error))?
        }
        None if input == STDIN => {
            let mut text = String::new();
            let limit = aip_names::limits::ENVELOPE_BYTES_MAX as u64;
            std::io::stdin()
                .take(limit)
                .read_to_string(&mut text)
                .map_err(|error| because("can't read standard input", &error))?;
            text
        }
        None => input.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| because("the input is not JSON", &error))
}
