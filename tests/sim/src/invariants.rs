//! The catalogue: what must always hold, each with its number, its sentence and its predicate.
//!
//! L-1 to L-6 are the ledger's invariants; D-1 is what the store owes to a crash, R-1 what recovery owes to a disaster; E-1 to E-3 are what must have come
//! to pass when all faults have ceased.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;

use aip_kernel::{EffectId, EffectMode, EntityKey, Hash, Holder, Machine, Millis, View, WriterId};
use aip_ledger::{Position, Snapshot, Standing, StoreError};
use aip_names::limits::EFFECT_ADOPT_MS;

use crate::log::{Stream, Version};
use crate::oracle::{Fate, Oracle};
use crate::subject::EffectOf;
use crate::{Evidence, Subject};

macro_rules! catalogue {
    ($($kind:ident $id:literal $sentence:literal,)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Invariant { $(#[doc = $sentence] $kind,)* }

        impl Invariant {
            pub const ALL: &'static [Invariant] = &[$(Invariant::$kind,)*];

            pub fn id(self) -> &'static str {
                match self { $(Invariant::$kind => $id,)* }
            }

            pub fn sentence(self) -> &'static str {
                match self { $(Invariant::$kind => $sentence,)* }
            }
        }
    };
}

catalogue! {
    Judged "L-1.judged" "every replica counts the same records effective, in the order of the log",
    State "L-1.state" "a store is at each position what the log makes of it",
    Chain "L-1.chain" "an entity's records are n = 1, 2, 3 and so on, each naming the hash of the one before",
    Stopped "L-1.stopped" "an entity is stopped only by a record that its machine can't apply",
    Effective "L-2.effective" "an acknowledged decision is effective in the log, and committed where it is acknowledged",
    OneAnswer "L-2.one-answer" "a waiting caller gets one answer",
    ReadSees "L-2.read-sees" "a read sees all that was acknowledged before it began",
    AnswerSees "L-2.answer-sees" "an answer rests on all that was acknowledged before it was asked for",
    Ready "L-3.ready" "a replica is ready only where its store is a beginning of the log that it reads",
    Silent "L-3.silent" "before its position check a replica answers, decides and performs nothing",
    Committed "L-4.committed" "an effect follows its committed record",
    Once "L-4.once" "an effect of mode once is started at most once, by the process that wrote its record",
    NotAfter "L-4.not-after" "a writer that learns late of its repeatable effect waits as the others do",
    Performed "L-4.performed" "a repeatable effect is performed before it is done, or its entity has ended",
    Replay "L-5.replay" "replay from the first record equals the store, log time included",
    Claim "L-6.claim" "a claim is held by at most one entity at any position",
    Durable "D-1.durable" "a store comes back from a crash between its last hard commit and the end of its process",
    Recovered "R-1.recovered" "recovery brings back all that a store or the log knows, or tells of it",
    Sound "M-1.sound" "every state that the machine leaves is one that it may leave",
    Answered "E-1.answered" "every command that reached a living replica was answered",
    Settled "E-2.settled" "every pending effect and due timer came to an end",
    Agree "E-3.agree" "all replicas are ready and hold the same, to the byte",
}

/// An invariant that broke.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    pub invariant: Invariant,
    pub detail: String,
}

pub type Check = Result<(), Violation>;

// === impl Violation ===

impl Violation {
    pub fn new(invariant: Invariant, detail: impl Into<String>) -> Violation {
        Violation { invariant, detail: detail.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} broke ({}): {}", self.invariant.id(), self.invariant.sentence(), self.detail)
    }
}

fn ensure(holds: bool, invariant: Invariant, detail: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(Violation::new(invariant, detail())) }
}

fn readable<T>(result: Result<T, impl fmt::Display>) -> Result<T, Violation> {
    result.map_err(|error| Violation::new(Invariant::State, format!("a store can't be read: {error}")))
}

// === L-1 ===

/// A replica said that these entities changed when it went from one position to another.
pub fn judged<S: Subject>(oracle: &Oracle<S>, from: u64, to: u64, said: &[EntityKey]) -> Check {
    let meant = (from + 1..=to).filter_map(|seq| oracle.meant(seq)).flat_map(|meant| &meant.changed);
    let meant: Vec<&EntityKey> = meant.collect();
    ensure(said.iter().eq(meant.iter().copied()), Invariant::Judged, || {
        format!("messages {from} to {to} changed {said:?} where the log says {meant:?}")
    })
}

/// One entity of a store at `seq`.
pub fn entity_agrees<S: Subject>(
    oracle: &Oracle<S>,
    snapshot: &Snapshot,
    seq: u64,
    key: &EntityKey,
) -> Check {
    let wanted = oracle.entity_at(key, seq);
    let head = readable(snapshot.head(key))?;
    let wanted_head = wanted.map_or((0, Hash::ZERO), |stood| (stood.n, stood.head));
    ensure(head == wanted_head, Invariant::State, || {
        format!("{key} at {seq} stands at {head:?} where the log says {wanted_head:?}")
    })?;
    let stopped = oracle.stopped.get(key).is_some_and(|since| *since <= seq);
    match View::<S::M>::entity(snapshot, key) {
        Err(fault) => ensure(stopped, Invariant::Stopped, || format!("{key} at {seq}: {fault}")),
        Ok(found) => {
            ensure(!stopped, Invariant::Stopped, || format!("{key} at {seq} is not stopped"))?;
            ensure(
                found.as_ref().map(|found| &found.state) == wanted.map(|stood| &stood.state),
                Invariant::State,
                || format!("{key} at {seq} is {found:?} where the log says {wanted:?}"),
            )
        }
    }
}

/// All of a store at `seq` that the model can tell apart by position.
pub fn store_agrees<S: Subject>(oracle: &Oracle<S>, snapshot: &Snapshot, seq: u64) -> Check {
    let keys = readable(snapshot.entities(None, usize::MAX))?;
    ensure(keys.iter().eq(oracle.entities_at(seq).map(|(key, _)| key)), Invariant::State, || {
        format!("a store at {seq} holds the entities {keys:?}")
    })?;
    for key in &keys {
        entity_agrees(oracle, snapshot, seq, key)?;
    }
    let log_time = View::<S::M>::log_time(snapshot);
    ensure(log_time == oracle.log_time_at(seq), Invariant::State, || {
        format!("log time {log_time} at {seq}")
    })?;
    for (name, holder) in oracle.claims_at(seq) {
        let wanted = holder.filter(|holder| holder.holds_at(log_time));
        let found = readable(View::<S::M>::claim(snapshot, name))?;
        ensure(found.as_ref() == wanted, Invariant::State, || {
            format!("{name} at {seq} is held by {found:?} where the log says {wanted:?}")
        })?;
    }
    let effects = readable(snapshot.effects::<EffectOf<S>>(None, usize::MAX))?;
    let found = effects.iter().map(|(id, pending)| (id, &pending.effect, pending.mode, &pending.writer));
    let wanted = oracle.effects_at(seq).map(|(id, fate)| (id, &fate.effect, fate.mode, &fate.writer));
    ensure(found.eq(wanted), Invariant::State, || format!("pending effects at {seq} are {effects:?}"))?;
    let timers = readable(snapshot.due(Millis::MAX - 1, usize::MAX))?;
    let found: BTreeMap<(&EntityKey, &str), Millis> =
        timers.iter().map(|timer| ((&timer.entity, timer.name.as_str()), timer.due)).collect();
    let wanted = oracle.timers_at(seq).map(|(key, name, (due, _))| ((key, name), *due)).collect();
    ensure(found == wanted && found.len() == timers.len(), Invariant::State, || {
        format!("timers at {seq} are {timers:?} where the log says {wanted:?}")
    })
}

/// The indexes of a store that has learned all of the log.
pub fn indexes_agree<S: Subject>(subject: &S, oracle: &Oracle<S>, snapshot: &Snapshot) -> Check {
    for index in subject.indexes() {
        let all = (Bound::Unbounded, Bound::Unbounded);
        let found = readable(View::<S::M>::scan(snapshot, index, all.0, all.1, usize::MAX))?;
        let wanted = readable(oracle.memory().scan(index, all.0, all.1, usize::MAX))?;
        ensure(found == wanted, Invariant::State, || {
            format!("index {index} is {found:?} where the log says {wanted:?}")
        })?;
    }
    Ok(())
}

/// The records of every entity of a store, one after the other.
pub fn chained<M: Machine>(snapshot: &Snapshot) -> Check {
    for key in readable(snapshot.entities(None, usize::MAX))? {
        let mut prev = Hash::ZERO;
        let mut expected = 1;
        for (record, hash, _) in readable(View::<M>::history(snapshot, &key, 1, usize::MAX))? {
            let header = &record.header;
            ensure(header.n == expected && header.prev == prev, Invariant::Chain, || {
                format!("{key} has record {} after {prev} where {expected} was due", header.n)
            })?;
            (prev, expected) = (hash, expected + 1);
        }
        let head = readable(snapshot.head(&key))?;
        ensure(head == (expected - 1, prev), Invariant::Chain, || format!("{key} stands at {head:?}"))?;
    }
    Ok(())
}

/// A replica raised the alarm over an entity.
pub fn stopped_with_reason<S: Subject>(oracle: &Oracle<S>, entity: &EntityKey, why: &str, seq: u64) -> Check {
    let expected = oracle.stopped.get(entity).is_some_and(|since| *since <= seq);
    ensure(expected, Invariant::Stopped, || format!("{entity} was stopped: {why}"))
}

// === L-2 ===

/// A decision is acknowledged by a replica that stands at `position`.
pub fn effective<S: Subject>(
    oracle: &Oracle<S>,
    evidence: &Evidence,
    position: u64,
) -> Result<u64, Violation> {
    let found = oracle.find(evidence);
    found.filter(|seq| *seq <= position).ok_or_else(|| {
        let detail = format!("{evidence:?} was acknowledged at {position}; the log has it at {found:?}");
        Violation::new(Invariant::Effective, detail)
    })
}

/// An answer for a caller; `waiting` tells whether it still waited.
pub fn one_answer(waiting: bool, token: u64) -> Check {
    ensure(waiting, Invariant::OneAnswer, || format!("caller {token} was answered a second time"))
}

/// A read that began when `floor` was the last acknowledged sequence goes on at `position`.
pub fn read_sees(position: u64, floor: u64) -> Check {
    ensure(position >= floor, Invariant::ReadSees, || {
        format!("a read at {position} began after {floor} had been acknowledged")
    })
}

/// A command that was given when `floor` was the last acknowledged sequence is answered at `position`.
pub fn answer_sees(position: u64, floor: u64) -> Check {
    ensure(position >= floor, Invariant::AnswerSees, || {
        format!("an answer at {position} to what was asked after {floor} had been acknowledged")
    })
}

// === L-3 ===

/// A replica says that it is ready.
pub fn ready_on_the_log(stream: &Stream, standing: &Standing) -> Check {
    let known = standing.stream == Some(stream.created_ns);
    ensure(known && stream.holds(&standing.position), Invariant::Ready, || {
        format!("ready at {:?} beside the log it reads, which ends at {}", standing.position, stream.last())
    })
}

/// A replica says something to the world. `checked` is the log on which its check has passed.
pub fn may_speak(checked: Option<&Stream>, position: &Position, what: &str) -> Check {
    ensure(checked.is_some_and(|stream| stream.holds(position)), Invariant::Silent, || {
        format!("{what} at {position:?} without a position check")
    })
}

/// A read goes on at `position` in the log `reads`, by what the log `asked` said of its end. Another log that has
/// grown past the position can't be told from ours by its end; one that has not can.
pub fn asked_its_own_log(reads: Version, asked: Option<(Version, u64)>, position: u64) -> Check {
    let shows = asked.is_some_and(|(log, last)| log > reads && last < position);
    ensure(!shows, Invariant::Silent, || {
        format!("a read at {position} in log {reads} goes on by what another log said: {asked:?}")
    })
}

// === L-4 ===

/// An effect is handed to the performer by a replica whose store stands at `position`.
pub fn effect_committed<'a, S: Subject>(
    oracle: &'a Oracle<S>,
    id: &EffectId,
    effect: &EffectOf<S>,
    position: u64,
) -> Result<&'a Fate<EffectOf<S>>, Violation> {
    let fate = oracle.effects.get(id).filter(|fate| fate.since <= position && fate.effect == *effect);
    fate.ok_or_else(|| {
        let detail = format!("{id} is performed at {position}, where its record is not committed");
        Violation::new(Invariant::Committed, detail)
    })
}

/// An effect is started, after `starts` times before.
pub fn started_once<F>(id: &EffectId, fate: &Fate<F>, me: &WriterId, starts: u32) -> Check {
    if fate.mode == EffectMode::Repeatable {
        return Ok(());
    }
    ensure(fate.writer == *me, Invariant::Once, || format!("{id} of {} is started by {me}", fate.writer))?;
    ensure(starts == 0, Invariant::Once, || format!("{id} is started again"))
}

/// The writer of a repeatable effect starts it for the first time at `now`; it `sent` the record and `learned` it.
pub fn in_time(id: &EffectId, now: u64, sent: u64, learned: u64) -> Check {
    let lawful = now < sent + EFFECT_ADOPT_MS || now >= learned + EFFECT_ADOPT_MS;
    ensure(lawful, Invariant::NotAfter, || {
        format!("{id} of a record sent at {sent} and learned at {learned} is started at {now}")
    })
}

/// At the end: an effect that was performed `times` times.
pub fn performed<F>(id: &EffectId, fate: &Fate<F>, times: u32) -> Check {
    let due = fate.mode == EffectMode::Repeatable && fate.gone.is_some() && !fate.ended;
    ensure(!due || times > 0, Invariant::Performed, || format!("{id} is done and was never performed"))
}

// === L-5 ===

pub fn replayed(store: Hash, replay: Hash, who: &str) -> Check {
    ensure(store == replay, Invariant::Replay, || format!("{who} holds {store}, a replay {replay}"))
}

// === L-6 ===

/// An effective record takes a claim that `holder` had before.
pub fn claim_was_free(name: &str, taker: &EntityKey, holder: Option<&Holder>, log_time: Millis) -> Check {
    let free = holder.is_none_or(|holder| holder.entity == *taker || !holder.holds_at(log_time));
    ensure(free, Invariant::Claim, || format!("{taker} took {name} from {holder:?} at {log_time}"))
}

// === D-1 ===

/// A store was opened after a crash.
pub fn came_back(found: u64, hard: u64, reached: u64) -> Check {
    ensure((hard..=reached).contains(&found), Invariant::Durable, || {
        format!("a store came back at {found}; {hard} was hard and {reached} was reached")
    })
}

pub fn opens<T>(opened: Result<T, StoreError>, disk_failed: bool) -> Result<Option<T>, Violation> {
    match opened {
        Ok(store) => Ok(Some(store)),
        Err(_) if disk_failed => Ok(None),
        Err(error) => Err(Violation::new(Invariant::Durable, format!("a store does not open: {error}"))),
    }
}
