//! One replica of the toy on a log that does as it is told: for stories that are too special for chance.

use aip_kernel::{Claim, EffectId, Hash, Header, Record, ReplicaId, WriterId};
use aip_ledger::replica::{BarrierMode, Input, Now, Output, Replica, Token, Variant};
use aip_ledger::{Batch, Encoded, Identity, LedgerError, LogInfo, LogMessage, Readiness, Store, StoreError};
use bytes::Bytes;
use redb::backends::InMemoryBackend;

use crate::toy::{Answer, Ask, Command, Event, Toy, thing};

pub struct Bench {
    pub replica: Replica<Toy>,
    pub log: Vec<LogMessage>,
    pub now_ms: u64,
    rivals: u64,
}

/// What a step said.
pub struct Said(pub Vec<Output<Toy>>);

// === impl Bench ===

impl Bench {
    /// A replica that has started and reads nothing yet.
    ///
    /// # Errors
    /// None that a store in memory has.
    pub fn started() -> Result<Bench, StoreError> {
        let identity = Identity { service: "toy".to_owned(), trust_domain: "sim.local".to_owned(), shard: 0 };
        let store = Store::with_backend(InMemoryBackend::new(), &identity)?;
        let me = WriterId { replica: ReplicaId("r0".to_owned()), life: "1".to_owned() };
        let replica = Replica::new(Toy, store, me, BarrierMode::LastSequence, Variant::Sound)?;
        let mut bench = Bench { replica, log: Vec::new(), now_ms: 0, rivals: 0 };
        bench.step([Input::Interrupted { reason: "starting".to_owned() }])?;
        Ok(bench)
    }

    /// A replica that serves, on an empty log.
    ///
    /// # Errors
    /// None that a store in memory has.
    pub fn ready() -> Result<Bench, StoreError> {
        let mut bench = Bench::started()?;
        bench.open()?;
        Ok(bench)
    }

    /// Opens a tail on the log as it is.
    ///
    /// # Errors
    /// None that a store in memory has.
    pub fn open(&mut self) -> Result<Said, StoreError> {
        let from = usize::try_from(self.replica.tail_from()).unwrap_or(usize::MAX);
        let info = LogInfo { created_ns: 1, first_seq: 1, last_seq: self.log.len() as u64 };
        let messages: Vec<_> = self.log.iter().skip(from - 1).cloned().map(Input::Message).collect();
        self.step([Input::Opened(info)].into_iter().chain(messages))
    }

    /// One step, a millisecond later.
    ///
    /// # Errors
    /// What the store says.
    pub fn step(&mut self, inputs: impl IntoIterator<Item = Input<Toy>>) -> Result<Said, StoreError> {
        self.now_ms += 1;
        let now = Now { wall_ms: self.now_ms, mono_ms: self.now_ms, entropy: u128::from(self.now_ms) };
        let mut out = Vec::new();
        self.replica.step(now, inputs, &mut out)?;
        Ok(Said(out))
    }

    pub fn later(&mut self, ms: u64) -> Result<Said, StoreError> {
        self.now_ms += ms;
        self.step([Input::Tick])
    }

    /// Gives the replica a command of a client.
    ///
    /// # Errors
    /// What the store says.
    pub fn command(&mut self, token: Token, req: &str, ask: Ask) -> Result<Said, StoreError> {
        let command = Command::Ask { req: req.to_owned(), thing: "t".to_owned(), ask };
        self.step([Input::Command { token, command }])
    }

    /// The log takes this and the tail brings it.
    ///
    /// # Errors
    /// What the store says.
    pub fn bring(&mut self, bytes: Bytes) -> Result<Said, StoreError> {
        let seq = self.log.len() as u64 + 1;
        let message = LogMessage { seq, time_ns: i128::from(self.now_ms) * 1_000_000, bytes };
        self.log.push(message.clone());
        self.step([Input::Message(message)])
    }

    /// A command of which the record comes back.
    ///
    /// # Errors
    /// What the store says.
    pub fn ask(&mut self, req: &str, ask: Ask) -> Result<Said, StoreError> {
        let said = self.command(0, req, ask)?;
        match said.append() {
            Some(bytes) => self.bring(bytes),
            None => Ok(said),
        }
    }

    /// A message of another replica that adds to the same thing, on the state that stands now.
    ///
    /// # Errors
    /// What the store says.
    pub fn rival(&mut self, v: u32) -> Result<Bytes, StoreError> {
        self.rivals += 1;
        let (n, prev): (u64, Hash) = self.replica.snapshot().head(&thing("t"))?;
        let writer = WriterId { replica: ReplicaId("r1".to_owned()), life: "1".to_owned() };
        let header = Header {
            v,
            id: format!("rec_{}", self.rivals),
            kind: thing("t").kind,
            key: thing("t").id,
            n: n + 1,
            prev,
            at: self.now_ms,
            writer: writer.clone(),
            cause: None,
            reads: Vec::new(),
            claims: Vec::<Claim>::new(),
        };
        let events = vec![Event::Added { amount: 1 }];
        let encoded = Encoded::new(&Record { header, events });
        let batch = encoded.and_then(|encoded| Batch::encode(&writer, self.rivals, &[encoded.raw]));
        batch.map(Bytes::from).map_err(|error| StoreError::Damaged(error.to_string()))
    }
}

// === impl Said ===

impl Said {
    pub fn append(&self) -> Option<Bytes> {
        self.0.iter().find_map(|output| match output {
            Output::Append { bytes, .. } => Some(bytes.clone()),
            _ => None,
        })
    }

    pub fn performed(&self) -> Vec<EffectId> {
        let performed = self.0.iter().filter_map(|output| match output {
            Output::Perform { id, .. } => Some(id.clone()),
            _ => None,
        });
        performed.collect()
    }

    /// Of what is to be performed, whether it may have been before.
    pub fn again(&self) -> Vec<bool> {
        let again = self.0.iter().filter_map(|output| match output {
            Output::Perform { again, .. } => Some(*again),
            _ => None,
        });
        again.collect()
    }

    pub fn answers(&self) -> Vec<(Token, Result<Answer, LedgerError>)> {
        let answers = self.0.iter().filter_map(|output| match output {
            Output::Answer { token, answer } => Some((*token, answer.clone())),
            _ => None,
        });
        answers.collect()
    }

    /// The number of the question for the log's last sequence.
    pub fn asked(&self) -> Option<u64> {
        self.0.iter().find_map(|output| match output {
            Output::AskLastSequence { request } => Some(*request),
            _ => None,
        })
    }

    pub fn read_passed(&self) -> bool {
        self.0.iter().any(|output| matches!(output, Output::BarrierPassed { result: Ok(()), .. }))
    }

    pub fn opens_a_tail(&self) -> bool {
        self.0.iter().any(|output| matches!(output, Output::OpenTail { .. }))
    }

    pub fn alarm(&self) -> bool {
        self.0.iter().any(|output| matches!(output, Output::Alarm { .. }))
    }

    /// What it says of its readiness, the last word.
    pub fn readiness(&self) -> Option<&Readiness> {
        self.0.iter().rev().find_map(|output| match output {
            Output::Readiness(readiness) => Some(readiness),
            _ => None,
        })
    }

    pub fn fell_silent(&self) -> bool {
        matches!(self.readiness(), Some(Readiness::NotReady { .. }))
    }
}
