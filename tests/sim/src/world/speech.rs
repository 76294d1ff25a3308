//! What a replica says, handed to the world one thing at a time; each is checked when it is said.

use aip_ledger::Readiness;
use aip_ledger::replica::Output;
use rand::Rng as _;

use super::clients::Waiting;
use super::{Event, LifeId, World};
use crate::disk::Ending;
use crate::invariants::{self, Check};
use crate::log::Version;
use crate::subject::{AnswerOf, CommandOf};
use crate::{Fault, Invariant, Sight, Subject, Violation};

/// The log of the tail that a replica read in this step, and whether it has brought anything.
type Open = Option<(Version, bool)>;

impl<S: Subject> World<S> {
    /// Hands out what a step said. Between any two things the process may end, and the rest is never said.
    pub(super) fn speak_all(&mut self, node: usize, id: LifeId, open: Open, out: Vec<Output<S::M>>) -> Check {
        for output in out {
            if self.chance(self.plan.kill_output) {
                self.fault(Fault::KilledBetweenOutputs);
                let ending = if self.rng.random() { Ending::Killed } else { Ending::PowerLoss };
                self.kill(node, ending);
                return Ok(());
            }
            if self.nodes[node].life(id).is_none() {
                return Ok(());
            }
            self.speak(node, id, open, output)?;
        }
        Ok(())
    }

    fn speak(&mut self, node: usize, id: LifeId, open: Open, output: Output<S::M>) -> Check {
        match output {
            Output::OpenTail { from } => self.ask_tail(node, id, from),
            Output::AskLastSequence { request } => {
                self.after(0, 3, Event::Ask { node, life: id, request });
            }
            Output::Append { batch, bytes } => {
                self.may_speak(node, open, "an append")?;
                self.say(|_| format!("r{node} appends {batch}: {}", String::from_utf8_lossy(&bytes)));
                if let Some(life) = self.nodes[node].life(id) {
                    life.sent.entry(batch).or_insert(self.now);
                }
                self.append(node, id, batch, bytes);
                if self.chance(self.plan.pause_append) {
                    self.pause_long(node);
                }
            }
            Output::Perform { id: effect_id, effect, again: _ } => {
                self.may_speak(node, open, "an effect")?;
                self.perform(node, id, effect_id, effect)?;
            }
            Output::Answer { token, answer } => {
                self.say(|_| format!("r{node} answers {token}: {answer:?}"));
                let Some(waiting) = self.waiting(node, id, token)? else { return Ok(()) };
                if answer.is_ok() {
                    self.may_speak(node, open, "an answer")?;
                    self.sees(node, open, waiting)?;
                }
                self.answered(node, waiting, answer)?;
            }
            Output::BarrierPassed { token, result } => {
                let Some(waiting) = self.waiting(node, id, token)? else { return Ok(()) };
                if let (Ok(()), Waiting::Read { floor, version }) = (&result, waiting) {
                    self.may_speak(node, open, "a read")?;
                    self.read(node, open, floor, version)?;
                }
            }
            Output::Changed(_) => {}
            Output::Readiness(readiness) => self.readiness(node, open, &readiness)?,
            Output::Alarm { entity, why } => {
                let position = self.position(node);
                let oracle = &self.oracles[self.nodes[node].version];
                invariants::stopped_with_reason(oracle, &entity, &why, position)?;
            }
        }
        Ok(())
    }

    pub(super) fn position(&self, node: usize) -> u64 {
        self.nodes[node].life.as_ref().map_or(0, |life| life.position.seq)
    }

    fn may_speak(&self, node: usize, open: Open, what: &str) -> Check {
        let Some(life) = &self.nodes[node].life else { return Ok(()) };
        let checked = open.filter(|(_, seen)| *seen || life.position.seq == 0);
        let stream = checked.map(|(version, _)| self.log.stream(version));
        invariants::may_speak(stream, &life.position, &format!("r{node}: {what}"))
    }

    fn waiting(&mut self, node: usize, id: LifeId, token: u64) -> Result<Option<Waiting>, Violation> {
        let Some(life) = self.nodes[node].life(id) else { return Ok(None) };
        let waiting = life.waiting.remove(&token);
        invariants::one_answer(waiting.is_some(), token)?;
        Ok(waiting)
    }

    fn readiness(&mut self, node: usize, open: Open, readiness: &Readiness) -> Check {
        self.say(|_| format!("r{node} is {readiness:?}"));
        let stream = open.map_or(self.log.current(), |(version, _)| self.log.stream(version));
        let Some(life) = self.nodes[node].life.as_mut() else { return Ok(()) };
        life.ready = *readiness == Readiness::Ready;
        if life.ready {
            match life.replica.store().standing() {
                Ok(standing) => invariants::ready_on_the_log(stream, &standing)?,
                Err(error) => return self.store_unreadable(node, &error.to_string()),
            }
            self.sight(Sight::ReplicaCaughtUp);
        } else if !self.log.current().holds(&life.position) {
            self.sight(Sight::PositionRefused);
        }
        Ok(())
    }

    fn read(&mut self, node: usize, open: Open, floor: u64, version: Version) -> Check {
        let now = open.map_or(version, |(version, _)| version);
        let asked = self.nodes[node].life.as_ref().and_then(|life| life.asked);
        invariants::asked_its_own_log(now, asked, self.position(node))?;
        if now == version {
            invariants::read_sees(self.position(node), floor)?;
        }
        self.sight(Sight::ReadPassed);
        Ok(())
    }

    /// An answer may rest on a record or on none.
    fn sees(&self, node: usize, open: Open, waiting: Waiting) -> Check {
        match waiting {
            Waiting::Command { floor, version, .. } if open.is_none_or(|(now, _)| now == version) => {
                invariants::answer_sees(self.position(node), floor)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn acknowledged(
        &mut self,
        node: usize,
        command: &CommandOf<S>,
        answer: &AnswerOf<S>,
    ) -> Check {
        let Some(evidence) = self.subject.evidence(command, answer) else { return Ok(()) };
        let version = self.nodes[node].version;
        let seq = invariants::effective(&self.oracles[version], &evidence, self.position(node))?;
        self.floors[version] = self.floors[version].max(seq);
        if version == self.log.version() {
            self.clients.acknowledged.push(evidence);
        }
        Ok(())
    }

    fn store_unreadable(&mut self, node: usize, error: &str) -> Check {
        self.say(|_| format!("r{node} can't be read: {error}"));
        if self.nodes[node].disk.take_fired().is_empty() {
            return Err(Violation::new(Invariant::State, format!("r{node} can't be read: {error}")));
        }
        self.kill(node, Ending::Killed);
        Ok(())
    }
}
