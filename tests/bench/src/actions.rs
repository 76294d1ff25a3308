//! Durable synchronous actions through the real gateway: about a kilobyte in and out, an idempotency key, both schemas,
//! receipts; over NATS signed, over HTTP with an API key.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use aip_crypto::SigningKey;
use aip_names::{Identity, Service, Version};
use aip_natsd::Process;
use aip_sdk::{ActionError, CallOptions, CapabilitySpec, Client, Context, Worker, WorkerConfig};
use aip_wire::{IdempotencyRequirement, Principal, PrincipalId, PrincipalKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::load::{Call, Figure, closed_loop, cpu_us};
use crate::stage::{SERVICE, Stage};

const CAPABILITY: &str = "cap:bench:echo";
const API_KEY: &str = "aip_bench";
const START: Duration = Duration::from_secs(30);

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Text {
    #[schemars(length(max = 2000))]
    text: String,
}

async fn echo(_: Context, input: Text) -> Result<Text, ActionError> {
    Ok(input)
}

pub async fn measure(
    aip: Option<&Path>,
    seconds: u64,
    concurrency: &[usize],
) -> Result<Vec<Figure>, Box<dyn Error>> {
    let stage = Stage::start().await?;
    let folder = stage.folder.path();
    let keys = ["gateway", "worker", "client"].map(|name| (name, folder.join(format!("{name}.key"))));
    let mut dids = Vec::new();
    for (_, path) in &keys {
        let key = SigningKey::generate()?;
        key.save(path)?;
        dids.push(key.did().to_string());
    }
    std::fs::write(folder.join("directory.toml"), directory(dids.get(1..).unwrap_or_default()))?;
    let http = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.local_addr()?
    };
    let seed = stage.server.seed_file(&Identity::Gateway);
    let config = format!(
        "trust_domain = \"aip.bench\"\nreplica = \"gateway-0\"\ndata_dir = \"gateway\"\ndirectory = \"directory.toml\"\n\
         signing_key = \"gateway.key\"\n[nats]\nurl = \"{}\"\nseed = {seed:?}\n[http]\nbind = \"{http}\"\n",
        stage.server.url()
    );
    std::fs::write(folder.join("gateway.toml"), config)?;
    let program = match aip {
        Some(path) => path.to_owned(),
        None => std::env::current_exe()?.with_file_name("aip"),
    };
    let mut command = Command::new(program);
    command.env("AIP_LOG", "warn").arg("gateway").arg("--config").arg(folder.join("gateway.toml"));
    let gateway = Process::spawn(command, Some(Box::new(|line| eprintln!("gateway: {line}")))).await?;

    let worker = worker(&stage, folder.join("worker.key"), folder.join("worker.redb")).await?;
    tokio::time::timeout(START, worker.registered()).await??;
    let key = Arc::new(SigningKey::load(&folder.join("client.key"))?);
    let principal = Principal::new(PrincipalId::parse("service:client")?, PrincipalKind::Service);
    let client =
        Client::on_bus(stage.bus(Stage::client()?).await?, &stage.trust_domain, principal, key, None)?;
    let mut figures = Vec::new();
    for c in concurrency {
        for (name, call) in
            [("action, NATS", over_nats(&client)), ("action, HTTP", over_http(&format!("http://{http}"))?)]
        {
            let pids = [gateway.id(), stage.pid()];
            let before: f64 = pids.iter().map(|pid| cpu_us(*pid)).sum();
            let mut figure = closed_loop(name, *c, seconds, call).await?;
            let used: f64 = pids.iter().map(|pid| cpu_us(*pid)).sum::<f64>() - before;
            // The warm-up, a tenth of the time, is in the processor time and not in the count.
            figure.cpu_us = used / (figure.per_second * seconds as f64 * 1.1);
            figures.push(figure);
        }
    }
    worker.drain().await;
    gateway.stop(START).await?;
    Ok(figures)
}

async fn worker(stage: &Stage, key: PathBuf, store: PathBuf) -> Result<Worker, Box<dyn Error>> {
    let principal = Principal::new(PrincipalId::parse("service:worker")?, PrincipalKind::Service);
    let mut config = WorkerConfig::new(
        stage.trust_domain.clone(),
        Service::new(SERVICE)?,
        principal,
        Arc::new(SigningKey::load(&key)?),
        store,
    );
    config.version = Version::V1;
    config.running_max = aip_names::limits::WORKER_RUNNING_MAX;
    let spec = CapabilitySpec::read(CAPABILITY, "Echo", "Says what it was told.")
        .key(IdempotencyRequirement::Optional);
    Ok(Worker::builder(config).capability(spec, echo).start(&stage.bus(Stage::worker()?).await?).await?)
}

fn input() -> Value {
    json!({"text": "x".repeat(1000)})
}

fn over_nats(client: &Client) -> Call {
    let client = client.clone();
    Arc::new(move || {
        let client = client.clone();
        Box::pin(async move {
            let idempotency_key = Some(uuid::Uuid::now_v7().to_string());
            let options = CallOptions { idempotency_key, ..CallOptions::default() };
            client.call(CAPABILITY, input(), options).await.map(drop).map_err(|error| error.to_string())
        })
    })
}

fn over_http(url: &str) -> Result<Call, Box<dyn Error>> {
    let (client, url) = (reqwest::Client::builder().build()?, format!("{url}/aip/v1/actions"));
    Ok(Arc::new(move || {
        let (client, url) = (client.clone(), url.clone());
        Box::pin(async move {
            let action = json!({"capability_id": CAPABILITY, "input": input(),
                                "idempotency_key": uuid::Uuid::now_v7().to_string()});
            let sent = client.post(url).bearer_auth(API_KEY).json(&action).send().await;
            let reply: Value =
                sent.map_err(|error| error.to_string())?.json().await.map_err(|error| error.to_string())?;
            let status = reply.pointer("/body/action_result/status").and_then(Value::as_str);
            if status == Some("completed") { Ok(()) } else { Err(reply.to_string()) }
        })
    }))
}

fn directory(dids: &[String]) -> String {
    let [worker, client] = dids else { return String::new() };
    let digest = hex::encode(Sha256::digest(API_KEY));
    format!(
        "trust_domain = \"aip.bench\"
[[tenant]]
id = \"tenant:bench\"
[[principal]]
id = \"service:client\"
kind = \"service\"
tenants = [\"tenant:bench\"]
scopes = [\"action:write\", \"action:read\"]
capabilities = [\"cap:*\"]
dids = [\"{client}\"]
api_keys = [{{ id = \"bench\", sha256 = \"{digest}\" }}]
[[principal]]
id = \"service:worker\"
kind = \"service\"
dids = [\"{worker}\"]
[[worker]]
principal = \"service:worker\"
service = \"{SERVICE}\"
capabilities = [\"cap:bench:*\"]
"
    )
}
