//! The face of the ledger for a service: decide, read, watch.

use std::collections::HashMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use tokio::sync::{oneshot, watch};

use aip_kernel::{EntityKey, Fault, Machine, View};
use aip_names::metrics as names;

use crate::drive::Event;
use crate::replica::{Input, Token};
use crate::store::Snapshot;
use crate::{LedgerError, Readiness};

#[cfg(test)]
mod tests;

type Answer<M> = Result<<M as Machine>::Answer, LedgerError>;

/// A replica's ledger. Cheap to clone; all clones are one.
pub struct Ledger<M: Machine> {
    shared: Arc<Shared<M>>,
}

/// What handles and the store's thread have in common.
pub(crate) struct Shared<M: Machine> {
    events: Sender<Event<M>>,
    /// What was committed last: one picture for all who look, since to take one costs more than to look.
    snapshot: ArcSwap<Snapshot>,
    readiness: watch::Receiver<Readiness>,
    waiting: Mutex<Waiting<M>>,
    watchers: Mutex<HashMap<EntityKey, Watched>>,
    commits: watch::Sender<u64>,
    failure: watch::Sender<Option<String>>,
}

/// An entity that somebody watches. Its watches are counted here: two that go at the same time must not each take the
/// other for one that stays.
struct Watched {
    changes: watch::Sender<u64>,
    watches: usize,
}

struct Waiting<M: Machine> {
    next: Token,
    closed: bool,
    answers: HashMap<Token, oneshot::Sender<Answer<M>>>,
    barriers: HashMap<Token, oneshot::Sender<Result<(), LedgerError>>>,
}

/// Wakes when its entity has another record.
pub struct Watch<M: Machine> {
    entity: EntityKey,
    changes: watch::Receiver<u64>,
    shared: Arc<Shared<M>>,
}

// === impl Ledger ===

impl<M: Machine> Clone for Ledger<M> {
    fn clone(&self) -> Ledger<M> {
        Ledger { shared: Arc::clone(&self.shared) }
    }
}

impl<M: Machine> Ledger<M> {
    pub(crate) fn new(shared: Arc<Shared<M>>) -> Ledger<M> {
        Ledger { shared }
    }

    /// Decides a command and waits until its record, if there is one, came back effective and is committed.
    ///
    /// # Errors
    /// See [`LedgerError`]: in all cases but `Unknown` nothing was done.
    pub async fn decide(&self, command: M::Command) -> Result<M::Answer, LedgerError> {
        let begun = Instant::now();
        let (sender, receiver) = oneshot::channel();
        let token = self.shared.wait(|waiting, token| waiting.answers.insert(token, sender).is_none())?;
        self.shared.send(Event::Input(Input::Command { token, command }))?;
        // the thread ended with the command in its hands: its record may be in the log
        let answer = receiver.await.unwrap_or(Err(LedgerError::Unknown));
        metrics::histogram!(names::LEDGER_DECIDE_SECONDS).record(begun.elapsed().as_secs_f64());
        answer
    }

    /// Reads what is committed, no older than this call: everything acknowledged before it began is seen.
    ///
    /// # Errors
    /// `NotReady` when the log can't be asked in time, `Store` when the store can't be read.
    pub async fn read<T>(
        &self,
        read: impl FnOnce(&dyn View<M>) -> Result<T, Fault>,
    ) -> Result<T, LedgerError> {
        let (sender, receiver) = oneshot::channel();
        let token = self.shared.wait(|waiting, token| waiting.barriers.insert(token, sender).is_none())?;
        self.shared.send(Event::Input(Input::Barrier { token }))?;
        receiver.await.unwrap_or(Err(LedgerError::Closed))?;
        self.peek(read)
    }

    /// Reads what this replica has committed so far, which may be a moment behind the log.
    ///
    /// # Errors
    /// `NotReady` while the position check has not passed, `Store` when the store can't be read.
    pub fn peek<T>(&self, read: impl FnOnce(&dyn View<M>) -> Result<T, Fault>) -> Result<T, LedgerError> {
        if let Readiness::NotReady { reason } = &*self.shared.readiness.borrow() {
            return Err(LedgerError::NotReady { reason: reason.clone() });
        }
        let snapshot = self.shared.snapshot.load_full();
        read(&*snapshot).map_err(|fault| LedgerError::Store(fault.0))
    }

    /// Watches an entity. Create the watch before looking: then no change is missed.
    pub fn watch(&self, entity: &EntityKey) -> Watch<M> {
        let mut watchers = lock(&self.shared.watchers);
        let new = || Watched { changes: watch::Sender::new(0), watches: 0 };
        let watched = watchers.entry(entity.clone()).or_insert_with(new);
        watched.watches += 1;
        let (entity, changes) = (entity.clone(), watched.changes.subscribe());
        Watch { entity, changes, shared: Arc::clone(&self.shared) }
    }

    /// Counts the commits that changed anything: whoever follows many entities wakes on it and scans what it follows.
    pub fn commits(&self) -> watch::Receiver<u64> {
        self.shared.commits.subscribe()
    }

    pub fn readiness(&self) -> watch::Receiver<Readiness> {
        self.shared.readiness.clone()
    }

    /// Resolves when the store has failed: the process must end, for nothing can be kept any more.
    pub async fn failed(&self) -> String {
        let mut failure = self.shared.failure.subscribe();
        loop {
            if let Some(why) = failure.borrow_and_update().clone() {
                return why;
            }
            if failure.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Finishes what is in flight and makes it hard. Afterwards every call is answered with `Closed`.
    pub async fn drain(&self) {
        let mut readiness = self.shared.readiness.clone();
        if self.shared.send(Event::Drain).is_ok() {
            // The thread drops the sender when it has ended.
            while readiness.changed().await.is_ok() {}
        }
    }
}

// === impl Watch ===

impl<M: Machine> Watch<M> {
    /// Resolves when the entity has got another record since the watch was made or this last resolved. Never
    /// resolves once the ledger is closed.
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl<M: Machine> Drop for Watch<M> {
    fn drop(&mut self) {
        let mut watchers = lock(&self.shared.watchers);
        let Some(watched) = watchers.get_mut(&self.entity) else { return };
        watched.watches -= 1;
        if watched.watches == 0 {
            watchers.remove(&self.entity);
        }
    }
}

// === impl Shared ===

impl<M: Machine> Shared<M> {
    pub fn new(
        events: Sender<Event<M>>,
        snapshot: Arc<Snapshot>,
        readiness: watch::Receiver<Readiness>,
    ) -> Shared<M> {
        let waiting = Waiting { next: 0, closed: false, answers: HashMap::new(), barriers: HashMap::new() };
        Shared {
            events,
            snapshot: ArcSwap::new(snapshot),
            readiness,
            waiting: Mutex::new(waiting),
            watchers: Mutex::default(),
            commits: watch::Sender::new(0),
            failure: watch::Sender::new(None),
        }
    }

    /// This is committed now.
    pub fn show(&self, snapshot: &Arc<Snapshot>) {
        if !Arc::ptr_eq(&self.snapshot.load(), snapshot) {
            self.snapshot.store(Arc::clone(snapshot));
        }
    }

    pub fn events(&self) -> Sender<Event<M>> {
        self.events.clone()
    }

    fn send(&self, event: Event<M>) -> Result<(), LedgerError> {
        self.events.send(event).map_err(|_| LedgerError::Closed)
    }

    fn wait(&self, enter: impl FnOnce(&mut Waiting<M>, Token) -> bool) -> Result<Token, LedgerError> {
        let mut waiting = lock(&self.waiting);
        if waiting.closed {
            return Err(LedgerError::Closed);
        }
        waiting.next += 1;
        let token = waiting.next;
        enter(&mut waiting, token);
        Ok(token)
    }

    pub fn answer(&self, token: Token, answer: Answer<M>) {
        if let Some(sender) = lock(&self.waiting).answers.remove(&token) {
            // A caller that went away no longer listens.
            let _ = sender.send(answer);
        }
    }

    pub fn pass(&self, token: Token, result: Result<(), LedgerError>) {
        if let Some(sender) = lock(&self.waiting).barriers.remove(&token) {
            let _ = sender.send(result);
        }
    }

    pub fn changed(&self, entities: &[EntityKey]) {
        let watchers = lock(&self.watchers);
        for watched in entities.iter().filter_map(|entity| watchers.get(entity)) {
            watched.changes.send_modify(|changes| *changes += 1);
        }
        drop(watchers);
        self.commits.send_modify(|commits| *commits += 1);
    }

    pub fn fail(&self, why: String) {
        self.failure.send_replace(Some(why));
    }

    /// Nobody is left to answer: whoever waits learns it now.
    pub fn close(&self) {
        let mut waiting = lock(&self.waiting);
        waiting.closed = true;
        waiting.answers.clear();
        waiting.barriers.clear();
    }
}

/// A panic elsewhere leaves these maps whole: each change of theirs is one call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
