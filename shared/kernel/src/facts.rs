//! What a decision may know of the world besides the store: handed in, never looked up.

use std::cell::Cell;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch.
pub type Millis = u64;

/// A replica of a service: one store, over any number of process lives (for example `gateway-0`).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct ReplicaId(pub String);

/// One process life of a replica. A restart is another writer: what the earlier life began is not this one's.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct WriterId {
    pub replica: ReplicaId,
    pub life: String,
}

impl fmt::Display for WriterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.replica.0, self.life)
    }
}

/// The facts of one decision. `now` is the writer's wall clock, `log_time` the ledger's own time at the state that
/// is looked at, `entropy` random bits for ids.
#[derive(Debug)]
pub struct Facts {
    pub now: Millis,
    pub log_time: Millis,
    pub writer: WriterId,
    entropy: Cell<u128>,
}

// === impl Facts ===

impl Facts {
    pub fn new(now: Millis, log_time: Millis, writer: WriterId, entropy: u128) -> Facts {
        Facts { now, log_time, writer, entropy: Cell::new(entropy) }
    }

    /// A fresh id: `prefix` and a UUID version 7 in thirty-two lower-case hexadecimal digits. Ids of one decision
    /// differ from each other.
    pub fn id(&self, prefix: &str) -> String {
        let entropy = self.entropy.get();
        // A full-period step (Knuth's MMIX multiplier on both halves) keeps the ids of one decision apart.
        self.entropy.set(
            entropy
                .wrapping_mul(0x5851_f42d_4c95_7f2d_1405_7b7e_f767_814f)
                .wrapping_add(0x1405_7b7e_f767_814f),
        );
        let random = entropy ^ (entropy >> 64);
        let time = u128::from(self.now & 0xffff_ffff_ffff) << 80;
        let version = 0x7_u128 << 76;
        let variant = 0x2_u128 << 62;
        let rand_a = ((random >> 64) & 0xfff) << 64;
        let rand_b = random & 0x3fff_ffff_ffff_ffff;
        format!("{prefix}{:032x}", time | version | rand_a | variant | rand_b)
    }
}
