//! Clients: they ask any replica, wait, and ask again with the same request when they don't know.

use aip_ledger::LedgerError;
use aip_ledger::replica::Input;
use rand::Rng as _;

use super::{Event, World};
use crate::invariants::Check;
use crate::log::Version;
use crate::subject::{AnswerOf, CommandOf};
use crate::{Evidence, Sight, Subject};

/// How often a client asks the same before it gives up.
const TRIES_MAX: u32 = 6;

/// Who waits under a token.
#[derive(Clone, Copy, Debug)]
pub enum Waiting {
    /// A command, given when `floor` was acknowledged.
    Command { op: usize, floor: u64, version: Version },
    /// A read that must see what was acknowledged up to `floor`.
    Read { floor: u64, version: Version },
}

/// One request of one client, over all its tries.
#[derive(Debug)]
pub struct Op<C> {
    command: C,
    tries: u32,
    pub through: bool,
}

pub struct Clients<S: Subject> {
    pub ops: Vec<Op<CommandOf<S>>>,
    /// What clients were told is done.
    pub acknowledged: Vec<Evidence>,
    tokens: u64,
}

impl<S: Subject> Default for Clients<S> {
    fn default() -> Clients<S> {
        Clients { ops: Vec::new(), acknowledged: Vec::new(), tokens: 0 }
    }
}

impl<S: Subject> World<S> {
    /// Some clients ask at the same time, and some read.
    pub(super) fn burst(&mut self) {
        if self.healed || self.clients.ops.len() >= self.plan.commands as usize {
            return;
        }
        for _ in 0..self.rng.random_range(1..=self.plan.burst) {
            let command = self.subject.next(&mut self.rng);
            self.clients.ops.push(Op { command, tries: 0, through: false });
            self.issue(self.clients.ops.len() - 1);
        }
        if self.rng.random_bool(0.3) {
            self.begin_read();
        }
        let gap = self.plan.gap_ms;
        self.after(1, gap * 2, Event::Burst);
    }

    fn any_living(&mut self) -> Option<usize> {
        let living: Vec<usize> =
            (0..self.nodes.len()).filter(|node| self.nodes[*node].life.is_some()).collect();
        (!living.is_empty()).then(|| living[self.rng.random_range(0..living.len())])
    }

    pub(super) fn issue(&mut self, op: usize) {
        let Some(node) = self.any_living() else {
            self.after(100, 1_000, Event::Issue { op });
            return;
        };
        let asked = &mut self.clients.ops[op];
        asked.tries += 1;
        let command = asked.command.clone();
        self.clients.tokens += 1;
        let token = self.clients.tokens;
        self.say(|_| format!("client asks r{node} {token}: {command:?}"));
        let version = self.log.version();
        let floor = self.floors[version];
        if let Some(life) = &mut self.nodes[node].life {
            life.waiting.insert(token, Waiting::Command { op, floor, version });
        }
        self.push(node, None, Input::Command { token, command });
    }

    fn begin_read(&mut self) {
        let Some(node) = self.any_living() else { return };
        self.clients.tokens += 1;
        let token = self.clients.tokens;
        let version = self.log.version();
        let floor = self.floors[version];
        if let Some(life) = &mut self.nodes[node].life {
            life.waiting.insert(token, Waiting::Read { floor, version });
        }
        self.push(node, None, Input::Barrier { token });
    }

    pub(super) fn answered(
        &mut self,
        node: usize,
        waiting: Waiting,
        answer: Result<AnswerOf<S>, LedgerError>,
    ) -> Check {
        let Waiting::Command { op, .. } = waiting else { return Ok(()) };
        match answer {
            Ok(answer) => {
                self.sight(Sight::Answered);
                self.clients.ops[op].through = true;
                let command = self.clients.ops[op].command.clone();
                return self.acknowledged(node, &command, &answer);
            }
            Err(LedgerError::Unknown) => self.sight(Sight::AnsweredUnknown),
            Err(LedgerError::Store(_)) => {
                self.sight(Sight::AnsweredFault);
                self.clients.ops[op].tries += 2;
            }
            Err(_) => self.sight(Sight::AnsweredNotReady),
        }
        self.ask_again(op);
        Ok(())
    }

    /// The caller's replica is gone, and with it the connection.
    pub(super) fn disconnected(&mut self, waiting: Waiting) {
        if let Waiting::Command { op, .. } = waiting {
            self.ask_again(op);
        }
    }

    fn ask_again(&mut self, op: usize) {
        if self.clients.ops[op].tries < TRIES_MAX {
            self.after(50, 3_000, Event::Issue { op });
        } else {
            self.clients.ops[op].through = true;
        }
    }
}
