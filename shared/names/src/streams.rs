//! What JetStream must hold: streams and consumers as data. `aip-bus` creates them, reads them back and
//! compares every field; nothing else may configure JetStream.

use crate::limits;
use crate::subject::Subject;
use crate::token::{MessageType, Service, TrustDomain, Version};

/// When a stream's server fsyncs a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persist {
    /// Before it acknowledges, given `sync_interval: always`. For ledgers, which are the truth.
    Sync,
    /// Some time after it acknowledged. For streams whose content can be made again from a ledger.
    Async,
}

/// Which messages a stream keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retention {
    /// All of them, and nobody deletes one: a ledger that drops its head is lost.
    Everything,
    /// Those that no worker has finished yet, up to a number. A copy of a message, by its id, is dropped for a while;
    /// that saves work and is not relied on.
    Work { messages_max: i64, copies_window_ms: u64 },
    /// The newest: old ones go when they have been there for long, when they take too much room, or when their subject
    /// has too many.
    Recent { each_max: i64, age_ms_max: u64, bytes_max: i64 },
}

/// A stream. File storage is common to all, so it is no field; discard follows from what is kept.
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
    pub retention: Retention,
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
        retention: Retention::Everything,
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

/// How workers take from a work queue: one durable consumer for each version of a worker, shared by its replicas,
/// each message acknowledged for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkConsumerSpec {
    pub name: String,
    pub filter: String,
    pub ack_wait_ms: u64,
    pub deliveries_max: i64,
    pub held_max: i64,
}

/// Name of the stream behind a worker's queue: `aip-<td>-<service>-queue`.
pub fn queue_stream_name(td: &TrustDomain, service: &Service) -> String {
    format!("aip-{}-{service}-queue", td.token())
}

/// The queue of a worker's service. What is in it can be published again from the gateway's ledger, so a single server
/// need not fsync it; a replicated stream can't be kept so (the server refuses), and need not.
pub fn queue_stream(td: &TrustDomain, service: &Service, replicas: usize) -> StreamSpec {
    StreamSpec {
        name: queue_stream_name(td, service),
        description: format!("work for {service} in {td}"),
        subjects: vec![Subject::all_queues(td, service)],
        replicas,
        persist: if replicas == 1 { Persist::Async } else { Persist::Sync },
        retention: Retention::Work {
            messages_max: limits::QUEUE_MESSAGES_MAX,
            copies_window_ms: limits::QUEUE_COPIES_WINDOW_MS,
        },
        message_bytes_max: limits::NATS_PAYLOAD_BYTES_MAX,
    }
}

/// Name of the stream behind the chunks of a service's actions: `aip-<td>-<service>-chunks`.
pub fn chunk_stream_name(td: &TrustDomain, service: &Service) -> String {
    format!("aip-{}-{service}-chunks", td.token())
}

/// The chunk log of a service: what actions streamed, for readers to come. It is not the truth of anything, and a log that
/// is lost is noticed by its readers, so a single server need not fsync it.
pub fn chunk_stream(td: &TrustDomain, service: &Service, replicas: usize) -> StreamSpec {
    StreamSpec {
        name: chunk_stream_name(td, service),
        description: format!("chunks of the actions of {service} in {td}"),
        subjects: vec![Subject::all_chunks(td, service)],
        replicas,
        persist: if replicas == 1 { Persist::Async } else { Persist::Sync },
        retention: Retention::Recent {
            each_max: limits::CHUNK_LOG_MESSAGES_EACH_MAX,
            age_ms_max: limits::CHUNK_LOG_AGE_MS_MAX,
            bytes_max: limits::CHUNK_LOG_BYTES_MAX,
        },
        message_bytes_max: limits::CHUNK_LOG_MESSAGE_BYTES_MAX,
    }
}

/// How the chunks of one action are read.
pub fn chunk_tail() -> ConsumerSpec {
    ConsumerSpec {
        batch: limits::CHUNK_TAIL_BATCH,
        expires_ms: limits::LEDGER_TAIL_EXPIRES_MS,
        heartbeat_ms: limits::LEDGER_TAIL_HEARTBEAT_MS,
        inactive_ms: limits::LEDGER_TAIL_INACTIVE_MS,
    }
}

/// Name of the consumer that one version of a worker shares.
pub fn queue_consumer_name(version: Version) -> String {
    version.to_string()
}

/// How one version of a worker takes from its queue.
pub fn queue_consumer(
    td: &TrustDomain,
    service: &Service,
    version: Version,
    message_type: &MessageType,
) -> WorkConsumerSpec {
    WorkConsumerSpec {
        name: queue_consumer_name(version),
        filter: Subject::queue(td, service, version, message_type).to_string(),
        ack_wait_ms: limits::QUEUE_ACK_WAIT_MS,
        deliveries_max: limits::QUEUE_DELIVERIES_MAX,
        held_max: limits::QUEUE_HELD_MAX,
    }
}

/// Where the server says that a message of a queue was handed out as often as it may be.
pub fn queue_given_up(td: &TrustDomain, service: &Service) -> String {
    format!("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{}.*", queue_stream_name(td, service))
}
