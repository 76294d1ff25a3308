//! Sends append messages, one at a time, and asks the stream how far it is.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use async_nats::jetstream;
use bytes::Bytes;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

use aip_kernel::Machine;
use aip_names::{limits, metrics as names};

use super::{Event, Log};
use crate::replica::Input;

/// Publishes what comes. A publish without a clear acknowledgement is reported as unsure; the replica decides when
/// to send it again.
pub(crate) async fn run<M: Machine>(
    log: Log,
    mut appends: UnboundedReceiver<(u64, Bytes)>,
    events: Sender<Event<M>>,
) {
    while let Some((batch, bytes)) = appends.recv().await {
        let begun = Instant::now();
        let input = match append(&log, bytes).await {
            Ok(seq) => {
                metrics::histogram!(names::LEDGER_APPEND_SECONDS).record(begun.elapsed().as_secs_f64());
                Input::Appended { batch, seq }
            }
            Err(error) => {
                tracing::warn!(batch, error, "append without acknowledgement");
                Input::AppendUnsure { batch }
            }
        };
        if events.send(Event::Input(input)).is_err() {
            return;
        }
    }
}

async fn append(log: &Log, bytes: Bytes) -> Result<u64, String> {
    // Naming the stream keeps the message out of any other that might claim the subject.
    let message =
        jetstream::message::PublishMessage::build().payload(bytes).expected_stream(log.spec.name.clone());
    let js = log.bus.jetstream();
    let sent = async {
        let ack = js.send_publish(log.subject.clone(), message).await.map_err(|error| error.to_string())?;
        ack.await.map_err(|error| error.to_string())
    };
    let wait = Duration::from_millis(limits::LEDGER_APPEND_TIMEOUT_MS);
    let ack = timeout(wait, sent).await.map_err(|_| "timed out".to_owned())??;
    Ok(ack.sequence)
}

/// The stream's last sequence, for a read barrier.
pub(crate) async fn last_sequence<M: Machine>(log: Log, request: u64, events: Sender<Event<M>>) {
    let wait = Duration::from_millis(limits::LEDGER_APPEND_TIMEOUT_MS);
    let asked = timeout(wait, super::tailer::stream_info(&log)).await;
    let seq = match asked {
        Ok(Ok(info)) => Some(info.last_seq),
        Ok(Err(error)) => {
            tracing::debug!(error, "the ledger stream does not say how far it is");
            None
        }
        Err(_) => None,
    };
    let _ = events.send(Event::Input(Input::LastSequence { request, seq }));
}
