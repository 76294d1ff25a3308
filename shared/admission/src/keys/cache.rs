//! Keeps key sets, and decides when to read them again: when they are old, and when a token names a key that is not
//! there, but never more often than the least interval, and with growing pauses while the source fails. So tokens
//! with made-up key ids cost one fetch an interval, however many come.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::Mutex;

use aip_names::limits::{JWKS_BACKOFF_MAX_MS, JWKS_REFRESH_MIN_MS, JWKS_STALE_MAX_MS};

use super::source::{Fetcher, SourceError};
use super::{Key, KeySet};
use crate::directory::{Directory, KeySource};

/// The key sets of all configured issuers.
#[derive(Debug)]
pub(crate) struct KeyPool {
    fetcher: Fetcher,
    issuers: ArcSwap<HashMap<String, Arc<IssuerKeys>>>,
}

/// Why there is no key for a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyFailure {
    /// The issuer's set is known, and the key is not in it.
    Unknown,
    /// There is no set young enough to be trusted.
    Unavailable { retry_after_ms: u64 },
}

#[derive(Debug)]
struct IssuerKeys {
    iss: String,
    source: KeySource,
    refresh_ms: u64,
    snapshot: ArcSwap<Snapshot>,
    attempts: Mutex<Attempts>,
}

#[derive(Debug, Default)]
struct Snapshot {
    keys: KeySet,
    read_at_ms: Option<u64>,
}

#[derive(Debug, Default)]
struct Attempts {
    failures: u32,
    next_at_ms: u64,
}

// === impl KeyPool ===

impl KeyPool {
    pub fn new(directory: &Directory) -> Result<KeyPool, reqwest::Error> {
        let pool = KeyPool { fetcher: Fetcher::new()?, issuers: ArcSwap::default() };
        pool.follow(directory);
        Ok(pool)
    }

    /// Takes over the issuers of a new directory; sets whose source is the same are kept.
    pub fn follow(&self, directory: &Directory) {
        let known = self.issuers.load();
        let issuers = directory.issuers().map(|issuer| {
            let same =
                |keys: &&Arc<IssuerKeys>| keys.source == issuer.keys && keys.refresh_ms == issuer.refresh_ms;
            let keys = known.get(&issuer.iss).filter(same).cloned().unwrap_or_else(|| {
                Arc::new(IssuerKeys {
                    iss: issuer.iss.clone(),
                    source: issuer.keys.clone(),
                    refresh_ms: issuer.refresh_ms,
                    snapshot: ArcSwap::default(),
                    attempts: Mutex::default(),
                })
            });
            (issuer.iss.clone(), keys)
        });
        self.issuers.store(Arc::new(issuers.collect()));
    }

    /// The key `kid` of an issuer.
    ///
    /// # Errors
    /// [`KeyFailure::Unknown`] for an issuer that is not configured, too.
    pub async fn key(&self, iss: &str, kid: Option<&str>, now_ms: u64) -> Result<Key, KeyFailure> {
        let issuer = self.issuers.load().get(iss).cloned().ok_or(KeyFailure::Unknown)?;
        issuer.key(&self.fetcher, kid, now_ms).await
    }
}

// === impl IssuerKeys ===

impl IssuerKeys {
    async fn key(&self, fetcher: &Fetcher, kid: Option<&str>, now_ms: u64) -> Result<Key, KeyFailure> {
        let snapshot = self.snapshot.load();
        if snapshot.is_younger(now_ms, self.refresh_ms)
            && let Some(key) = snapshot.keys.find(kid)
        {
            return Ok(key.clone());
        }
        if snapshot.is_younger(now_ms, JWKS_STALE_MAX_MS)
            && let Some(key) = snapshot.keys.find(kid)
        {
            // good enough while somebody else is reading the set, or its source fails
            if let Ok(mut attempts) = self.attempts.try_lock() {
                self.refresh(fetcher, &mut attempts, now_ms).await;
                return self.find(kid, now_ms, &attempts);
            }
            return Ok(key.clone());
        }
        drop(snapshot);
        let mut attempts = self.attempts.lock().await;
        let renewed = self.snapshot.load().is_younger(now_ms, self.refresh_ms);
        if !renewed || self.snapshot.load().keys.find(kid).is_none() {
            self.refresh(fetcher, &mut attempts, now_ms).await;
        }
        self.find(kid, now_ms, &attempts)
    }

    fn find(&self, kid: Option<&str>, now_ms: u64, attempts: &Attempts) -> Result<Key, KeyFailure> {
        let snapshot = self.snapshot.load();
        if !snapshot.is_younger(now_ms, JWKS_STALE_MAX_MS) {
            let retry_after_ms = attempts.next_at_ms.saturating_sub(now_ms);
            return Err(KeyFailure::Unavailable { retry_after_ms });
        }
        snapshot.keys.find(kid).cloned().ok_or(KeyFailure::Unknown)
    }

    /// Reads the set, unless the last try is too near.
    async fn refresh(&self, fetcher: &Fetcher, attempts: &mut Attempts, now_ms: u64) {
        // a clock that was set back must not keep keys out for longer than the longest pause
        let next_at_ms = attempts.next_at_ms.min(now_ms.saturating_add(JWKS_BACKOFF_MAX_MS));
        if now_ms < next_at_ms {
            return;
        }
        // set before the await: a caller that goes away must not make the next one try at once
        attempts.failures = attempts.failures.saturating_add(1);
        attempts.next_at_ms = now_ms.saturating_add(pause_ms(attempts.failures));
        match fetcher.read(&self.source).await {
            Ok(keys) => {
                self.snapshot.store(Arc::new(Snapshot { keys, read_at_ms: Some(now_ms) }));
                *attempts = Attempts { failures: 0, next_at_ms: now_ms.saturating_add(JWKS_REFRESH_MIN_MS) };
            }
            Err(error) => self.report(&error, attempts.failures),
        }
    }

    fn report(&self, error: &SourceError, failures: u32) {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::warn!(issuer = self.iss, failures, %error, cause, "token keys could not be read");
    }
}

impl Snapshot {
    fn is_younger(&self, now_ms: u64, than_ms: u64) -> bool {
        self.read_at_ms.is_some_and(|read_at_ms| now_ms.saturating_sub(read_at_ms) < than_ms)
    }
}

fn pause_ms(failures: u32) -> u64 {
    let doublings = failures.saturating_sub(1).min(16);
    (JWKS_REFRESH_MIN_MS << doublings).min(JWKS_BACKOFF_MAX_MS)
}
