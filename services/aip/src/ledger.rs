//! `aip ledger verify` and `aip ledger recover`: is a stopped service's store what its log says, and what to do when
//! the log or stores were lost. They need the service's configuration and NATS, which `--start-nats` starts for the
//! folder of a stopped `aip dev`. Nothing is overwritten: see [`aip_ledger::recover`].

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use aip_bus::Bus;
use aip_gateway::config::{Config, Flags};
use aip_gateway::machine::{GatewayMachine, State, receipts};
use aip_ledger::StoreError;
use aip_ledger::recover::{self, JetStreamLog, Options, Orphan, RecoverError, Report};
use aip_ledger::verify::{Verified, VerifyError};
use aip_names::{Identity, Service};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::dev::{self, NatsOnly};
use crate::output::{self, Failure, because, say};

const CONNECT: Duration = Duration::from_secs(10);

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Replay the log and compare with the store; check every chain. Changes nothing
    Verify(Verify),
    /// Give a cut, older, empty or missing log back what the stores still know, and rebuild the stores from it
    Recover(Recover),
}

#[derive(Args, Debug)]
pub struct Verify {
    #[command(flatten)]
    service: Stopped,
}

#[derive(Args, Debug)]
pub struct Recover {
    #[command(flatten)]
    service: Stopped,
    /// A further store that takes part, of another replica or from a backup; may be given again
    #[arg(long = "store", value_name = "PATH")]
    stores: Vec<PathBuf>,
    /// The store to follow where stores contradict each other
    #[arg(long, value_name = "PATH")]
    prefer: Option<PathBuf>,
    /// Find out and report everything, change nothing
    #[arg(long)]
    dry_run: bool,
}

/// A service that does not run.
#[derive(Args, Debug)]
struct Stopped {
    /// The service's configuration file
    #[arg(long, env = "AIP_GATEWAY_CONFIG")]
    config: PathBuf,
    #[command(flatten)]
    flags: Flags,
    /// Start the nats-server of the stopped `aip dev` in whose folder the configuration stands
    #[arg(long)]
    start_nats: bool,
    /// Answer in JSON, a line each
    #[arg(long)]
    json: bool,
}

pub async fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Verify(args) => {
            let json = args.service.json;
            verify(args).await.map_err(|failure| failure.json(json))
        }
        Command::Recover(args) => {
            let json = args.service.json;
            recover(args).await.map_err(|failure| failure.json(json))
        }
    }
}

/// What is needed of the service, without it.
struct Opened {
    ledger: aip_ledger::Config,
    log: JetStreamLog,
    nats: Option<NatsOnly>,
}

// === impl Opened ===

impl Opened {
    async fn new(service: Stopped) -> Result<Opened, Failure> {
        let mut config = Config::load(Some(&service.config), service.flags)
            .map_err(|error| because("the service's configuration", &error))?;
        let mut nats = None;
        if service.start_nats {
            let folder = service.config.parent().filter(|folder| !folder.as_os_str().is_empty());
            let started = dev::nats_only(folder.unwrap_or(Path::new(".")).to_owned()).await?;
            config.nats.url = started.server.url();
            nats = Some(started);
        }
        let settings = aip_bus::Settings {
            url: config.nats.url.clone(),
            identity: Identity::Gateway,
            seed_file: config.nats.seed.clone(),
            name: format!("{}-recovery", config.replica),
        };
        let no_nats = |error| {
            because(&format!("NATS at {}", config.nats.url), &error)
                .hint("NATS has to run; for the folder of a stopped `aip dev`, add --start-nats")
        };
        let bus = Bus::connect(settings).await.map_err(no_nats)?;
        bus.ready(CONNECT).await.map_err(no_nats)?;
        let ledger = aip_ledger::Config {
            trust_domain: config.trust_domain,
            service: Service::gateway(),
            shard: 0,
            replica: config.replica,
            data_dir: config.data_dir,
            stream_replicas: config.nats.stream_replicas,
        };
        let log = JetStreamLog::new(bus, &ledger, Handle::current());
        Ok(Opened { ledger, log, nats })
    }

    async fn close(nats: Option<NatsOnly>) {
        if let Some(mut nats) = nats {
            // Everything is fsynced; a server that does not stop in time is killed.
            let _ = nats.server.stop().await;
        }
    }
}

async fn verify(args: Verify) -> Result<ExitCode, Failure> {
    let json = args.service.json;
    let Opened { ledger, mut log, nats } = Opened::new(args.service).await?;
    let (path, identity) = (ledger.store_file(), ledger.identity());
    let store = path.display().to_string();
    let looked = tokio::task::spawn_blocking(move || {
        recover::verify(&GatewayMachine, &mut log, &identity, &path, &mut |_, entity, past| match &entity
            .state
        {
            State::Action(action) => receipts::chain(past, action).map(drop).map_err(|bug| bug.to_string()),
            _ => Ok(()),
        })
    });
    let looked = looked.await;
    Opened::close(nats).await;
    match looked.map_err(|error| because("the verification broke off", &error))? {
        Ok(verified) if json => output::print_json(&json!({"verified": found_whole(&store, &verified)}))?,
        Ok(verified) => {
            let Verified { position, last_seq, entities, records, stopped, orphans, digest, .. } = verified;
            say!("{store} is what the log makes of it at {position} (the log ends at {last_seq})");
            say!("  {entities} entities, {records} records, every chain whole");
            say!("  {stopped} stopped entities, {orphans} orphans, digest {digest}");
        }
        Err(error) => return Err(not_whole(error)),
    }
    Ok(ExitCode::SUCCESS)
}

fn found_whole(store: &str, verified: &Verified) -> Value {
    json!({
        "store": store,
        "position": verified.position,
        "last_seq": verified.last_seq,
        "log_time": verified.log_time,
        "entities": verified.entities,
        "records": verified.records,
        "stopped": verified.stopped,
        "orphans": verified.orphans,
        "digest": verified.digest,
    })
}

fn not_whole(error: VerifyError) -> Failure {
    match error {
        VerifyError::Recover(error) => not_done("not verified", error),
        error => because("not whole", &error)
            .hint("`aip ledger recover --dry-run` says what can be mended, and what would be lost"),
    }
}

async fn recover(args: Recover) -> Result<ExitCode, Failure> {
    let (json, dry_run) = (args.service.json, args.dry_run);
    let Opened { ledger, mut log, nats } = Opened::new(args.service).await?;
    let own = ledger.store_file();
    let mut paths = args.stores;
    if own.is_file() {
        paths.insert(0, own);
    } else if paths.is_empty() {
        Opened::close(nats).await;
        return Err(Failure::new(format!("there is no store at {}", own.display()))
            .hint("name stores of other replicas with --store; a replica without a store learns from the log by itself"));
    }
    let (identity, prefer) = (ledger.identity(), args.prefer);
    let done = tokio::task::spawn_blocking(move || {
        let mut hear = |orphan: Orphan| say_orphan(&orphan, json);
        let options = Options { prefer: None, dry_run, orphan: Some(&mut hear) };
        recover::recover(&GatewayMachine, &mut log, &identity, &paths, prefer.as_deref(), options)
    });
    let done = done.await;
    Opened::close(nats).await;
    let done = done.map_err(|error| because("the recovery broke off", &error).hint("run it again"))?;
    let report = done.map_err(|error| not_done("not recovered", error))?;
    if json {
        output::print_json(&json!({ "recovered": in_json(&report, dry_run) }))?;
    } else {
        say(&report, dry_run);
    }
    Ok(ExitCode::SUCCESS)
}

fn not_done(what: &str, error: RecoverError) -> Failure {
    let hint = match &error {
        RecoverError::OfStore { source: StoreError::Locked, .. } => "stop the service that has it open",
        RecoverError::Log(_) => "what was done is kept: run it again",
        RecoverError::Contradiction { .. } => "see what each would cost: --dry-run --prefer PATH",
        _ => return because(what, &error),
    };
    because(what, &error).hint(hint)
}

/// Whom a lost action, message or manifest had been acknowledged to: the first record of its entity names who asked.
fn acknowledged_to(orphan: &Orphan) -> Option<&str> {
    const REQUESTERS: [&str; 2] =
        ["/events/0/action/accepted/context/principal/id", "/events/0/message/noted/actor/id"];
    let first = orphan.first.as_ref().unwrap_or(&orphan.record);
    let named = REQUESTERS.iter().find_map(|place| first.pointer(place)?.as_str());
    named.or_else(|| (orphan.entity.kind == "manifest").then_some(orphan.entity.id.as_str()))
}

fn say_orphan(orphan: &Orphan, json: bool) {
    let to = acknowledged_to(orphan);
    if !json {
        say!(
            "orphan  {} record {} ({}), acknowledged to {}: {}",
            orphan.entity,
            orphan.n,
            orphan.record_id,
            to.unwrap_or("nobody known"),
            orphan.why
        );
        return;
    }
    let line = json!({"orphan": {
        "entity": orphan.entity.to_string(),
        "n": orphan.n,
        "record_id": orphan.record_id,
        "hash": orphan.hash,
        "at": orphan.at,
        "log_time": orphan.log_time,
        "seq": orphan.seq,
        "writer": orphan.writer.to_string(),
        "cause": orphan.cause,
        "acknowledged_to": to,
        "store": orphan.store,
        "why": orphan.why,
        "record": orphan.record,
    }});
    say!("{line}");
}

fn in_json(report: &Report, dry_run: bool) -> Value {
    let stores = report.sources.iter().map(|source| {
        json!({"store": source.name, "position": source.position, "beside": source.beside, "lost_by_log": source.lost})
    });
    let rebuilt = report.rebuilt.iter().map(|(store, aside)| json!({"store": store, "kept_as": aside}));
    json!({
        "dry_run": dry_run,
        "whole": report.whole,
        "log_found": report.log_found.map(|info| info.last_seq),
        "stores": stores.collect::<Vec<_>>(),
        "records": report.records,
        "messages": report.messages,
        "orphans": report.orphans,
        "last_seq": report.last_seq,
        "digest": report.digest,
        "rebuilt": rebuilt.collect::<Vec<_>>(),
    })
}

fn say(report: &Report, dry_run: bool) {
    match report.log_found {
        None => say!("the log was missing"),
        Some(info) => say!("the log ended at {}", info.last_seq),
    }
    for source in &report.sources {
        let stood = source.beside.as_deref().unwrap_or("stands on the log");
        say!("{} at {}: {stood}; {} records that the log lacked", source.name, source.position, source.lost);
    }
    if report.whole {
        say!("nothing had to be mended");
        return;
    }
    let done = if dry_run { "would be" } else { "were" };
    say!(
        "{} records {done} appended in {} messages, {} are orphans; the log ends at {}",
        report.records,
        report.messages,
        report.orphans,
        report.last_seq
    );
    for (store, aside) in &report.rebuilt {
        say!("rebuilt {}; the old file is {}", store.display(), aside.display());
    }
}
