//! The NATS services API (ADR-32): answers `PING`, `INFO` and `STATS` on `$SRV`, for everyone who may ask.

use std::sync::Arc;

use aip_names::Identity;
use aip_wire::Timestamp;
use async_nats::{Client, Message, Subscriber};
use futures_util::StreamExt;
use futures_util::stream::select_all;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::stats::Endpoint;
use super::{Registration, refused};
use crate::bus::Bus;
use crate::settings::BusError;

const VERBS: [&str; 3] = ["PING", "INFO", "STATS"];

/// Subscribes and answers until the task is aborted.
pub(super) async fn start(
    bus: &Bus,
    registration: &Registration,
    endpoints: Vec<Arc<Endpoint>>,
) -> Result<JoinHandle<()>, BusError> {
    let client = bus.client();
    let name = registration.service.to_string();
    // the unique end of an inbox identifies this instance
    let id = client.new_inbox().rsplit('.').next().unwrap_or_default().to_owned();
    let mut subscribers: Vec<Subscriber> = Vec::new();
    for verb in VERBS {
        for subject in
            [format!("$SRV.{verb}"), format!("$SRV.{verb}.{name}"), format!("$SRV.{verb}.{name}.{id}")]
        {
            let subscriber = client.subscribe(subject.clone()).await;
            subscribers.push(subscriber.map_err(|error| refused(&subject, &error))?);
        }
    }
    let face = Face {
        client: client.clone(),
        identity: bus.identity().clone(),
        name,
        id,
        version: registration.version.clone(),
        description: registration.description.clone(),
        started: Timestamp::now().to_string(),
        endpoints,
    };
    Ok(tokio::spawn(async move {
        let mut questions = select_all(subscribers);
        while let Some(question) = questions.next().await {
            face.answer(question).await;
        }
    }))
}

/// What one instance tells about itself.
struct Face {
    client: Client,
    identity: Identity,
    name: String,
    id: String,
    version: String,
    description: String,
    started: String,
    endpoints: Vec<Arc<Endpoint>>,
}

impl Face {
    async fn answer(&self, question: Message) {
        let Some(reply) = question.reply.filter(|reply| self.identity.may_answer(reply)) else { return };
        let endpoints =
            |tell: fn(&Endpoint) -> Value| self.endpoints.iter().map(|endpoint| tell(endpoint)).collect();
        let answer = match question.subject.split('.').nth(1) {
            Some("PING") => self.about("ping", []),
            Some("INFO") => self.about(
                "info",
                [("description", json!(self.description)), ("endpoints", endpoints(Endpoint::info))],
            ),
            _ => self.about(
                "stats",
                [("started", json!(self.started)), ("endpoints", endpoints(Endpoint::stats))],
            ),
        };
        if let Err(error) = self.client.publish(reply, answer.to_string().into()).await {
            tracing::debug!(%error, "a service answer was not sent");
        }
    }

    /// What stands in every answer, and more.
    fn about<const N: usize>(&self, kind: &str, more: [(&str, Value); N]) -> Value {
        let common = [
            ("type", json!(format!("io.nats.micro.v1.{kind}_response"))),
            ("name", json!(self.name)),
            ("id", json!(self.id)),
            ("version", json!(self.version)),
            ("metadata", json!({})),
        ];
        common.into_iter().chain(more).map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
