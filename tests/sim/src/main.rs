//! Runs seeds of the simulation, or tells the story of one.

use std::process::ExitCode;
use std::time::Instant;

use aip_ledger::replica::Variant;
use aip_sim::toy::ToySubject;
use clap::{Parser, Subcommand, ValueEnum};

/// Deterministic simulation of the ledger.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run many seeds; stop at the first that breaks an invariant.
    Run {
        #[arg(long, default_value_t = 2_000)]
        seeds: u64,
        #[arg(long, default_value_t = 0)]
        from: u64,
        #[arg(long, value_enum, default_value_t = Road::Sound)]
        variant: Road,
    },
    /// Run one seed and print what happened.
    Replay {
        #[arg(long)]
        seed: u64,
        #[arg(long, value_enum, default_value_t = Road::Sound)]
        variant: Road,
    },
}

/// The road as it is, or one that is broken on purpose.
#[derive(Clone, Copy, ValueEnum)]
enum Road {
    Sound,
    AcknowledgeBeforeTail,
    NoVoidCheck,
    NoPositionCheck,
    EffectsBeforeCommit,
    ClaimsPassByTime,
}

impl From<Road> for Variant {
    fn from(road: Road) -> Variant {
        match road {
            Road::Sound => Variant::Sound,
            Road::AcknowledgeBeforeTail => Variant::AcknowledgeBeforeTail,
            Road::NoVoidCheck => Variant::NoVoidCheck,
            Road::NoPositionCheck => Variant::NoPositionCheck,
            Road::EffectsBeforeCommit => Variant::EffectsBeforeCommit,
            Road::ClaimsPassByTime => Variant::ClaimsPassByTime,
        }
    }
}

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Run { seeds, from, variant } => run(from, seeds, variant.into()),
        Command::Replay { seed, variant } => replay(seed, variant.into()),
    }
}

fn run(from: u64, seeds: u64, variant: Variant) -> ExitCode {
    let begun = Instant::now();
    let (counts, failure) = aip_sim::sweep(ToySubject::default, from..from + seeds, variant);
    println!("{counts}{:.1} s", begun.elapsed().as_secs_f64());
    let Some(failure) = failure else {
        println!("{seeds} seeds from {from}: every invariant held");
        return ExitCode::SUCCESS;
    };
    println!("seed {}: {}", failure.seed, failure.what);
    if let Some(trace) = failure.trace {
        println!("event log: {}", trace.display());
    }
    ExitCode::FAILURE
}

fn replay(seed: u64, variant: Variant) -> ExitCode {
    let report = aip_sim::run(ToySubject::default(), seed, variant, true);
    for line in &report.trace {
        println!("{line}");
    }
    print!("{}", report.counts);
    match report.violation {
        None => ExitCode::SUCCESS,
        Some(violation) => {
            println!("seed {seed}: {violation}");
            ExitCode::FAILURE
        }
    }
}
