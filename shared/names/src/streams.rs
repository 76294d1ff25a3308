//! What JetStream must hold: streams and consumers as data. `aip-bus` creates them, reads them back and
//! compares every field; nothing else may configure JetStream.

use crate::limits;
use crate::subject::Subject;
use crate::token::{Service, TrustDomain};

/// When a stream's server fsyncs a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persist {
    /// Before it acknowledges, given `sync_interval: always`. For ledgers, which are the truth.
    Sync,
    /// Some time after it acknowledged. For streams whose content can be made again from a ledger.
    Async,
}

/// A stream. File storage, limits retention, discard new and no deletion of messages are common to all, so
/// they are not fields; neither age, size nor count is limited, since a ledger that drops its head is lost.
///
/// `deny_purge` stays false: it cannot be taken back, and a ledger will be purged below its snapshots. Until
/// then no identity is permitted to purge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSpec {
    pub name: String,
    pub description: String,
    pub subjects: Vec<String>,
    pub replicas: usize,
    pub persist: Persist,
    /// The largest message with its headers.
    pub message_bytes_max: usize,
}

/// How a reader of a stream asks for messages. Such a consumer is pulled, unacknowledged, kept in memory on
/// one server, and gone after `inactive_ms` without a reader: its position is the reader's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsumerSpec {
    /// Messages asked for at a time.
    pub batch: usize,
    /// How long one request for messages stands.
    pub expires_ms: u64,
    /// How often the server says that it is there while nothing comes.
    pub heartbeat_ms: u64,
    /// After which silence the server forgets the consumer.
    pub inactive_ms: u64,
}

/// Name of the stream behind one shard of a service's ledger: `aip-<td>-<service>-ledger-<shard>`.
pub fn ledger_stream_name(td: &TrustDomain, service: &Service, shard: u16) -> String {
    format!("aip-{}-{service}-ledger-{shard}", td.token())
}

/// The stream behind one shard of a service's ledger; `replicas` is 1 on a single server, 3 on a cluster.
pub fn ledger_stream(td: &TrustDomain, service: &Service, shard: u16, replicas: usize) -> StreamSpec {
    StreamSpec {
        name: ledger_stream_name(td, service, shard),
        description: format!("ledger of {service} in {td}, shard {shard}"),
        subjects: vec![Subject::ledger(td, service, shard).to_string()],
        replicas,
        persist: Persist::Sync,
        message_bytes_max: limits::NATS_PAYLOAD_BYTES_MAX,
    }
}

/// How a replica reads its ledger.
pub fn ledger_tail() -> ConsumerSpec {
    ConsumerSpec {
        batch: limits::LEDGER_TAIL_BATCH,
        expires_ms: limits::LEDGER_TAIL_EXPIRES_MS,
        heartbeat_ms: limits::LEDGER_TAIL_HEARTBEAT_MS,
        inactive_ms: limits::LEDGER_TAIL_INACTIVE_MS,
    }
}
