//! The one rule: is this record effective, a copy, or void? The order of the log is the only arbiter.

use crate::{EntityKey, Hash, Header, Millis};

/// Who holds a claim, and until which log time (`None`: until it is released).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    pub entity: EntityKey,
    pub until: Option<Millis>,
}

// === impl Holder ===

impl Holder {
    pub fn holds_at(&self, log_time: Millis) -> bool {
        self.until.is_none_or(|until| until > log_time)
    }
}

/// What the judge may ask of the state that the log has built so far.
pub trait Heads {
    type Error;
    /// Number and hash of the entity's last effective record.
    fn head(&self, entity: &EntityKey) -> Result<Option<(u64, Hash)>, Self::Error>;
    /// Hash of the entity's `n`-th effective record.
    fn hash_at(&self, entity: &EntityKey, n: u64) -> Result<Option<Hash>, Self::Error>;
    fn holder(&self, claim: &str) -> Result<Option<Holder>, Self::Error>;
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    Effective,
    /// The same record stands at its place already: for whoever waits for it, a success.
    Copy,
    Void(VoidReason),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VoidReason {
    /// The entity has moved on, or has not come so far, since the writer looked.
    Superseded { expected_n: u64 },
    /// Another entity that the decision depended on has changed.
    StaleRead { entity: EntityKey },
    /// A claimed name is held.
    Claimed { name: String, by: EntityKey },
}

/// Judges a record against what stands before it in the log. `hash` is the digest of the record as encoded.
pub fn judge<H: Heads>(
    header: &Header,
    hash: &Hash,
    heads: &H,
    log_time: Millis,
) -> Result<Verdict, H::Error> {
    let entity = header.entity();
    let (n, prev) = heads.head(&entity)?.unwrap_or((0, Hash::ZERO));
    if header.n != n + 1 || header.prev != prev {
        if header.n <= n && heads.hash_at(&entity, header.n)?.as_ref() == Some(hash) {
            return Ok(Verdict::Copy);
        }
        return Ok(Verdict::Void(VoidReason::Superseded { expected_n: n + 1 }));
    }
    for read in &header.reads {
        let other = EntityKey::new(read.kind.clone(), read.key.clone());
        let n = heads.head(&other)?.map_or(0, |(n, _)| n);
        if n != read.n {
            return Ok(Verdict::Void(VoidReason::StaleRead { entity: other }));
        }
    }
    for claim in &header.claims {
        if let Some(holder) = heads.holder(&claim.name)?
            && holder.entity != entity
            && holder.holds_at(log_time)
        {
            let name = claim.name.clone();
            return Ok(Verdict::Void(VoidReason::Claimed { name, by: holder.entity }));
        }
    }
    Ok(Verdict::Effective)
}
