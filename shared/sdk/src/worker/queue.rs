//! Takes asynchronous actions from the worker's queue. An attempt is begun only when the gateway has recorded that this
//! process has it, is heard of while it runs, and its message leaves the queue when its end is recorded.

use std::sync::Arc;
use std::time::Duration;

use aip_bus::{Bus, Job, QueueError, Worked};
use aip_names::limits::{
    LEASE_HEARTBEAT_MS, QUEUE_BATCH_MAX, QUEUE_NAK_MS, QUEUE_PROGRESS_MS, QUEUE_RETRY_MS,
};
use aip_names::{queue_consumer_name, queue_stream_name};
use aip_wire::read::Bounds;
use aip_wire::{Refusal, Timestamp, codes, validate};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::WorkerConfig;
use super::dispatch::{Door, Ended, Inner, Received};
use super::publish::Publishing;
use super::report::{Attempt, Reporter, Taken};

/// The taking side of the queue.
#[derive(Clone)]
pub(super) struct Queue {
    bus: Bus,
    stream: String,
    consumer: String,
    inner: Arc<Inner>,
    reporter: Arc<Reporter>,
    room: Arc<Semaphore>,
    work: TaskTracker,
    stop: CancellationToken,
}

// === impl Queue ===

impl Queue {
    pub fn new(bus: Bus, config: &WorkerConfig, inner: Arc<Inner>, reporter: Reporter) -> Queue {
        Queue {
            bus,
            stream: queue_stream_name(&config.trust_domain, &config.service),
            consumer: queue_consumer_name(config.version),
            inner,
            reporter: Arc::new(reporter),
            room: Arc::new(Semaphore::new(config.running_max)),
            work: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Takes messages until told to stop. A queue that is not there now is asked for again and again: the gateway makes
    /// it.
    pub async fn run(self) {
        while !self.stop.is_cancelled() {
            let Err(error) = self.take().await else { continue };
            tracing::debug!(%error, queue = self.stream, "the queue cannot be asked now");
            tokio::select! {
                () = self.stop.cancelled() => {}
                () = tokio::time::sleep(Duration::from_millis(QUEUE_RETRY_MS)) => {}
            }
        }
    }

    async fn take(&self) -> Result<(), QueueError> {
        let taker = self.bus.taker(&self.stream, &self.consumer).await?;
        while !self.stop.is_cancelled() {
            let free = tokio::select! {
                () = self.stop.cancelled() => return Ok(()),
                // only this loop takes seats, so what is free stays free
                seat = self.room.acquire() => match seat {
                    Ok(seat) => { drop(seat); self.room.available_permits() }
                    Err(_) => return Ok(()),
                },
            };
            let mut batch = taker.ask(free.min(QUEUE_BATCH_MAX)).await?;
            loop {
                let next = tokio::select! {
                    () = self.stop.cancelled() => return Ok(()),
                    next = batch.next() => next,
                };
                let Some(job) = next.transpose()? else { break };
                let Ok(seat) = Arc::clone(&self.room).try_acquire_owned() else { break };
                let queue = self.clone();
                self.work.spawn(async move { queue.work(job, seat).await });
            }
        }
        Ok(())
    }

    /// Takes no more, and waits for what runs.
    pub async fn drain(&self, grace: Duration) -> bool {
        self.stop.cancel();
        self.work.close();
        tokio::time::timeout(grace, self.work.wait()).await.is_ok()
    }

    /// Takes no more.
    pub fn stopper(&self) -> CancellationToken {
        self.stop.clone()
    }

    async fn work(&self, job: Job, _seat: OwnedSemaphorePermit) {
        let worked = tokio::select! {
            worked = self.attempt(&job) => worked,
            () = keep(&job) => None,
        };
        if let Some(worked) = worked
            && let Err(error) = job.end(worked).await
        {
            tracing::debug!(%error, queue = self.stream, "a message comes again");
        }
    }

    /// Works on a message. None leaves it as it is: the queue hands it out again after a while.
    async fn attempt(&self, job: &Job) -> Option<Worked> {
        let mut received = match self.read(job) {
            Ok(received) => received,
            Err(refusal) if refusal.code == codes::WORKER_UNAVAILABLE => {
                // another replica, newer or older, may take it
                return Some(Worked::GivenBack { after: Duration::from_millis(QUEUE_NAK_MS) });
            }
            Err(refusal) => {
                tracing::error!(%refusal, queue = self.stream, "a message of the queue is no work of ours");
                return Some(Worked::GivenBack { after: Duration::from_millis(QUEUE_NAK_MS) });
            }
        };
        let attempt = Attempt { action: received.action.id.clone(), number: received.trusted.attempt };
        let left_ms = received.trusted.deadline_ms.saturating_sub(Timestamp::now().as_ms());
        let deadline = Instant::now() + Duration::from_millis(left_ms);
        let stands = match self.reporter.started(&attempt, deadline).await {
            Taken::Yes(stands) => stands,
            Taken::No(error) => {
                tracing::info!(action = %attempt.action, attempt = attempt.number, code = error.code, "an attempt may not begin");
                return Some(Worked::Done);
            }
            Taken::Unheard(why) => {
                tracing::warn!(action = %attempt.action, why, "the gateway could not be asked for an attempt");
                return None;
            }
        };
        // an attempt whose result was lost may have streamed to the end: then this one is not heard any more
        let ended = stands.is_some_and(|stream| stream.ended);
        let streams = received.offered.contract.execution.supports_streaming && !ended;
        let publishing = streams.then(|| {
            let next = stands.map_or(1, |stream| stream.next_sequence);
            let (outlet, publishing) =
                Publishing::begin(&self.reporter, &self.inner, &attempt, next, deadline);
            received.outlet = Some(outlet);
            publishing
        });
        let ended = self.run_heard(received, publishing, &attempt).await;
        // the gateway keeps what comes after the deadline as evidence
        let until = deadline.max(Instant::now()) + Duration::from_millis(2 * LEASE_HEARTBEAT_MS);
        let taken = match &*ended {
            Ended::Result(result) => self.reporter.ended(&attempt, (**result).clone(), until).await,
            Ended::Refused(error) => self.reporter.refused(&attempt, error.clone(), until).await,
            // nothing can be said: the lease ends it
            Ended::Silent => return None,
        };
        match taken {
            Taken::Yes(_) => Some(Worked::Done),
            Taken::No(error) => {
                tracing::warn!(action = %attempt.action, attempt = attempt.number, code = error.code, "an end does not count");
                Some(Worked::Done)
            }
            Taken::Unheard(why) => {
                tracing::warn!(action = %attempt.action, why, "the gateway was not told of an end");
                None
            }
        }
    }

    fn read(&self, job: &Job) -> Result<Received, Refusal> {
        let (checked, metadata) = validate::frame(job.payload(), &Bounds::FRAME)?;
        let (_, envelope) = checked.into_parts();
        self.inner.accept(&envelope, &metadata, Door::Queue)
    }

    /// Runs the attempt and is heard of meanwhile. When another worker has it, it is told to stop, and what it says at
    /// the end is evidence.
    async fn run_heard(
        &self,
        received: Received,
        publishing: Option<Publishing>,
        attempt: &Attempt,
    ) -> Arc<Ended> {
        let end = async {
            let ended = self.inner.end_of(received).await;
            if let Some(publishing) = publishing {
                publishing.end(&ended).await;
            }
            ended
        };
        tokio::pin!(end);
        let pause = Duration::from_millis(LEASE_HEARTBEAT_MS);
        let mut beats = tokio::time::interval_at(Instant::now() + pause, pause);
        beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut sequence = 0;
        let mut counts = true;
        loop {
            tokio::select! {
                ended = &mut end => return ended,
                _ = beats.tick(), if counts => sequence += 1,
            }
            let heard = tokio::select! {
                ended = &mut end => return ended,
                heard = self.reporter.running(attempt, sequence) => heard,
            };
            match heard {
                Taken::Yes(_) => {}
                Taken::No(error) => {
                    tracing::warn!(action = %attempt.action, attempt = attempt.number, code = error.code, "an attempt is superseded");
                    self.inner.supersede(&attempt.action);
                    counts = false;
                }
                // the next beat is tried sooner than a lease is over
                Taken::Unheard(why) => {
                    tracing::debug!(action = %attempt.action, why, "a heartbeat was not heard");
                    beats.reset_after(Duration::from_millis(QUEUE_RETRY_MS));
                }
            }
        }
    }
}

/// Shows the queue that a message is worked on, for ever.
async fn keep(job: &Job) {
    loop {
        tokio::time::sleep(Duration::from_millis(QUEUE_PROGRESS_MS)).await;
        if let Err(error) = job.progress().await {
            tracing::debug!(%error, "a queue was not shown that its message is worked on");
        }
    }
}
