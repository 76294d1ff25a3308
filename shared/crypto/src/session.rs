//! Encryption between the two ends of a session (22.11), the profile `aip-session-v1`. It keeps no key on disk, knows
//! no peer by name and sends nothing: whoever exchanges the public keys must do so in signed envelopes, because the
//! key agreement alone doesn't say who is at the other end.
//!
//! # The profile
//!
//! *Agreement.* Each side makes an X25519 key pair for one agreement only. The side that offers first is the
//! *initiator*, the other the *responder*. The 256-bit key is HKDF-SHA256 of the shared secret with the UTF-8 bytes of
//! the session id as salt and `aip-session-v1` as info. A shared secret of all zeros is refused (the peer's public key
//! had a small order).
//!
//! *Messages.* AES-256-GCM with its 16-byte tag. A message travels as its epoch, its sequence and the ciphertext.
//!
//! *Nonces.* 12 bytes, never random: sender (1 byte, 0 for the initiator and 1 for the responder), epoch (3 bytes, big
//! endian), sequence (8 bytes, big endian). Each side owns the half of the nonces that begins with its byte and takes
//! sequences from 0 up, each once, even when sealing fails; so the two sides can't collide, and neither can two epochs,
//! even of equal keys.
//!
//! *Associated data.* Sender (1 byte), epoch (4 bytes, big endian), sequence (8 bytes, big endian), session id (UTF-8,
//! to the end). A message reflected to its sender, moved to another session, epoch or place doesn't open.
//!
//! *Receiving.* Each sequence opens once. The receiver remembers the last [`SESSION_WINDOW_MESSAGES`] sequences below the highest it
//! opened; older ones are refused unseen. Only a message that opened moves the window.
//!
//! *Lifetime.* A key seals for [`SESSION_KEY_LIFETIME_MS`] and [`SESSION_KEY_MESSAGES_MAX`] messages from each side, whichever ends first,
//! and opens for [`SESSION_KEY_OVERLAP_MS`] longer, for what is on the way. Each side measures by its own clock from its own
//! agreement. With messages of at most [`SESSION_MESSAGE_BYTES_MAX`], a key then protects less than 2^41 blocks, which
//! leaves a distinguisher an advantage below 2^-46. The bounds stand in [`aip_names::limits`].
//!
//! *Rekeying.* [`Session::needs_rekey`] turns true at half of either bound. The initiator then makes a new pair and
//! offers it for the next epoch; the responder, which may ask for that but never offers itself (two offers would
//! cross), answers with a new pair of its own. Each side calls [`Session::rekey`] when it has the other's public key:
//! from then on it seals in the new epoch, with sequences from 0 again, and opens the old one's messages for
//! [`SESSION_KEY_OVERLAP_MS`]. After that, or at the next rekeying, the old key is wiped. Nothing of an epoch is derived from
//! another, so a key that leaks opens its own epoch only.
//!
//! *Restart.* Keys live in memory only. A process that lost them agrees anew, with new pairs, and starts at epoch 0.

mod keys;
#[cfg(test)]
mod tests;

use aip_names::limits::SESSION_MESSAGE_BYTES_MAX;
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use keys::EpochKeys;

/// Three bytes of the nonce.
const EPOCH_MAX: u32 = (1 << 24) - 1;

/// Which end of the session this is; fixed for the session's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Offered its public key first.
    Initiator,
    /// Answered an offer.
    Responder,
}

/// A key pair for one agreement. Wiped when dropped or used.
pub struct Ephemeral(StaticSecret);

/// One encrypted message, as it travels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    pub epoch: u32,
    pub sequence: u64,
    /// As long as the plaintext, and 16 bytes of tag.
    pub ciphertext: Vec<u8>,
}

/// One end of an encrypted session.
pub struct Session {
    role: Role,
    session_id: String,
    current: EpochKeys,
    /// The epoch before, while its late messages may come.
    previous: Option<EpochKeys>,
}

/// Why a session can't be set up, or a message not be sealed or opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    #[error("the system gives no randomness")]
    Random(#[source] getrandom::Error),
    #[error("the session id is empty")]
    SessionIdEmpty,
    /// The peer's public key has a small order: anyone could know the key.
    #[error("the key agreement gives a secret of zeros")]
    WeakPublicKey,
    /// HKDF refused; it has no reason to.
    #[error("the key cannot be derived")]
    Derivation,
    /// Rekey first.
    #[error("the key's lifetime is over")]
    Expired,
    /// Rekey first, or after too many epochs open a new session.
    #[error("the key has protected as many messages as it may")]
    Exhausted,
    #[error("the message is too large")]
    TooLarge,
    #[error("the message is of an epoch that has no key here")]
    UnknownEpoch,
    #[error("the message was opened before")]
    Replayed,
    #[error("the message is too old to tell whether it was opened before")]
    OutOfWindow,
    /// Changed, cut, of another session or sender, or encrypted under another key.
    #[error("the message does not authenticate")]
    NotAuthentic,
}

// === impl Role ===

impl Role {
    fn peer(self) -> Self {
        match self {
            Self::Initiator => Self::Responder,
            Self::Responder => Self::Initiator,
        }
    }
}

// === impl Ephemeral ===

impl Ephemeral {
    pub fn generate() -> Result<Self, SessionError> {
        let mut secret = Zeroizing::new([0; 32]);
        getrandom::fill(secret.as_mut()).map_err(SessionError::Random)?;
        Ok(Self::from_secret(&secret))
    }

    /// What the peer is told, in a signed envelope.
    pub fn public_key(&self) -> [u8; 32] {
        PublicKey::from(&self.0).to_bytes()
    }

    fn from_secret(secret: &[u8; 32]) -> Self {
        Self(StaticSecret::from(*secret))
    }
}

// === impl Session ===

impl Session {
    /// Sets up epoch 0. `now_ms` is this side's clock, here and in every other call.
    pub fn establish(
        role: Role,
        session_id: &str,
        own: Ephemeral,
        peer_public_key: &[u8; 32],
        now_ms: u64,
    ) -> Result<Self, SessionError> {
        if session_id.is_empty() {
            return Err(SessionError::SessionIdEmpty);
        }
        let current = EpochKeys::agree(0, session_id, own.0, peer_public_key, now_ms)?;
        Ok(Self { role, session_id: session_id.to_owned(), current, previous: None })
    }

    /// Moves to the next epoch's key; a failure leaves the session as it was.
    pub fn rekey(
        &mut self,
        own: Ephemeral,
        peer_public_key: &[u8; 32],
        now_ms: u64,
    ) -> Result<(), SessionError> {
        let epoch = self.current.epoch() + 1;
        if epoch > EPOCH_MAX {
            return Err(SessionError::Exhausted);
        }
        let mut next = EpochKeys::agree(epoch, &self.session_id, own.0, peer_public_key, now_ms)?;
        std::mem::swap(&mut self.current, &mut next);
        next.retire(now_ms);
        self.previous = Some(next);
        Ok(())
    }

    /// Whether it is time for the initiator to offer a new key.
    pub fn needs_rekey(&self, now_ms: u64) -> bool {
        self.current.half_used(now_ms)
    }

    /// The epoch that this side seals in.
    pub fn epoch(&self) -> u32 {
        self.current.epoch()
    }

    pub fn seal(&mut self, plaintext: &[u8], now_ms: u64) -> Result<Sealed, SessionError> {
        if plaintext.len() > SESSION_MESSAGE_BYTES_MAX {
            return Err(SessionError::TooLarge);
        }
        self.current.seal(self.role, &self.session_id, plaintext, now_ms)
    }

    /// Opens a message of the peer. A refused message changes nothing.
    pub fn open(&mut self, sealed: &Sealed, now_ms: u64) -> Result<Zeroizing<Vec<u8>>, SessionError> {
        if sealed.ciphertext.len() > SESSION_MESSAGE_BYTES_MAX + keys::TAG_BYTES {
            return Err(SessionError::TooLarge);
        }
        self.previous.take_if(|keys| keys.dead(now_ms));
        let keys = if sealed.epoch == self.current.epoch() {
            &mut self.current
        } else {
            let previous = self.previous.as_mut().filter(|keys| keys.epoch() == sealed.epoch);
            previous.ok_or(SessionError::UnknownEpoch)?
        };
        keys.open(self.role.peer(), &self.session_id, sealed, now_ms)
    }
}
