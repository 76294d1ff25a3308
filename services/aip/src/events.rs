//! `aip events` and `aip action events`: what happened, page by page or as it happens.

use std::process::ExitCode;

use aip_wire::{ActionEventsRequest, ActionId, Event, EventStreamRequest, MessageBody};
use clap::Args as ClapArgs;

use crate::follow::{self, Heard};
use crate::lists::word;
use crate::output::{self, Failure, because, say};
use crate::profile::Options;

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
        let mut path = "/aip/v1/events".to_owned();
        if !args.kinds.is_empty() {
            path.push_str(&format!("?kinds={}", args.kinds.join(",")));
        }
        return follow(&args.options, &path, args.cursor).await;
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
        return follow(&args.options, &format!("/aip/v1/actions/{id}/events"), None).await;
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

async fn follow(options: &Options, path: &str, cursor: Option<String>) -> Result<ExitCode, Failure> {
    let json = options.json;
    let mut stream = follow::Stream::open(options, path, cursor)?;
    while let Some(heard) = stream.next().await? {
        match heard {
            Heard::Told(MessageBody::ActionEvents(page)) => {
                page.events.iter().try_for_each(|event| show(event, json))?;
            }
            Heard::Told(MessageBody::EventStream(page)) => {
                page.events.iter().try_for_each(|event| show(event, json))?;
            }
            Heard::Told(MessageBody::ActionResult(result)) if json => output::print_json(&result)?,
            Heard::Told(MessageBody::ActionResult(result)) => say!("{}", word(&result.status)),
            Heard::Told(_) => {}
            Heard::Lost(why) => output::progress(json, &format!("the stream broke off ({why}); going on …")),
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
