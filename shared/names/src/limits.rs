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
/// One log file of a server that we launch.
pub const NATS_LOG_BYTES_MAX: usize = 16_777_216;
/// Log files kept of it.
pub const NATS_LOG_FILES_MAX: usize = 3;

// === bus ===

/// Messages kept for one subscription between the connection and its reader; more are dropped and counted.
pub const BUS_SUBSCRIPTION_MESSAGES_MAX: usize = 4_096;
/// Commands waiting to be written to the connection, which is what a service says while the server is away.
pub const BUS_COMMANDS_MAX: usize = 4_096;
/// Connection events waiting to be counted.
pub const BUS_EVENTS_MAX: usize = 256;
/// Two unanswered pings of this distance are a lost connection.
pub const BUS_PING_INTERVAL_MS: u64 = 5_000;
/// One attempt to connect.
pub const BUS_CONNECT_TIMEOUT_MS: u64 = 5_000;
/// Pause before the second attempt; each further one doubles it. There is no last attempt.
pub const BUS_RECONNECT_FIRST_MS: u64 = 20;
/// The longest pause between attempts.
pub const BUS_RECONNECT_MAX_MS: u64 = 2_000;
/// One log line of a kind in this time, where a peer or a broken link could cause any number of them; what comes
/// between is only counted.
pub const LOG_INTERVAL_MS: u64 = 10_000;
/// A request to JetStream about a stream.
pub const BUS_STREAM_TIMEOUT_MS: u64 = 10_000;
/// Bytes of a header that we set; a longer value is left out.
pub const BUS_HEADER_BYTES_MAX: usize = 256;

// === ledger ===

/// redb's page cache, for each store.
pub const STORE_CACHE_BYTES: usize = 33_554_432;
/// Soft commits between two hard ones: they hold pages that only a hard commit frees.
pub const STORE_SOFT_COMMITS_MAX: u32 = 512;
/// The longest time a commit stays soft.
pub const STORE_SOFT_MS: u64 = 200;
/// Expired claims taken away with one message.
pub const LEDGER_CLAIMS_EXPIRED_PER_MESSAGE_MAX: usize = 64;
/// One encoded record: the largest envelope with its context, and room for what the gateway adds.
pub const LEDGER_RECORD_BYTES_MAX: usize = 720_896;
/// One append message, below `NATS_PAYLOAD_BYTES_MAX` with its headers.
pub const LEDGER_BATCH_BYTES_MAX: usize = 917_504;
/// Records of one append message.
pub const LEDGER_BATCH_RECORDS_MAX: usize = 1_024;
/// Commands that wait for a decision or for their record, in one replica.
pub const LEDGER_COMMANDS_MAX: usize = 16_384;
/// How often a command is decided anew because its record came back void.
pub const LEDGER_TRIES_MAX: u32 = 16;
/// How long a command waits for its record to come back before its caller is told that the outcome is unknown.
pub const LEDGER_PATIENCE_MS: u64 = 10_000;
/// How long an append may take before it is sent again.
pub const LEDGER_APPEND_TIMEOUT_MS: u64 = 2_000;
/// How long an append whose fate is not known rests before it is sent again.
pub const LEDGER_APPEND_RETRY_MS: u64 = 100;
/// How often callers who have waited too long are looked for.
pub const LEDGER_SWEEP_MS: u64 = 250;
/// How long something that should have come through the tail may be missing before the tail is opened anew.
pub const LEDGER_TAIL_STALL_MS: u64 = 1_000;
/// When other replicas take up a repeatable effect that is still pending. Its writer performs it at once only when it
/// has learned of it sooner than this after it sent the record.
pub const EFFECT_ADOPT_MS: u64 = 12_000;
/// How long an effect that could not be performed rests before the next try.
pub const EFFECT_RETRY_MS: u64 = 1_000;
/// Pending effects looked at in one round.
pub const EFFECT_SCAN_MAX: usize = 4_096;
/// A step of the store's thread that takes longer is logged and counted: nobody is answered meanwhile.
pub const LEDGER_STEP_SLOW_MS: u64 = 250;
/// How often pending effects and due timers are looked for.
pub const LEDGER_ROUND_MS: u64 = 50;
/// The same while nothing waits.
pub const LEDGER_IDLE_ROUND_MS: u64 = 200;
/// Inputs of one step of a replica.
pub const LEDGER_INPUTS_PER_STEP_MAX: usize = 4_096;
/// Messages of the tail that may wait for the store's thread.
pub const LEDGER_TAIL_WINDOW: usize = 1_024;
/// Bytes of these: a store that learns anew gets them as fast as the server can send.
pub const LEDGER_TAIL_WINDOW_BYTES: usize = 16_777_216;
/// How long a tail that could not be opened, or broke, rests before the next try.
pub const LEDGER_TAIL_RETRY_MS: u64 = 250;
/// How long JetStream may take to show the ledger's stream.
pub const LEDGER_OPEN_TIMEOUT_MS: u64 = 5_000;
/// How long a drain waits for records that are in flight.
pub const LEDGER_DRAIN_MS: u64 = 10_000;
/// Timers fired in one round.
pub const TIMERS_ROUND_MAX: usize = 1_024;
/// How long replicas that did not set a timer leave it to the one that did.
pub const TIMER_FOREIGN_MS: u64 = 2_000;
/// How long a timer rests whose command recorded nothing.
pub const TIMER_RETRY_MS: u64 = 5_000;
/// Effects performed at the same time.
pub const EFFECTS_RUNNING_MAX: usize = 4_096;

/// Stores that take part in one recovery.
pub const RECOVERY_STORES_MAX: usize = 8;
/// Entities whose chains are looked for at a time.
pub const RECOVERY_ENTITIES_PAGE: usize = 256;
/// Messages a replica asks for at a time. The largest are held in the connection until the window has room for them.
pub const LEDGER_TAIL_BATCH: usize = 24;
/// How long one such request stands.
pub const LEDGER_TAIL_EXPIRES_MS: u64 = 30_000;
/// How often the server shows that it is there while nothing comes.
pub const LEDGER_TAIL_HEARTBEAT_MS: u64 = 5_000;
/// After which silence of its reader the server forgets a consumer.
pub const LEDGER_TAIL_INACTIVE_MS: u64 = 60_000;

// === work queues ===

/// How long a worker may keep a message of its queue without a sign of life. The lease of the protocol is the ledger's.
pub const QUEUE_ACK_WAIT_MS: u64 = 10_000;
/// How often a worker shows the queue that it still has a message.
pub const QUEUE_PROGRESS_MS: u64 = 3_000;
/// Times that one message is handed out; an action that no worker even began by then is dead-lettered. Attempts that
/// were begun have a message each, so [`ASYNC_ATTEMPTS_MAX`] is reached long before.
pub const QUEUE_DELIVERIES_MAX: i64 = 16;
const _: () = assert!((ASYNC_ATTEMPTS_MAX as i64) < QUEUE_DELIVERIES_MAX);
/// Messages of one queue that workers hold at the same time.
pub const QUEUE_HELD_MAX: i64 = 16_384;
/// Messages of one queue; more wait in the ledger.
pub const QUEUE_MESSAGES_MAX: i64 = 1_000_000;
/// For how long a queue drops a copy of a message.
pub const QUEUE_COPIES_WINDOW_MS: u64 = 120_000;
/// Messages a worker asks for at a time.
pub const QUEUE_BATCH_MAX: usize = 64;
/// How long one such request stands.
pub const QUEUE_EXPIRES_MS: u64 = 5_000;
/// How long a worker rests before it asks a queue again that could not be asked.
pub const QUEUE_RETRY_MS: u64 = 500;
/// How long a message rests that a worker can't take and another may.
pub const QUEUE_NAK_MS: u64 = 1_000;
/// How long a queue may take to keep a message.
pub const QUEUE_PUBLISH_TIMEOUT_MS: u64 = 2_000;

// === chunk log ===

/// Messages of one action: its chunks, the one that ends them, and a mark for each takeover and the end.
pub const CHUNK_LOG_MESSAGES_EACH_MAX: i64 = ACTION_CHUNKS_MAX as i64 + 2 + ASYNC_ATTEMPTS_MAX as i64;
/// How long chunks are kept: a week.
pub const CHUNK_LOG_AGE_MS_MAX: u64 = 604_800_000;
/// Bytes of all chunks that are kept; the oldest go first. The server sets so much of its disk aside.
pub const CHUNK_LOG_BYTES_MAX: i64 = 1_073_741_824;
/// One message of the log: a chunk and what stands beside it.
pub const CHUNK_LOG_MESSAGE_BYTES_MAX: usize = CHUNK_BYTES_MAX + 8_192;
/// Chunks that a reader of the log asks for at a time.
pub const CHUNK_TAIL_BATCH: usize = 16;
/// How long the log may take to keep a chunk.
pub const CHUNK_APPEND_TIMEOUT_MS: u64 = 2_000;
/// How long it may take to give one that it has.
pub const CHUNK_READ_TIMEOUT_MS: u64 = 5_000;
/// How often a chunk is judged anew because the log had moved on, or was lost.
pub const CHUNK_TRIES_MAX: usize = 4;
/// Old chunks looked for in one gateway at a time; each reads through all of its action's.
pub const CHUNK_FINDS_MAX: usize = 8;
/// How long a reader rests before it asks a log again that could not be read.
pub const CHUNK_RETRY_MS: u64 = 500;
/// Actions whose place in the log one gateway remembers.
pub const CHUNK_HEADS_MAX: usize = 16_384;

// === admission ===

/// The directory file: tens of thousands of principals.
pub const DIRECTORY_BYTES_MAX: u64 = 8_388_608;
/// Scopes of one principal, grant or credential; with the texts' bound, what keeps a trusted context small.
pub const DIRECTORY_SCOPES_MAX: usize = 64;
/// An id, name or scope that may stand in a trusted context and so in every record of an action.
pub const ADMISSION_TEXT_BYTES_MAX: usize = 256;
/// How much a token issuer's clock may be off.
pub const TOKEN_LEEWAY_MAX_MS: u64 = 300_000;
/// A bearer token or API key. Larger ones do not fit the header lines of common proxies either.
pub const TOKEN_BYTES_MAX: usize = 8_192;
/// A token issuer's key set.
pub const JWKS_BYTES_MAX: usize = 262_144;
/// Keys of one set.
pub const JWKS_KEYS_MAX: usize = 64;
/// How long one fetch of a key set may take, all of it.
pub const JWKS_FETCH_TIMEOUT_MS: u64 = 5_000;
/// The least time between two fetches of one set, whatever key ids tokens name.
pub const JWKS_REFRESH_MIN_MS: u64 = 10_000;
/// The longest wait after failed fetches, which double it from the least.
pub const JWKS_BACKOFF_MAX_MS: u64 = 300_000;
/// How old a set may get while its source cannot be reached, before its keys are trusted no more.
pub const JWKS_STALE_MAX_MS: u64 = 3_600_000;
/// RSA keys of tokens: shorter ones can be factored, longer ones only cost time.
pub const RSA_MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=1_024;
/// How long an action may take when neither caller nor contract says.
pub const ACTION_TIMEOUT_DEFAULT_MS: u64 = 30_000;
/// The longest that an action may ask for; below [`NATS_REPLY_WINDOW_MS`], so that an answer still gets through.
pub const ACTION_TIMEOUT_MAX_MS: u64 = 300_000;
/// How long an asynchronous action may take, waiting included, when neither caller nor contract nor directory says.
pub const ACTION_ASYNC_TIMEOUT_DEFAULT_MS: u64 = 900_000;
/// The longest that an asynchronous action may ask for. Nobody holds a request open for it.
pub const ACTION_ASYNC_TIMEOUT_MAX_MS: u64 = 3_600_000;
/// An idempotency key. It only names something; what it stands for is the action.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 512;

// === crypto ===

/// Receipts of one chain that a verifier takes. It remembers their ids, at about 35 bytes each.
pub const RECEIPT_CHAIN_RECEIPTS_MAX: u64 = 10_000_000;
/// How long a session key seals.
pub const SESSION_KEY_LIFETIME_MS: u64 = 3_600_000;
/// How long a session key still opens after it stopped sealing, for what is on the way.
pub const SESSION_KEY_OVERLAP_MS: u64 = 60_000;
/// Messages one side seals with one session key.
pub const SESSION_KEY_MESSAGES_MAX: u64 = 16_777_216;
/// One message of a session before encryption.
pub const SESSION_MESSAGE_BYTES_MAX: usize = ENVELOPE_BYTES_MAX;
/// How far behind the newest message of a session a late one may come; each is a bit of a `u128`.
pub const SESSION_WINDOW_MESSAGES: u64 = 128;

// === wire ===

/// One envelope as it arrives, and as it would be written again.
pub const ENVELOPE_BYTES_MAX: usize = 524_288;
/// What a service adds beside an envelope: the trusted context, headers and the frame.
pub const TRANSPORT_EXTRA_BYTES_MAX: usize = 131_072;
/// A whole TransportMessage. A server that takes less than this cannot carry our traffic.
pub const TRANSPORT_MESSAGE_BYTES_MAX: usize = ENVELOPE_BYTES_MAX + TRANSPORT_EXTRA_BYTES_MAX;
const _: () = assert!(TRANSPORT_MESSAGE_BYTES_MAX <= NATS_PAYLOAD_BYTES_MAX);
/// Objects and lists inside each other, the envelope counted as the first.
pub const JSON_DEPTH_MAX: usize = 64;
/// Values in one document: objects, lists, strings, numbers, booleans and nulls.
pub const JSON_NODES_MAX: usize = 50_000;
/// One string or member name, unescaped.
pub const JSON_STRING_BYTES_MAX: usize = 262_144;
/// Members of one object, or items of one list.
pub const JSON_COLLECTION_ITEMS_MAX: usize = 10_000;
/// Values that the frame and its metadata add to those of the envelope.
pub const TRANSPORT_EXTRA_NODES_MAX: usize = 5_000;
/// Rows of one page, asked for or answered (section 16.4).
pub const PAGE_ROWS_MAX: usize = 1_000;
/// How long a reader may wait for an action (section 16.4).
pub const WAIT_MS_MAX: u64 = 30_000;
/// Hops of a delegation chain (section 14.3).
pub const DELEGATION_HOPS_MAX: usize = 10;
/// Records of one settlement batch.
pub const SETTLEMENT_RECORDS_MAX: usize = 1_000;
/// Chunks one action may stream, and so the highest sequence number of one; the chunk that ends the stream may have one
/// more.
pub const ACTION_CHUNKS_MAX: u64 = 10_000;
/// What one action's chunks may amount to: no action fills the log of all.
pub const ACTION_CHUNK_BYTES_MAX: u64 = 16_777_216;
/// One chunk as compact JSON: a page holds several, and a message of the chunk log one with room to spare.
pub const CHUNK_BYTES_MAX: usize = 65_536;
/// What a worker may answer.
pub const WORKER_ANSWER_BYTES_MAX: usize = 524_288;
/// A capability's schema, as compact JSON.
pub const SCHEMA_BYTES_MAX: usize = 131_072;
/// Objects and lists inside each other in a capability's schema.
pub const SCHEMA_DEPTH_MAX: usize = 32;
/// Values in a capability's schema.
pub const SCHEMA_NODES_MAX: usize = 5_000;
/// Subschemas after every reference is followed; keeps validation from growing without bound.
pub const SCHEMA_EXPANDED_MAX: usize = 20_000;
/// A compiled regular expression of a capability's schema.
pub const SCHEMA_PATTERN_BYTES_MAX: usize = 1_048_576;
/// Steps of one redaction, over value and schema together; past it everything is redacted.
pub const REDACTION_STEPS_MAX: usize = 200_000;
/// The text of a refusal, in which names from the request may stand.
pub const REFUSAL_TEXT_BYTES_MAX: usize = 512;

/// JetStream copies of one stream; the server takes no more.
pub const STREAM_REPLICAS_MAX: usize = 5;

// === doors of the gateway ===

/// Requests under way in one door. Waiting readers count too, so this is far more than the processor can work on.
pub const DOOR_IN_FLIGHT_MAX: usize = 2_048;
/// Of these, requests with one bearer token, so that one sender cannot fill the door.
pub const SENDER_IN_FLIGHT_MAX: usize = 512;
/// Bytes of the requests under way in one door, as received; parsed, recorded and learned they take some fifteen times as
/// much, and a gateway is to stay within 256 MiB.
pub const DOOR_IN_FLIGHT_BYTES_MAX: usize = 8_388_608;
/// When a client that found a door full or closing may try again.
pub const DOOR_RETRY_AFTER_MS: u64 = 1_000;
/// Open HTTP connections; below the usual limit of 4,096 or more open files.
pub const HTTP_CONNECTIONS_MAX: usize = 2_048;
/// How long the head of a request may take to arrive, an idle connection's next one included.
pub const HTTP_HEAD_READ_MS: u64 = 15_000;
/// How long the body of a request may take to arrive.
pub const HTTP_BODY_READ_MS: u64 = 30_000;
/// Bytes that are still taken of a request that is refused before it was read, so that its sender gets to read why.
pub const HTTP_DRAIN_BYTES_MAX: usize = 4_194_304;
/// How long they are taken.
pub const HTTP_DRAIN_MS: u64 = 2_000;
/// From how many such requests at a time; the others are closed at once.
pub const HTTP_DRAINING_MAX: usize = 32;
/// How long a client may take nothing of an answer.
pub const HTTP_WRITE_STALL_MS: u64 = 30_000;
/// The head of a request: request line and headers, the longest bearer token included.
pub const HTTP_HEAD_BYTES_MAX: usize = 32_768;
/// What is read ahead of one connection; no less than a head.
pub const HTTP_READ_BYTES_MAX: usize = 65_536;
const _: () = assert!(HTTP_HEAD_BYTES_MAX < HTTP_READ_BYTES_MAX);
/// Header lines of a request.
pub const HTTP_HEADERS_MAX: usize = 64;
/// How long a gateway rests before it tries again to join its queue group.
pub const NATS_JOIN_RETRY_MS: u64 = 1_000;
/// How long accepting rests after it failed, which it does when no file descriptor is left.
pub const HTTP_ACCEPT_RETRY_MS: u64 = 200;
/// One HTTP response, a whole manifest or receipt chain included.
pub const HTTP_RESPONSE_BYTES_MAX: usize = 4_194_304;
/// Items of one list in a query.
pub const QUERY_LIST_ITEMS_MAX: usize = 100;
/// How long a stopping gateway waits for what is under way, if its configuration does not say.
pub const DRAIN_MS: u64 = 10_000;
/// The longest that a configuration may let it wait.
pub const DRAIN_MS_MAX: u64 = 300_000;

// === gateway ===

/// Attempts at dispatching one action, the first included.
pub const DISPATCH_ATTEMPTS_MAX: u32 = 12;
/// How long the second attempt waits; each later one waits twice as long as the one before.
pub const DISPATCH_BACKOFF_FIRST_MS: u64 = 100;
/// The longest that an attempt waits.
pub const DISPATCH_BACKOFF_MAX_MS: u64 = 5_000;
/// How long the first attempt of an action that may be repeated waits for its answer, before another worker is asked;
/// each later one waits twice as long. An action that may not be repeated waits until its deadline.
pub const DISPATCH_PATIENCE_MS: u64 = 5_000;
/// When less than that patience is left, half of it is waited, and no less than this: another worker may still answer.
pub const DISPATCH_PATIENCE_LAST_MS: u64 = 1_000;
/// Requests to workers under way in one gateway.
pub const DISPATCH_RUNNING_MAX: usize = 2_048;
/// Bytes of their inputs. After a restart all that waits is taken up at once, and each is held a few times over; as much as
/// both doors let in together.
pub const DISPATCH_RUNNING_BYTES_MAX: usize = 2 * DOOR_IN_FLIGHT_BYTES_MAX;
/// Actions that one gateway reads at a time to send them, and as many to put them into queues.
pub const DISPATCH_READING_MAX: usize = 32;
/// How long an idempotency key stands when the contract does not say.
pub const IDEMPOTENCY_TTL_DEFAULT_MS: u64 = 86_400_000;
/// Registrations of one worker's principal that stand beside each other.
pub const MANIFEST_ROWS_MAX: usize = 512;
/// Capabilities of one manifest, a worker's or the gateway's own.
pub const MANIFEST_CAPABILITIES_MAX: usize = 1_000;
/// Capabilities whose schemas one gateway keeps compiled.
pub const CATALOG_COMPILED_MAX: usize = 1_024;
/// Capabilities compiled at the same time.
pub const CATALOG_COMPILING_MAX: usize = 2;
/// How often an admission looks again because the registration it looked at was gone.
pub const ADMIT_TRIES_MAX: usize = 4;
/// How long after its deadline an action's waiter still waits for the record of its end.
pub const RESULT_GRACE_MS: u64 = 2_000;
/// Attempts at an asynchronous action that a worker began, the first included; after the last it is dead-lettered.
pub const ASYNC_ATTEMPTS_MAX: u32 = 5;
/// How long a worker has an attempt to itself after it was heard of.
pub const LEASE_MS: u64 = 8_000;
/// How long a lease that is over still stands before its attempt is given up: a gateway that was away must first hear
/// the workers that could not be heard.
pub const LEASE_GRACE_MS: u64 = 2_500;
/// A lease that was renewed so short a time ago is not renewed again: a worker that repeats itself fills no log.
pub const LEASE_RENEW_MS: u64 = 2_000;
/// How often a worker is heard of.
pub const LEASE_HEARTBEAT_MS: u64 = 3_000;
/// Answers of superseded workers that are kept as evidence of one action; later ones are only noted.
pub const LATE_ANSWERS_MAX: u32 = 16;
/// How long a queued action rests before it is published again, in case its queue was lost. The queue drops copies.
pub const ENQUEUE_AGAIN_MS: u64 = 5_000;
/// How long a worker's cancellation rests before it is told again; what was not heard is not resent by NATS.
pub const CANCEL_AGAIN_MS: u64 = 2_000;
/// Why somebody cancels, in their words.
pub const CANCEL_REASON_BYTES_MAX: usize = 256;
/// Why an operator does something, in their words; Unicode characters.
pub const OPERATOR_REASON_LENGTH_MAX: usize = 256;
/// How often an asynchronous action's lease may be renewed, and so recorded, in all.
pub const LEASES_MAX: usize = (ACTION_ASYNC_TIMEOUT_MAX_MS / LEASE_RENEW_MS) as usize;
/// Records of one action: the admission, some for each attempt, its leases, a cancellation, late answers and the end.
pub const ACTION_RECORDS_MAX: usize =
    4 * DISPATCH_ATTEMPTS_MAX as usize + LEASES_MAX + LATE_ANSWERS_MAX as usize + 4;
/// An id that a client chooses.
pub const ID_BYTES_MAX: usize = 256;

// === reads of the gateway ===

/// Rows of a page when its reader does not say.
pub const PAGE_ROWS_DEFAULT: usize = 100;
/// Bytes of a page's rows as compact JSON, so that a page fits an envelope on every road. One row is always given.
pub const PAGE_BYTES_MAX: usize = 262_144;
/// Values of a page's rows, so that a page's reader may take it for one document.
pub const PAGE_NODES_MAX: usize = 40_000;
/// Index rows looked at for one page. A page that found less says where to go on.
pub const PAGE_SCAN_ROWS_MAX: usize = 2_000;
/// Index rows looked at to count the matches of a list: `total_size` counts matches among so many of the newest.
pub const LIST_COUNT_ROWS_MAX: usize = 2_000;
/// Index rows read at a time.
pub const INDEX_ROWS_PER_SCAN: usize = 256;
/// How long a cursor may be used.
pub const CURSOR_TTL_MS: u64 = 86_400_000;
/// A cursor as text; those we give out are far shorter.
pub const CURSOR_BYTES_MAX: usize = 1_024;
/// How long a follower of an action that has ended waits for chunks that the log owes, before the result is told without
/// them.
pub const STREAM_CLOSE_MS: u64 = 20_000;
/// Frames of one live stream that wait for its reader.
pub const STREAM_FRAMES_MAX: usize = 64;
/// How long the reader of a live stream may take nothing while frames wait, before it is dropped.
pub const STREAM_STALL_MS: u64 = 15_000;
/// The longest silence of a live stream (section 20.2).
pub const STREAM_HEARTBEAT_MS: u64 = 10_000;
/// How often the authorization of a live stream is judged anew, besides when it ends by itself.
pub const STREAM_AUTHORITY_MS: u64 = 10_000;
/// When a reader should come back whose live stream broke off.
pub const STREAM_RETRY_MS: u64 = 1_000;

// === sdk ===

/// Actions that one worker runs at a time, if it does not say.
pub const WORKER_RUNNING_DEFAULT: usize = 256;
/// The most that it may say.
pub const WORKER_RUNNING_MAX: usize = 4_096;
/// How long a handler may go on after it was told to stop, before it is left alone and its outcome is not known.
pub const WORKER_STOP_GRACE_MS: u64 = 1_000;
/// Jobs that wait for a worker's store. Each running action has at most one.
pub const WORKER_STORE_JOBS_MAX: usize = WORKER_RUNNING_MAX;
/// Jobs of one commit of a worker's store.
pub const WORKER_STORE_BATCH_MAX: usize = 512;
/// How long a worker keeps what it answered; far longer than any action may run.
pub const WORKER_RESULTS_KEPT_MS: u64 = 86_400_000;
/// Answers a worker keeps. The oldest go first.
pub const WORKER_RESULTS_MAX: u64 = 1_000_000;
/// Bytes of the answers a worker keeps.
pub const WORKER_RESULTS_BYTES_MAX: u64 = 1_073_741_824;
/// Old answers taken away with one commit.
pub const WORKER_RESULTS_PRUNED_MAX: usize = 64;
/// How long the gateway may take to answer what a worker reports of an attempt.
pub const WORKER_REPORT_TIMEOUT_MS: u64 = 3_000;
/// How long the second try at a report waits; each later one waits twice as long.
pub const WORKER_REPORT_BACKOFF_FIRST_MS: u64 = 100;
/// The longest that a try at a report waits.
pub const WORKER_REPORT_BACKOFF_MAX_MS: u64 = 1_000;
/// Chunks of one action that wait behind the one that is sent: a handler that streams faster has to wait.
pub const WORKER_CHUNKS_QUEUED_MAX: usize = 16;
/// How long a worker tries to have one chunk taken. Then its stream is lost, and a result waits for it no longer.
pub const WORKER_CHUNK_PATIENCE_MS: u64 = 20_000;
/// Times in a row that a chunk gets another number because its own is taken.
pub const WORKER_CHUNK_NUMBERS_MAX: u32 = 4;
/// How long the gateway may take to answer a registration.
pub const WORKER_REGISTER_TIMEOUT_MS: u64 = 5_000;
/// How often a worker registers again.
pub const WORKER_REGISTER_INTERVAL_MS: u64 = 60_000;
/// How long the second attempt at a registration waits; each later one waits twice as long.
pub const WORKER_REGISTER_BACKOFF_FIRST_MS: u64 = 200;
/// The longest that an attempt at a registration waits.
pub const WORKER_REGISTER_BACKOFF_MAX_MS: u64 = 10_000;
/// Times a client sends one action, the first included (section 19.2).
pub const CLIENT_ATTEMPTS_MAX: u32 = 8;
/// How long the second attempt waits; each later one waits twice as long.
pub const CLIENT_BACKOFF_FIRST_MS: u64 = 100;
/// The longest that an attempt waits, whatever the answer says about it.
pub const CLIENT_BACKOFF_MAX_MS: u64 = 5_000;
/// How long a client waits for the answer to an action, or has a read wait for its result, before it asks what became
/// of it: whoever owed the answer may be gone.
pub const CLIENT_PATIENCE_MS: u64 = 5_000;
/// How long after an action's deadline its answer may still be on the way. The client then asks once more.
pub const CLIENT_REPLY_GRACE_MS: u64 = 3_000;
/// How long a client waits for the answer to a question that does not wait itself.
pub const CLIENT_QUERY_TIMEOUT_MS: u64 = 10_000;
/// The longest silence of a live stream before its reader takes the connection for lost: some heartbeats.
pub const FOLLOW_SILENCE_MS: u64 = 3 * STREAM_HEARTBEAT_MS;
/// How long nothing may come by the subject of a stream before its reader asks whether it missed something.
pub const FOLLOW_QUIET_MS: u64 = 5_000;
/// Tries at a stream that may come to nothing one after the other, with the pauses of a client's attempts.
pub const FOLLOW_FAILURES_MAX: u32 = 60;
/// Times in a row that the log of chunks can't be read before a follower goes on without its chunks.
pub const FOLLOW_CHUNK_FAILURES_MAX: u32 = 3;
/// Event ids that a follower remembers, so that none is told twice.
pub const FOLLOW_SEEN_MAX: usize = 10_000;

// === approvals ===

/// How deep an approval rule is nested, a leaf alone being one.
pub const APPROVAL_RULE_DEPTH_MAX: usize = 5;
/// Rules beside each other in a composed one.
pub const APPROVAL_RULE_WIDTH_MAX: usize = 16;
/// Leaves of an approval rule. With [`APPROVAL_DECISIONS_MAX`] it bounds what judging a rule costs.
pub const APPROVAL_RULE_LEAVES_MAX: usize = 16;
/// Principals that may have approved one request beside each other; each is a bit of 16.
pub const APPROVAL_DECISIONS_MAX: usize = 16;
/// Constraints of one decision, and of all decisions of an approval together.
pub const APPROVAL_CONSTRAINTS_MAX: usize = 32;
/// Artifacts of evidence beside one decision.
pub const APPROVAL_EVIDENCE_MAX: usize = 16;
/// A name in a rule, a field of a constraint, a reason, an artifact's id, kind or address.
pub const APPROVAL_TEXT_BYTES_MAX: usize = 1_024;
/// The redacted input that approvers are shown, as JSON; a larger one is shown by its hash alone.
pub const APPROVAL_SHOWN_INPUT_BYTES_MAX: usize = 8_192;
/// Steps of an escalation ladder.
pub const APPROVAL_STEPS_MAX: usize = 8;
/// How often one action may be sent back for another approval because what was approved has changed.
pub const APPROVAL_ROUNDS_MAX: u32 = 8;
/// Records of one approval: the request, decisions, steps, notices and what the gateway made of each.
pub const APPROVAL_RECORDS_MAX: usize = 256;
/// How long one service waits for the answer of another; whoever asked it waits longer.
pub const SERVICE_ASK_TIMEOUT_MS: u64 = 5_000;
/// Approvals that one live stream looks after; of more it tells the newest.
pub const APPROVALS_FOLLOWED_MAX: usize = 500;
/// How long a live stream of approvals waits before it looks again, if it hears of nothing.
pub const APPROVALS_FOLLOW_MS: u64 = 2_000;
/// The input of an action that has to be approved, as JSON: it travels beside the request.
pub const APPROVAL_INPUT_BYTES_MAX: usize = 262_144;
/// How long an effect of an approval rests before it is tried again.
pub const APPROVAL_AGAIN_MS: u64 = 2_000;

// === sandbox ===

/// Sections of one report, each of about a kilobyte: a whole report stays below [`WORKER_ANSWER_BYTES_MAX`].
pub const SANDBOX_REPORT_SECTIONS_MAX: u16 = 400;
/// The longest that the slow job takes, below [`ACTION_ASYNC_TIMEOUT_MAX_MS`].
pub const SANDBOX_SLOW_MS_MAX: u64 = 900_000;
/// The largest amount of one transfer, in minor units: exact in any JSON reader.
pub const SANDBOX_AMOUNT_MINOR_MAX: u64 = 1_000_000_000_000;
/// A text that a provider keeps: a name, a memo, a title.
pub const SANDBOX_TEXT_BYTES_MAX: usize = 200;
