//! Server-sent events of a gateway (20.2): a stream that breaks off is taken up again behind the last frame, at whatever
//! gateway answers then.

use std::collections::VecDeque;
use std::time::Duration;

use aip_names::limits::{
    CLIENT_BACKOFF_FIRST_MS, CLIENT_BACKOFF_MAX_MS, CLIENT_QUERY_TIMEOUT_MS, FOLLOW_FAILURES_MAX,
    FOLLOW_SILENCE_MS, HTTP_RESPONSE_BYTES_MAX,
};
use aip_wire::{MessageBody, validate};
use reqwest::{RequestBuilder, Response, StatusCode};
use tokio::time::timeout;

use super::follow::{Seen, Told};
use super::http::chain;
use super::{ClientError, untrusted};

#[derive(Debug)]
pub(super) struct Sse {
    /// One for each gateway.
    requests: Vec<RequestBuilder>,
    /// Counts gateways that were left.
    left: usize,
    /// The id of the last frame.
    last: Option<String>,
    open: Option<Response>,
    frames: Frames,
    seen: Seen,
    told: VecDeque<Told>,
    /// Tries since a frame came.
    failures: u32,
    ended: bool,
}

/// What has come and was not read yet.
#[derive(Debug, Default)]
struct Frames(Vec<u8>);

/// One frame as it came.
#[derive(Debug, Default, PartialEq)]
struct Frame {
    id: Option<String>,
    data: String,
}

// === impl Sse ===

impl Sse {
    /// Of requests that are tried in turn, the next one after each loss; behind the frame with the id `last`.
    pub fn new(requests: Vec<RequestBuilder>, last: Option<String>) -> Sse {
        Sse {
            requests,
            left: 0,
            last,
            open: None,
            frames: Frames::default(),
            seen: Seen::default(),
            told: VecDeque::new(),
            failures: 0,
            ended: false,
        }
    }

    /// What is told next; none when all is told.
    pub async fn next(&mut self) -> Result<Option<Told>, ClientError> {
        loop {
            if let Some(told) = self.told.pop_front() {
                return Ok(Some(told));
            }
            if self.ended {
                return Ok(None);
            }
            if let Some(frame) = self.frames.next() {
                self.hear(frame)?;
                continue;
            }
            match self.receive().await {
                Ok(()) => {}
                Err(Broken::For(why)) => self.lost(why)?,
                Err(Broken::Good(error)) => return Err(error),
            }
        }
    }

    /// More bytes, of a connection that is made if there is none.
    async fn receive(&mut self) -> Result<(), Broken> {
        let Some(response) = &mut self.open else { return self.connect().await };
        match timeout(Duration::from_millis(FOLLOW_SILENCE_MS), response.chunk()).await {
            Ok(Ok(Some(bytes))) if self.frames.has_room(bytes.len()) => {
                self.frames.0.extend_from_slice(&bytes);
                Ok(())
            }
            Ok(Ok(Some(_))) => Err(Broken::Good(untrusted("a frame of the stream is too large"))),
            Ok(Ok(None)) => Err(Broken::For("the gateway closed it".to_owned())),
            Ok(Err(error)) => Err(Broken::For(chain(&error))),
            Err(_) => Err(Broken::For("not even a heartbeat came".to_owned())),
        }
    }

    async fn connect(&mut self) -> Result<(), Broken> {
        if self.failures > 0 {
            let pause = CLIENT_BACKOFF_FIRST_MS << (self.failures - 1).min(16);
            tokio::time::sleep(Duration::from_millis(pause.min(CLIENT_BACKOFF_MAX_MS))).await;
        }
        self.frames.0.clear();
        let invalid = || ClientError::Invalid { reason: "the request cannot be repeated".to_owned() };
        let request = self.requests.iter().cycle().nth(self.left % self.requests.len().max(1));
        let request = request.and_then(RequestBuilder::try_clone);
        let mut request = request.ok_or_else(|| Broken::Good(invalid()))?;
        if let Some(last) = &self.last {
            request = request.header("Last-Event-ID", last);
        }
        let patience = Duration::from_millis(CLIENT_QUERY_TIMEOUT_MS);
        let answered = timeout(patience, request.send()).await;
        let response = answered
            .map_err(|_| Broken::For("the gateway does not answer".to_owned()))?
            .map_err(|error| Broken::For(chain(&error)))?;
        match response.status() {
            StatusCode::OK => self.open = Some(response),
            StatusCode::NO_CONTENT => self.ended = true,
            status => {
                let text = timeout(patience, response.bytes()).await;
                let text = text.ok().and_then(Result::ok).unwrap_or_default();
                return Err(refused(status, &text));
            }
        }
        Ok(())
    }

    fn hear(&mut self, frame: Frame) -> Result<(), ClientError> {
        let (_, envelope) = validate::envelope(frame.data.as_bytes())
            .map_err(|refusal| untrusted(format!("a frame of the stream is no envelope: {refusal}")))?
            .into_parts();
        self.last = frame.id.or(self.last.take());
        match envelope.body {
            MessageBody::Error(body) if body.error.retryable == Some(true) => {
                return self.lost(format!("{}: {}", body.error.code, body.error.message));
            }
            MessageBody::Error(body) => return Err(ClientError::Refused { error: Box::new(body.error) }),
            MessageBody::ActionResult(result) => {
                self.ended = true;
                self.told.push_back(Told::Result(result));
            }
            MessageBody::ActionEvents(page) => self.told.extend(self.seen.new_of(*page)),
            MessageBody::StreamChunk(chunk) => self.told.extend(self.seen.chunk(*chunk)),
            MessageBody::EventStream(page) => {
                self.told.extend(page.events.into_iter().filter_map(|event| self.seen.event(event)));
            }
            // a kind of frame to come
            _ => {}
        }
        self.failures = 0;
        Ok(())
    }

    /// Goes on with another connection, unless too many came to nothing.
    fn lost(&mut self, reason: String) -> Result<(), ClientError> {
        self.open = None;
        self.left += 1;
        self.failures += 1;
        if self.failures > FOLLOW_FAILURES_MAX {
            return Err(ClientError::NoAnswer { reason });
        }
        self.told.push_back(Told::Lost(reason));
        Ok(())
    }
}

/// Why no more comes by a connection.
enum Broken {
    /// Another may be better.
    For(String),
    /// It is refused for good.
    Good(ClientError),
}

fn refused(status: StatusCode, text: &[u8]) -> Broken {
    let error = validate::envelope(text).ok().and_then(|checked| match checked.into_parts().1.body {
        MessageBody::Error(body) => Some(body.error),
        _ => None,
    });
    match error {
        Some(error) if error.retryable == Some(true) => {
            Broken::For(format!("{}: {}", error.code, error.message))
        }
        Some(error) => Broken::Good(ClientError::Refused { error: Box::new(error) }),
        // said by something between us and the gateway
        None if status.is_server_error() => Broken::For(format!("HTTP {status} without an envelope")),
        None => Broken::Good(untrusted(format!("HTTP {status} without an envelope"))),
    }
}

// === impl Frames ===

impl Frames {
    fn has_room(&self, bytes: usize) -> bool {
        self.0.len() + bytes <= HTTP_RESPONSE_BYTES_MAX
    }

    /// The next whole frame that says something; a heartbeat does not.
    fn next(&mut self) -> Option<Frame> {
        loop {
            let end = self.0.windows(2).position(|pair| pair == b"\n\n")?;
            let text: Vec<u8> = self.0.drain(..end + 2).collect();
            let mut frame = Frame::default();
            for line in String::from_utf8_lossy(&text).lines() {
                let (name, value) = line.split_once(':').unwrap_or((line, ""));
                let value = value.strip_prefix(' ').unwrap_or(value);
                match name {
                    "id" => frame.id = Some(value.to_owned()),
                    "data" => frame.data.push_str(value),
                    _ => {}
                }
            }
            if !frame.data.is_empty() {
                return Some(frame);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_whole_whatever_the_pieces() {
        let text = b"retry: 1000\n\n: heartbeat\n\nid: a:1\nevent: chunk\ndata:{\"x\": 1}\n\nevent: error\ndata: {}\n\nid: 3";
        let mut frames = Frames::default();
        let mut read = Vec::new();
        for byte in text {
            frames.0.push(*byte);
            read.extend(frames.next());
        }
        let frame = |id: Option<&str>, data: &str| Frame { id: id.map(str::to_owned), data: data.to_owned() };
        assert_eq!(read, [frame(Some("a:1"), "{\"x\": 1}"), frame(None, "{}")]);
        assert_eq!(frames.0, b"id: 3");
        assert!(!frames.has_room(HTTP_RESPONSE_BYTES_MAX) && frames.has_room(8));
    }
}
