//! A child process under test: its lines are kept, signals reach it, and it dies with the test.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aip_natsd::Process;
use nix::sys::signal::Signal;

use crate::wait::wait_for_some;

/// Lines kept of a chatty process; older ones are dropped.
const LINES_MAX: usize = 20_000;
/// Lines shown when a test fails.
const LINES_SHOWN: usize = 40;

/// A running program.
#[derive(Debug)]
pub struct Proc {
    name: String,
    process: Process,
    lines: Arc<Mutex<VecDeque<String>>>,
}

impl Proc {
    /// Starts `command`; its output is captured.
    ///
    /// # Panics
    /// It cannot be started.
    pub async fn spawn(command: Command) -> Self {
        let name = PathBuf::from(command.get_program())
            .file_name()
            .unwrap_or(OsStr::new("?"))
            .to_string_lossy()
            .into_owned();
        let lines = Arc::new(Mutex::new(VecDeque::new()));
        let kept = Arc::clone(&lines);
        let keep = move |line: &str| {
            let mut lines = kept.lock().unwrap_or_else(PoisonError::into_inner);
            if lines.len() == LINES_MAX {
                lines.pop_front();
            }
            lines.push_back(line.to_owned());
        };
        let process = Process::spawn(command, Some(Box::new(keep))).await;
        let process = process.unwrap_or_else(|error| panic!("start {name}: {error}"));
        Self { name, process, lines }
    }

    /// All lines so far, standard output and standard error mixed.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// The first line that contains `text`.
    ///
    /// # Panics
    /// None came within `timeout`, or the process ended before.
    pub async fn line(&self, text: &str, timeout: Duration) -> String {
        let find = || self.lines().into_iter().find(|line| line.contains(text));
        wait_for_some(&format!("the line {text:?} of {}", self.name), timeout, || async {
            let ended = !self.is_running();
            let found = find();
            assert!(
                found.is_some() || !ended,
                "{} ended without the line {text:?}:\n{}",
                self.name,
                self.tail()
            );
            found
        })
        .await
    }

    pub fn id(&self) -> i32 {
        self.process.id()
    }

    pub fn is_running(&self) -> bool {
        self.process.is_running()
    }

    /// SIGTERM.
    pub fn terminate(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// SIGINT, as Ctrl-C sends it.
    pub fn interrupt(&self) {
        self.signal(Signal::SIGINT);
    }

    /// SIGSTOP.
    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// SIGKILL, and waits until it is gone.
    pub async fn kill(&self) -> ExitStatus {
        self.signal(Signal::SIGKILL);
        self.process.ended().await
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// It runs on after `timeout`.
    pub async fn ended(&self, timeout: Duration) -> ExitStatus {
        let ended = tokio::time::timeout(timeout, self.process.ended()).await;
        ended.unwrap_or_else(|_| panic!("{} runs on after {timeout:?}:\n{}", self.name, self.tail()))
    }

    fn signal(&self, signal: Signal) {
        self.process
            .signal(signal)
            .unwrap_or_else(|error| panic!("{signal} to {}: {error}\n{}", self.name, self.tail()));
    }

    fn tail(&self) -> String {
        let lines = self.lines();
        lines.iter().skip(lines.len().saturating_sub(LINES_SHOWN)).cloned().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Proc {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- last lines of {}:\n{}", self.name, self.tail());
        }
    }
}

/// The path of a binary of this workspace, of the same profile as the running test. A run of the whole
/// workspace has built it; a run of one package may not have, then it is built now. One that is there is
/// taken as it is.
///
/// # Panics
/// It cannot be built.
pub fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the running test's path");
    // …/target/<profile>/deps/<test>
    let profile =
        test.ancestors().find(|folder| folder.join("deps").is_dir()).expect("cargo's profile folder");
    let path = profile.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if !path.is_file() {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        // with the features of the whole workspace, so that nothing is compiled a second time
        cargo.args(["build", "--quiet", "--workspace", "--bin", name]);
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        assert!(
            cargo.status().is_ok_and(|status| status.success()) && path.is_file(),
            "{name} cannot be built"
        );
    }
    path
}

/// A port that was free a moment ago. Prefer port 0 where the program can tell what it got.
///
/// # Panics
/// There is none.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("bind a free port");
    listener.local_addr().expect("the bound address").port()
}
