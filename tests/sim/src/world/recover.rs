//! Recovery by command, after a disaster: the service is stopped, some disks are gone, the rest is mended, and then
//! the world must go on as if it had always been so.

use aip_ledger::recover::{self, LogError, Options, Orphan, RecoverError, Report, Source};
use aip_ledger::{LogInfo, LogMessage, Store, StoreError};
use bytes::Bytes;
use rand::Rng as _;
use redb::backends::InMemoryBackend;

use super::node::identity;
use super::{Event, World};
use crate::disk::{Disk, Ending};
use crate::invariants::{self, Check};
use crate::log::Log;
use crate::{Invariant, Sight, Subject, Violation};

/// The log under the hands of the command.
struct Hands<'a> {
    log: &'a mut Log,
    now: u64,
}

impl recover::Log for Hands<'_> {
    fn info(&mut self) -> Result<Option<LogInfo>, LogError> {
        Ok(Some(self.log.current().info()))
    }

    fn create(&mut self) -> Result<LogInfo, LogError> {
        Err(LogError("a log is always there".to_owned()))
    }

    fn read(&mut self, from: u64, limit: usize) -> Result<Vec<LogMessage>, LogError> {
        let stream = self.log.current();
        Ok((from..=stream.last()).take(limit).filter_map(|seq| stream.get(seq).cloned()).collect())
    }

    fn append(&mut self, after: u64, bytes: Bytes) -> Result<(), LogError> {
        if self.log.current().last() != after {
            return Err(LogError(format!("the log does not end at {after}")));
        }
        self.log.store(self.now, bytes);
        Ok(())
    }
}

impl<S: Subject> World<S> {
    /// Stops the service, mends what was lost and checks that all is back that any store has, or told of.
    pub(super) fn recover(&mut self) -> Check {
        for node in 0..self.nodes.len() {
            let ending = if self.rng.random() { Ending::Killed } else { Ending::PowerLoss };
            self.kill(node, ending);
        }
        self.queue.retain(|_, event| !matches!(event, Event::Arrive { .. } | Event::Foreign { .. }));
        self.flying.clear();
        let whole: Vec<usize> = (0..self.nodes.len()).filter(|node| self.nodes[*node].is_founded()).collect();
        let left: Vec<usize> = whole.iter().copied().filter(|_| self.rng.random_bool(0.7)).collect();
        let left = if left.is_empty() { whole } else { left };
        self.say(|_| format!("recovery from the stores of {left:?}"));
        let stores: Result<Vec<Store>, StoreError> = left
            .iter()
            .map(|node| Store::with_backend(self.nodes[*node].disk.mount(), &identity()))
            .collect();
        let stores = stores.map_err(|error| failed(&error.into()))?;
        let known = self.known(&left, &stores)?;
        let before = self.log.current().last();
        let (report, orphans) = self.mend(&left, &stores).map_err(|error| failed(&error))?;
        for (node, store) in left.iter().zip(stores) {
            self.nodes[*node].disk.unmount();
            drop(store);
        }
        self.brought_back(before, &report, &orphans, known)?;
        self.rebuild(&left, &report)
    }

    /// How far any of these stores knows the log that was lost.
    fn known(&self, left: &[usize], stores: &[Store]) -> Result<u64, Violation> {
        let mut known = 0;
        for (node, store) in left.iter().zip(stores) {
            if self.nodes[*node].version == 0 {
                known = known.max(store.standing().map_err(|error| failed(&error.into()))?.position.seq);
            }
        }
        Ok(known)
    }

    fn mend(&mut self, left: &[usize], stores: &[Store]) -> Result<(Report, Vec<Orphan>), RecoverError> {
        let names: Vec<String> = left.iter().map(|node| format!("r{node}")).collect();
        let sources: Vec<Source<'_>> =
            names.iter().zip(stores).map(|(name, store)| Source { name, store }).collect();
        let mut orphans = Vec::new();
        let mut hear = |orphan| orphans.push(orphan);
        let mut options = Options { prefer: None, dry_run: false, orphan: Some(&mut hear) };
        let scratch = Store::with_backend(InMemoryBackend::new(), &identity())?;
        let hands = &mut Hands { log: &mut self.log, now: self.now };
        let report = recover::mend(&self.subject.machine(), hands, &sources, &scratch, &mut options)?;
        Ok((report, orphans))
    }

    /// All that was acknowledged and that any store or the log still knew is back, or an orphan that was told of.
    fn brought_back(&mut self, before: u64, report: &Report, orphans: &[Orphan], known: u64) -> Check {
        let version = self.log.version();
        for seq in before + 1..=self.log.current().last() {
            if let Some(message) = self.log.stream(version).get(seq).cloned() {
                self.oracles[version].learn(&self.subject, &message)?;
            }
        }
        self.say(|_| format!("{report:?}, orphans {orphans:?}"));
        let oracles = &self.oracles;
        let told = |evidence: &crate::Evidence| {
            let is = |orphan: &Orphan| {
                orphan.entity == evidence.entity && orphan.cause.as_ref() == Some(&evidence.cause)
            };
            orphans.iter().any(is)
        };
        let mut kept = Vec::new();
        for evidence in std::mem::take(&mut self.clients.acknowledged) {
            if oracles[version].find(&evidence).is_some() {
                kept.push(evidence);
            } else if oracles[0].find(&evidence).is_some_and(|seq| seq <= known) && !told(&evidence) {
                let detail = format!("{evidence:?} was known and is neither back nor told of");
                return Err(Violation::new(Invariant::Recovered, detail));
            }
        }
        self.clients.acknowledged = kept;
        self.sight(Sight::Recovered);
        if !orphans.is_empty() {
            self.sight(Sight::Orphaned);
        }
        Ok(())
    }

    /// Every store is built anew; a replica whose disk is gone begins with none.
    fn rebuild(&mut self, left: &[usize], report: &Report) -> Check {
        let (version, last) = (self.log.version(), self.log.current().last());
        for node in 0..self.nodes.len() {
            let disk = Disk::default();
            if left.contains(&node) {
                let store = Store::with_backend(disk.mount(), &identity());
                let store = store.map_err(|error| failed(&error.into()))?;
                let hands = &mut Hands { log: &mut self.log, now: self.now };
                let digest = recover::rebuild(&self.subject.machine(), hands, &store);
                let digest = digest.map_err(|error| failed(&error))?;
                invariants::replayed(digest, report.digest, "a rebuilt store")?;
                store.harden().map_err(|error| failed(&error.into()))?;
                disk.unmount();
            }
            disk.settle(Ending::Killed, &mut self.rng);
            let place = left.contains(&node).then_some(last);
            self.nodes[node].put(disk, version, place);
        }
        Ok(())
    }
}

fn failed(error: &RecoverError) -> Violation {
    Violation::new(Invariant::Recovered, error.to_string())
}
