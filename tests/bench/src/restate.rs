//! A peer in the same run, if its programs are named: one durable step of a Restate server with two partitions and a
//! handler in Rust.

use std::error::Error;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aip_natsd::Process;
use serde_json::json;

use crate::load::{Call, Figure, closed_loop};

const START: Duration = Duration::from_secs(30);
const PARTITIONS: &str = "2";

/// The peer's programs.
#[derive(Debug, Clone)]
pub struct Peer {
    pub server: PathBuf,
    /// `tests/bench/restate`, built in release.
    pub handler: PathBuf,
}

impl Peer {
    pub async fn measure(&self, seconds: u64, concurrency: &[usize]) -> Result<Vec<Figure>, Box<dyn Error>> {
        let folder = tempfile::Builder::new().prefix("aip-bench-").tempdir_in(std::env::current_dir()?)?;
        let [ingress, admin, node, handler] = ports()?;
        let mut command = Command::new(&self.handler);
        command.arg(format!("127.0.0.1:{handler}"));
        let handling = Process::spawn(command, None).await?;
        let mut command = Command::new(&self.server);
        command
            .args(["--no-logo", "--listen-mode", "tcp", "--bind-ip", "127.0.0.1", "--node-name", "bench"])
            .args(["--bind-port", &node.to_string()])
            .arg("--base-dir")
            .arg(folder.path())
            .env("RESTATE_DEFAULT_NUM_PARTITIONS", PARTITIONS)
            .env("RESTATE_INGRESS__BIND_PORT", ingress.to_string())
            .env("RESTATE_ADMIN__BIND_PORT", admin.to_string())
            .env("RESTATE_LOG_FILTER", "error");
        let server = Process::spawn(command, None).await?;
        register(admin, handler).await?;
        let mut figures = Vec::new();
        for c in concurrency {
            figures.push(closed_loop("Restate, one durable step", *c, seconds, step(ingress)?).await?);
        }
        server.stop(START).await?;
        handling.stop(START).await?;
        Ok(figures)
    }
}

fn ports<const N: usize>() -> Result<[u16; N], Box<dyn Error>> {
    let mut held = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

async fn register(admin: u16, handler: u16) -> Result<(), Box<dyn Error>> {
    let (client, begun) = (reqwest::Client::new(), Instant::now());
    let deployment = json!({"uri": format!("http://127.0.0.1:{handler}")});
    loop {
        let sent =
            client.post(format!("http://127.0.0.1:{admin}/deployments")).json(&deployment).send().await;
        match sent {
            Ok(reply) if reply.status().is_success() => return Ok(()),
            refused if begun.elapsed() > START => {
                return Err(format!("the peer takes no deployment: {refused:?}").into());
            }
            _ => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}

fn step(ingress: u16) -> Result<Call, Box<dyn Error>> {
    let (client, url) =
        (reqwest::Client::builder().build()?, format!("http://127.0.0.1:{ingress}/Bench/step"));
    Ok(Arc::new(move || {
        let (client, url) = (client.clone(), url.clone());
        Box::pin(async move {
            let sent = client.post(url).json(&"x".repeat(1000)).send().await;
            let reply = sent.map_err(|error| error.to_string())?;
            let status = reply.status();
            let body = reply.text().await.map_err(|error| error.to_string())?;
            if status.is_success() { Ok(()) } else { Err(format!("{status}: {body}")) }
        })
    }))
}
