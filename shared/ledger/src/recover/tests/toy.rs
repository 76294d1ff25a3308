//! A machine, a log in memory and random histories, for the tests of the recovery.

use redb::backends::InMemoryBackend;
use serde::{Deserialize, Serialize};

use aip_kernel::{
    Applying, Bug, Claim, Decision, EffectId, EffectMode, EntityKey, Facts, Fault, Hash, Header, Machine,
    Millis, Read, Record, ReplicaId, View, WriterId,
};
use bytes::Bytes;

use crate::batch::{Batch, Encoded};
use crate::recover::{Log, LogError, replay};
use crate::store::{Identity, Judging, Store, Tables};
use crate::{LogInfo, LogMessage};

#[derive(Debug)]
pub struct Toy;

#[derive(Serialize, Deserialize, Clone, Debug)]
pub enum Event {
    Add(u64),
    Begin { once: bool, due: Millis },
    End,
    Free(String),
    Poison,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default)]
pub struct State {
    total: u64,
    last: Millis,
}

impl Machine for Toy {
    const VERSION: u32 = 1;
    type Command = ();
    type Answer = ();
    type Event = Event;
    type State = State;
    type Effect = u64;

    fn decide(&self, _: &dyn View<Self>, (): &(), _: &Facts) -> Result<Decision<Self>, Fault> {
        Ok(Decision::Answer(()))
    }

    fn apply(
        &self,
        state: Option<State>,
        event: &Event,
        applying: &mut Applying<'_, Self>,
    ) -> Result<State, Bug> {
        let mut state = state.unwrap_or_default();
        state.last = applying.log_time;
        match event {
            Event::Add(amount) => {
                applying.unindex("total", state.total.to_string());
                state.total += amount;
                applying.index("total", state.total.to_string());
            }
            Event::Begin { once, due } => {
                let mode = if *once { EffectMode::Once } else { EffectMode::Repeatable };
                applying.effect(state.total, mode);
                applying.timer("late", *due);
            }
            Event::End => {
                applying.effects_end();
                applying.timer_done("late");
            }
            Event::Free(name) => applying.release(name),
            Event::Poison => return Err(Bug("poison".to_owned())),
        }
        Ok(state)
    }

    fn on_timer(&self, _: &EntityKey, _: &str) {}

    fn on_abandoned(&self, _: &EffectId, _: &u64) {}
}

/// xorshift64*: the tests need variety that can be had again, nothing more.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

#[derive(Clone)]
pub struct MemLog {
    pub created_ns: i128,
    pub messages: Vec<LogMessage>,
    pub exists: bool,
    pub clock_ms: i128,
    /// The append that fails.
    pub fails_at: Option<u64>,
}

impl MemLog {
    pub fn new(created_ns: i128) -> MemLog {
        MemLog { created_ns, messages: Vec::new(), exists: true, clock_ms: 1_000_000, fails_at: None }
    }

    /// The same stream as it was after message `last`.
    pub fn cut(&self, last: u64) -> MemLog {
        MemLog { messages: self.messages[..usize::try_from(last).unwrap()].to_vec(), ..self.clone() }
    }

    fn push(&mut self, bytes: Bytes) {
        let (seq, time_ns) = (self.messages.len() as u64 + 1, self.clock_ms * 1_000_000);
        self.messages.push(LogMessage { seq, time_ns, bytes });
    }
}

impl Log for MemLog {
    fn info(&mut self) -> Result<Option<LogInfo>, LogError> {
        let first_seq = self.messages.first().map_or(1, |message| message.seq);
        let last_seq = self.messages.last().map_or(0, |message| message.seq);
        Ok(self.exists.then_some(LogInfo { created_ns: self.created_ns, first_seq, last_seq }))
    }

    fn create(&mut self) -> Result<LogInfo, LogError> {
        assert!(!self.exists, "only a stream that is missing is made");
        self.exists = true;
        self.info().map(Option::unwrap)
    }

    fn read(&mut self, from: u64, limit: usize) -> Result<Vec<LogMessage>, LogError> {
        Ok(self.messages.iter().filter(|message| message.seq >= from).take(limit).cloned().collect())
    }

    fn append(&mut self, after: u64, bytes: Bytes) -> Result<(), LogError> {
        assert!(self.exists);
        if self.messages.len() as u64 != after || self.fails_at == Some(after + 1) {
            return Err(LogError(format!("no append behind {after}")));
        }
        self.clock_ms += 7_000;
        self.push(bytes);
        Ok(())
    }
}

pub fn identity() -> Identity {
    Identity { service: "toy".to_owned(), trust_domain: "aip.local".to_owned(), shard: 0 }
}

pub fn store() -> Store {
    Store::with_backend(InMemoryBackend::new(), &identity()).unwrap()
}

/// A replica's store that has learned the first `until` messages.
pub fn follow(log: &MemLog, until: u64) -> Store {
    let (mut log, store) = (log.clone(), store());
    let info = log.info().unwrap().unwrap();
    replay(&Toy, &mut log, &info, until, &store, &[]).unwrap();
    store.adopt_stream(info.created_ns).unwrap();
    store
}

/// Lets replicas write `count` more messages: records that stand, copies, void ones, empty messages, entities that
/// stop; `who` writes them, so that histories of different authors differ.
pub fn grow(rng: &mut Rng, log: &mut MemLog, who: &str, count: u64) {
    let author = follow(log, log.messages.len() as u64);
    for number in 1..=count {
        // The server's clock goes back now and then.
        log.clock_ms += i128::from(rng.below(3_000)) - 400;
        let life = format!("{who}-{}", log.messages.len());
        let writer = WriterId { replica: ReplicaId(format!("r{}", rng.below(2))), life };
        let mut records = Vec::new();
        for place in 0..rng.below(4) {
            let record = record(rng, &author, &writer, format!("rec-{who}-{}-{place}", log.messages.len()));
            let copies = if rng.chance(5) { 2 } else { 1 };
            records.extend(std::iter::repeat_n(record, copies));
        }
        log.push(Batch::encode(&writer, number, &records).unwrap().into());
        let txn = author.begin(false).unwrap();
        let message = log.messages.last().unwrap();
        crate::store::apply(&Toy, &mut Tables::open(&txn).unwrap(), message, Judging::Sound).unwrap();
        txn.commit().unwrap();
    }
}

fn record(rng: &mut Rng, author: &Store, writer: &WriterId, id: String) -> Box<serde_json::value::RawValue> {
    let snapshot = author.snapshot().unwrap();
    let log_time = author.standing().unwrap().log_time;
    let entity = |n: u64| EntityKey::new("thing", format!("e{n}"));
    let own = entity(rng.below(7));
    let (n, prev) = snapshot.head(&own).unwrap();
    // Some look at a state that is no more.
    let (n, prev) = if n > 0 && rng.chance(10) { (n - 1, Hash::of(b"stale")) } else { (n, prev) };
    let name = format!("name-{}", rng.below(4));
    let events = match rng.below(60) {
        0 => vec![Event::Poison],
        1..10 => vec![Event::Begin { once: rng.chance(50), due: log_time + rng.below(9_000) }],
        10..15 => vec![Event::End],
        15..20 => vec![Event::Free(name.clone())],
        _ => vec![Event::Add(rng.below(100))],
    };
    let until = rng.chance(60).then(|| log_time + rng.below(6_000));
    let claims = if rng.chance(25) { vec![Claim { name, until }] } else { Vec::new() };
    let mut reads = Vec::new();
    if rng.chance(20) {
        let other = entity(7 + rng.below(3));
        let at = snapshot.head(&other).unwrap().0 + u64::from(rng.chance(20));
        reads.push(Read { kind: other.kind, key: other.id, n: at });
    }
    let own = if rng.chance(15) { entity(7 + rng.below(3)) } else { own };
    let (n, prev) = if own.id.as_str() > "e6" { snapshot.head(&own).unwrap() } else { (n, prev) };
    let header = Header {
        v: 1,
        id,
        kind: own.kind,
        key: own.id,
        n: n + 1,
        prev,
        at: log_time,
        writer: writer.clone(),
        cause: None,
        reads,
        claims,
    };
    Encoded::new(&Record { header, events }).unwrap().raw
}
