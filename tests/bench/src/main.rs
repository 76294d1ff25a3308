//! Measures the road against what the machine can do at most, in one run: raw NATS and JetStream, then durable actions.
//!
//! A command, not a test: figures drift from hour to hour, so only ratios within one run mean anything. Build it and
//! `aip` in release first: `cargo build --release -p aip -p aip-bench`, then `target/release/aip-bench`.

mod actions;
mod load;
mod raw;
mod restate;
mod soak;
mod stage;
mod system;

use std::error::Error;

use clap::Parser;

use load::{Figure, median};

/// Measure actions against raw NATS on this machine
#[derive(Parser, Debug)]
struct Args {
    /// Rounds; medians of them are told
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    rounds: u32,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// The concurrencies to measure at
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 128])]
    concurrency: Vec<usize>,
    /// The `aip` binary; the one beside this program if left out
    #[arg(long)]
    aip: Option<std::path::PathBuf>,
    /// A Restate server to measure beside, with `--restate-handler`
    #[arg(long, requires = "restate_handler")]
    restate_server: Option<std::path::PathBuf>,
    /// The handler of `tests/bench/restate`, built in release
    #[arg(long, requires = "restate_server")]
    restate_handler: Option<std::path::PathBuf>,
    /// Instead: this many actions on one system, and what they come to cost
    #[arg(long)]
    soak: Option<u64>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let _ = rustls::crypto::ring::default_provider().install_default();
    if let Some(actions) = args.soak {
        return soak::run(args.aip.as_deref(), actions).await;
    }
    let peer = args.restate_server.zip(args.restate_handler);
    let peer = peer.map(|(server, handler)| restate::Peer { server, handler });
    let mut figures: Vec<Figure> = Vec::new();
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}", args.rounds);
        figures.extend(raw::measure(args.seconds, &args.concurrency).await?);
        figures.extend(
            actions::measure(args.aip.as_deref(), args.seconds, &args.concurrency, round == args.rounds)
                .await?,
        );
        if let Some(peer) = &peer {
            figures.extend(peer.measure(args.seconds, &args.concurrency).await?);
        }
    }
    let mut names: Vec<String> = Vec::new();
    for figure in &figures {
        if !names.contains(&figure.name) {
            names.push(figure.name.clone());
        }
    }
    println!("{:<34} {:>10} {:>10} {:>10} {:>12}", "medians", "per s", "p50 ms", "p99 ms", "cpu µs each");
    for name in &names {
        let rows: Vec<&Figure> = figures.iter().filter(|figure| figure.name == *name).collect();
        let of = |pick: fn(&Figure) -> f64| median(rows.iter().map(|figure| pick(figure)).collect());
        let cpu = of(|figure| figure.cpu_us);
        let cpu = if cpu > 0.0 { format!("{cpu:.0}") } else { String::new() };
        println!(
            "{name:<34} {:>10.0} {:>10.2} {:>10.2} {cpu:>12}",
            of(|figure| figure.per_second),
            of(|figure| figure.p50_ms),
            of(|figure| figure.p99_ms)
        );
    }
    ratios(&figures);
    Ok(())
}

/// What the goals are stated in.
fn ratios(figures: &[Figure]) {
    let of = |name: &str, pick: fn(&Figure) -> f64| {
        median(figures.iter().filter(|figure| figure.name == name).map(pick).collect())
    };
    let p50 = |name: &str| of(name, |figure| figure.p50_ms);
    let rate = |name: &str| of(name, |figure| figure.per_second);
    let floor = 2.0 * p50("publish, fsynced, c=1") + 2.0 * p50("request/reply, one hop, c=1");
    println!();
    println!(
        "action over NATS, c=1: p50 is {:.2} × (2 fsynced publishes + 2 request/replies)",
        p50("action, NATS, c=1") / floor
    );
    println!(
        "action over NATS, c=128: {:.2} × two-hop request/reply a second",
        rate("action, NATS, c=128") / rate("request/reply, two hops, c=128")
    );
    println!(
        "action over HTTP, c=128: {:.2} × the same",
        rate("action, HTTP, c=128") / rate("request/reply, two hops, c=128")
    );
    let peer = "Restate, one durable step";
    if figures.iter().any(|figure| figure.name.starts_with(peer)) {
        println!(
            "action over NATS, c=128: {:.1} × the peer's durable step a second; c=1: {:.2} × its p50",
            rate("action, NATS, c=128") / rate(&format!("{peer}, c=128")),
            p50("action, NATS, c=1") / p50(&format!("{peer}, c=1"))
        );
    }
}
