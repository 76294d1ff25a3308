//! The system that is measured: a nats-server, a gateway as a process, a worker and a client in this one.

use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use aip_crypto::SigningKey;
use aip_names::{Identity, Service, Version};
use aip_natsd::Process;
use aip_sdk::{ActionError, CapabilitySpec, Client, Context, Worker, WorkerConfig};
use aip_wire::{IdempotencyRequirement, Principal, PrincipalId, PrincipalKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::stage::{SERVICE, Stage};

pub const ECHO: &str = "cap:bench:echo";
pub const STREAM: &str = "cap:bench:stream";
/// What one action of the latter streams.
pub const CHUNKS: u32 = 200;
pub const API_KEY: &str = "aip_bench";
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

async fn stream(context: Context, input: Text) -> Result<Text, ActionError> {
    for _ in 0..CHUNKS {
        let sent = context.chunks().data(serde_json::json!({"text": input.text})).await;
        sent.map_err(|error| ActionError::permanent("bench.chunk", error.to_string()))?;
    }
    Ok(input)
}

pub struct System {
    pub stage: Stage,
    pub gateway: Process,
    pub client: Client,
    pub http: SocketAddr,
    worker: Worker,
}

// === impl System ===

impl System {
    pub async fn start(aip: Option<&Path>) -> Result<System, Box<dyn Error>> {
        let stage = Stage::start().await?;
        let folder = stage.folder.path();
        let mut dids = Vec::new();
        for name in ["gateway", "worker", "client"] {
            let key = SigningKey::generate()?;
            key.save(&folder.join(format!("{name}.key")))?;
            dids.push(key.did().to_string());
        }
        std::fs::write(folder.join("directory.toml"), directory(dids.get(1..).unwrap_or_default()))?;
        let http = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let gateway = gateway(aip, &stage, http).await?;
        let worker = worker(&stage, folder.join("worker.key"), folder.join("worker.redb")).await?;
        tokio::time::timeout(START, worker.registered()).await??;
        let key = Arc::new(SigningKey::load(&folder.join("client.key"))?);
        let principal = Principal::new(PrincipalId::parse("service:client")?, PrincipalKind::Service);
        let bus = stage.bus(Stage::client()?).await?;
        let client = Client::on_bus(bus, &stage.trust_domain, principal, key, None)?;
        Ok(System { stage, gateway, client, http, worker })
    }

    /// The processes whose time an action costs; the worker's and the caller's is in this one.
    pub fn pids(&self) -> [i32; 2] {
        [self.gateway.id(), self.stage.pid()]
    }

    /// The gateway's own histograms: name, how often, and the mean in milliseconds.
    pub async fn histograms(&self) -> Result<Vec<(String, f64, f64)>, Box<dyn Error>> {
        let page = reqwest::get(format!("http://{}/metrics", self.http)).await?.text().await?;
        let value = |line: &str| line.rsplit(' ').next().and_then(|text| text.parse::<f64>().ok());
        let mut told = Vec::new();
        for line in page.lines().filter(|line| !line.starts_with('#') && line.contains("_seconds_sum")) {
            let name = line.rsplit_once(' ').map_or(line, |(name, _)| name);
            let counted = name.replacen("_seconds_sum", "_seconds_count", 1);
            let count = page.lines().find(|line| line.starts_with(&format!("{counted} "))).and_then(value);
            if let (Some(sum), Some(count)) = (value(line), count.filter(|count| *count > 0.0)) {
                told.push((name.replacen("_seconds_sum", "", 1), count, sum / count * 1000.0));
            }
        }
        Ok(told)
    }

    /// The gateway's store.
    pub fn store(&self) -> PathBuf {
        self.stage.folder.path().join("gateway")
    }

    /// Ends all but the files, which go with the stage.
    pub async fn stop(self) -> Result<Stage, Box<dyn Error>> {
        self.worker.drain().await;
        self.gateway.stop(START).await?;
        Ok(self.stage)
    }
}

async fn gateway(aip: Option<&Path>, stage: &Stage, http: SocketAddr) -> Result<Process, Box<dyn Error>> {
    let folder = stage.folder.path();
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
    Ok(Process::spawn(command, Some(Box::new(|line| eprintln!("gateway: {line}")))).await?)
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
    let spec = CapabilitySpec::read(ECHO, "Echo", "Says what it was told.")
        .key(IdempotencyRequirement::Optional)
        .queued();
    let streaming = CapabilitySpec::read(STREAM, "Stream", "Says it again and again.")
        .key(IdempotencyRequirement::Optional)
        .streaming();
    let worker = Worker::builder(config).capability(spec, echo).capability(streaming, stream);
    Ok(worker.start(&stage.bus(Stage::worker()?).await?).await?)
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
