//! What the simulation must know of a machine to drive it and to judge what came of it.

use aip_kernel::{EffectId, EntityKey, Machine};

use crate::Rng;

/// A machine with its clients and its performers. A service is simulated by writing one of these for its machine.
pub trait Subject {
    type M: Machine<Command: Clone>;

    /// The same machine every time: each process life, the model and the replay get one.
    fn machine(&self) -> Self::M;

    /// A client's next command.
    fn next(&mut self, rng: &mut Rng) -> CommandOf<Self>;

    /// The record that must stand in the log when `command` was answered with `answer`; `None` for an answer that
    /// says that nothing was recorded.
    fn evidence(&self, command: &CommandOf<Self>, answer: &AnswerOf<Self>) -> Option<Evidence>;

    /// What a performer that did the effect has recorded.
    fn outcome(&mut self, id: &EffectId, effect: &EffectOf<Self>) -> CommandOf<Self>;

    /// The entity has come to its end; none of its effects need be performed.
    fn ended(&self, state: &StateOf<Self>) -> bool;

    /// What must hold of every state that the machine ever leaves.
    ///
    /// # Errors
    /// What does not hold.
    fn sound(&self, _state: &StateOf<Self>) -> Result<(), String> {
        Ok(())
    }

    /// The names of all indexes that the machine writes.
    fn indexes(&self) -> &'static [&'static str];
}

pub type CommandOf<S> = <<S as Subject>::M as Machine>::Command;
pub type AnswerOf<S> = <<S as Subject>::M as Machine>::Answer;
pub type EffectOf<S> = <<S as Subject>::M as Machine>::Effect;
pub type StateOf<S> = <<S as Subject>::M as Machine>::State;

/// A record, named by its entity and its cause.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Evidence {
    pub entity: EntityKey,
    pub cause: String,
}
