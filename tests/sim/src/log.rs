//! The log: one stream on one server, in total order, kept through restarts until disaster strikes.
//!
//! What is stored is stored for good before it is acknowledged or seen by anyone (`sync_interval: always`). A
//! disaster puts another stream in its place; the earlier ones are remembered, to judge what was read from them.

use bytes::Bytes;

use aip_kernel::{Hash, Millis};
use aip_ledger::{LogInfo, LogMessage, Position};

/// The wall-clock time at which every simulation begins.
pub const EPOCH_MS: Millis = 1_760_000_000_000;

#[derive(Clone, Debug)]
pub struct Stream {
    pub created_ns: i128,
    messages: Vec<(LogMessage, Hash)>,
}

#[derive(Debug)]
pub struct Log {
    /// The streams there have been; the last is the one that is served.
    streams: Vec<Stream>,
    /// Counts the lives of the server.
    pub run: u64,
    pub up: bool,
    /// How far the server's clock is off.
    pub skew_ms: i64,
    ticks: i128,
}

/// Which stream: its number in the order of disasters, zero before the first.
pub type Version = usize;

// === impl Stream ===

impl Stream {
    fn new(created_ns: i128) -> Stream {
        Stream { created_ns, messages: Vec::new() }
    }

    pub fn last(&self) -> u64 {
        self.messages.len() as u64
    }

    pub fn get(&self, seq: u64) -> Option<&LogMessage> {
        let index = usize::try_from(seq.checked_sub(1)?).ok()?;
        self.messages.get(index).map(|(message, _)| message)
    }

    /// Whether what a store learned up to `position` is a beginning of this stream.
    pub fn holds(&self, position: &Position) -> bool {
        let Some(index) = position.seq.checked_sub(1) else { return true };
        let found = usize::try_from(index).ok().and_then(|index| self.messages.get(index));
        found.is_some_and(|(_, hash)| *hash == position.hash)
    }

    pub fn messages(&self) -> impl Iterator<Item = &LogMessage> {
        self.messages.iter().map(|(message, _)| message)
    }

    pub fn info(&self) -> LogInfo {
        LogInfo { created_ns: self.created_ns, first_seq: 1, last_seq: self.last() }
    }
}

// === impl Log ===

impl Log {
    pub fn new() -> Log {
        let created = i128::from(EPOCH_MS) * 1_000_000 - 1;
        Log { streams: vec![Stream::new(created)], run: 1, up: true, skew_ms: 0, ticks: 0 }
    }

    pub fn version(&self) -> Version {
        self.streams.len() - 1
    }

    pub fn current(&self) -> &Stream {
        &self.streams[self.version()]
    }

    pub fn stream(&self, version: Version) -> &Stream {
        &self.streams[version]
    }

    /// Takes a message at the end of the stream, at the server's own time.
    pub fn store(&mut self, now: u64, bytes: Bytes) -> &LogMessage {
        self.ticks += 1;
        let wall = i128::from(EPOCH_MS) + i128::from(now) + i128::from(self.skew_ms);
        let time_ns = wall * 1_000_000 + self.ticks % 1_000_000;
        let version = self.version();
        let stream = &mut self.streams[version];
        let message = LogMessage { seq: stream.last() + 1, time_ns, bytes };
        let hash = message.hash();
        stream.messages.push((message, hash));
        &stream.messages[stream.messages.len() - 1].0
    }

    /// The stream is now an earlier state of itself, with its first `keep` messages.
    pub fn cut(&mut self, keep: u64) {
        let mut stream = self.current().clone();
        stream.messages.truncate(usize::try_from(keep).unwrap_or(usize::MAX));
        self.streams.push(stream);
    }

    /// The stream is now a fresh one.
    pub fn replace(&mut self, now: u64) {
        let created = (i128::from(EPOCH_MS) + i128::from(now)) * 1_000_000;
        self.streams.push(Stream::new(created));
    }
}

impl Default for Log {
    fn default() -> Log {
        Log::new()
    }
}
