//! One process of the fleet and the network between it and nats-server. It can be started, killed, paused and asked
//! what it said; what it said in earlier lives is kept in a file and looked through for panics.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use aip_testkit::Proc;

use crate::proxy::Proxy;

/// How long a process may take to drain.
pub const DRAIN: Duration = Duration::from_secs(40);

pub struct Member {
    pub name: String,
    pub proxy: Proxy,
    /// Where a gateway serves HTTP.
    pub port: u16,
    pub config: PathBuf,
    /// Its data.
    pub folder: PathBuf,
    command: Vec<String>,
    log: PathBuf,
    proc: Option<Proc>,
    /// Lines that no life may say.
    pub panics: Vec<String>,
    pub lives: u32,
}

// === impl Member ===

impl Member {
    pub fn new(name: &str, proxy: Proxy, port: u16, config: PathBuf, command: Vec<String>) -> Member {
        let base = config.parent().expect("a folder").to_owned();
        Member {
            name: name.to_owned(),
            proxy,
            port,
            folder: base.join(name),
            log: base.join(format!("{name}.log")),
            config,
            command,
            proc: None,
            panics: Vec::new(),
            lives: 0,
        }
    }

    /// # Panics
    /// It can't be started.
    pub async fn start(&mut self) {
        self.bury();
        self.proc = Some(self.spawn(&[]).await);
        self.lives += 1;
    }

    /// A process of the same command, with more arguments, that is not this member's life.
    ///
    /// # Panics
    /// It can't be started.
    pub async fn spawn(&self, more: &[&str]) -> Proc {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).args(more);
        Proc::spawn(command).await
    }

    pub fn is_running(&self) -> bool {
        self.proc.as_ref().is_some_and(Proc::is_running)
    }

    /// # Panics
    /// It was never started.
    pub fn proc(&self) -> &Proc {
        self.proc.as_ref().expect("a process that was started")
    }

    /// SIGKILL, if it runs.
    pub async fn kill(&mut self) {
        if self.is_running() {
            self.proc().kill().await;
        }
        self.bury();
    }

    /// SIGTERM, and waits for the end. A process that takes too long is killed; returns whether it ended by itself.
    pub async fn stop(&mut self) -> bool {
        let mut polite = true;
        if self.is_running() {
            self.proc().terminate();
            let until = Instant::now() + DRAIN;
            while self.is_running() && Instant::now() < until {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            polite = !self.is_running();
        }
        self.kill().await;
        polite
    }

    pub fn pause(&self) {
        if self.is_running() {
            self.proc().pause();
        }
    }

    pub fn resume(&self) {
        if self.is_running() {
            self.proc().resume();
        }
    }

    /// The last lines that this life said.
    pub fn last_words(&self) -> String {
        let lines = self.proc.as_ref().map(Proc::lines).unwrap_or_default();
        lines.iter().skip(lines.len().saturating_sub(3)).cloned().collect::<Vec<_>>().join("\n")
    }

    /// Keeps what a life has said, after its end or before the judge looks.
    pub fn bury(&mut self) {
        let Some(proc) = self.proc.take_if(|proc| !proc.is_running()) else { return };
        self.read(&proc.lines());
    }

    /// Looks through what the running life has said.
    pub fn look(&mut self) {
        let lines = self.proc.as_ref().map(Proc::lines).unwrap_or_default();
        self.panics.extend(lines.into_iter().filter(|line| line.contains("panicked at")));
    }

    fn read(&mut self, lines: &[String]) {
        let file = OpenOptions::new().create(true).append(true).open(&self.log);
        let mut file = file.unwrap_or_else(|error| panic!("write {}: {error}", self.log.display()));
        for line in lines {
            writeln!(file, "{line}").expect("write a log");
        }
        self.panics.extend(lines.iter().filter(|line| line.contains("panicked at")).cloned());
    }
}
