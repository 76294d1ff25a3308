//! The world around the replicas: one thread, one clock, one queue of events, one source of chance.
//!
//! It does what a shell, a network, a server, clients and performers do, as badly as they may, and checks the
//! catalogue after every step.

mod clients;
mod end;
mod mischief;
mod network;
mod node;
mod perform;
mod recover;
mod speech;
mod step;

use std::collections::BTreeMap;

use aip_kernel::{EffectId, Hash, Millis};
use aip_ledger::replica::{Input, Variant};
use bytes::Bytes;
use rand::{Rng as _, SeedableRng};

use crate::invariants::Check;
use crate::log::{EPOCH_MS, Log};
use crate::oracle::Oracle;
use crate::plan::Plan;
use crate::report::{Counts, Fault, Report, Sight};
use crate::subject::CommandOf;
use crate::{Rng, Subject};

use clients::Clients;
use network::{Append, Tail, TailId};
use node::Node;

/// A process life of a replica, unique in a run.
type LifeId = u64;

enum Event<S: Subject> {
    Start {
        node: usize,
    },
    Step {
        node: usize,
        life: LifeId,
    },
    Tick {
        node: usize,
        life: LifeId,
    },
    /// Something reaches a replica's shell.
    Deliver {
        node: usize,
        life: LifeId,
        input: Input<S::M>,
    },
    Interrupt {
        node: usize,
        life: LifeId,
    },
    Arrive {
        append: Append,
        id: u64,
        copy: bool,
    },
    OpenTail {
        node: usize,
        life: LifeId,
        tail: TailId,
        from: u64,
    },
    Pump {
        tail: TailId,
    },
    Ask {
        node: usize,
        life: LifeId,
        request: u64,
    },
    ServerUp,
    Foreign {
        bytes: Bytes,
    },
    Burst,
    Issue {
        op: usize,
    },
    Mischief,
    Worked {
        node: usize,
        life: LifeId,
        id: EffectId,
        record: Hash,
        outcome: CommandOf<S>,
    },
}

pub struct World<S: Subject> {
    subject: S,
    rng: Rng,
    plan: Plan,
    variant: Variant,
    now: u64,
    order: u64,
    queue: BTreeMap<(u64, u64), Event<S>>,
    log: Log,
    /// One for each version of the log, with the last sequence that was acknowledged to anyone.
    oracles: Vec<Oracle<S>>,
    floors: Vec<u64>,
    nodes: Vec<Node<S>>,
    lives: LifeId,
    tails: BTreeMap<TailId, Tail>,
    tail_ids: TailId,
    /// Appends on their way, with the replica that sent them.
    flying: BTreeMap<u64, usize>,
    append_ids: u64,
    clients: Clients<S>,
    /// How often each effect was started and performed.
    started: BTreeMap<(EffectId, Hash), u32>,
    performed: BTreeMap<(EffectId, Hash), u32>,
    healed: bool,
    counts: Counts,
    trace: Option<Vec<String>>,
}

// === impl World ===

impl<S: Subject> World<S> {
    pub fn new(subject: S, seed: u64, variant: Variant, trace: bool) -> World<S> {
        let mut rng = Rng::seed_from_u64(seed);
        let plan = Plan::draw(&mut rng);
        let nodes = (0..plan.nodes).map(|_| Node::new(plan.skew_ms, &mut rng)).collect();
        let oracle = Oracle::new(&subject);
        World {
            subject,
            rng,
            plan,
            variant,
            now: 0,
            order: 0,
            queue: BTreeMap::new(),
            log: Log::new(),
            oracles: vec![oracle],
            floors: vec![0],
            nodes,
            lives: 0,
            tails: BTreeMap::new(),
            tail_ids: 0,
            flying: BTreeMap::new(),
            append_ids: 0,
            clients: Clients::default(),
            started: BTreeMap::new(),
            performed: BTreeMap::new(),
            healed: false,
            counts: Counts::default(),
            trace: trace.then(Vec::new),
        }
    }

    /// Runs the seed to its end, or to the first invariant that breaks.
    pub fn run(mut self, seed: u64) -> Report {
        self.say(|world| format!("{:?}", world.plan));
        let outcome = self.live();
        if let Err(violation) = &outcome {
            self.say(|_| violation.to_string());
        }
        self.counts.simulated_ms = self.now;
        self.counts.messages = self.log.current().last();
        Report { seed, counts: self.counts, violation: outcome.err(), trace: self.trace.unwrap_or_default() }
    }

    fn live(&mut self) -> Check {
        for node in 0..self.nodes.len() {
            self.after(0, 500, Event::Start { node });
        }
        self.after(0, 1_000, Event::Burst);
        self.after(500, 3_000, Event::Mischief);
        self.storm()?;
        self.end()
    }

    /// Lets happen what happens until `until`.
    fn pass(&mut self, until: u64) -> Check {
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > until {
                break;
            }
            let ((at, _), event) = entry.remove_entry();
            self.now = self.now.max(at);
            self.handle(event)?;
        }
        self.now = self.now.max(until);
        Ok(())
    }

    fn handle(&mut self, event: Event<S>) -> Check {
        match event {
            Event::Start { node } => self.start(node),
            Event::Step { node, life } => self.step(node, life),
            Event::Tick { node, life } => {
                self.tick(node, life);
                Ok(())
            }
            Event::Deliver { node, life, input } => {
                self.deliver(node, life, input);
                Ok(())
            }
            Event::Interrupt { node, life } => {
                self.interrupt(node, life);
                Ok(())
            }
            Event::Arrive { append, id, copy } => self.arrive(append, id, copy),
            Event::OpenTail { node, life, tail, from } => {
                self.open_tail(node, life, tail, from);
                Ok(())
            }
            Event::Pump { tail } => {
                self.pump(tail);
                Ok(())
            }
            Event::Ask { node, life, request } => {
                self.ask(node, life, request);
                Ok(())
            }
            Event::ServerUp => {
                self.log.up = true;
                Ok(())
            }
            Event::Foreign { bytes } => self.store(bytes),
            Event::Burst => {
                self.burst();
                Ok(())
            }
            Event::Issue { op } => {
                self.issue(op);
                Ok(())
            }
            Event::Mischief => self.mischief(),
            Event::Worked { node, life, id, record, outcome } => {
                self.worked(node, life, id, record, outcome);
                Ok(())
            }
        }
    }

    /// Schedules an event in `least` to `most` milliseconds.
    fn after(&mut self, least: u64, most: u64, event: Event<S>) {
        let at = self.now + self.rng.random_range(least..=most.max(least));
        self.at(at, event);
    }

    fn at(&mut self, at: u64, event: Event<S>) {
        self.order += 1;
        self.queue.insert((at, self.order), event);
    }

    /// Whether a fault of this chance happens; none does once the world is healed.
    fn chance(&mut self, chance: f64) -> bool {
        !self.healed && chance > 0.0 && self.rng.random_bool(chance)
    }

    fn wall_ms(&self, node: usize) -> Millis {
        (EPOCH_MS + self.now).saturating_add_signed(self.nodes[node].skew_ms)
    }

    fn fault(&mut self, fault: Fault) {
        self.counts.fault(fault);
        self.say(|_| format!("fault: {fault:?}"));
    }

    fn sight(&mut self, sight: Sight) {
        self.counts.sight(sight);
    }

    fn say(&mut self, line: impl FnOnce(&Self) -> String) {
        if self.trace.is_some() {
            let line = format!("{:>8} {}", self.now, line(self));
            self.trace.get_or_insert_default().push(line);
        }
    }
}
