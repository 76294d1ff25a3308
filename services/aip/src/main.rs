//! The one binary: every service of the system, what people and programs say to it, and `aip dev`, which runs all of
//! it on one machine. Each subcommand is a file; nothing is decided here.

mod action;
mod approval;
mod audit;
mod dev;
mod doctor;
mod events;
mod health;
mod keys;
mod ledger;
mod lists;
mod manifest;
mod output;
mod profile;
mod receipts;
mod redrive;
mod service;
mod setup;
mod site;
mod stream;
mod validate;
mod worker;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use output::Failure;

/// AIP 1.0 over NATS: governed actions for agents and services
/// A fifth of a gateway's time went into the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser, Debug)]
#[command(name = "aip", version, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run everything on this machine: nats-server, gateway, sandbox workers
    Dev(dev::Args),
    /// Call capabilities and ask about actions
    #[command(subcommand)]
    Action(action::Command),
    /// See what waits for a decision, and decide it
    #[command(subcommand)]
    Approval(approval::Command),
    /// Show what happened, to all actions that you may see
    Events(events::Args),
    /// Show who did what
    Audit(audit::Args),
    /// Show what the gateway offers to you
    Manifest(manifest::Args),
    /// Look after workers' registrations
    #[command(subcommand)]
    Worker(worker::Command),
    /// Make and show keys
    #[command(subcommand)]
    Keys(keys::Command),
    /// Check receipt chains
    #[command(subcommand)]
    Receipts(receipts::Command),
    /// Verify and recover a service's ledger, with the service stopped
    #[command(subcommand)]
    Ledger(ledger::Command),
    /// Judge envelopes, one JSON line each on standard input
    Validate,
    /// Find out what is wrong, and how to mend it
    Doctor(doctor::Args),
    /// Write the keys and files of an installation whose parts run apart, as in containers
    Setup(setup::Args),
    /// Ask a service whether it is ready: exit code 0 says yes
    Health(health::Args),
    /// Find a nats-server, or fetch the pinned one, and say where it is
    NatsServer,
    /// Run a gateway
    Gateway(service::GatewayArgs),
    /// Run the service of approvals
    PolicyApproval(service::OwnArgs),
    /// Run the sandbox workers
    Sandbox(service::SandboxArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // One provider for every TLS connection of this process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return output::fail(&Failure::new(format!("can't start the runtime: {error}"))),
    };
    let done = runtime.block_on(run(cli.command));
    // What a task may still hold is not worth waiting for: everything that matters was drained.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    match done {
        Ok(code) => code,
        Err(failure) => output::fail(&failure),
    }
}

async fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Dev(args) => dev::run(args).await,
        Command::Action(command) => action::run(command).await,
        Command::Approval(command) => approval::run(command).await,
        Command::Events(args) => events::run(args).await,
        Command::Audit(args) => audit::run(args).await,
        Command::Manifest(args) => manifest::run(args).await,
        Command::Worker(command) => worker::run(command).await,
        Command::Keys(command) => keys::run(command),
        Command::Receipts(command) => receipts::run(command).await,
        Command::Ledger(command) => ledger::run(command).await,
        Command::Validate => validate::run(),
        Command::Doctor(args) => doctor::run(args).await,
        Command::Setup(args) => setup::run(args),
        Command::Health(args) => health::run(args).await,
        Command::NatsServer => setup::nats_server().await,
        Command::Gateway(args) => service::gateway(args).await,
        Command::PolicyApproval(args) => service::policy_approval(args).await,
        Command::Sandbox(args) => service::sandbox(args).await,
    }
}
