//! A nats-server with its folder: configuration, keys, store, log. Start, stop, kill, pause, restart.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use aip_names::{Identity, TrustDomain, User};
use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;

use crate::binary::{self, Binary};
use crate::config::{Config, Listen, UserKey};
use crate::error::NatsdError;
use crate::identities::Identities;
use crate::process::{self, Process};

const HOST: &str = "127.0.0.1";
/// A store of gigabytes is checked at start, so this is generous.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);
/// What of the log goes into an error.
const LOG_LINES_MAX: usize = 15;

/// What a server is started with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Holds everything of this server; made if missing.
    pub folder: PathBuf,
    /// None takes a free port, which a restart keeps.
    pub port: Option<u16>,
    /// Port of the monitoring pages.
    pub monitor_port: Option<u16>,
    pub trust_domain: TrustDomain,
    pub users: Vec<User>,
}

/// A server on 127.0.0.1. Dropping it kills it; its folder stays.
#[derive(Debug)]
pub struct Server {
    binary: Binary,
    settings: Settings,
    identities: Identities,
    process: Option<Process>,
}

impl Server {
    /// Finds a binary, writes keys and configuration, starts the server and waits until it serves JetStream.
    ///
    /// # Errors
    /// No usable binary, an unusable folder, or a server that does not come up.
    pub async fn start(settings: Settings) -> Result<Self, NatsdError> {
        let binary = binary::find().await?;
        std::fs::create_dir_all(&settings.folder).map_err(NatsdError::io("create", &settings.folder))?;
        // the server does not run in our working folder's name
        let folder = settings.folder.canonicalize().map_err(NatsdError::io("resolve", &settings.folder))?;
        let identities = Identities::ensure(&folder.join("keys"), &settings.users)?;
        let settings = Settings { folder, ..settings };
        let mut server = Self { binary, settings, identities, process: None };
        process::end_left_over(&server.file("nats-server.pid"), &server.config_file()).await?;
        server.launch().await?;
        Ok(server)
    }

    /// `nats://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("nats://{HOST}:{}", self.settings.port.unwrap_or_default())
    }

    pub fn binary(&self) -> &Binary {
        &self.binary
    }

    /// The folder of this server, absolute.
    pub fn folder(&self) -> &Path {
        &self.settings.folder
    }

    /// The file that lets a program connect as `identity`.
    pub fn seed_file(&self, identity: &Identity) -> PathBuf {
        self.identities.seed_file(identity)
    }

    pub fn log_file(&self) -> PathBuf {
        self.file("nats-server.log")
    }

    pub fn store_dir(&self) -> PathBuf {
        self.file("jetstream")
    }

    pub fn is_running(&self) -> bool {
        self.process.as_ref().is_some_and(Process::is_running)
    }

    /// Returns when the server has ended, at once if it does not run.
    pub async fn ended(&self) {
        if let Some(process) = &self.process {
            process.ended().await;
        }
    }

    /// Stops it as an operator would (SIGTERM), and kills it if it does not listen.
    ///
    /// # Errors
    /// It does not run.
    pub async fn stop(&mut self) -> Result<(), NatsdError> {
        let process = self.process.take().ok_or(NatsdError::NotRunning)?;
        process.stop(STOP_TIMEOUT).await?;
        Ok(())
    }

    /// SIGKILL.
    ///
    /// # Errors
    /// It does not run.
    pub async fn kill(&mut self) -> Result<(), NatsdError> {
        let process = self.process.take().ok_or(NatsdError::NotRunning)?;
        process.signal(Signal::SIGKILL)?;
        process.ended().await;
        Ok(())
    }

    /// SIGSTOP: alive for the kernel, silent for everybody else.
    ///
    /// # Errors
    /// It does not run.
    pub fn pause(&self) -> Result<(), NatsdError> {
        self.process.as_ref().ok_or(NatsdError::NotRunning)?.signal(Signal::SIGSTOP)
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// It does not run.
    pub fn resume(&self) -> Result<(), NatsdError> {
        self.process.as_ref().ok_or(NatsdError::NotRunning)?.signal(Signal::SIGCONT)
    }

    /// Starts again, on the same port and store, after [`stop`](Self::stop), [`kill`](Self::kill) or a crash.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn restart(&mut self) -> Result<(), NatsdError> {
        if self.is_running() {
            self.stop().await?;
        }
        self.launch().await
    }

    async fn launch(&mut self) -> Result<(), NatsdError> {
        let config = self.config()?.render()?;
        let config_file = self.config_file();
        std::fs::write(&config_file, config).map_err(NatsdError::io("write", &config_file))?;
        let mut command = Command::new(&self.binary.path);
        command.arg("--config").arg(&config_file);
        let process = Process::spawn(command, None).await?;
        let ready = tokio::select! {
            ready = self.wait_ready(&process) => ready,
            _ = process.ended() => Err("it ended".to_owned()),
            () = tokio::time::sleep(READY_TIMEOUT) => Err(format!("not within {} s", READY_TIMEOUT.as_secs())),
        };
        match ready {
            Ok(port) => {
                self.settings.port = Some(port);
                self.process = Some(process);
                Ok(())
            }
            Err(detail) => Err(NatsdError::NotReady { detail, log: self.log_tail() }),
        }
    }

    /// Waits for the ports file, then for a greeting that offers JetStream.
    async fn wait_ready(&self, process: &Process) -> Result<u16, String> {
        let name = self.binary.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let ports_file = self.file(&format!("{name}_{}.ports", process.id()));
        loop {
            if let Some(port) = std::fs::read(&ports_file).ok().and_then(|bytes| port_in(&bytes))
                && let Ok(greeting) = greeting(port).await
            {
                return match greeting.get("jetstream") {
                    Some(Value::Bool(true)) => Ok(port),
                    _ => Err("it serves no JetStream".to_owned()),
                };
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn config(&self) -> Result<Config, NatsdError> {
        let keyed = |user: &User| {
            let key = self.identities.public_key(&user.identity)?.to_owned();
            Ok((user.clone(), UserKey::Literal(key)))
        };
        Ok(Config {
            server_name: "aip".to_owned(),
            listen: Listen { host: HOST.to_owned(), port: self.settings.port },
            monitor_port: self.settings.monitor_port,
            store_dir: self.store_dir(),
            run_dir: Some(self.settings.folder.clone()),
            trust_domain: self.settings.trust_domain.clone(),
            users: self.settings.users.iter().map(keyed).collect::<Result<_, NatsdError>>()?,
        })
    }

    fn config_file(&self) -> PathBuf {
        self.file("nats-server.conf")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.settings.folder.join(name)
    }

    fn log_tail(&self) -> String {
        let log = std::fs::read_to_string(self.log_file()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines.get(lines.len().saturating_sub(LOG_LINES_MAX)..).unwrap_or_default().join("\n")
    }
}

/// The client port in a ports file, `{"nats":["nats://127.0.0.1:4222"], …}`.
fn port_in(bytes: &[u8]) -> Option<u16> {
    let ports: Value = serde_json::from_slice(bytes).ok()?;
    ports.get("nats")?.get(0)?.as_str()?.rsplit(':').next()?.parse().ok()
}

/// The server's first line, `INFO {…}`.
async fn greeting(port: u16) -> io::Result<Value> {
    let mut line = String::new();
    let stream = TcpStream::connect((HOST, port)).await?;
    let limited = tokio::io::AsyncReadExt::take(stream, 64 * 1024);
    BufReader::new(limited).read_line(&mut line).await?;
    let json = line.trim().strip_prefix("INFO ").ok_or(io::ErrorKind::InvalidData)?;
    serde_json::from_str(json).map_err(io::Error::from)
}
