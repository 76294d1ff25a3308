//! The services as subcommands: telemetry on, configuration read, run until told to stop.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use aip_names::OwnService;
use aip_telemetry::{Format, Metrics};
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
    let metrics = prepare("gateway")?;
    let exposition: aip_service::Exposition = Arc::new(move || metrics.render());
    let ended = aip_gateway::run::run(config, exposition, aip_sdk::terminated()).await;
    match ended {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(because("the gateway ended", &error).exit(error.exit_code())),
    }
}

#[derive(Args, Debug)]
pub struct OwnArgs {
    /// The configuration file
    #[arg(long)]
    config: PathBuf,
}

pub async fn policy_approval(args: OwnArgs) -> Result<ExitCode, Failure> {
    let own = OwnService::PolicyApproval;
    let config = aip_policy_approval::run::Config::load(own, &args.config)
        .map_err(|error| because("the service's configuration", &error))?;
    let metrics = prepare(own.as_str())?;
    let exposition: aip_service::Exposition = Arc::new(move || metrics.render());
    let ended = aip_policy_approval::run::run(config, exposition, aip_sdk::terminated()).await;
    match ended {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(because("the service ended", &error).exit(error.exit_code())),
    }
}

pub async fn sandbox(args: SandboxArgs) -> Result<ExitCode, Failure> {
    let config = aip_sandbox::Config::load(&args.config)
        .map_err(|error| because("the sandbox's configuration", &error))?;
    prepare("sandbox")?;
    let ended = aip_sandbox::run(config, aip_sdk::terminated()).await;
    ended.map(|()| ExitCode::SUCCESS).map_err(|error| because("the sandbox ended", &error))
}

/// What every service does first: is what it judges by what was shipped, and where does its log go.
fn prepare(service: &str) -> Result<Metrics, Failure> {
    aip_wire::schemas::check().map_err(|error| because("the built-in schemas", &error))?;
    // A person at a terminal reads text; whoever collects logs reads JSON.
    let format = if std::io::stderr().is_terminal() { Format::Text } else { Format::Json };
    aip_telemetry::init(service, env!("CARGO_PKG_VERSION"), format)
        .map_err(|error| because("telemetry", &error))
}
