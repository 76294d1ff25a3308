//! `aip manifest`: what the gateway offers to whoever asks.

use std::process::ExitCode;

use aip_wire::{CapabilityId, ManifestFilter, ManifestRequest};
use clap::Args as ClapArgs;

use crate::output::{self, Failure, because, say};
use crate::profile::Options;

#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Only these capabilities
    #[arg(long = "capability")]
    capabilities: Vec<String>,
    #[command(flatten)]
    options: Options,
}

pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let json = args.options.json;
    let client = args.options.client().await?;
    let ids: Result<Vec<_>, _> = args.capabilities.into_iter().map(CapabilityId::parse).collect();
    let capability_ids = ids.map_err(|error| because("a capability's id", &error).json(json))?;
    let filter =
        (!capability_ids.is_empty()).then(|| ManifestFilter { capability_ids, ..ManifestFilter::default() });
    let request = ManifestRequest { filter, ..ManifestRequest::default() };
    let manifest =
        client.manifest(request).await.map_err(|error| because("no manifest", &error).json(json))?;
    if json {
        output::print_json(&manifest)?;
        return Ok(ExitCode::SUCCESS);
    }
    say!("{} offers {} capabilities", manifest.agent.id, manifest.capabilities.len());
    for capability in &manifest.capabilities {
        say!(
            "  {:<36} {}",
            capability.id.to_string(),
            capability.description.as_deref().unwrap_or(&capability.name)
        );
    }
    Ok(ExitCode::SUCCESS)
}
