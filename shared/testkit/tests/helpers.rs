//! The helpers themselves: what they promise to every other test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::process::Command;
use std::time::Duration;

use aip_testkit::{Proc, Scratch, free_port, wait_for, wait_for_some};
use nix::sys::signal::kill;
use nix::unistd::Pid;

const SOON: Duration = Duration::from_secs(10);

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

fn exists(pid: i32) -> bool {
    kill(Pid::from_raw(pid), None).is_ok()
}

#[tokio::test]
async fn lines_of_both_outputs_are_kept_and_the_end_is_told() {
    let mut command = shell("echo out; echo err >&2; echo $WORD; exit 3");
    command.env("WORD", "given");
    let proc = Proc::spawn(command).await;
    assert_eq!(proc.ended(SOON).await.code(), Some(3));
    let mut lines = proc.lines();
    lines.sort();
    assert_eq!(lines, ["err", "given", "out"]);
    assert_eq!(proc.line("giv", SOON).await, "given");
}

#[tokio::test]
async fn signals_reach_the_process() {
    let proc =
        Proc::spawn(shell("trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.05; done")).await;
    proc.line("ready", SOON).await;
    proc.pause();
    proc.terminate();
    assert!(proc.is_running());
    proc.resume();
    assert!(proc.ended(SOON).await.success());
    assert_eq!(proc.line("asked", SOON).await, "asked");
    let stubborn = Proc::spawn(shell("trap '' TERM; echo ready; while :; do sleep 0.05; done")).await;
    stubborn.line("ready", SOON).await;
    stubborn.terminate();
    assert_eq!(stubborn.kill().await.code(), None);
}

#[tokio::test]
async fn a_process_ends_with_its_handle() {
    let proc = Proc::spawn(shell("echo ready; exec sleep 600")).await;
    proc.line("ready", SOON).await;
    let pid = proc.id();
    assert!(exists(pid));
    drop(proc);
    wait_for("its end", SOON, || async { !exists(pid) }).await;
}

#[tokio::test]
async fn waiting_in_vain_panics_with_what_it_waited_for() {
    let hanging = tokio::spawn(wait_for("the impossible", Duration::from_millis(50), std::future::pending));
    let never = tokio::spawn(wait_for("the unlikely", Duration::from_millis(50), || async { false }));
    for (waiting, what) in [(hanging, "the impossible"), (never, "the unlikely")] {
        let panic = waiting.await.unwrap_err().into_panic();
        assert!(panic.downcast_ref::<String>().unwrap().contains(what));
    }
    assert_eq!(wait_for_some("a value", SOON, || async { Some(7) }).await, 7);
}

#[test]
fn a_scratch_folder_goes_with_its_test() {
    let scratch = Scratch::new();
    std::fs::write(scratch.join("file"), "x").unwrap();
    let path = scratch.path().to_owned();
    drop(scratch);
    assert!(!path.exists());
    assert_ne!(free_port(), 0);
}
