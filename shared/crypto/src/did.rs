//! Ed25519 public keys as `did:key` (22.2). One key has one spelling here, and every spelling that is accepted is a
//! key that can be trusted to mean one signer; nothing is fetched or resolved.

use std::fmt;
use std::str::FromStr;

use ed25519_dalek::VerifyingKey;
use serde::{Deserialize, Serialize};

const PREFIX: &str = "did:key:z";
/// The multicodec of an Ed25519 public key, as a varint.
const MULTICODEC: [u8; 2] = [0xed, 0x01];
/// 34 bytes that start with 0xed always take 47 base58 digits.
const BASE58_DIGITS: usize = 47;

/// An Ed25519 public key and its `did:key:z…` text.
///
/// Not on the small-order points, and in the one canonical encoding, so that two DIDs are equal exactly if their keys
/// are, and a signature by one key can't be made to verify under another.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Did {
    text: String,
    key: VerifyingKey,
}

/// Why a text is not the DID of an Ed25519 key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DidError {
    /// Another DID method or multibase, or no DID at all.
    #[error("did does not start with did:key:z")]
    Scheme,
    /// Not the number of digits that an Ed25519 key takes.
    #[error("did does not have the length of an ed25519 did:key")]
    Length,
    /// A character outside the base58btc alphabet.
    #[error("did is not base58btc")]
    Base58,
    /// A key of another kind.
    #[error("did has a multicodec other than ed25519-pub")]
    Multicodec,
    /// Not a point of the curve, or not its canonical encoding.
    #[error("did does not hold a canonical ed25519 public key")]
    Key,
    /// A point of small order, under which one signature fits many messages.
    #[error("did holds a weak ed25519 public key")]
    Weak,
}

// === impl Did ===

impl Did {
    /// The DID of a raw 32-byte public key.
    pub fn from_public_key(bytes: &[u8; 32]) -> Result<Self, DidError> {
        let key = VerifyingKey::from_bytes(bytes).map_err(|_| DidError::Key)?;
        // Decoding reduces an y above the field's prime, so another encoding of the same point would pass.
        if key.to_edwards().compress().as_bytes() != bytes {
            return Err(DidError::Key);
        }
        if key.is_weak() {
            return Err(DidError::Weak);
        }
        Ok(Self::of(key))
    }

    /// For keys that were derived from a seed, which are never weak.
    pub(crate) fn of(key: VerifyingKey) -> Self {
        let mut bytes = [0; 34];
        let (codec, public) = bytes.split_at_mut(MULTICODEC.len());
        codec.copy_from_slice(&MULTICODEC);
        public.copy_from_slice(key.as_bytes());
        Self { text: format!("{PREFIX}{}", bs58::encode(bytes).into_string()), key }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The raw 32-byte public key.
    pub fn public_key(&self) -> &[u8; 32] {
        self.key.as_bytes()
    }

    pub(crate) fn verifying_key(&self) -> &VerifyingKey {
        &self.key
    }
}

impl FromStr for Did {
    type Err = DidError;

    fn from_str(text: &str) -> Result<Self, DidError> {
        let digits = text.strip_prefix(PREFIX).ok_or(DidError::Scheme)?;
        if digits.len() != BASE58_DIGITS {
            return Err(DidError::Length);
        }
        let mut bytes = [0; 35];
        let length = bs58::decode(digits).onto(&mut bytes).map_err(|error| match error {
            bs58::decode::Error::BufferTooSmall => DidError::Length,
            _ => DidError::Base58,
        })?;
        let decoded = bytes.get(..length).ok_or(DidError::Length)?;
        let key = decoded.strip_prefix(&MULTICODEC).ok_or(DidError::Multicodec)?;
        Self::from_public_key(key.try_into().map_err(|_| DidError::Length)?)
    }
}

impl TryFrom<String> for Did {
    type Error = DidError;

    fn try_from(text: String) -> Result<Self, DidError> {
        text.parse()
    }
}

impl From<Did> for String {
    fn from(did: Did) -> Self {
        did.text
    }
}

impl std::hash::Hash for Did {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl PartialOrd for Did {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Did {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.text.cmp(&other.text)
    }
}

impl fmt::Display for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Did({})", self.text)
    }
}
