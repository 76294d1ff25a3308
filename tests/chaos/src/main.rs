//! Runs a campaign of faults, or a replica of the bank in one.

use std::process::ExitCode;
use std::time::Duration;

use aip_chaos::campaign::{self, Plan};
use aip_chaos::worker;
use clap::{Parser, Subcommand};

/// Real processes, faults out of a table, and what must hold whatever happens.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Fixes the faults, their order and their victims
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, default_value_t = 200)]
    rounds: usize,
    /// No round begins after so many minutes
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Actions a second, both tenants together
    #[arg(long, default_value_t = 10.0)]
    per_second: f64,
}

#[derive(Subcommand)]
enum Command {
    /// Run a replica of the bank: what a campaign does by itself
    #[command(hide = true)]
    Worker(worker::Args),
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(Command::Worker(args)) = args.command {
        return match worker::run(args).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("the bank ended: {error}");
                ExitCode::FAILURE
            }
        };
    }
    println!("seed {}", args.seed);
    let plan = Plan {
        seed: args.seed,
        rounds: args.rounds,
        lasts: Duration::from_secs(60 * args.minutes),
        per_second: args.per_second,
        judged_every: 10,
        loud: true,
    };
    let report = campaign::run(plan).await;
    print!("{report}");
    if report.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
