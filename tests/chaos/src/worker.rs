//! The bank: a worker of which several replicas run, all before one [`Provider`]. Its capabilities differ in what may be
//! repeated, so that each promise of the gateway has one to break.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aip_crypto::SigningKey;
use aip_names::{Identity, Service, TrustDomain};
use aip_sdk::bus::{Bus, Settings};
use aip_sdk::{ActionError, CapabilitySpec, Context, Worker, WorkerConfig};
use aip_wire::{IdempotencyRequirement, Principal, PrincipalId, PrincipalKind, RetrySafety, SideEffect};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::provider::{Line, Provider, What};
use crate::site;

/// Not repeatable: started at most once.
pub const PAY: &str = "cap:bank:pay";
/// Repeatable with its key: done exactly once.
pub const NOTE: &str = "cap:bank:note";
/// Repeatable, and stops when told to.
pub const NAP: &str = "cap:bank:nap";

#[derive(clap::Args, Debug)]
pub struct Args {
    /// The fleet's folder
    #[arg(long)]
    dir: PathBuf,
    /// The replica's name
    #[arg(long)]
    name: String,
    #[arg(long)]
    nats_url: String,
    /// The nkey seed of the bank's identity
    #[arg(long)]
    seed: PathBuf,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Order {
    /// How long it takes.
    #[schemars(range(max = 60_000))]
    ms: u64,
}

#[derive(Serialize, JsonSchema)]
struct Done {
    /// The effect's place at the provider.
    number: u64,
    attempt: u32,
}

/// Runs a replica until SIGTERM.
///
/// # Errors
/// The worker can't run.
pub async fn run(args: Args) -> Result<(), Box<dyn std::error::Error>> {
    aip_telemetry::init(site::BANK, env!("CARGO_PKG_VERSION"), aip_telemetry::Format::Json)?;
    let identity = Identity::Worker(Service::new(site::BANK)?);
    let settings = Settings { url: args.nats_url, identity, seed_file: args.seed, name: args.name.clone() };
    let bus = Bus::connect(settings).await?;
    let folder = args.dir.join(&args.name);
    std::fs::create_dir_all(&folder)?;
    let config = WorkerConfig::new(
        TrustDomain::new(site::TRUST_DOMAIN)?,
        Service::new(site::BANK)?,
        Principal::new(PrincipalId::parse(site::BANK_PRINCIPAL)?, PrincipalKind::Service),
        Arc::new(SigningKey::load(&args.dir.join("keys/bank.key"))?),
        folder.join("results.redb"),
    );
    let provider = Provider::new(args.dir.join(site::PROVIDER));
    let write =
        |id, safety| CapabilitySpec::write(id, id, "Works as long as told.", SideEffect::Write, safety);
    let specs = [
        write(PAY, RetrySafety::Unsafe),
        write(NOTE, RetrySafety::SafeWithIdempotencyKey),
        write(NAP, RetrySafety::Safe).key(IdempotencyRequirement::Optional).cancellable(),
    ];
    let worker = specs.into_iter().fold(Worker::builder(config), |worker, spec| {
        let provider = provider.clone();
        worker.capability(spec.queued(), move |context, order| work(provider.clone(), context, order))
    });
    worker.start(&bus).await?.run_until(aip_sdk::terminated()).await?;
    Ok(())
}

async fn work(provider: Provider, context: Context, order: Order) -> Result<Done, ActionError> {
    note(&provider, &context, What::Begun).await?;
    tokio::select! {
        () = tokio::time::sleep(Duration::from_millis(order.ms)) => {}
        () = context.stop().cancelled() => {
            if context.is_cancelled() && context.trusted().capability_id.as_str() == NAP {
                return Err(ActionError::cancelled("woken up"));
            }
            return Err(ActionError::temporary("chaos.stopped", "stopped before anything was done"));
        }
    }
    let number = note(&provider, &context, What::Done).await?;
    Ok(Done { number, attempt: context.attempt() })
}

async fn note(provider: &Provider, context: &Context, what: What) -> Result<u64, ActionError> {
    let line = Line {
        what,
        tenant: context.tenant().unwrap_or_default().to_owned(),
        capability: context.trusted().capability_id.to_string(),
        action: context.effect_id().to_owned(),
        key: context.idempotency_key().map(str::to_owned),
        attempt: context.attempt(),
        pid: std::process::id(),
    };
    let keyed = what == What::Done && line.capability == NOTE;
    let provider = provider.clone();
    let written = tokio::task::spawn_blocking(move || provider.write(&line, keyed)).await;
    match written {
        Ok(Ok(number)) => Ok(number as u64),
        _ => {
            Err(ActionError::temporary("chaos.provider", "the provider can't be written").uncertain_outcome())
        }
    }
}
