//! A worker that shares no code with us, in Python with nats-py: if it can serve, so can any language.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use aip_testkit::{Proc, wait_for};
use serde_json::json;

use crate::harness::{Dev, SOON};

const INSTALL: Duration = Duration::from_secs(300);

/// A virtual environment with what the worker needs, made once and kept beside the build.
async fn python() -> std::path::PathBuf {
    let workers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/e2e/workers");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-worker");
    let python = folder.join("bin/python");
    let install = async |program: &Path, args: &[&str]| {
        let run = tokio::process::Command::new(program).args(args).output();
        let output =
            tokio::time::timeout(INSTALL, run).await.expect("in time").expect("python3 is installed");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let done = folder.join("installed");
    if !done.exists() {
        install(Path::new("python3"), &["-m", "venv", folder.to_str().unwrap()]).await;
        let requirements = workers.join("requirements.txt");
        install(&python, &["-m", "pip", "install", "--quiet", "-r", requirements.to_str().unwrap()]).await;
        std::fs::write(done, "").unwrap();
    }
    python
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_in_python_registers_and_serves() {
    let python = python().await;
    let dev = Dev::start().await;
    let profile: toml::Table =
        toml::from_str(&std::fs::read_to_string(dev.file("client.toml")).unwrap()).unwrap();
    let url = profile["nats"]["url"].as_str().unwrap();
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/e2e/workers/echo_worker.py"));
    command.args(["--url", url]);
    command.arg("--seed").arg(dev.file("nats/keys/worker-python.nk"));
    command.arg("--key").arg(dev.file("keys/python.key"));
    let worker = Proc::spawn(command).await;
    wait_for("the Python worker's capability", SOON, || async {
        assert!(worker.is_running(), "{:?}", worker.lines());
        let (_, manifest) = dev.get("/aip/v1/manifest?capability_id=cap:python:echo").await;
        manifest.to_string().contains("cap:python:echo")
    })
    .await;
    let output = dev.output("cap:python:echo", json!({"text": "grüß Gott"})).await;
    assert_eq!(output["text"], "grüß Gott");
    assert_eq!(output["caller"], "service:dev-client");
    worker.terminate();
    assert!(worker.ended(SOON).await.success(), "it drains: {:?}", worker.lines());
}
