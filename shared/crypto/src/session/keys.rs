//! The key of one epoch, the nonces it has given out and the sequences it has seen. It must never give out a nonce
//! twice nor move its window for a message that didn't authenticate.

use aes_gcm::aead::{Aead, Payload};
use aes_gcm::{Aes256Gcm, KeyInit};
use aip_names::limits::{
    SESSION_KEY_LIFETIME_MS, SESSION_KEY_MESSAGES_MAX, SESSION_KEY_OVERLAP_MS, SESSION_WINDOW_MESSAGES,
};
use hkdf::Hkdf;
use sha2::Sha256;
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use super::{Role, Sealed, SessionError};

const _: () = assert!(SESSION_WINDOW_MESSAGES <= u128::BITS as u64);

const INFO: &[u8] = b"aip-session-v1";
pub(super) const TAG_BYTES: usize = 16;

pub(super) struct EpochKeys {
    epoch: u32,
    cipher: Aes256Gcm,
    agreed_at_ms: u64,
    /// When it stops opening.
    opens_until_ms: u64,
    next_sequence: u64,
    received: Window,
}

/// The sequences that were opened: the highest, and a bit for each of the [`SESSION_WINDOW_MESSAGES`] below and including it.
#[derive(Default)]
struct Window {
    highest: Option<u64>,
    seen: u128,
}

// === impl EpochKeys ===

impl EpochKeys {
    pub fn agree(
        epoch: u32,
        session_id: &str,
        own: StaticSecret,
        peer_public_key: &[u8; 32],
        now_ms: u64,
    ) -> Result<Self, SessionError> {
        let shared = own.diffie_hellman(&PublicKey::from(*peer_public_key));
        if !shared.was_contributory() {
            return Err(SessionError::WeakPublicKey);
        }
        let key = derive(shared.as_bytes(), session_id)?;
        Ok(Self {
            epoch,
            cipher: Aes256Gcm::new((&*key).into()),
            agreed_at_ms: now_ms,
            opens_until_ms: now_ms.saturating_add(SESSION_KEY_LIFETIME_MS + SESSION_KEY_OVERLAP_MS),
            next_sequence: 0,
            received: Window::default(),
        })
    }

    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// A newer epoch took over: only what is on the way may still come.
    pub fn retire(&mut self, now_ms: u64) {
        self.opens_until_ms = self.opens_until_ms.min(now_ms.saturating_add(SESSION_KEY_OVERLAP_MS));
    }

    pub fn dead(&self, now_ms: u64) -> bool {
        now_ms >= self.opens_until_ms
    }

    pub fn half_used(&self, now_ms: u64) -> bool {
        let received = self.received.highest.unwrap_or(0);
        self.age_ms(now_ms) >= SESSION_KEY_LIFETIME_MS / 2
            || self.next_sequence.max(received) >= SESSION_KEY_MESSAGES_MAX / 2
    }

    pub fn seal(
        &mut self,
        sender: Role,
        session_id: &str,
        plaintext: &[u8],
        now_ms: u64,
    ) -> Result<Sealed, SessionError> {
        if self.age_ms(now_ms) >= SESSION_KEY_LIFETIME_MS {
            return Err(SessionError::Expired);
        }
        if self.next_sequence >= SESSION_KEY_MESSAGES_MAX {
            return Err(SessionError::Exhausted);
        }
        let sequence = self.next_sequence;
        // Taken before it is used: a failure must not leave it to the next message.
        self.next_sequence += 1;
        let aad = associated_data(sender, self.epoch, sequence, session_id);
        let payload = Payload { msg: plaintext, aad: &aad };
        let ciphertext = self
            .cipher
            .encrypt(&nonce(sender, self.epoch, sequence).into(), payload)
            .map_err(|_| SessionError::TooLarge)?;
        Ok(Sealed { epoch: self.epoch, sequence, ciphertext })
    }

    pub fn open(
        &mut self,
        sender: Role,
        session_id: &str,
        sealed: &Sealed,
        now_ms: u64,
    ) -> Result<Zeroizing<Vec<u8>>, SessionError> {
        if self.dead(now_ms) {
            return Err(SessionError::Expired);
        }
        if sealed.sequence >= SESSION_KEY_MESSAGES_MAX {
            return Err(SessionError::Exhausted);
        }
        self.received.check(sealed.sequence)?;
        let aad = associated_data(sender, self.epoch, sealed.sequence, session_id);
        let payload = Payload { msg: &sealed.ciphertext, aad: &aad };
        let plaintext = self
            .cipher
            .decrypt(&nonce(sender, self.epoch, sealed.sequence).into(), payload)
            .map_err(|_| SessionError::NotAuthentic)?;
        self.received.mark(sealed.sequence);
        Ok(Zeroizing::new(plaintext))
    }

    fn age_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.agreed_at_ms)
    }

    #[cfg(test)]
    pub fn skip_to(&mut self, sequence: u64) {
        self.next_sequence = sequence;
    }
}

// === impl Window ===

impl Window {
    fn check(&self, sequence: u64) -> Result<(), SessionError> {
        let Some(behind) = self.highest.and_then(|highest| highest.checked_sub(sequence)) else {
            return Ok(());
        };
        if behind >= SESSION_WINDOW_MESSAGES {
            return Err(SessionError::OutOfWindow);
        }
        if self.seen >> behind & 1 == 1 { Err(SessionError::Replayed) } else { Ok(()) }
    }

    /// Only for a sequence that passed `check`.
    fn mark(&mut self, sequence: u64) {
        match self.highest {
            Some(highest) if sequence <= highest => self.seen |= 1 << (highest - sequence),
            Some(highest) => {
                let ahead = u32::try_from(sequence - highest).unwrap_or(u32::MAX);
                self.seen = self.seen.checked_shl(ahead).unwrap_or(0) | 1;
                self.highest = Some(sequence);
            }
            None => {
                self.seen = 1;
                self.highest = Some(sequence);
            }
        }
    }
}

pub(super) fn derive(
    shared_secret: &[u8; 32],
    session_id: &str,
) -> Result<Zeroizing<[u8; 32]>, SessionError> {
    let mut key = Zeroizing::new([0; 32]);
    Hkdf::<Sha256>::new(Some(session_id.as_bytes()), shared_secret)
        .expand(INFO, key.as_mut())
        .map_err(|_| SessionError::Derivation)?;
    Ok(key)
}

pub(super) fn nonce(sender: Role, epoch: u32, sequence: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    let (head, tail) = nonce.split_at_mut(4);
    head.copy_from_slice(&(epoch | sender_byte(sender) << 24).to_be_bytes());
    tail.copy_from_slice(&sequence.to_be_bytes());
    nonce
}

pub(super) fn associated_data(sender: Role, epoch: u32, sequence: u64, session_id: &str) -> Vec<u8> {
    let mut aad = Vec::with_capacity(13 + session_id.len());
    aad.push(sender_byte(sender) as u8);
    aad.extend_from_slice(&epoch.to_be_bytes());
    aad.extend_from_slice(&sequence.to_be_bytes());
    aad.extend_from_slice(session_id.as_bytes());
    aad
}

fn sender_byte(sender: Role) -> u32 {
    match sender {
        Role::Initiator => 0,
        Role::Responder => 1,
    }
}
