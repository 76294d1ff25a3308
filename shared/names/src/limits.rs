//! Every bound of the system. A queue, loop, payload, list or retry without a constant here is a mistake.
//!
//! Units stand last in a name. Grouped by the crate that enforces them.

// === names ===

/// One part of a subject. The longest generated identifier has 45 bytes.
pub const SUBJECT_TOKEN_BYTES_MAX: usize = 128;
/// A whole subject; nats-server takes 4,096 bytes for a protocol line.
pub const SUBJECT_BYTES_MAX: usize = 1_024;
/// Registered trust domains, message types or event kinds, each.
pub const REGISTERED_NAMES_MAX: usize = 10_000;

// === NATS ===

/// nats-server's `max_payload`: headers and payload of one message. Raising it costs the server memory for
/// each connection, so everything else has to fit in here.
pub const NATS_PAYLOAD_BYTES_MAX: usize = 1_048_576;
/// How long a responder may still answer a request; longer than the longest wait we grant.
pub const NATS_REPLY_WINDOW_MS: u64 = 600_000;
/// Connections one server takes.
pub const NATS_CONNECTIONS_MAX: usize = 4_096;
/// Subscriptions of one connection.
pub const NATS_SUBSCRIPTIONS_MAX: usize = 4_096;
/// Bytes the server keeps for a reader that does not read, before it drops the connection.
pub const NATS_PENDING_BYTES_MAX: usize = 67_108_864;

// === ledger ===

/// Messages a replica asks for at a time.
pub const LEDGER_TAIL_BATCH: usize = 256;
/// How long one such request stands.
pub const LEDGER_TAIL_EXPIRES_MS: u64 = 30_000;
/// How often the server shows that it is there while nothing comes.
pub const LEDGER_TAIL_HEARTBEAT_MS: u64 = 5_000;
/// After which silence of its reader the server forgets a consumer.
pub const LEDGER_TAIL_INACTIVE_MS: u64 = 60_000;
