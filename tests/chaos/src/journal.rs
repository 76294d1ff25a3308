//! What clients were told, action by action: the one thing that the judge holds against the system.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use aip_sdk::ClientError;
use aip_wire::{ActionId, ActionResult, ActionResultStatus, ProtocolError, codes};
use serde_json::Value;

/// How an action ended, as far as it has to stay so.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    pub status: ActionResultStatus,
    /// The error's, or nothing.
    pub code: String,
    /// Something may have been done all the same (19.3).
    pub uncertain: bool,
    /// Why that is not known.
    pub cause: String,
    pub output: Option<Value>,
}

/// What a client knows of its action.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// Nothing: it may have been taken or not.
    Nothing,
    /// It was taken.
    Taken,
    /// It has ended.
    Ended(End),
    /// It was refused, with a code.
    Refused(String),
}

/// One action of one client.
#[derive(Debug, Clone)]
pub struct Entry {
    pub tenant: usize,
    pub capability: &'static str,
    pub key: Option<String>,
    pub deadline: Instant,
    pub told: Told,
    /// Another action's answer was given, because it has the same key.
    pub stands_for: Option<ActionId>,
    /// It was, or may have been, asked to be cancelled.
    pub cancelled: bool,
}

#[derive(Default)]
pub struct Journal {
    entries: Mutex<HashMap<ActionId, Entry>>,
    /// What must never happen at all, as clients saw it.
    wrong: Mutex<Vec<String>>,
}

// === impl End ===

impl End {
    pub fn of(result: &ActionResult) -> End {
        let code = result.error.as_ref().map(|error| error.code.clone()).unwrap_or_default();
        let details = result.error.as_ref().and_then(|error| error.details.clone()).unwrap_or_default();
        End {
            status: result.status,
            uncertain: code == codes::ACTION_UNCERTAIN.name || details["uncertain_outcome"] == true,
            cause: details["cause"].as_str().unwrap_or_default().to_owned(),
            code,
            output: result.output.clone(),
        }
    }

    /// Whether it says that no worker did, or will do, anything.
    pub fn says_not_done(&self) -> bool {
        let codes = [codes::WORKER_UNAVAILABLE, codes::ACTION_DEADLINE, codes::ACTION_DEAD_LETTERED];
        !self.uncertain && codes.iter().any(|code| code.name == self.code)
    }

    pub fn is_completed(&self) -> bool {
        self.status == ActionResultStatus::Completed
    }
}

// === impl Journal ===

impl Journal {
    pub fn open(&self, id: &ActionId, entry: Entry) {
        self.lock().insert(id.clone(), entry);
    }

    /// Writes down what is known now. What was told before has to stay.
    pub fn told(&self, id: &ActionId, told: Told) {
        let mut entries = self.lock();
        let entry = entries.get_mut(id).expect("an action that was opened");
        match (&entry.told, &told) {
            (Told::Ended(before), Told::Ended(now)) if before != now => {
                self.wrong(format!("{id} ended as {before:?}, then as {now:?}"));
            }
            (Told::Ended(_) | Told::Taken, Told::Refused(code)) => {
                self.wrong(format!("{id} was taken, then refused: {code}"));
            }
            (Told::Ended(_), _) | (Told::Taken, Told::Nothing) => {}
            _ => entry.told = told,
        }
    }

    pub fn cancelled(&self, id: &ActionId) {
        self.lock().get_mut(id).expect("an action that was opened").cancelled = true;
    }

    /// The answer was another action's.
    pub fn stands_for(&self, id: &ActionId, other: ActionId) {
        if *id != other {
            self.lock().get_mut(id).expect("an action that was opened").stands_for = Some(other);
        }
    }

    pub fn wrong(&self, what: String) {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        if wrong.len() < 100 {
            wrong.push(what);
        }
    }

    /// What clients saw that must never happen.
    pub fn all_wrong(&self) -> Vec<String> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn entries(&self) -> Vec<(ActionId, Entry)> {
        self.lock().iter().map(|(id, entry)| (id.clone(), entry.clone())).collect()
    }

    /// Actions whose time has been over for so long.
    pub fn overdue(&self, grace: Duration) -> Vec<(ActionId, Entry)> {
        let now = Instant::now();
        let mut entries = self.entries();
        entries.retain(|(_, entry)| now.saturating_duration_since(entry.deadline) > grace);
        entries
    }

    pub fn completed(&self) -> usize {
        let entries = self.lock();
        entries.values().filter(|entry| matches!(&entry.told, Told::Ended(end) if end.is_completed())).count()
    }

    /// How many actions of each capability were told what.
    pub fn summary(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for entry in self.lock().values() {
            let told = match &entry.told {
                Told::Nothing => "nothing".to_owned(),
                Told::Taken => "taken".to_owned(),
                Told::Ended(end) => format!("{} {}", end.status.as_str(), end.code),
                Told::Refused(code) => format!("refused {code}"),
            };
            *counts.entry(format!("{} {told}", entry.capability)).or_default() += 1;
        }
        counts
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ActionId, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an answer that is no success says about an action.
pub enum Meaning {
    Told(Told, Option<ActionId>),
    /// Asking again under the same id may help (19.2).
    Again,
    Wrong(String),
}

pub fn meaning(error: &ClientError) -> Meaning {
    match error {
        ClientError::Failed { result } => {
            Meaning::Told(Told::Ended(End::of(result)), Some(result.action_id.clone()))
        }
        ClientError::Refused { error } if may_pass(error) => Meaning::Again,
        ClientError::Refused { error } => Meaning::Told(Told::Refused(error.code.clone()), None),
        ClientError::Unreachable { .. } | ClientError::Unknown { .. } | ClientError::NoAnswer { .. } => {
            Meaning::Again
        }
        error => Meaning::Wrong(error.to_string()),
    }
}

fn may_pass(error: &ProtocolError) -> bool {
    error.retryable == Some(true)
}
