//! A small machine that uses everything the road offers: competing commands, reads of other entities, claims with
//! and without an end, timers, both kinds of effects, indexes, and a record that it can't apply.

mod client;

use std::collections::BTreeSet;

use aip_kernel::{
    Applying, Bug, Decision, Draft, EffectId, EffectMode, EntityKey, Facts, Fault, Machine, Millis, View,
};
use serde::{Deserialize, Serialize};

pub use client::ToySubject;

#[derive(Debug)]
pub struct Toy;

/// What clients ask of a thing, each under a request id of their own that takes effect at most once.
#[derive(Clone, Debug)]
pub enum Ask {
    Add {
        amount: u64,
    },
    /// Adds what `from` holds, which must not change before this is recorded.
    Copy {
        from: String,
    },
    /// Takes a name that at most one thing holds, for good or for a while.
    Take {
        name: String,
        for_ms: Option<Millis>,
    },
    Free {
        name: String,
    },
    /// Starts effects and perhaps a timer.
    Begin {
        repeatable: u32,
        once: u32,
        timer_ms: Option<Millis>,
    },
    End,
    /// Records what can't be applied, with a claim that must not be taken then.
    Poison {
        name: String,
    },
    /// Records nothing.
    Look,
}

#[derive(Clone, Debug)]
pub enum Command {
    Ask { req: String, thing: String, ask: Ask },
    Outcome { id: EffectId, known: bool },
    Fire { thing: String, name: String },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    Done { thing: String, req: String },
    Nothing,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    Asked { req: String },
    Added { amount: u64 },
    Took { name: String },
    Freed { name: String },
    Began { repeatable: u32, once: u32, due: Option<Millis> },
    Happened { n: u64, index: u32, known: bool },
    Fired { name: String },
    Ended,
    Poisoned,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct State {
    pub total: u64,
    pub seen: BTreeSet<String>,
    pub names: BTreeSet<String>,
    /// Effects without an outcome.
    pub open: BTreeSet<(u64, u32)>,
    pub unknown: u32,
    pub timer: Option<Millis>,
    pub ended: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    Tell { text: String },
    Charge { amount: u64 },
}

pub const KIND: &str = "thing";
pub const BUSY: &str = "busy";
const TIMER: &str = "late";

pub fn thing(id: &str) -> EntityKey {
    EntityKey::new(KIND, id)
}

impl Machine for Toy {
    const VERSION: u32 = 1;
    type Command = Command;
    type Answer = Answer;
    type Event = Event;
    type State = State;
    type Effect = Effect;

    fn decide(
        &self,
        view: &dyn View<Self>,
        command: &Command,
        facts: &Facts,
    ) -> Result<Decision<Self>, Fault> {
        match command {
            Command::Ask { req, thing, ask } => decide_ask(view, req, thing, ask, facts),
            Command::Outcome { id, known } => {
                let state = view.entity(&id.entity)?.map(|entity| entity.state).unwrap_or_default();
                if !state.open.contains(&(id.n, id.index)) {
                    return Ok(Decision::Answer(Answer::Nothing));
                }
                let event = Event::Happened { n: id.n, index: id.index, known: *known };
                let draft = Draft::new(id.entity.clone(), vec![event]).cause(id.to_string());
                Ok(Decision::Append { draft, answer: Answer::Nothing })
            }
            Command::Fire { thing: id, name } => {
                let state = view.entity(&thing(id))?.map(|entity| entity.state).unwrap_or_default();
                if state.timer.is_none() {
                    return Ok(Decision::Answer(Answer::Nothing));
                }
                let draft = Draft::new(thing(id), vec![Event::Fired { name: name.clone() }]).cause("timer");
                Ok(Decision::Append { draft, answer: Answer::Nothing })
            }
        }
    }

    fn apply(
        &self,
        state: Option<State>,
        event: &Event,
        applying: &mut Applying<'_, Self>,
    ) -> Result<State, Bug> {
        let mut state = state.unwrap_or_default();
        apply(&mut state, event, applying)?;
        Ok(state)
    }

    fn on_timer(&self, entity: &EntityKey, name: &str) -> Command {
        Command::Fire { thing: entity.id.clone(), name: name.to_owned() }
    }

    fn on_abandoned(&self, id: &EffectId, _effect: &Effect) -> Command {
        Command::Outcome { id: id.clone(), known: false }
    }
}

fn decide_ask(
    view: &dyn View<Toy>,
    req: &str,
    id: &str,
    ask: &Ask,
    facts: &Facts,
) -> Result<Decision<Toy>, Fault> {
    let key = thing(id);
    let state = view.entity(&key)?.map(|entity| entity.state).unwrap_or_default();
    if state.seen.contains(req) {
        return Ok(Decision::Answer(Answer::Done { thing: id.to_owned(), req: req.to_owned() }));
    }
    if state.ended {
        return Ok(Decision::Answer(Answer::Nothing));
    }
    let mut events = vec![Event::Asked { req: req.to_owned() }];
    let mut draft = Draft::new(key.clone(), Vec::new()).cause(req);
    match ask {
        Ask::Look => return Ok(Decision::Answer(Answer::Nothing)),
        Ask::Add { amount } => events.push(Event::Added { amount: *amount }),
        Ask::Copy { from } => {
            let from = thing(from);
            let (n, amount) = view.entity(&from)?.map_or((0, 0), |other| (other.n, other.state.total));
            draft = if from == key { draft } else { draft.reads(from, n) };
            events.push(Event::Added { amount: amount % 1_000 });
        }
        Ask::Take { name, for_ms } => {
            if view.claim(name)?.is_some_and(|holder| holder.entity != key) {
                return Ok(Decision::Answer(Answer::Nothing));
            }
            draft = draft.claims(name, for_ms.map(|ms| facts.log_time + ms));
            events.push(Event::Took { name: name.clone() });
        }
        Ask::Free { name } => {
            if !state.names.contains(name) {
                return Ok(Decision::Answer(Answer::Nothing));
            }
            events.push(Event::Freed { name: name.clone() });
        }
        Ask::Begin { repeatable, once, timer_ms } => {
            let due = timer_ms.map(|ms| facts.now + ms);
            events.push(Event::Began { repeatable: *repeatable, once: *once, due });
        }
        Ask::End => events.push(Event::Ended),
        Ask::Poison { name } => {
            if view.claim(name)?.is_none() {
                draft = draft.claims(name, None);
            }
            events.push(Event::Poisoned);
        }
    }
    draft.events = events;
    Ok(Decision::Append { draft, answer: Answer::Done { thing: id.to_owned(), req: req.to_owned() } })
}

fn apply(state: &mut State, event: &Event, applying: &mut Applying<'_, Toy>) -> Result<(), Bug> {
    match event {
        Event::Asked { req } => {
            if !state.seen.insert(req.clone()) {
                return Err(Bug(format!("{req} took effect twice")));
            }
            if state.ended {
                return Err(Bug(format!("{req} after the end")));
            }
        }
        Event::Added { amount } => state.total += amount,
        Event::Took { name } => {
            state.names.insert(name.clone());
        }
        Event::Freed { name } => {
            state.names.remove(name);
            applying.release(name);
        }
        Event::Began { repeatable, once, due } => {
            for _ in 0..*repeatable {
                begin(state, Effect::Tell { text: "begun".to_owned() }, EffectMode::Repeatable, applying);
            }
            for _ in 0..*once {
                begin(state, Effect::Charge { amount: state.total }, EffectMode::Once, applying);
            }
            if let Some(due) = due {
                state.timer = Some(*due);
                applying.timer(TIMER, *due);
            }
        }
        Event::Happened { n, index, known } => {
            if !state.open.remove(&(*n, *index)) {
                return Err(Bug(format!("a second outcome of {n}.{index}")));
            }
            let entity = applying.header.entity();
            applying.effect_done(EffectId { entity, n: *n, index: *index });
            if !known {
                state.unknown += 1;
                begin(state, Effect::Tell { text: "unknown".to_owned() }, EffectMode::Repeatable, applying);
            }
        }
        Event::Fired { name } => {
            state.timer = None;
            applying.timer_done(name);
        }
        Event::Ended => end(state, applying),
        Event::Poisoned => return Err(Bug("poisoned".to_owned())),
    }
    if !state.ended && !state.open.is_empty() {
        applying.index(BUSY, applying.header.key.clone());
    } else {
        applying.unindex(BUSY, applying.header.key.clone());
    }
    Ok(())
}

fn begin(state: &mut State, effect: Effect, mode: EffectMode, applying: &mut Applying<'_, Toy>) {
    let id = applying.effect(effect, mode);
    state.open.insert((id.n, id.index));
}

fn end(state: &mut State, applying: &mut Applying<'_, Toy>) {
    state.ended = true;
    state.open.clear();
    applying.effects_end();
    if state.timer.take().is_some() {
        applying.timer_done(TIMER);
    }
    for name in std::mem::take(&mut state.names) {
        applying.release(name);
    }
}
