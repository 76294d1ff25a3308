//! Server-sent events of a gateway (20.2), read until they end: a stream that breaks off is taken up again behind the
//! last frame, at any gateway, and nothing is handed out twice.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use aip_names::limits::{
    CLIENT_BACKOFF_FIRST_MS, CLIENT_BACKOFF_MAX_MS, HTTP_RESPONSE_BYTES_MAX, STREAM_HEARTBEAT_MS,
};
use aip_wire::validate;
use aip_wire::{Event, MessageBody};
use reqwest::header::{ACCEPT, HeaderValue};
use reqwest::{Response, StatusCode};

use crate::output::{Failure, because};
use crate::profile::{Options, Profile};

/// Event ids remembered, so that a second telling is noticed.
const SEEN_MAX: usize = 10_000;
/// A silence of so many heartbeats is a lost connection.
const HEARTBEATS: u64 = 3;

/// What was heard.
pub enum Heard {
    Told(MessageBody),
    /// The connection is gone; the next call goes on.
    Lost(String),
}

pub struct Stream {
    client: reqwest::Client,
    url: String,
    token: String,
    last: Option<String>,
    open: Option<Response>,
    buffer: Vec<u8>,
    seen: HashSet<String>,
    order: VecDeque<String>,
    failures: u32,
    ended: bool,
    json: bool,
}

/// One frame as it came.
#[derive(Default)]
struct Frame {
    id: Option<String>,
    name: String,
    data: String,
}

// === impl Stream ===

impl Stream {
    /// The live road is HTTP, with the profile's API key.
    pub fn open(options: &Options, path: &str, last: Option<String>) -> Result<Stream, Failure> {
        let json = options.json;
        let profile = Profile::load(&options.profile).map_err(|failure| failure.json(json))?;
        let missing =
            || Failure::new("the profile has no [http] with an api_key, which live streams need").json(json);
        let http = profile.http.as_ref().ok_or_else(missing)?;
        let key = profile.file(http.api_key.as_ref().ok_or_else(missing)?);
        let token = std::fs::read_to_string(&key)
            .map_err(|error| because(&format!("can't read {}", key.display()), &error).json(json))?;
        let client = reqwest::Client::builder()
            .read_timeout(Duration::from_millis(HEARTBEATS * STREAM_HEARTBEAT_MS))
            .build()
            .map_err(|error| because("can't set up HTTP", &error).json(json))?;
        Ok(Stream {
            client,
            url: format!("{}{path}", http.url.trim_end_matches('/')),
            token: token.trim().to_owned(),
            last,
            open: None,
            buffer: Vec::new(),
            seen: HashSet::new(),
            order: VecDeque::new(),
            failures: 0,
            ended: false,
            json,
        })
    }

    /// What is told next; none when all is told.
    pub async fn next(&mut self) -> Result<Option<Heard>, Failure> {
        loop {
            if self.ended {
                return Ok(None);
            }
            if self.open.is_none()
                && let Some(lost) = self.connect().await?
            {
                return Ok(Some(lost));
            }
            if let Some(frame) = self.frame() {
                if let Some(heard) = self.hear(frame)? {
                    return Ok(Some(heard));
                }
                continue;
            }
            let Some(response) = &mut self.open else { continue };
            match response.chunk().await {
                Ok(Some(bytes)) if self.buffer.len() + bytes.len() <= HTTP_RESPONSE_BYTES_MAX => {
                    self.buffer.extend_from_slice(&bytes);
                }
                Ok(Some(_)) => return Err(self.failure("a frame of the stream is too large")),
                Ok(None) => return Ok(Some(self.lose("the gateway closed it".to_owned()).await)),
                Err(error) => return Ok(Some(self.lose(error.to_string()).await)),
            }
        }
    }

    async fn connect(&mut self) -> Result<Option<Heard>, Failure> {
        self.buffer.clear();
        let mut request = self.client.get(&self.url).bearer_auth(&self.token);
        request = request.header(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(last) = &self.last {
            request = request.header("Last-Event-ID", last);
        }
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => return Ok(Some(self.lose(error.to_string()).await)),
        };
        match response.status() {
            StatusCode::OK => self.open = Some(response),
            StatusCode::NO_CONTENT => self.ended = true,
            status if status.is_server_error() => {
                return Ok(Some(self.lose(format!("the gateway answers {status}")).await));
            }
            _ => {
                let text = response.text().await.unwrap_or_default();
                return Err(self.refused(&text));
            }
        }
        Ok(None)
    }

    /// The next whole frame of what has come.
    fn frame(&mut self) -> Option<Frame> {
        loop {
            let end = self.buffer.windows(2).position(|pair| pair == b"\n\n")?;
            let text: Vec<u8> = self.buffer.drain(..end + 2).collect();
            let mut frame = Frame::default();
            for line in String::from_utf8_lossy(&text).lines() {
                match line.split_once(": ") {
                    Some(("id", id)) => frame.id = Some(id.to_owned()),
                    Some(("event", name)) => name.clone_into(&mut frame.name),
                    Some(("data", data)) => data.clone_into(&mut frame.data),
                    _ => {}
                }
            }
            // a heartbeat has no name
            if !frame.name.is_empty() {
                return Some(frame);
            }
        }
    }

    fn hear(&mut self, frame: Frame) -> Result<Option<Heard>, Failure> {
        let checked = validate::envelope(frame.data.as_bytes()).map_err(|refusal| {
            self.failure(&format!("a frame of the stream is no envelope: {}", refusal.code))
        })?;
        let (_, envelope) = checked.into_parts();
        self.last = frame.id.or(self.last.take());
        self.failures = 0;
        match envelope.body {
            MessageBody::Error(body) => {
                self.open = None;
                match body.error.retryable {
                    Some(true) => Ok(Some(Heard::Lost(body.error.code.clone()))),
                    _ => Err(self.failure(&body.error.message).code(body.error.code.clone())),
                }
            }
            MessageBody::ActionResult(result) => {
                self.ended = true;
                Ok(Some(Heard::Told(MessageBody::ActionResult(result))))
            }
            MessageBody::ActionEvents(mut page) => {
                page.events.retain(|event| self.is_new(event));
                Ok((!page.events.is_empty()).then_some(Heard::Told(MessageBody::ActionEvents(page))))
            }
            MessageBody::EventStream(mut page) => {
                page.events.retain(|event| self.is_new(event));
                Ok((!page.events.is_empty()).then_some(Heard::Told(MessageBody::EventStream(page))))
            }
            other => Ok(Some(Heard::Told(other))),
        }
    }

    fn is_new(&mut self, event: &Event) -> bool {
        if self.order.len() == SEEN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        let is_new = self.seen.insert(event.id.to_string());
        if is_new {
            self.order.push_back(event.id.to_string());
        }
        is_new
    }

    async fn lose(&mut self, why: String) -> Heard {
        self.open = None;
        let pause = CLIENT_BACKOFF_FIRST_MS.saturating_mul(1 << self.failures.min(10));
        self.failures = self.failures.saturating_add(1);
        tokio::time::sleep(Duration::from_millis(pause.min(CLIENT_BACKOFF_MAX_MS))).await;
        Heard::Lost(why)
    }

    fn failure(&self, message: &str) -> Failure {
        Failure::new(message).json(self.json)
    }

    fn refused(&self, text: &str) -> Failure {
        let error =
            validate::envelope(text.as_bytes()).ok().and_then(|checked| match checked.into_parts().1.body {
                MessageBody::Error(body) => Some(body.error),
                _ => None,
            });
        match error {
            Some(error) => self.failure(&error.message).code(error.code),
            None => self.failure("the gateway refuses the stream"),
        }
    }
}
