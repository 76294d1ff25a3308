//! Receipt hashes (18.2). Whatever stands in a receipt is covered, but its own `hash`; a hash proves that a receipt did
//! not change, never who made it.

pub mod chain;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::canonical;

pub use chain::{ChainError, ChainVerifier, Fault, Verified, verify_chain};

/// The value can't be a receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the receipt is not an object")]
pub struct NotAnObject;

/// The hash that `receipt` must carry: over all its members but `hash`, null ones included.
pub fn hash(receipt: &Value) -> Result<String, NotAnObject> {
    if !receipt.is_object() {
        return Err(NotAnObject);
    }
    Ok(canonical::hash_without(receipt, &["hash"]))
}

/// Links `receipt` to the one before it and sets its hash, which is returned.
///
/// `previous` is the hash of the prior receipt, or none for the first of a chain.
pub fn seal(receipt: &mut Value, previous: Option<&str>) -> Result<String, NotAnObject> {
    let members = receipt.as_object_mut().ok_or(NotAnObject)?;
    match previous {
        Some(previous) => members.insert("previous_hash".to_owned(), Value::from(previous)),
        None => members.remove("previous_hash"),
    };
    let hash = hash(receipt)?;
    if let Some(members) = receipt.as_object_mut() {
        members.insert("hash".to_owned(), Value::from(hash.as_str()));
    }
    Ok(hash)
}

/// The root of a chain: the SHA-256 of its receipts' hashes, in order, one behind the other.
pub fn root<'a>(hashes: impl IntoIterator<Item = &'a str>) -> String {
    let mut digest = Sha256::new();
    for hash in hashes {
        digest.update(hash);
    }
    hex::encode(digest.finalize())
}
