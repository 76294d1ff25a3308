//! Verifying a receipt chain, one receipt at a time (18.2). It must never pass a chain of which it has not seen every
//! receipt, and what it keeps must not grow with the size of the receipts.
//!
//! A chain shows tampering at the first receipt that doesn't fit: one whose content doesn't have its hash, or one that
//! wasn't made after the receipt now standing before it. In the second case the receipt itself is whole (its hash
//! covers its link), so what was removed, inserted, moved or replaced stands between it and the one before. Whoever
//! rewrites a chain from some receipt to its end is found only by a root that was kept elsewhere.

use std::collections::HashSet;

use aip_names::limits::RECEIPT_CHAIN_RECEIPTS_MAX;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Reads a chain in order and remembers the last hash, the root so far and the ids.
///
/// After a fault every later call returns the same error, so ignoring one can't end well.
#[derive(Debug, Default)]
pub struct ChainVerifier {
    index: u64,
    last_hash: Option<String>,
    root: Sha256,
    /// The first half of each id's SHA-256: the same room for ids of any length.
    ids: HashSet<u128>,
    broken: Option<ChainError>,
}

/// A chain whose receipts, links and root were all verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    pub receipts: u64,
    /// Lower-case hexadecimal. An empty chain has the root of no hashes.
    pub root_hash: String,
}

/// Where and why a chain is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// `index` counts from 0.
    #[error("receipt {index} ({}): {fault}", id.as_deref().unwrap_or("no id"))]
    Receipt { index: u64, id: Option<String>, fault: Fault },
    #[error("the chain has no array of receipts")]
    NotAChain,
    #[error("the chain has receipts but no root hash")]
    RootMissing,
    #[error("the root hash is not that of the receipts")]
    RootMismatch,
}

/// What is wrong with one receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("it is not an object")]
    NotAnObject,
    #[error("it has no id")]
    IdMissing,
    #[error("it has no hash")]
    HashMissing,
    #[error("its content does not have its hash")]
    HashMismatch,
    #[error("it is the first but names a previous hash")]
    FirstHasPrevious,
    #[error("it names no previous hash")]
    PreviousMissing,
    #[error("it was not made after the receipt before it")]
    LinkMismatch,
    #[error("its id was used by an earlier receipt")]
    DuplicateId,
    #[error("the chain has too many receipts")]
    TooMany,
}

/// Verifies a whole chain object: `receipts` and `root_hash`.
pub fn verify_chain(chain: &Value) -> Result<Verified, ChainError> {
    let receipts = chain.get("receipts").and_then(Value::as_array).ok_or(ChainError::NotAChain)?;
    let mut verifier = ChainVerifier::default();
    for receipt in receipts {
        verifier.push(receipt)?;
    }
    match chain.get("root_hash") {
        None | Some(Value::Null) => verifier.finish(None),
        Some(Value::String(root)) => verifier.finish(Some(root)),
        Some(_) => Err(ChainError::RootMismatch),
    }
}

// === impl ChainVerifier ===

impl ChainVerifier {
    /// Takes the next receipt of the chain.
    pub fn push(&mut self, receipt: &Value) -> Result<(), ChainError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        self.judge(receipt).map_err(|fault| {
            let id = receipt.get("id").and_then(Value::as_str).map(str::to_owned);
            let error = ChainError::Receipt { index: self.index, id, fault };
            self.broken.insert(error).clone()
        })?;
        self.index += 1;
        Ok(())
    }

    /// Ends the chain. `root_hash` is the root it came with or, better, one that was kept elsewhere; a chain that is
    /// not empty must have one.
    pub fn finish(self, root_hash: Option<&str>) -> Result<Verified, ChainError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        let root = hex::encode(self.root.finalize());
        match root_hash {
            None if self.index > 0 => Err(ChainError::RootMissing),
            Some(claimed) if claimed != root => Err(ChainError::RootMismatch),
            _ => Ok(Verified { receipts: self.index, root_hash: root }),
        }
    }

    fn judge(&mut self, receipt: &Value) -> Result<(), Fault> {
        if self.index >= RECEIPT_CHAIN_RECEIPTS_MAX {
            return Err(Fault::TooMany);
        }
        let computed = super::hash(receipt).map_err(|_| Fault::NotAnObject)?;
        let id = receipt.get("id").and_then(Value::as_str).ok_or(Fault::IdMissing)?;
        let hash = receipt.get("hash").and_then(Value::as_str).ok_or(Fault::HashMissing)?;
        if hash != computed {
            return Err(Fault::HashMismatch);
        }
        let previous = receipt.get("previous_hash").filter(|previous| !previous.is_null());
        match (&self.last_hash, previous) {
            (None, None) => {}
            (None, Some(_)) => return Err(Fault::FirstHasPrevious),
            (Some(_), None) => return Err(Fault::PreviousMissing),
            (Some(last), Some(previous)) if previous.as_str() == Some(last) => {}
            (Some(_), Some(_)) => return Err(Fault::LinkMismatch),
        }
        if !self.ids.insert(half_digest(id)) {
            return Err(Fault::DuplicateId);
        }
        self.root.update(&computed);
        self.last_hash = Some(computed);
        Ok(())
    }
}

fn half_digest(id: &str) -> u128 {
    let digest = Sha256::digest(id);
    digest.iter().take(16).fold(0, |number, byte| (number << 8) | u128::from(*byte))
}
