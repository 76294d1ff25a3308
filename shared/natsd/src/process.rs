//! One child process that does not outlive us.
//!
//! The child is started and reaped by a thread of its own. With `setpriv` (util-linux) the kernel kills the
//! child when that thread ends, which is when our process ends, however it ends. Where there is no `setpriv`
//! the next start finds the left-over by its pid file and ends it.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::{oneshot, watch};

use crate::error::NatsdError;

/// A running child.
#[derive(Debug)]
pub(crate) struct Process {
    pid: Pid,
    ended: watch::Receiver<Option<ExitStatus>>,
}

impl Process {
    /// Starts `program`, in a process group of its own: Ctrl-C is for us, who stop it last.
    pub(crate) async fn spawn(program: &Path, arguments: &[&str]) -> Result<Self, NatsdError> {
        let mut command = if kernel_ends_children() {
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "KILL", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let (started_in, started) = oneshot::channel();
        let (ended_in, ended) = watch::channel(None);
        let supervisor =
            std::thread::Builder::new().name("nats-server".to_owned()).spawn(move || match command.spawn() {
                Ok(mut child) => {
                    let _ = started_in.send(Ok(child.id()));
                    let status = child.wait().unwrap_or_default();
                    let _ = ended_in.send(Some(status));
                }
                Err(error) => {
                    let _ = started_in.send(Err(error));
                }
            });
        supervisor.map_err(NatsdError::io("start a thread for", program))?;
        let started = started.await.map_err(|_| NatsdError::NotRunning)?;
        let pid = started.map_err(NatsdError::io("start", program))?;
        Ok(Self { pid: Pid::from_raw(i32::try_from(pid).unwrap_or(i32::MAX)), ended })
    }

    pub(crate) fn id(&self) -> i32 {
        self.pid.as_raw()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.ended.borrow().is_none()
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<(), NatsdError> {
        // after its end the number may belong to somebody else
        if self.is_running() {
            kill(self.pid, signal).map_err(NatsdError::from)
        } else {
            Err(NatsdError::NotRunning)
        }
    }

    /// Waits for the end of the process, for ever if need be.
    pub(crate) async fn ended(&self) {
        let _ = self.ended.clone().wait_for(Option::is_some).await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.signal(Signal::SIGKILL);
    }
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
