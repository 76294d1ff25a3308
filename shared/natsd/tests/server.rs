//! A real server: its life, its death with us, and the files we ship.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use aip_natsd::{NatsdError, Server, Settings, shipped};
use aip_testkit::{Proc, Scratch, TestNats, wait_for, wait_for_some};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;

const SOON: Duration = Duration::from_secs(20);

fn settings(folder: PathBuf) -> Settings {
    let users = vec![aip_names::User::gateway()];
    Settings { folder, port: None, monitor_port: None, trust_domain: TestNats::trust_domain(), users }
}

/// Whether the server greets within a short time.
async fn greets(url: &str) -> bool {
    let greeting = async {
        let stream = TcpStream::connect(url.trim_start_matches("nats://")).await.ok()?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).await.ok()?;
        line.starts_with("INFO ").then_some(())
    };
    tokio::time::timeout(Duration::from_millis(300), greeting).await.is_ok_and(|greeted| greeted.is_some())
}

#[tokio::test]
async fn a_server_is_stopped_killed_and_restarted_on_the_same_port_and_store() {
    let scratch = Scratch::new();
    let mut server = Server::start(settings(scratch.join("nats"))).await.unwrap();
    let url = server.url();
    assert!(greets(&url).await);
    assert!(server.binary().version.to_string().starts_with("2."));

    server.kill().await.unwrap();
    assert!(!server.is_running() && !greets(&url).await);
    assert!(matches!(server.pause(), Err(NatsdError::NotRunning)));

    server.restart().await.unwrap();
    assert_eq!(server.url(), url);
    assert!(greets(&url).await);

    server.stop().await.unwrap();
    assert!(!greets(&url).await);
    server.restart().await.unwrap();
    assert!(server.store_dir().is_dir() && greets(&url).await);
}

#[tokio::test]
async fn a_paused_server_is_silent_until_it_is_resumed() {
    let nats = TestNats::start().await;
    nats.server.pause().unwrap();
    let url = nats.url();
    // the signal reaches each of its threads a moment later
    wait_for("silence", SOON, || async { !greets(&url).await }).await;
    nats.server.resume().unwrap();
    wait_for("a greeting after the pause", SOON, || greets(&url)).await;
}

#[tokio::test]
async fn a_server_that_cannot_come_up_says_why() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.join("nats")).unwrap();
    std::fs::write(scratch.join("nats").join("jetstream"), "a file where the store should be").unwrap();
    let refused = Server::start(settings(scratch.join("nats"))).await.unwrap_err();
    assert!(matches!(&refused, NatsdError::NotReady { .. }), "{refused}");
    assert!(refused.to_string().contains("not a directory"), "the log's end is in the message: {refused}");
}

/// The same test is parent and child: the child starts a server and is killed with it running.
#[tokio::test]
async fn a_server_dies_with_the_process_that_started_it() {
    const CHILD: &str = "AIP_TEST_CHILD_FOLDER";
    if let Some(folder) = std::env::var_os(CHILD) {
        let _server = Server::start(settings(PathBuf::from(folder))).await.unwrap();
        return std::future::pending().await;
    }
    let scratch = Scratch::new();
    let folder = scratch.join("nats");
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "a_server_dies_with_the_process_that_started_it"]).env(CHILD, &folder);
    let child = Proc::spawn(child).await;
    let pid = wait_for_some("the child's server", SOON, || std::future::ready(server_pid(&folder))).await;
    child.kill().await;
    wait_for("the end of the server", SOON, || {
        std::future::ready(!Path::new(&format!("/proc/{pid}")).exists())
    })
    .await;
}

fn server_pid(folder: &Path) -> Option<i32> {
    std::fs::read_to_string(folder.join("nats-server.pid")).ok()?.trim().parse().ok()
}

#[tokio::test]
async fn a_left_over_of_an_earlier_run_is_ended() {
    let scratch = Scratch::new();
    let mut first = Server::start(settings(scratch.join("nats"))).await.unwrap();
    // as if our own memory of it were lost
    let second = Server::start(settings(scratch.join("nats"))).await.unwrap();
    assert!(!first.is_running() && second.is_running());
    assert!(matches!(first.kill().await, Err(NatsdError::NotRunning)));
}

#[tokio::test]
async fn the_shipped_configuration_is_what_we_generate_and_the_server_takes_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../nats-config/single.conf");
    let generated = shipped::single().unwrap();
    if std::env::var_os("AIP_REGENERATE").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == generated, "run this test with AIP_REGENERATE=1 and commit nats-config/");
    assert!(committed.contains("sync_interval: always"), "an acknowledged ledger append must be on disk");

    let nats = TestNats::start().await;
    let mut check = Command::new(&nats.server.binary().path);
    check.arg("-t").arg("-c").arg(&path);
    for (at, _) in committed.match_indices("$AIP_NKEY_") {
        let name: String =
            committed[at + 1..].chars().take_while(|c| c.is_ascii_uppercase() || *c == '_').collect();
        check.env(name, nkeys::KeyPair::new_user().public_key());
    }
    let checked = check.output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
