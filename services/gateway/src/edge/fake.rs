//! A front for the doors' tests: keeps what came in, answers what the test wants, holds back until it is let go.

use std::sync::{Arc, Mutex};

use aip_names::limits;
use aip_service::Exposition;
use aip_wire::{
    Ack, AckStatus, ActionId, ActionLifecycleState, ActionStatus, Envelope, ErrorBody, MessageBody,
    ProtocolError, Refusal, Timestamp,
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::{Bounds, Edge, Front};
use crate::front::{Inbound, Live, Outbound, Via};

/// What came in.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    Message { text: String, bearer: Option<String>, via: Via },
    Action { text: String, bearer: Option<String> },
    Query { body: MessageBody, bearer: Option<String> },
    Follow { body: MessageBody, bearer: Option<String>, last: Option<String> },
}

#[derive(Clone)]
pub struct Fake {
    pub seen: Arc<Mutex<Vec<Seen>>>,
    /// Requests that were worked on to their end.
    pub ended: Arc<Mutex<usize>>,
    pub reply: Arc<Mutex<Outbound>>,
    /// A permit lets one request pass.
    pub gate: Arc<Semaphore>,
    pub panics: bool,
    /// What the next follower is told.
    pub live: Arc<Mutex<Option<Live>>>,
    pub reason: Option<String>,
}

// === impl Fake ===

impl Fake {
    /// Answers at once, with an acknowledgement.
    pub fn new() -> Fake {
        Fake {
            seen: Arc::default(),
            ended: Arc::default(),
            reply: Arc::new(Mutex::new(ok())),
            gate: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            panics: false,
            live: Arc::default(),
            reason: None,
        }
    }

    /// Answers only as many requests as the gate is given permits.
    pub fn held() -> Fake {
        Fake { gate: Arc::new(Semaphore::new(0)), ..Fake::new() }
    }

    pub fn answering(reply: Outbound) -> Fake {
        Fake { reply: Arc::new(Mutex::new(reply)), ..Fake::new() }
    }

    pub fn edge(&self, via: Via, bounds: Bounds) -> Edge<Fake> {
        let exposition: Exposition = Arc::new(|| "aip_up 1\n".to_owned());
        Edge::new(via, self.clone(), bounds, exposition)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub fn ended(&self) -> usize {
        *self.ended.lock().unwrap()
    }

    async fn work(&self, seen: Seen) -> Outbound {
        self.seen.lock().unwrap().push(seen);
        assert!(!self.panics, "the front of this test panics");
        self.gate.acquire().await.unwrap().forget();
        *self.ended.lock().unwrap() += 1;
        self.reply.lock().unwrap().clone()
    }
}

impl Front for Fake {
    async fn message(&self, inbound: Inbound) -> Outbound {
        let (text, bearer) = parts(&inbound);
        self.work(Seen::Message { text, bearer, via: inbound.via }).await
    }

    async fn action(&self, inbound: Inbound) -> Outbound {
        let (text, bearer) = parts(&inbound);
        self.work(Seen::Action { text, bearer }).await
    }

    async fn query(&self, bearer: Option<SecretString>, body: MessageBody) -> Result<MessageBody, Outbound> {
        let bearer = bearer.map(|token| token.expose_secret().to_owned());
        let outbound = self.work(Seen::Query { body, bearer }).await;
        if outbound.status == 200 { Ok(status()) } else { Err(outbound) }
    }

    async fn follow(
        &self,
        bearer: Option<SecretString>,
        body: MessageBody,
        last: Option<String>,
    ) -> Result<Option<Live>, Outbound> {
        let bearer = bearer.map(|token| token.expose_secret().to_owned());
        let outbound = self.work(Seen::Follow { body, bearer, last: last.clone() }).await;
        if outbound.status != 200 {
            return Err(outbound);
        }
        Ok(if last.as_deref() == Some("end") { None } else { self.live.lock().unwrap().take() })
    }

    fn refuse(&self, received: &[u8], refusal: Refusal) -> Outbound {
        let retry_after_ms = refusal.code.retryable.then_some(limits::DOOR_RETRY_AFTER_MS);
        let status = refusal.code.http_status;
        let error = ProtocolError { retry_after_ms, ..ProtocolError::from(refusal) };
        let mut outbound = Outbound { retry_after_ms, ..outbound(ErrorBody { error }, status) };
        if let Ok(received) = serde_json::from_slice::<Value>(received) {
            outbound.envelope["in_response_to"] = received["message_id"].clone();
        }
        outbound
    }

    fn not_ready(&self) -> Option<String> {
        self.reason.clone()
    }
}

pub fn bounds() -> Bounds {
    Bounds { in_flight: 8, in_flight_per_sender: 2, bytes: 1 << 20 }
}

pub fn ok() -> Outbound {
    outbound(
        Ack {
            action_id: ActionId::opaque("act_1"),
            status: AckStatus::Accepted,
            reason: None,
            retry_after_ms: None,
            queue: None,
        },
        200,
    )
}

pub fn outbound(body: impl Into<MessageBody>, status: u16) -> Outbound {
    let envelope = Envelope::new(body, Timestamp::now());
    Outbound { envelope: serde_json::to_value(envelope).unwrap(), status, retry_after_ms: None }
}

/// What a query is answered with.
pub fn status() -> MessageBody {
    let status: ActionStatus = serde_json::from_value(serde_json::json!({
        "action_id": "act_1",
        "state": ActionLifecycleState::Running,
        "updated_at": "2026-07-14T08:30:00Z",
    }))
    .unwrap();
    status.into()
}

pub fn code(envelope: &Value) -> &str {
    envelope["body"]["error"]["error"]["code"].as_str().unwrap_or("none")
}

fn parts(inbound: &Inbound) -> (String, Option<String>) {
    let text = String::from_utf8_lossy(&inbound.bytes).into_owned();
    (text, inbound.bearer.as_ref().map(|token| token.expose_secret().to_owned()))
}
