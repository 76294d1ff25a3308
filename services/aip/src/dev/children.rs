//! The processes of `aip dev` besides nats-server: this same binary, once a service.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use aip_natsd::Process;
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::POLL;
use super::layout::Layout;
use crate::output::{Failure, because};

/// How long a service may take to finish what it has begun.
const STOP_GRACE: Duration = Duration::from_secs(20);

/// A process that ended, and where it said why.
pub struct Child {
    pub name: String,
    pub log: PathBuf,
}

struct Running {
    name: String,
    log: PathBuf,
    process: Process,
}

/// In the order in which they start and stop: gateways, then workers.
pub struct Children {
    running: Vec<Running>,
}

// === impl Running ===

impl Running {
    async fn start(layout: &Layout, name: String, service: &str, config: &Path) -> Result<Running, Failure> {
        let log = layout.folder().join(format!("{name}.log"));
        let program = std::env::current_exe().map_err(|error| because("can't find this program", &error))?;
        let mut command = Command::new(program);
        command.arg(service).arg("--config").arg(config);
        let file = File::options().create(true).append(true).open(&log);
        let file = file.map_err(|error| because(&format!("can't write {}", log.display()), &error))?;
        let file = Mutex::new(file);
        let keep = Box::new(move |line: &str| {
            if let Ok(mut file) = file.lock() {
                // A full disk must not stop the service; it will say so itself.
                let _ = writeln!(file, "{line}");
            }
        });
        let process = Process::spawn(command, Some(keep))
            .await
            .map_err(|error| because(&format!("can't start {name}"), &error))?;
        let pid_file = layout.folder().join(format!("{name}.pid"));
        std::fs::write(&pid_file, process.id().to_string())
            .map_err(|error| because(&format!("can't write {}", pid_file.display()), &error))?;
        Ok(Running { name, log, process })
    }
}

// === impl Children ===

impl Children {
    pub async fn start(layout: &Layout) -> Result<Children, Failure> {
        let mut running = Vec::new();
        for (name, service, config) in layout.services() {
            running.push(Running::start(layout, name, service, &config).await?);
        }
        Ok(Children { running })
    }

    /// Starts the one that ended again.
    pub async fn restart(&mut self, layout: &Layout, name: &str) -> Result<(), Failure> {
        for (own, service, config) in layout.services() {
            if own == name {
                let again = Running::start(layout, own, service, &config).await?;
                // in its old place: the order is that of stopping
                if let Some(place) = self.running.iter_mut().find(|running| running.name == name) {
                    *place = again;
                }
            }
        }
        Ok(())
    }

    /// Waits until every gateway is ready and shows what the sandbox offers; gives up when there was no progress for
    /// `timeout`.
    pub async fn ready(&self, layout: &Layout, timeout: Duration) -> Result<(), Failure> {
        let (mut last, mut until) = (String::new(), Instant::now() + timeout);
        loop {
            if let Some(running) = self.running.iter().find(|running| !running.process.is_running()) {
                let log = std::fs::read_to_string(&running.log).unwrap_or_default();
                let line = log.lines().last().unwrap_or_default().to_owned();
                return Err(Failure::new(format!("{} ended at once: {line}", running.name))
                    .hint(format!("its log is {}", running.log.display())));
            }
            match layout.probe().await {
                Ok(()) => return Ok(()),
                Err(reason) if reason != last => (last, until) = (reason, Instant::now() + timeout),
                Err(reason) if Instant::now() >= until => {
                    return Err(Failure::new(format!("not ready within {} s: {reason}", timeout.as_secs())));
                }
                Err(_) => {}
            }
            tokio::time::sleep(POLL).await;
        }
    }

    pub async fn ended(&self) -> Child {
        let mut all: FuturesUnordered<_> = self
            .running
            .iter()
            .map(|running| async move {
                running.process.ended().await;
                Child { name: running.name.clone(), log: running.log.clone() }
            })
            .collect();
        match all.next().await {
            Some(child) => child,
            None => std::future::pending().await,
        }
    }

    /// Asks all to finish what they have begun: workers last, so that gateways still get their answers.
    pub async fn stop(&mut self) {
        for running in &self.running {
            if running.process.is_running() && running.process.stop(STOP_GRACE).await.is_err() {
                tracing::debug!(name = running.name, "ended by itself");
            }
        }
    }
}
