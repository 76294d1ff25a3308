//! The store's own thread: gathers inputs, steps the replica, hands out what the step said.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::runtime::Handle;
use tokio::sync::watch;

use aip_bus::Seldom;
use aip_kernel::Machine;
use aip_names::{limits, metrics as names};

use super::{Doors, Event, Log, Performer, outputs, publisher, tailer};
use crate::handle::Shared;
use crate::replica::{Input, Now, Output, Replica};
use crate::{Readiness, StoreError};

pub(crate) struct Road<M: Machine> {
    pub replica: Replica<M>,
    pub inbox: Receiver<Event<M>>,
    pub shared: Arc<Shared<M>>,
    pub readiness: watch::Sender<Readiness>,
    pub performer: Arc<dyn Performer<M>>,
    pub doors: Doors,
    pub log: Log,
    pub runtime: Handle,
    pub started: Instant,
    pub generation: u64,
    pub quiet: Seldom,
}

// === impl Road ===

impl<M: Machine> Road<M> {
    pub fn run(mut self) {
        match self.serve() {
            Ok(()) => tracing::info!("ledger drained"),
            Err(error) => {
                tracing::error!(%error, "the store failed; this process must end");
                self.shared.fail(error.to_string());
            }
        }
        let reason = "the ledger is closed".to_owned();
        self.readiness.send_replace(Readiness::NotReady { reason });
        self.shared.close();
    }

    fn serve(&mut self) -> Result<(), StoreError> {
        let mut draining: Option<Instant> = None;
        let mut inputs = vec![Input::Interrupted { reason: "starting".to_owned() }];
        loop {
            let mut out = outputs();
            let begun = Instant::now();
            self.replica.step(self.now(), inputs.drain(..), &mut out)?;
            // before anybody is told: whoever hears of a record sees it
            self.shared.show(self.replica.shared_snapshot());
            if !out.is_empty() {
                metrics::histogram!(names::LEDGER_STEP_SECONDS).record(begun.elapsed().as_secs_f64());
            }
            look_at_the_clock(&self.quiet, begun.elapsed());
            metrics::gauge!(names::LEDGER_POSITION).set(self.replica.position() as f64);
            metrics::gauge!(names::LEDGER_WAITING).set(self.replica.load() as f64);
            for output in out {
                self.hand_out(output);
            }
            if let Some(since) = draining {
                let late = since.elapsed() >= Duration::from_millis(limits::LEDGER_DRAIN_MS);
                if self.replica.is_idle() || late {
                    return self.replica.harden_now();
                }
            }
            if self.gather(&mut inputs, draining.is_some()) && draining.is_none() {
                draining = Some(Instant::now());
            }
        }
    }

    /// Waits for something to do. Returns true when the ledger is to drain.
    fn gather(&mut self, inputs: &mut Vec<Input<M>>, draining: bool) -> bool {
        let busy = !self.replica.is_idle() || draining;
        let wait = if busy { limits::LEDGER_ROUND_MS } else { limits::LEDGER_IDLE_ROUND_MS };
        let mut drain = false;
        let mut next = match self.inbox.recv_timeout(Duration::from_millis(wait)) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return true,
        };
        while let Some(event) = next {
            match event {
                Event::Input(input) => inputs.push(input),
                Event::Tail { generation, input, permit } => {
                    // What an earlier tail still had to say does not count.
                    if generation == self.generation {
                        inputs.push(input);
                    }
                    drop(permit);
                }
                Event::Drain => drain = true,
            }
            if inputs.len() >= limits::LEDGER_INPUTS_PER_STEP_MAX {
                break;
            }
            next = self.inbox.try_recv().ok();
        }
        inputs.push(Input::Tick);
        drain
    }

    fn now(&self) -> Now {
        let wall_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        Now {
            wall_ms: u64::try_from(wall_ms).unwrap_or(u64::MAX),
            mono_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            entropy: uuid::Uuid::new_v4().as_u128(),
        }
    }

    fn hand_out(&mut self, output: Output<M>) {
        match output {
            Output::Answer { token, answer } => self.shared.answer(token, answer),
            Output::BarrierPassed { token, result } => self.shared.pass(token, result),
            Output::Changed(entities) => self.shared.changed(&entities),
            Output::Append { batch, bytes } => {
                // The publisher ends only with the process.
                let _ = self.doors.append.send((batch, bytes));
            }
            Output::OpenTail { from } => {
                self.generation += 1;
                let generation = self.generation;
                metrics::counter!(names::LEDGER_TAIL_OPENS).increment(1);
                let fresh = self.replica.is_fresh();
                self.doors.open_tail.send_replace(Some(tailer::Request { from, generation, fresh }));
            }
            Output::AskLastSequence { request } => {
                let (log, events) = (self.log.clone(), self.shared.events());
                self.runtime.spawn(publisher::last_sequence(log, request, events));
            }
            Output::Perform { id, effect, again } => {
                let (events, performer) = (self.shared.events(), Arc::clone(&self.performer));
                self.runtime.spawn(async move {
                    metrics::gauge!(names::EFFECTS_RUNNING).increment(1.0);
                    let outcome = performer.perform(id.clone(), effect, again).await;
                    metrics::gauge!(names::EFFECTS_RUNNING).decrement(1.0);
                    let _ = events.send(Event::Input(Input::Performed { id, outcome }));
                });
            }
            Output::Readiness(readiness) => {
                let up = readiness == Readiness::Ready;
                metrics::gauge!(names::LEDGER_READY).set(f64::from(u8::from(up)));
                match &readiness {
                    Readiness::Ready => tracing::info!("ledger ready"),
                    Readiness::NotReady { reason } => tracing::warn!(reason, "ledger not ready"),
                }
                self.readiness.send_replace(readiness);
            }
            Output::Alarm { entity, why } => {
                metrics::counter!(names::LEDGER_STOPPED).increment(1);
                tracing::error!(%entity, why, "an invariant broke: the entity is stopped");
            }
        }
    }
}

/// The watchdog: a step holds the one write transaction, so nobody is answered while it lasts.
fn look_at_the_clock(quiet: &Seldom, took: Duration) {
    if took <= Duration::from_millis(limits::LEDGER_STEP_SLOW_MS) {
        return;
    }
    metrics::counter!(names::LEDGER_SLOW_STEPS).increment(1);
    if let Some(suppressed) = quiet.admit("slow step") {
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        tracing::warn!(took_ms, suppressed, "the store's thread took long over one step");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_takes_long_is_counted() {
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        let (quiet, bound) = (Seldom::default(), Duration::from_millis(limits::LEDGER_STEP_SLOW_MS));
        metrics::with_local_recorder(&recorder, || {
            for took in [Duration::ZERO, bound, bound * 2, bound * 3] {
                look_at_the_clock(&quiet, took);
            }
        });
        let page = recorder.handle().render();
        assert!(page.contains(&format!("{} 2", names::LEDGER_SLOW_STEPS)), "{page}");
    }
}
