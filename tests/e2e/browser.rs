//! A headless Chromium, driven over the WebDriver protocol: as much of it as these tests need.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use aip_testkit::{Proc, free_port, wait_for, wait_for_some};
use base64::Engine;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(40);
/// How WebDriver names an element in JSON.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

pub struct Browser {
    _driver: Proc,
    http: reqwest::Client,
    session: String,
}

impl Browser {
    /// # Panics
    /// There is no chromedriver: Debian has it in `chromium-driver`.
    pub async fn start(width: u32, height: u32) -> Browser {
        let port = free_port();
        let mut command = Command::new("chromedriver");
        command.arg(format!("--port={port}"));
        let driver = Proc::spawn(command).await;
        let http = reqwest::Client::builder().timeout(Duration::from_secs(60)).build().unwrap();
        let url = format!("http://127.0.0.1:{port}");
        wait_for("chromedriver", SOON, || async { http.get(format!("{url}/status")).send().await.is_ok() })
            .await;
        let arguments = [
            "--headless=new".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--disable-gpu".to_owned(),
            format!("--window-size={width},{height}"),
        ];
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let made: Value = http
            .post(format!("{url}/session"))
            .json(&capabilities)
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        let id = made["value"]["sessionId"].as_str().unwrap_or_else(|| panic!("{made}"));
        Browser { session: format!("{url}/session/{id}"), http, _driver: driver }
    }

    async fn post(&self, path: &str, body: Value) -> Result<Value, Value> {
        let response = self.http.post(format!("{}/{path}", self.session)).json(&body).send().await.unwrap();
        let ok = response.status().is_success();
        let said: Value = response.json().await.unwrap();
        if ok { Ok(said["value"].clone()) } else { Err(said["value"].clone()) }
    }

    pub async fn open(&self, url: &str) {
        self.post("url", json!({"url": url})).await.unwrap();
    }

    /// What a script says.
    pub async fn script(&self, script: &str) -> Value {
        self.post("execute/sync", json!({"script": script, "args": []})).await.unwrap()
    }

    /// The element, once it is there and shown.
    async fn element(&self, css: &str) -> String {
        wait_for_some(css, SOON, || async {
            let found = self.post("element", json!({"using": "css selector", "value": css})).await.ok()?;
            let id = found[ELEMENT].as_str()?.to_owned();
            let shown =
                self.http.get(format!("{}/element/{id}/displayed", self.session)).send().await.ok()?;
            let shown: Value = shown.json().await.ok()?;
            (shown["value"] == true).then_some(id)
        })
        .await
    }

    pub async fn click(&self, css: &str) {
        // what is drawn anew in between is looked for again
        wait_for(&format!("a click on {css}"), SOON, || async {
            let id = self.element(css).await;
            self.post(&format!("element/{id}/click"), json!({})).await.is_ok()
        })
        .await;
    }

    pub async fn type_into(&self, css: &str, text: &str) {
        let id = self.element(css).await;
        self.post(&format!("element/{id}/value"), json!({"text": text})).await.unwrap();
    }

    /// Presses keys, as a person without a mouse does.
    pub async fn press(&self, keys: &str) {
        let keys: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})]
            })
            .collect();
        let actions = json!({"actions": [{"type": "key", "id": "keyboard", "actions": keys}]});
        self.post("actions", actions).await.unwrap();
    }

    /// Waits until the element says something.
    pub async fn says(&self, css: &str, text: &str) {
        let script = format!("return document.querySelector({css:?})?.innerText ?? \"\"");
        wait_for(&format!("{css} to say {text:?}"), SOON, || async {
            self.script(&script).await.as_str().is_some_and(|said| said.contains(text))
        })
        .await;
    }

    /// What went wrong in the page: scripts that were refused, errors that nobody caught.
    pub async fn complaints(&self) -> Vec<String> {
        let said = self.post("se/log", json!({"type": "browser"})).await.unwrap();
        let lines = said.as_array().cloned().unwrap_or_default();
        let severe = lines.iter().filter(|line| line["level"] == "SEVERE");
        severe.map(|line| line["message"].to_string()).collect()
    }

    /// Keeps a picture where somebody asked for pictures.
    pub async fn picture(&self, name: &str) {
        let Ok(folder) = std::env::var("AIP_PICTURES") else { return };
        let said: Value =
            self.http.get(format!("{}/screenshot", self.session)).send().await.unwrap().json().await.unwrap();
        let bytes =
            base64::engine::general_purpose::STANDARD.decode(said["value"].as_str().unwrap()).unwrap();
        std::fs::write(Path::new(&folder).join(format!("{name}.png")), bytes).unwrap();
    }

    pub async fn quit(self) {
        let _ = self.http.delete(&self.session).send().await;
    }
}
