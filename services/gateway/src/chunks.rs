//! The chunk log (11.6): what actions streamed, replayable from any place by any replica. The order of an action's chunks is
//! the log's: each message names the one that it follows, so of two gateways that append at once one looks again. What is
//! remembered here of an action's end is only a saving; it is thrown away when the log says otherwise.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use aip_bus::{Bus, Kept, LogError};
use aip_kernel::Hash;
use aip_names::limits::{ACTION_CHUNKS_MAX, CHUNK_FINDS_MAX, CHUNK_HEADS_MAX, CHUNK_TRIES_MAX};
use aip_names::{Atom, Service, StreamSpec, Subject, TrustDomain, chunk_stream};
use aip_wire::{ActionId, Refusal, StreamChunk, codes};
use tokio::sync::Semaphore;

use head::{Entry, Head, Offered, Verdict, broken};

pub mod head;
pub mod reading;

/// Begins the token of an action whose id is no token itself.
const DIGEST: &str = "sha256_";

/// The log and what is remembered of it.
pub struct Chunks {
    bus: Bus,
    trust_domain: TrustDomain,
    spec: StreamSpec,
    heads: Mutex<HashMap<ActionId, (u64, Head)>>,
    /// Places to look for old chunks.
    finds: Semaphore,
}

/// The end of a stream that is closed.
pub struct Closed {
    pub last: u64,
    /// The error that ends it, if its worker did not end it.
    pub broken: Option<StreamChunk>,
}

// === impl Chunks ===

impl Chunks {
    pub fn new(bus: Bus, trust_domain: TrustDomain, replicas: usize) -> Chunks {
        let spec = chunk_stream(&trust_domain, &Service::gateway(), replicas);
        Chunks { bus, trust_domain, spec, heads: Mutex::default(), finds: Semaphore::new(CHUNK_FINDS_MAX) }
    }

    /// Has the log exist as declared.
    ///
    /// # Errors
    /// JetStream refuses or does not answer.
    pub async fn ensure(&self) -> Result<(), Refusal> {
        self.bus.ensure_stream(&self.spec).await.map(|_| ()).map_err(|error| unavailable(&error))
    }

    /// Keeps a chunk; one that stands already is kept.
    ///
    /// # Errors
    /// What the rules of 11.6 refuse, with the number that is next; or the log is not to be used now.
    pub async fn put(&self, offered: &Offered) -> Result<(), Refusal> {
        let id = &offered.chunk.action_id;
        for _ in 0..CHUNK_TRIES_MAX {
            let (remembered, place, head) = self.head(id).await?;
            match Head::judge(head.as_ref(), offered) {
                Verdict::Repeat => return Ok(()),
                Verdict::Append(entry) => {
                    if self.append(id, place, &entry).await? {
                        return Ok(());
                    }
                }
                // what is remembered may be old
                _ if remembered => self.forget(id),
                Verdict::Earlier => return self.earlier(offered, &head.unwrap_or_default()).await,
                Verdict::Refused(refusal) => return Err(refusal),
            }
        }
        Err(Refusal::new(codes::STREAM_UNAVAILABLE, "", "the chunk log does not come to rest"))
    }

    /// Whether a chunk with a number before the last is one that stands.
    async fn earlier(&self, offered: &Offered, head: &Head) -> Result<(), Refusal> {
        let sequence = offered.chunk.sequence;
        let stands = self.find(&offered.chunk.action_id, sequence).await?;
        match stands {
            Some(hash) if hash == offered.hash => Ok(()),
            Some(_) => Err(head.refusal(codes::STREAM_TAKEN)),
            None => Err(head.refusal(codes::STREAM_NOT_NEXT)),
        }
    }

    /// Notes that `attempt` goes on with the stream: from then on no earlier one adds to it, whichever gateway hears it.
    /// `reached` is what the ledger knows to have been kept. Numbers can't go on when the log has forgotten them; then the
    /// stream ends with an error.
    ///
    /// # Errors
    /// The log is not to be used now.
    pub async fn take_over(&self, id: &ActionId, attempt: u32, reached: u64) -> Result<Head, Refusal> {
        for _ in 0..CHUNK_TRIES_MAX {
            let (_, place, head) = self.head(id).await?;
            let entry = match head {
                Some(head) if head.attempt >= attempt => return Ok(head),
                None if reached > 0 => lost(id, attempt),
                head => head.unwrap_or_default().mark(|head| head.attempt = attempt),
            };
            if self.append(id, place, &entry).await? {
                return Ok(entry.head);
            }
        }
        Err(Refusal::new(codes::STREAM_UNAVAILABLE, "", "the chunk log does not come to rest"))
    }

    /// Lets nothing follow any more, for the action has ended; a stream that its worker did not end is ended with an error.
    ///
    /// # Errors
    /// The log is not to be used now.
    pub async fn close(&self, id: &ActionId, reached: u64) -> Result<Closed, Refusal> {
        for _ in 0..CHUNK_TRIES_MAX {
            // not as remembered: another gateway may have ended it
            let (place, entry) =
                self.last(id).await?.map_or((0, None), |(place, entry)| (place, Some(entry)));
            let head = entry.as_ref().map(|entry| entry.head.clone()).unwrap_or_default();
            if head.closed {
                let broken = entry.and_then(|entry| entry.chunk);
                return Ok(Closed { last: head.sequence.max(reached), broken });
            }
            let entry = head.close(id, reached);
            if self.append(id, place, &entry).await? {
                self.forget(id);
                return Ok(Closed { last: entry.head.sequence, broken: entry.chunk });
            }
        }
        Err(Refusal::new(codes::STREAM_UNAVAILABLE, "", "the chunk log does not come to rest"))
    }

    /// The end of an action's stream: whether it was remembered, where its last message stands, and what that says.
    async fn head(&self, id: &ActionId) -> Result<(bool, u64, Option<Head>), Refusal> {
        let remembered = self.heads.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        if let Some((place, head)) = remembered {
            return Ok((true, place, Some(head)));
        }
        match self.last(id).await? {
            None => Ok((false, 0, None)),
            Some((place, entry)) => {
                self.remember(id, place, &entry.head);
                Ok((false, place, Some(entry.head)))
            }
        }
    }

    /// The last message of an action, as the log has it now.
    pub(crate) async fn last(&self, id: &ActionId) -> Result<Option<(u64, Entry)>, Refusal> {
        let subject = self.subject(id)?;
        let last = match self.bus.last_of(&self.spec.name, &subject).await {
            Err(LogError::Missing(_)) => {
                self.ensure().await?;
                None
            }
            last => last.map_err(|error| unavailable(&error))?,
        };
        last.map(|kept| Ok((kept.place, entry(&kept)?))).transpose()
    }

    /// Appends behind `place`. False when something else stands there, or it is not known: look again.
    async fn append(&self, id: &ActionId, place: u64, entry: &Entry) -> Result<bool, Refusal> {
        let subject = self.subject(id)?;
        let payload = serde_json::to_vec(entry).map_err(|error| unavailable(&error))?;
        match self.bus.append(&self.spec.name, &subject, place, payload.into()).await {
            Ok(place) => {
                self.remember(id, place, &entry.head);
                return Ok(true);
            }
            Err(LogError::Missing(_)) => self.ensure().await?,
            Err(error @ LogError::Unsure { .. }) => {
                tracing::warn!(%error, "a chunk waits for its log");
                self.forget(id);
                return Err(Refusal::of(codes::SERVICE_UNKNOWN));
            }
            Err(error) => tracing::debug!(%error, "a chunk is looked at again"),
        }
        self.forget(id);
        Ok(false)
    }

    fn remember(&self, id: &ActionId, place: u64, head: &Head) {
        let mut heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        if heads.len() >= CHUNK_HEADS_MAX && !heads.contains_key(id) {
            // any of them can be looked up again
            let drop_one = heads.keys().next().cloned();
            drop_one.and_then(|one| heads.remove(&one));
        }
        heads.insert(id.clone(), (place, head.clone()));
    }

    fn forget(&self, id: &ActionId) {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// Where an action's chunks stand. An id is any text, a token is not: others stand under their digest, and nothing that
    /// looks like one stands as it is.
    fn subject(&self, id: &ActionId) -> Result<String, Refusal> {
        let plain = Atom::new(id.as_str()).ok().filter(|atom| !atom.as_str().starts_with(DIGEST));
        let atom = match plain {
            Some(atom) => atom,
            None => Atom::new(&format!("{DIGEST}{}", Hash::of(id.as_str().as_bytes())))
                .map_err(|error| unavailable(&error))?,
        };
        Ok(Subject::chunks(&self.trust_domain, &Service::gateway(), atom).to_string())
    }
}

/// The end of a stream whose numbers are not known any more: its own is behind all that there may have been.
fn lost(id: &ActionId, attempt: u32) -> Entry {
    let sequence = ACTION_CHUNKS_MAX + 1;
    let chunk = Some(broken(id, sequence, &Refusal::of(codes::STREAM_CHUNKS_GONE)));
    let head = Head { sequence, attempt, ended: true, ..Head::default() };
    Entry { head, after: ACTION_CHUNKS_MAX, chunk }
}

fn entry(kept: &Kept) -> Result<Entry, Refusal> {
    serde_json::from_slice(&kept.payload).map_err(|error| {
        tracing::error!(%error, place = kept.place, "a message of the chunk log cannot be read");
        Refusal::of(codes::SERVICE_INTERNAL)
    })
}

fn unavailable(error: &dyn std::fmt::Display) -> Refusal {
    tracing::warn!(%error, "the chunk log cannot be used now");
    Refusal::of(codes::STREAM_UNAVAILABLE)
}
