//! One `aip dev` in a scratch folder on free ports, and what tests do with it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use aip_testkit::{Proc, Scratch, free_port, wait_for_some};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

const START: Duration = Duration::from_secs(90);
pub const SOON: Duration = Duration::from_secs(30);

pub struct Dev {
    pub proc: Proc,
    pub http: reqwest::Client,
    pub url: String,
    port: u16,
    scratch: Scratch,
}

/// The binary under test.
pub fn aip() -> &'static str {
    env!("CARGO_BIN_EXE_aip")
}

pub fn id(prefix: &str) -> String {
    format!("{prefix}{}", uuid::Uuid::now_v7().simple())
}

impl Dev {
    /// Starts everything and waits until it says that it runs.
    pub async fn start() -> Dev {
        Dev::start_in(Scratch::new()).await
    }

    async fn start_in(scratch: Scratch) -> Dev {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let port = free_port();
        let proc = Dev::launch(&scratch, port).await;
        let http = reqwest::Client::builder().timeout(Duration::from_secs(60)).build().unwrap();
        Dev { proc, http, url: format!("http://127.0.0.1:{port}"), port, scratch }
    }

    async fn launch(scratch: &Scratch, port: u16) -> Proc {
        let mut command = Command::new(aip());
        command.current_dir(scratch.path());
        command.args(["dev", "--nats-port", "0", "--http", &format!("127.0.0.1:{port}")]);
        let proc = Proc::spawn(command).await;
        proc.line("AIP is running on this machine", START).await;
        proc
    }

    /// Stops it as Ctrl-C does and starts it again on the same folder.
    pub async fn restart(&mut self) {
        self.stop().await;
        self.start_again().await;
    }

    pub async fn stop(&self) {
        self.proc.interrupt();
        assert!(self.proc.ended(SOON).await.success(), "{:?}", self.proc.lines());
    }

    pub async fn start_again(&mut self) {
        self.proc = Dev::launch(&self.scratch, self.port).await;
    }

    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.scratch.join(".aip").join(name)
    }

    pub fn api_key(&self) -> String {
        std::fs::read_to_string(self.file("keys/api-key")).unwrap().trim().to_owned()
    }

    /// Runs the command line in the folder, as a person would.
    pub async fn aip(&self, args: &[&str]) -> Output {
        let mut command = tokio::process::Command::new(aip());
        command.current_dir(self.folder()).args(args).stdin(std::process::Stdio::null());
        command.output().await.unwrap()
    }

    /// The same, with JSON as its answer.
    pub async fn aip_json(&self, args: &[&str]) -> Value {
        let output = self.aip(args).await;
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// POSTs a bare action with the API key.
    pub async fn action(&self, action: &Value) -> (u16, Value) {
        let request = self.http.post(format!("{}/aip/v1/actions", self.url)).bearer_auth(self.api_key());
        answer(request.json(action)).await
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        answer(self.http.get(format!("{}{path}", self.url)).bearer_auth(self.api_key())).await
    }

    /// The last result of an action, asked for until there is one.
    pub async fn settled(&self, action_id: &str) -> Value {
        let path = format!("/aip/v1/actions/{action_id}/result?wait_ms=1000");
        wait_for_some(&format!("the result of {action_id}"), Duration::from_secs(90), || async {
            let request = self.http.get(format!("{}{path}", self.url)).bearer_auth(self.api_key());
            let response = request.send().await.ok()?;
            let ok = response.status().is_success();
            let body: Value = response.json().await.ok()?;
            ok.then(|| body["action_result"].clone())
        })
        .await
    }

    /// SIGKILL to one of the processes: `gateway-0`, `sandbox` or `nats/nats-server`.
    pub fn kill(&self, process: &str) {
        let pid = std::fs::read_to_string(self.file(&format!("{process}.pid"))).unwrap();
        kill(Pid::from_raw(pid.trim().parse().unwrap()), Signal::SIGKILL).unwrap();
    }

    /// Calls a capability once and gives its output; a failure fails the test.
    pub async fn output(&self, capability: &str, input: Value) -> Value {
        let (status, reply) = self.action(&json!({"capability_id": capability, "input": input})).await;
        assert_eq!(status, 200, "{reply}");
        let result = &reply["body"]["action_result"];
        assert_eq!(result["status"], "completed", "{reply}");
        result["output"].clone()
    }
}

async fn answer(request: reqwest::RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}
