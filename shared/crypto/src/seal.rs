//! Texts that only their maker can read: opaque tokens such as cursors, sealed for whoever holds the same signing key.
//! A token says nothing to anybody else, not even whether two of them mean the same, and holds only where it was made
//! for: the context it is opened with must be the one it was sealed with, byte for byte.

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::key::SigningKey;

/// Each token has a key of its own, derived with so many random bytes, so that their number needs no bound.
const SALT_BYTES: usize = 24;
const NONCE: [u8; 12] = [0; 12];

/// Seals and opens the tokens of one purpose.
pub struct Sealer {
    master: Zeroizing<[u8; 32]>,
}

/// A token can't be made.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error("the system gives no randomness")]
    Random(#[source] getrandom::Error),
    #[error("the token is too large")]
    TooLarge,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer")
    }
}

// === impl Sealer ===

impl Sealer {
    /// The same for all who hold `key`, and different for each purpose.
    pub fn new(key: &SigningKey, purpose: &str) -> Sealer {
        Sealer { master: key.derived(purpose) }
    }

    /// A token that only opens in `context`.
    ///
    /// # Errors
    /// See [`SealError`].
    pub fn seal(&self, content: &[u8], context: &[u8]) -> Result<String, SealError> {
        let mut token = vec![0; SALT_BYTES];
        getrandom::fill(&mut token).map_err(SealError::Random)?;
        let payload = Payload { msg: content, aad: context };
        let sealed = self.cipher(&token).encrypt(Nonce::from_slice(&NONCE), payload);
        token.extend_from_slice(&sealed.map_err(|_| SealError::TooLarge)?);
        Ok(URL_SAFE_NO_PAD.encode(token))
    }

    /// What was sealed; none if the token is not one of ours, or was made for another context.
    pub fn open(&self, token: &str, context: &[u8]) -> Option<Vec<u8>> {
        let token = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (salt, sealed) = token.split_at_checked(SALT_BYTES)?;
        let payload = Payload { msg: sealed, aad: context };
        self.cipher(salt).decrypt(Nonce::from_slice(&NONCE), payload).ok()
    }

    fn cipher(&self, salt: &[u8]) -> Aes256Gcm {
        let mut key = Zeroizing::new([0; 32]);
        // 32 bytes are never too many for HKDF to give
        let _ = Hkdf::<Sha256>::new(Some(salt), self.master.as_ref()).expand(b"token", key.as_mut());
        Aes256Gcm::new(key.as_ref().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealer(seed: u8, purpose: &str) -> Sealer {
        Sealer::new(&SigningKey::from_seed(&[seed; 32]), purpose)
    }

    #[test]
    fn a_token_opens_for_the_same_key_purpose_and_context_only() {
        let token = sealer(1, "cursor").seal(b"here", b"query").unwrap();
        assert_eq!(sealer(1, "cursor").open(&token, b"query").as_deref(), Some(b"here".as_slice()));
        assert_eq!(sealer(2, "cursor").open(&token, b"query"), None);
        assert_eq!(sealer(1, "other").open(&token, b"query"), None);
        assert_eq!(sealer(1, "cursor").open(&token, b"another query"), None);
        assert_ne!(sealer(1, "cursor").seal(b"here", b"query").unwrap(), token);
    }

    #[test]
    fn no_byte_of_a_token_may_change() {
        let sealer = sealer(1, "cursor");
        let token = sealer.seal(b"here", b"").unwrap();
        for at in 0..token.len() {
            let other = if token.as_bytes()[at] == b'A' { "B" } else { "A" };
            let mut changed = token.clone();
            changed.replace_range(at..=at, other);
            assert_eq!(sealer.open(&changed, b""), None, "{at}");
        }
        for text in ["", "A", "evt_cursor_1", &token[..token.len() - 1]] {
            assert_eq!(sealer.open(text, b""), None, "{text}");
        }
    }
}
