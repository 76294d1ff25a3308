//! `aip worker`: what an operator does with workers' registrations, in the name of the worker's principal.

use std::process::ExitCode;

use aip_names::{Service, Version};
use clap::{Args, Subcommand};

use crate::output::{self, Failure, because};
use crate::profile::Options;

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Take back what a worker version has registered, once all its processes are stopped
    Withdraw(Withdraw),
}

#[derive(Args, Debug)]
pub struct Withdraw {
    /// The worker's service, for example sandbox-report
    service: String,
    /// The worker's version
    #[arg(long, default_value = "v1")]
    version: String,
    #[command(flatten)]
    options: Options,
}

pub async fn run(command: Command) -> Result<ExitCode, Failure> {
    let Command::Withdraw(args) = command;
    let json = args.options.json;
    let service = Service::new(&args.service).map_err(|error| because("the service", &error).json(json))?;
    let version = Version::new(&args.version).map_err(|error| because("the version", &error).json(json))?;
    let client = args.options.client().await?;
    client.withdraw(&service, version).await.map_err(|error| {
        let failure = because("nothing was withdrawn", &error).json(json);
        match error.protocol_error() {
            Some(protocol) => failure.code(protocol.code.clone()),
            None => failure,
        }
    })?;
    output::progress(json, &format!("{service} {version} is offered no more"));
    Ok(ExitCode::SUCCESS)
}
