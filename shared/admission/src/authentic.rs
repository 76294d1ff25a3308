//! The first two gates: a [`Valid`] envelope becomes [`Authentic`] when a signature or a token proves who sent it
//! (22.2, 22.3). Both together must name the same principal. What the envelope says about its sender is only ever
//! compared, never believed.

use std::sync::Arc;

use arc_swap::ArcSwap;
use secrecy::SecretString;
use serde_json::Value;

use aip_names::limits::ID_BYTES_MAX;
use aip_wire::validate::Checked;
use aip_wire::{Action, Envelope, MessageBody, Principal, Refusal, codes};

use crate::caller::{Caller, Method};
use crate::directory::Directory;
use crate::keys::KeyPool;
use crate::token;

/// An envelope that obeys the wire's rules, and nothing more. Keeps the value as it was received, because signatures
/// cover that and not our reading of it.
#[derive(Debug, Clone)]
pub struct Valid {
    received: Value,
    envelope: Envelope,
}

/// An envelope whose sender is proven.
#[derive(Debug, Clone)]
pub struct Authentic {
    valid: Valid,
    caller: Caller,
    replay: Option<ReplayClaim>,
}

/// The name that a signed message claims in the log, once (22.3). Whoever decides has to carry it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayClaim {
    /// `replay:<did>:<message id>`
    pub name: String,
    pub expires_at_ms: u64,
}

/// Judges who is asking, by the directory of the moment.
#[derive(Debug)]
pub struct Authenticator {
    directory: ArcSwap<Directory>,
    changes: tokio::sync::watch::Sender<u64>,
    keys: KeyPool,
}

/// The authenticator cannot be built.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up the client that fetches token keys")]
pub struct AuthenticatorError(#[from] reqwest::Error);

// === impl Valid ===

impl From<Checked> for Valid {
    fn from(checked: Checked) -> Valid {
        let (received, envelope) = checked.into_parts();
        Valid { received, envelope }
    }
}

impl Valid {
    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    pub fn received(&self) -> &Value {
        &self.received
    }
}

// === impl Authentic ===

impl Authentic {
    /// An action whose sender was proven when it was admitted before.
    pub(crate) fn recalled(envelope: Envelope, caller: Caller) -> Authentic {
        Authentic { valid: Valid { received: Value::Null, envelope }, caller, replay: None }
    }

    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The envelope, its `from` being the proven principal whatever was claimed.
    pub fn envelope(&self) -> &Envelope {
        &self.valid.envelope
    }

    /// The action that the message carries, if it carries one.
    pub fn action(&self) -> Option<&Action> {
        match &self.valid.envelope.body {
            MessageBody::Action(action) => Some(action),
            _ => None,
        }
    }

    /// Exactly what arrived; null for an action that is admitted again.
    pub fn received(&self) -> &Value {
        &self.valid.received
    }

    /// The claim of a signed message; `None` for one that a token authenticated.
    pub fn replay(&self) -> Option<&ReplayClaim> {
        self.replay.as_ref()
    }

    /// Replies to signed requests are signed.
    pub fn is_signed(&self) -> bool {
        self.replay.is_some()
    }
}

// === impl Authenticator ===

impl Authenticator {
    /// # Errors
    /// The HTTP client for key sets cannot be built.
    pub fn new(directory: Arc<Directory>) -> Result<Authenticator, AuthenticatorError> {
        let keys = KeyPool::new(&directory)?;
        Ok(Authenticator {
            directory: ArcSwap::new(directory),
            changes: tokio::sync::watch::Sender::new(0),
            keys,
        })
    }

    /// The directory of the moment. Take it once a request, so that one request is judged by one directory.
    pub fn directory(&self) -> Arc<Directory> {
        self.directory.load_full()
    }

    /// Puts a new directory in force for all requests from now on.
    pub fn replace(&self, directory: Arc<Directory>) {
        self.keys.follow(&directory);
        self.directory.store(directory);
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Counts the directories that came after the first: who relies on one for longer has to look again.
    pub fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Who shows this token: for requests that have no envelope. `now_ms` is the wall clock.
    ///
    /// # Errors
    /// `aip.auth.*`; without a token `aip.auth.missing`.
    pub async fn caller(&self, token: Option<&SecretString>, now_ms: u64) -> Result<Caller, Refusal> {
        let token = token.ok_or_else(required)?;
        token::verify(token, &self.directory(), &self.keys, now_ms).await
    }

    /// Who sent this envelope. `now_ms` is the wall clock.
    ///
    /// # Errors
    /// `aip.auth.*`
    pub async fn authenticate(
        &self,
        valid: Valid,
        token: Option<&SecretString>,
        now_ms: u64,
    ) -> Result<Authentic, Refusal> {
        let directory = self.directory();
        let by_token = match token {
            Some(token) => Some(token::verify(token, &directory, &self.keys, now_ms).await?),
            None => None,
        };
        // whatever stands in `security` has to verify, even if a token would do
        let signed = valid.received.get("security").is_some_and(|security| !security.is_null());
        let by_signature = match signed {
            true => Some(signer(&valid, &directory, now_ms)?),
            false => None,
        };
        let (caller, replay) = match (by_token, by_signature) {
            (None, None) => return Err(required()),
            (Some(caller), None) => (caller, None),
            (None, Some((caller, replay))) => (caller, Some(replay)),
            (Some(bearer), Some((signer, replay))) => (both(bearer, &signer)?, Some(replay)),
        };
        check_claim(valid.envelope.from.as_ref(), &caller, &directory)?;
        let mut valid = valid;
        valid.envelope.from = Some(caller.principal().clone());
        Ok(Authentic { valid, caller, replay })
    }
}

/// The signer has to be bound to a principal of this trust domain, and its clock near ours.
fn signer(valid: &Valid, directory: &Directory, now_ms: u64) -> Result<(Caller, ReplayClaim), Refusal> {
    let did = aip_crypto::verify_envelope(&valid.received)
        .map_err(|error| Refusal::new(codes::AUTH_SIGNATURE, error.pointer(), error.to_string()))?;
    let party = directory.party_of_did(did.as_str()).ok_or_else(|| {
        Refusal::new(codes::AUTH_SIGNER, "/security/did", "the signer is bound to no principal")
    })?;
    let sent_at_ms = valid.envelope.sent_at.as_ms();
    let limits = directory.limits();
    let skew = |message| Err(Refusal::new(codes::AUTH_SKEW, "/sent_at", message));
    if sent_at_ms.saturating_add(limits.skew_past_ms) < now_ms {
        return skew("the message was sent too long ago");
    }
    if sent_at_ms > now_ms.saturating_add(limits.skew_future_ms) {
        return skew("the message was sent in the future");
    }
    // the claim keeps it for as long as the replay window is
    if valid.envelope.message_id.as_str().len() > ID_BYTES_MAX {
        return Err(Refusal::new(codes::LIMIT_STRING_BYTES, "/message_id", "the message id is too long"));
    }
    let replay = ReplayClaim {
        name: format!("replay:{did}:{}", valid.envelope.message_id),
        expires_at_ms: sent_at_ms.max(now_ms).saturating_add(limits.replay_window_ms),
    };
    let caller = Caller::new(party, Method::Signature { did: did.to_string() }).signed_by(did.as_str());
    Ok((caller, replay))
}

/// A token beside a signature: one principal, with no more than the token allows.
fn both(bearer: Caller, signer: &Caller) -> Result<Caller, Refusal> {
    match (bearer.id() == signer.id(), signer.method()) {
        (true, Method::Signature { did }) => Ok(bearer.signed_by(did)),
        _ => {
            Err(Refusal::new(codes::AUTH_CLAIM, "/security", "token and signature name different principals"))
        }
    }
}

fn check_claim(from: Option<&Principal>, caller: &Caller, directory: &Directory) -> Result<(), Refusal> {
    let Some(from) = from else { return Ok(()) };
    let known = caller.principal();
    let bound = |did: &String| {
        directory.party_of_did(did).is_some_and(|party| party.principal.id == known.id)
            && known.did.as_ref().is_none_or(|signed| signed == did)
    };
    let fits = from.id == known.id
        && from.kind == known.kind
        && from.trust_domain.as_deref().is_none_or(|domain| domain == directory.trust_domain())
        && from.did.as_ref().is_none_or(bound);
    match fits {
        true => Ok(()),
        false => Err(Refusal::new(codes::AUTH_CLAIM, "/from", "the sender is not who it claims to be")),
    }
}

fn required() -> Refusal {
    Refusal::new(codes::AUTH_MISSING, "", "the message is not signed and came without a token")
}

#[cfg(test)]
mod tests;
