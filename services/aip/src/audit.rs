//! `aip audit`: who did what, in order.

use std::process::ExitCode;

use aip_wire::{ActionId, AuditQueryRequest, PrincipalId, Timestamp};
use clap::Args as ClapArgs;

use crate::lists::word;
use crate::output::{self, Failure, because, say};
use crate::profile::Options;

#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Only what is about this action
    #[arg(long)]
    action: Option<String>,
    /// Only what this principal did, or had done
    #[arg(long)]
    principal: Option<String>,
    /// Only what is in this tenant
    #[arg(long)]
    tenant: Option<String>,
    /// The earliest time, for example 2027-03-14T19:00:00Z
    #[arg(long)]
    from: Option<String>,
    /// The latest time
    #[arg(long)]
    to: Option<String>,
    /// To take away as evidence, with receipts; needs a right of its own
    #[arg(long)]
    export: bool,
    #[command(flatten)]
    options: Options,
}

pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let json = args.options.json;
    let mut request = request(&args).map_err(|failure| failure.json(json))?;
    let client = args.options.client().await?;
    loop {
        let page = client.audit(request.clone()).await;
        let page = page.map_err(|error| because("no audit", &error).json(json))?;
        for event in &page.events {
            if json || args.export {
                output::print_json(event)?;
            } else {
                let data = event.data.as_ref().map(ToString::to_string).unwrap_or_default();
                say!("{}  {:<26} {}  {data}", word(&event.occurred_at), event.action, event.actor.id);
            }
        }
        for chain in &page.receipt_chains {
            output::print_json(chain)?;
        }
        request.cursor = page.cursor;
        if request.cursor.is_none() {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

fn request(args: &Args) -> Result<AuditQueryRequest, Failure> {
    let time = |text: &Option<String>| match text {
        None => Ok(None),
        Some(text) => serde_json::from_value::<Timestamp>(text.as_str().into())
            .map(Some)
            .map_err(|error| because(&format!("{text} is no time"), &error)),
    };
    let action_id = args.action.as_deref().map(ActionId::parse).transpose();
    let principal_id = args.principal.as_deref().map(PrincipalId::parse).transpose();
    Ok(AuditQueryRequest {
        action_id: action_id.map_err(|error| because("the action's id", &error))?,
        principal_id: principal_id.map_err(|error| because("the principal's id", &error))?,
        tenant_id: args.tenant.clone(),
        from: time(&args.from)?,
        to: time(&args.to)?,
        include_receipts: args.export,
        export: args.export,
        ..AuditQueryRequest::default()
    })
}
