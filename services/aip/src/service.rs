//! The services as subcommands: telemetry on, configuration read, run until told to stop.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::output::{Failure, because};

#[derive(Args, Debug)]
pub struct GatewayArgs {
    /// The configuration file
    #[arg(long, env = "AIP_GATEWAY_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    flags: aip_gateway::config::Flags,
}

#[derive(Args, Debug)]
pub struct SandboxArgs {
    /// The configuration file
    #[arg(long, env = "AIP_SANDBOX_CONFIG")]
    config: PathBuf,
}

pub async fn gateway(args: GatewayArgs) -> Result<ExitCode, Failure> {
    let config = aip_gateway::config::Config::load(args.config.as_deref(), args.flags)
        .map_err(|error| because("the gateway's configuration", &error))?;
    telemetry("gateway")?;
    aip_gateway::run(config, aip_sdk::terminated()).await.map_err(|error| because("the gateway ended", &error))?;
    Ok(ExitCode::SUCCESS)
}

pub async fn sandbox(args: SandboxArgs) -> Result<ExitCode, Failure> {
    let config = aip_sandbox::Config::load(&args.config)
        .map_err(|error| because("the sandbox's configuration", &error))?;
    telemetry("sandbox")?;
    aip_sandbox::run(config, aip_sdk::terminated()).await.map_err(|error| because("the sandbox ended", &error))?;
    Ok(ExitCode::SUCCESS)
}

fn telemetry(service: &str) -> Result<(), Failure> {
    aip_telemetry::init(service).map_err(|error| because("telemetry", &error))
}
