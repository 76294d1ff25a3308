//! Clients and performers of the toy.

use aip_kernel::EffectId;
use rand::Rng as _;

use super::{Answer, Ask, BUSY, Command, Effect, State, Toy, thing};
use crate::{Evidence, Rng, Subject};

/// Things that clients ask something of at the same time; few, so that they compete.
const THINGS: u64 = 5;
/// Names that are fought over.
const NAMES: u64 = 3;

#[derive(Debug, Default)]
pub struct ToySubject {
    asked: u64,
}

// === impl ToySubject ===

impl ToySubject {
    /// Things come and go: later requests are about later things.
    fn thing(&self, rng: &mut Rng) -> String {
        format!("t{}", self.asked / 20 + rng.random_range(0..THINGS))
    }

    fn ask(&self, rng: &mut Rng) -> Ask {
        let name = |rng: &mut Rng| format!("name-{}", rng.random_range(0..NAMES));
        match rng.random_range(0..100_u32) {
            0..25 => Ask::Add { amount: rng.random_range(1..10) },
            25..40 => Ask::Copy { from: self.thing(rng) },
            40..55 => {
                let for_ms = rng.random_bool(0.7).then(|| rng.random_range(50..6_000));
                Ask::Take { name: name(rng), for_ms }
            }
            55..62 => Ask::Free { name: name(rng) },
            62..87 => Ask::Begin {
                repeatable: rng.random_range(0..=2),
                once: rng.random_range(0..=1),
                timer_ms: rng.random_bool(0.4).then(|| rng.random_range(0..5_000)),
            },
            87..93 => Ask::End,
            93..99 => Ask::Look,
            _ => Ask::Poison { name: name(rng) },
        }
    }
}

impl Subject for ToySubject {
    type M = Toy;

    fn machine(&self) -> Toy {
        Toy
    }

    fn next(&mut self, rng: &mut Rng) -> Command {
        self.asked += 1;
        Command::Ask { req: format!("req-{}", self.asked), thing: self.thing(rng), ask: self.ask(rng) }
    }

    fn evidence(&self, _command: &Command, answer: &Answer) -> Option<Evidence> {
        match answer {
            Answer::Done { thing: id, req } => Some(Evidence { entity: thing(id), cause: req.clone() }),
            Answer::Nothing => None,
        }
    }

    fn outcome(&mut self, id: &EffectId, _effect: &Effect) -> Command {
        Command::Outcome { id: id.clone(), known: true }
    }

    fn ended(&self, state: &State) -> bool {
        state.ended
    }

    fn indexes(&self) -> &'static [&'static str] {
        &[BUSY]
    }
}
