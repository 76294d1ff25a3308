//! Durable actions through the real gateway: about a kilobyte in and out, an idempotency key, both schemas, receipts;
//! over NATS signed, over HTTP with an API key.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use aip_sdk::{CallOptions, Client};
use aip_wire::ActionMode;
use serde_json::{Value, json};

use crate::load::{Call, Figure, closed_loop, cpu_us};
use crate::system::{API_KEY, CHUNKS, ECHO, STREAM, System};

/// Actions that stream at the same time.
const STREAMS: [usize; 2] = [1, 16];

pub async fn measure(
    aip: Option<&Path>,
    seconds: u64,
    concurrency: &[usize],
    last: bool,
) -> Result<Vec<Figure>, Box<dyn Error>> {
    let system = System::start(aip).await?;
    let mut figures = Vec::new();
    for c in concurrency {
        let calls = [
            ("action, NATS", over_nats(&system.client, ECHO, ActionMode::Sync)),
            ("action, HTTP", over_http(&format!("http://{}", system.http))?),
            ("action, async", over_nats(&system.client, ECHO, ActionMode::Async)),
        ];
        for (name, call) in calls {
            let used = || system.pids().iter().map(|pid| cpu_us(*pid)).sum::<f64>();
            let before = used();
            let mut figure = closed_loop(name, *c, seconds, call).await?;
            // The warm-up, a tenth of the time, is in the processor time and not in the count.
            figure.cpu_us = (used() - before) / (figure.per_second * seconds as f64 * 1.1);
            figures.push(figure);
        }
    }
    for c in STREAMS {
        let call = over_nats(&system.client, STREAM, ActionMode::Streaming);
        let figure = closed_loop("chunks of streaming actions", c, seconds, call).await?;
        figures.push(Figure { per_second: figure.per_second * f64::from(CHUNKS), ..figure });
    }
    if last {
        println!("{:<90} {:>10} {:>10}", "where the gateway's time went", "count", "mean ms");
        for (name, count, mean_ms) in system.histograms().await? {
            println!("{name:<90} {count:>10.0} {mean_ms:>10.3}");
        }
        println!();
    }
    system.stop().await?;
    Ok(figures)
}

fn input() -> Value {
    json!({"text": "x".repeat(1000)})
}

pub fn over_nats(client: &Client, capability: &'static str, mode: ActionMode) -> Call {
    let client = client.clone();
    Arc::new(move || {
        let client = client.clone();
        Box::pin(async move {
            let idempotency_key = Some(uuid::Uuid::now_v7().to_string());
            let options = CallOptions { idempotency_key, mode: Some(mode), ..CallOptions::default() };
            client.call(capability, input(), options).await.map(drop).map_err(|error| error.to_string())
        })
    })
}

fn over_http(url: &str) -> Result<Call, Box<dyn Error>> {
    let (client, url) = (reqwest::Client::builder().build()?, format!("{url}/aip/v1/actions"));
    Ok(Arc::new(move || {
        let (client, url) = (client.clone(), url.clone());
        Box::pin(async move {
            let action = json!({"capability_id": ECHO, "input": input(),
                                "idempotency_key": uuid::Uuid::now_v7().to_string()});
            let sent = client.post(url).bearer_auth(API_KEY).json(&action).send().await;
            let reply: Value =
                sent.map_err(|error| error.to_string())?.json().await.map_err(|error| error.to_string())?;
            let status = reply.pointer("/body/action_result/status").and_then(Value::as_str);
            if status == Some("completed") { Ok(()) } else { Err(reply.to_string()) }
        })
    }))
}
