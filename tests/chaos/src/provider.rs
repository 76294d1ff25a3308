//! What the bank's replicas share: the provider behind them, as one file of lines that outlives each of them. Every
//! start and every effect is a line, so "started at most once" and "done exactly once" can be counted afterwards.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

/// One thing that happened at the provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub what: What,
    pub tenant: String,
    pub capability: String,
    pub action: String,
    pub key: Option<String>,
    pub attempt: u32,
    /// The process that did it.
    pub pid: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A handler was started.
    Begun,
    /// The effect.
    Done,
}

/// The provider's file.
#[derive(Debug, Clone)]
pub struct Provider {
    path: PathBuf,
}

// === impl Provider ===

impl Provider {
    pub fn new(path: PathBuf) -> Provider {
        Provider { path }
    }

    /// Writes a line; of one that is `keyed`, only if the tenant's key has had no effect yet. Returns the effect's
    /// number: the first one's, where there was one.
    ///
    /// # Errors
    /// The file can't be used.
    pub fn write(&self, line: &Line, keyed: bool) -> std::io::Result<usize> {
        let file = OpenOptions::new().create(true).read(true).append(true).open(&self.path)?;
        let mut file = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| errno)?;
        let lines = read(&mut file)?;
        let same = |other: &Line| {
            (other.what, &other.tenant, &other.capability, &other.key)
                == (line.what, &line.tenant, &line.capability, &line.key)
        };
        match lines.iter().position(same) {
            Some(first) if keyed => Ok(first),
            _ => {
                let mut text = serde_json::to_string(line)?;
                text.push('\n');
                file.write_all(text.as_bytes())?;
                Ok(lines.len())
            }
        }
    }

    /// Everything that happened. Nothing yet, if nothing happened.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn lines(&self) -> std::io::Result<Vec<Line>> {
        match File::open(&self.path) {
            Ok(mut file) => read(&mut file),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// How often each action of a capability was started and done.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn counts(&self, capability: &str, what: What) -> std::io::Result<BTreeMap<String, usize>> {
        let mut counts = BTreeMap::new();
        for line in self.lines()? {
            if line.capability == capability && line.what == what {
                *counts.entry(line.action).or_default() += 1;
            }
        }
        Ok(counts)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A line that a kill cut off is none: nothing after it was promised.
fn read(file: &mut File) -> std::io::Result<Vec<Line>> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}
