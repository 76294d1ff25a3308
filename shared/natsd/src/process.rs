//! A child process that does not outlive us, for nats-server and for the services that a launcher starts.
//!
//! The child is started and reaped by a thread of its own. With `setpriv` (util-linux) the kernel kills the
//! child when that thread ends, which is when our process ends, however it ends. Where there is no `setpriv`
//! the next start of a server finds the left-over by its pid file and ends it.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::{oneshot, watch};

use crate::error::NatsdError;

/// What is done with each line a child writes, on standard output or standard error.
pub type OnLine = Box<dyn Fn(&str) + Send + Sync>;

/// A longer line is cut in pieces.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// A running child. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    ended: watch::Receiver<Option<ExitStatus>>,
}

impl Process {
    /// Starts `command` (program, arguments, environment and working folder of it are used), in a process
    /// group of its own: Ctrl-C is for us, who stop our children in order. Its output goes to `on_line`, or
    /// nowhere.
    ///
    /// # Errors
    /// The program cannot be started.
    pub async fn spawn(command: Command, on_line: Option<OnLine>) -> Result<Self, NatsdError> {
        let program = PathBuf::from(command.get_program());
        let mut command = if kernel_ends_children() { ended_by_kernel(&command) } else { command };
        let output = || if on_line.is_some() { Stdio::piped() } else { Stdio::null() };
        command.stdin(Stdio::null()).stdout(output()).stderr(output());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let (started_in, started) = oneshot::channel();
        let (ended_in, ended) = watch::channel(None);
        let supervisor =
            thread::Builder::new().name("child".to_owned()).spawn(move || match command.spawn() {
                Ok(mut child) => {
                    let _ = started_in.send(Ok(child.id()));
                    let readers = read_lines(&mut child, on_line);
                    let status = child.wait().unwrap_or_default();
                    // its last words come before its end is told
                    readers.into_iter().for_each(|reader| drop(reader.join()));
                    let _ = ended_in.send(Some(status));
                }
                Err(error) => {
                    let _ = started_in.send(Err(error));
                }
            });
        supervisor.map_err(NatsdError::io("start a thread for", &program))?;
        let started = started.await.map_err(|_| NatsdError::NotRunning)?;
        let pid = started.map_err(NatsdError::io("start", &program))?;
        Ok(Self { pid: Pid::from_raw(i32::try_from(pid).unwrap_or(i32::MAX)), ended })
    }

    pub fn id(&self) -> i32 {
        self.pid.as_raw()
    }

    pub fn is_running(&self) -> bool {
        self.ended.borrow().is_none()
    }

    /// # Errors
    /// It has ended, or the system refuses.
    pub fn signal(&self, signal: Signal) -> Result<(), NatsdError> {
        // after its end the number may belong to somebody else
        if self.is_running() {
            kill(self.pid, signal).map_err(NatsdError::from)
        } else {
            Err(NatsdError::NotRunning)
        }
    }

    /// Waits for the end of the process, for ever if need be.
    pub async fn ended(&self) -> ExitStatus {
        match self.ended.clone().wait_for(Option::is_some).await {
            Ok(status) => status.unwrap_or_default(),
            Err(_) => ExitStatus::default(),
        }
    }

    /// Asks it to end (SIGTERM) and kills it after `grace`.
    ///
    /// # Errors
    /// It has ended already.
    pub async fn stop(&self, grace: Duration) -> Result<ExitStatus, NatsdError> {
        self.signal(Signal::SIGTERM)?;
        if let Ok(status) = tokio::time::timeout(grace, self.ended()).await {
            return Ok(status);
        }
        // it may end between the two
        let _ = self.signal(Signal::SIGKILL);
        Ok(self.ended().await)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.signal(Signal::SIGKILL);
    }
}

/// The same command, under `setpriv`, which becomes it.
fn ended_by_kernel(command: &Command) -> Command {
    let mut wrapped = Command::new("setpriv");
    wrapped.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        wrapped.current_dir(folder);
    }
    wrapped
}

/// One thread for each of the two pipes, until it closes.
fn read_lines(child: &mut Child, on_line: Option<OnLine>) -> Vec<thread::JoinHandle<()>> {
    let Some(on_line) = on_line.map(Arc::new) else { return Vec::new() };
    let stdout = child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
    let stderr = child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
    let pipes = [stdout, stderr].into_iter().flatten();
    pipes
        .map(|pipe| {
            let on_line = Arc::clone(&on_line);
            thread::spawn(move || {
                let mut pipe = BufReader::new(pipe);
                let mut line = Vec::new();
                while pipe
                    .by_ref()
                    .take(LINE_BYTES_MAX)
                    .read_until(b'\n', &mut line)
                    .is_ok_and(|bytes| bytes > 0)
                {
                    on_line(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']));
                    line.clear();
                }
            })
        })
        .collect()
}

/// Whether `setpriv --pdeathsig` can be used.
fn kernel_ends_children() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let help = Command::new("setpriv").arg("--help").output();
        help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains("--pdeathsig"))
    })
}

/// Ends a process that an earlier run left behind. Only one that runs `program` on `config` is touched: the
/// number in the pid file may be somebody else's by now.
pub(crate) async fn end_left_over(pid_file: &Path, config: &Path) -> Result<(), NatsdError> {
    const GRACE: Duration = Duration::from_secs(5);
    let Some(pid) = std::fs::read_to_string(pid_file).ok().and_then(|text| text.trim().parse::<i32>().ok())
    else {
        return Ok(());
    };
    let runs_ours =
        |pid: i32| command_line(pid).is_some_and(|line| line.contains(&*config.to_string_lossy()));
    let since = Instant::now();
    while pid > 1 && runs_ours(pid) {
        tracing::warn!(pid, "ending a nats-server that an earlier run left behind");
        let signal = if since.elapsed() < GRACE { Signal::SIGTERM } else { Signal::SIGKILL };
        let _ = kill(Pid::from_raw(pid), signal);
        if since.elapsed() > 2 * GRACE {
            let detail = format!("process {pid} of an earlier run does not end");
            return Err(NatsdError::NotReady { detail, log: String::new() });
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let _ = std::fs::remove_file(pid_file);
    Ok(())
}

fn command_line(pid: i32) -> Option<String> {
    let proc = PathBuf::from("/proc/self");
    if proc.exists() {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        return Some(String::from_utf8_lossy(&line).replace('\0', " "));
    }
    let ps = Command::new("ps").args(["-o", "command=", "-p", &pid.to_string()]).output().ok()?;
    Some(String::from_utf8_lossy(&ps.stdout).into_owned())
}
