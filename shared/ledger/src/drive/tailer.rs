//! Reads the tail of the stream: our own pull consumer, in memory, unacknowledged, opened at the store's position.
//!
//! Whenever reading fails, or the connection or server changes, the replica is interrupted; it then asks for a new
//! tail, whose first message must pass the position check again.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::stream::Stream;
use futures_util::StreamExt;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use aip_bus::{Bus, Link};
use aip_kernel::Machine;
use aip_names::limits;

use super::{Event, Log};
use crate::replica::Input;
use crate::{LogInfo, LogMessage};

/// A tail that the replica asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    pub from: u64,
    pub generation: u64,
    /// The store has never learned from a stream.
    pub fresh: bool,
}

/// Serves one request after the other; a newer one ends the one before.
pub(crate) async fn run<M: Machine>(
    log: Log,
    mut requests: watch::Receiver<Option<Request>>,
    window: Arc<Semaphore>,
    events: Sender<Event<M>>,
) {
    loop {
        let request = *requests.borrow_and_update();
        let Some(request) = request else {
            if requests.changed().await.is_err() {
                return;
            }
            continue;
        };
        let tail = async {
            if let Err(reason) = read(&log, request, &window, &events).await {
                let input = Input::Interrupted { reason };
                // A pause first: what failed now would fail at once again.
                tokio::time::sleep(Duration::from_millis(limits::LEDGER_TAIL_RETRY_MS)).await;
                let _ = events.send(Event::Tail { generation: request.generation, input, permit: None });
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = tail => {}
            changed = requests.changed() => if changed.is_err() { return },
        }
    }
}

async fn read<M: Machine>(
    log: &Log,
    request: Request,
    window: &Arc<Semaphore>,
    events: &Sender<Event<M>>,
) -> Result<(), String> {
    let generation = request.generation;
    let stream = open_stream(log, request.fresh).await?;
    let spec = aip_names::ledger_tail();
    let config = pull::Config {
        // Permissions name the stream in the subject, which the server takes only with the consumer's name.
        name: Some(format!("tail-{}", uuid::Uuid::now_v7().simple())),
        ack_policy: AckPolicy::None,
        deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: request.from },
        memory_storage: true,
        num_replicas: 1,
        inactive_threshold: Duration::from_millis(spec.inactive_ms),
        ..pull::Config::default()
    };
    let info = described(&stream.get_info().await.map_err(|error| error.to_string())?);
    let consumer = stream.create_consumer(config).await.map_err(|error| error.to_string())?;
    let mut messages = consumer
        .stream()
        .max_messages_per_batch(spec.batch)
        .expires(Duration::from_millis(spec.expires_ms))
        .heartbeat(Duration::from_millis(spec.heartbeat_ms))
        .messages()
        .await
        .map_err(|error| error.to_string())?;
    let closed = |_| "the store's thread has ended".to_owned();
    events.send(Event::Tail { generation, input: Input::Opened(info), permit: None }).map_err(closed)?;
    while let Some(message) = messages.next().await {
        let message = message.map_err(|error| format!("the tail of the ledger broke: {error}"))?;
        let info = message.info().map_err(|error| error.to_string())?;
        let (seq, time_ns) = (info.stream_sequence, info.published.unix_timestamp_nanos());
        let room = room(message.message.payload.len());
        let permit = Arc::clone(window).acquire_many_owned(room).await.map_err(|error| error.to_string())?;
        let input = Input::Message(LogMessage { seq, time_ns, bytes: message.message.payload });
        events.send(Event::Tail { generation, input, permit: Some(permit) }).map_err(closed)?;
    }
    Err("the tail of the ledger ended".to_owned())
}

/// What a message takes of the window: its bytes, and never less than its share, so that the window's messages are bounded, too.
fn room(bytes: usize) -> u32 {
    let share = limits::LEDGER_TAIL_WINDOW_BYTES / limits::LEDGER_TAIL_WINDOW;
    u32::try_from(bytes.clamp(share, limits::LEDGER_TAIL_WINDOW_BYTES)).unwrap_or(u32::MAX)
}

/// The stream, created only for a store that has never learned from one: a stream that is missing beside a store
/// that has is a loss, and nothing is put in its place in silence.
async fn open_stream(log: &Log, fresh: bool) -> Result<Stream, String> {
    let opened = async {
        let js = log.bus.jetstream();
        if !fresh {
            js.get_stream(&log.spec.name).await.map_err(|error| missing(&log.spec.name, &error))?;
        }
        log.bus.ensure_stream(&log.spec).await.map_err(|error| error.to_string())?;
        js.get_stream(&log.spec.name).await.map_err(|error| error.to_string())
    };
    let wait = Duration::from_millis(limits::LEDGER_OPEN_TIMEOUT_MS);
    timeout(wait, opened).await.map_err(|_| "JetStream does not answer".to_owned())?
}

fn missing(name: &str, error: &dyn std::fmt::Display) -> String {
    format!("the ledger stream {name} can't be seen, and this store has learned from it before: {error}")
}

pub(crate) async fn stream_info(log: &Log) -> Result<LogInfo, String> {
    let js = log.bus.jetstream();
    let stream = js.get_stream_no_info(&log.spec.name).await.map_err(|error| error.to_string())?;
    Ok(described(&stream.get_info().await.map_err(|error| error.to_string())?))
}

pub(crate) fn described(info: &async_nats::jetstream::stream::Info) -> LogInfo {
    LogInfo {
        created_ns: info.created.unix_timestamp_nanos(),
        first_seq: info.state.first_sequence,
        last_seq: info.state.last_sequence,
    }
}

/// Every change of the connection interrupts the replica: the server behind it may be another one.
pub(crate) async fn watch_connection<M: Machine>(bus: Bus, events: Sender<Event<M>>) {
    let mut link = bus.link();
    link.mark_unchanged();
    while link.changed().await.is_ok() {
        let reason = match &*link.borrow_and_update() {
            Link::Up(_) => "connected to NATS; the ledger's position is being checked".to_owned(),
            Link::Down { reason } => format!("NATS is not connected: {reason}"),
            Link::Unfit { reason } => format!("the NATS server is unfit: {reason}"),
        };
        if events.send(Event::Input(Input::Interrupted { reason })).is_err() {
            return;
        }
    }
}
