//! The log of a recovery on JetStream. Waits where it is called, so never on a thread of the runtime.

use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, pull};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::runtime::Handle;
use tokio::time::timeout;

use aip_bus::Bus;
use aip_names::{Subject, limits};

use super::{Log, LogError};
use crate::drive::Log as StreamOf;
use crate::drive::described;
use crate::{Config, LogInfo, LogMessage};

const PATIENCE: Duration = Duration::from_millis(limits::LEDGER_OPEN_TIMEOUT_MS);

pub struct JetStreamLog {
    log: StreamOf,
    runtime: Handle,
    /// A consumer, and the message that comes next from it.
    reading: Option<(u64, Consumer<pull::Config>)>,
}

// === impl JetStreamLog ===

impl JetStreamLog {
    /// The ledger's stream behind a replica, by a connection with its service's identity.
    pub fn new(bus: Bus, config: &Config, runtime: Handle) -> JetStreamLog {
        let Config { trust_domain, service, shard, stream_replicas, .. } = config;
        let spec = aip_names::ledger_stream(trust_domain, service, *shard, *stream_replicas);
        let subject = Subject::ledger(trust_domain, service, *shard).to_string();
        JetStreamLog { log: StreamOf { bus, spec, subject }, runtime, reading: None }
    }

    async fn stream_info(log: &StreamOf) -> Result<Option<LogInfo>, LogError> {
        match log.bus.jetstream().get_stream(&log.spec.name).await {
            Ok(stream) => Ok(Some(described(&stream.get_info().await.map_err(no)?))),
            Err(error) => match error.kind() {
                jetstream::context::GetStreamErrorKind::JetStream(why)
                    if why.error_code() == jetstream::ErrorCode::STREAM_NOT_FOUND =>
                {
                    Ok(None)
                }
                _ => Err(no(error)),
            },
        }
    }

    async fn consumer(log: &StreamOf, from: u64) -> Result<Consumer<pull::Config>, LogError> {
        let stream = log.bus.jetstream().get_stream_no_info(&log.spec.name).await.map_err(no)?;
        let config = pull::Config {
            name: Some(format!("recovery-{}", uuid::Uuid::now_v7().simple())),
            ack_policy: AckPolicy::None,
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: from },
            memory_storage: true,
            num_replicas: 1,
            inactive_threshold: Duration::from_millis(limits::LEDGER_TAIL_INACTIVE_MS),
            ..pull::Config::default()
        };
        stream.create_consumer(config).await.map_err(no)
    }

    async fn pull(consumer: &Consumer<pull::Config>, limit: usize) -> Result<Vec<LogMessage>, LogError> {
        let batch = consumer.batch().max_messages(limit).expires(PATIENCE);
        let mut messages = batch.messages().await.map_err(no)?;
        let mut all = Vec::with_capacity(limit);
        while let Some(message) = messages.next().await {
            let message = message.map_err(no)?;
            let info = message.info().map_err(no)?;
            let (seq, time_ns) = (info.stream_sequence, info.published.unix_timestamp_nanos());
            all.push(LogMessage { seq, time_ns, bytes: message.message.payload });
        }
        Ok(all)
    }
}

impl Log for JetStreamLog {
    fn info(&mut self) -> Result<Option<LogInfo>, LogError> {
        let asked = async { timeout(PATIENCE, JetStreamLog::stream_info(&self.log)).await };
        self.runtime.block_on(asked).map_err(|_| silent())?
    }

    fn create(&mut self) -> Result<LogInfo, LogError> {
        self.runtime.block_on(self.log.bus.ensure_stream(&self.log.spec)).map_err(no)?;
        self.info()?.ok_or_else(|| LogError("the stream vanished after it was made".to_owned()))
    }

    fn read(&mut self, from: u64, limit: usize) -> Result<Vec<LogMessage>, LogError> {
        let consumer = match self.reading.take() {
            Some((next, consumer)) if next == from => consumer,
            _ => self.runtime.block_on(JetStreamLog::consumer(&self.log, from))?,
        };
        let messages = self.runtime.block_on(JetStreamLog::pull(&consumer, limit))?;
        if let Some(last) = messages.last() {
            self.reading = Some((last.seq + 1, consumer));
        }
        Ok(messages)
    }

    fn append(&mut self, after: u64, bytes: Bytes) -> Result<(), LogError> {
        let message = jetstream::message::PublishMessage::build()
            .payload(bytes)
            .expected_stream(self.log.spec.name.clone())
            .expected_last_sequence(after);
        let js = self.log.bus.jetstream();
        let sent = async {
            let ack = js.send_publish(self.log.subject.clone(), message).await.map_err(no)?;
            ack.await.map_err(no)
        };
        let ack = self.runtime.block_on(async { timeout(PATIENCE, sent).await }).map_err(|_| silent())??;
        if ack.sequence == after + 1 {
            return Ok(());
        }
        Err(LogError(format!("message {} was due and {} was acknowledged", after + 1, ack.sequence)))
    }
}

fn no(error: impl std::fmt::Display) -> LogError {
    LogError(error.to_string())
}

fn silent() -> LogError {
    LogError("JetStream does not answer".to_owned())
}
