//! `aip events` and `aip action events`: what happened, page by page or as it happens.

use std::process::ExitCode;

use aip_sdk::{ClientError, Follow, Told};
use aip_wire::{ActionEventsRequest, ActionId, Event, EventStreamRequest};
use clap::Args as ClapArgs;

use crate::lists::word;
use crate::output::{self, Failure, because, say};
use crate::profile::Options;
use crate::stream;

#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Go on telling as it happens
    #[arg(long)]
    follow: bool,
    /// Begin behind this cursor instead of at the beginning
    #[arg(long)]
    cursor: Option<String>,
    /// Only events of these kinds
    #[arg(long = "kind")]
    kinds: Vec<String>,
    #[command(flatten)]
    options: Options,
}

#[derive(ClapArgs, Debug)]
pub struct OfAction {
    action_id: String,
    /// Go on telling as it happens, until the action ends
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    options: Options,
}

/// All that you may see, in order.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let json = args.options.json;
    if args.follow {
        let client = args.options.live_client()?;
        return follow(client.follow_events(&args.kinds, args.cursor), json).await;
    }
    let client = args.options.client().await?;
    let mut request = EventStreamRequest { cursor: args.cursor, limit: None, kinds: args.kinds };
    loop {
        let page = client.events(request.clone()).await;
        let page = page.map_err(|error| because("no events", &error).json(json))?;
        for event in &page.events {
            show(event, json)?;
        }
        // a cursor is always given: the end is where it leads no further
        let ends = page.events.is_empty();
        request.cursor = page.next_cursor;
        if ends {
            output::progress(json, &format!("cursor {}", request.cursor.unwrap_or_default()));
            return Ok(ExitCode::SUCCESS);
        }
    }
}

pub async fn of_action(args: OfAction) -> Result<ExitCode, Failure> {
    let json = args.options.json;
    let id = ActionId::parse(args.action_id.as_str()).map_err(|_| {
        let failure = Failure::new(format!("{} is not an action's id", args.action_id));
        failure.hint("ids begin with act_").json(json)
    })?;
    if args.follow {
        return follow(args.options.live_client()?.follow(&id, false), json).await;
    }
    let client = args.options.client().await?;
    let mut request = ActionEventsRequest {
        action_id: id,
        tenant_id: None,
        cursor: None,
        limit: None,
        kinds: Vec::new(),
        include_chunks: false,
        follow: false,
    };
    loop {
        let page = client.action_events(request.clone()).await;
        let page = page.map_err(|error| because("no events", &error).json(json))?;
        for event in &page.events {
            show(event, json)?;
        }
        if page.events.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        request.cursor = page.cursor;
    }
}

async fn follow(follow: Result<Follow, ClientError>, json: bool) -> Result<ExitCode, Failure> {
    let refused = |error| because("no live stream", &error).json(json);
    let mut follow = follow.map_err(refused)?;
    while let Some(told) = follow.next().await.map_err(refused)? {
        match told {
            Told::Event(event) => show(&event, json)?,
            Told::Result(result) if json => output::print_json(&result)?,
            Told::Result(result) => say!("{}", word(&result.status)),
            Told::Lost(why) => stream::lost(json, &why),
            // was not asked for
            Told::Chunk(_) => {}
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show(event: &Event, json: bool) -> Result<(), Failure> {
    if json {
        return output::print_json(event);
    }
    let action = event.action_id.as_ref().map(ToString::to_string).unwrap_or_default();
    let data = event.data.as_ref().map(ToString::to_string).unwrap_or_default();
    say!("{}  {:<26} {action}  {data}", word(&event.occurred_at), event.kind);
    Ok(())
}
