//! Keeps the log readable: where a peer or a broken link can cause a line at any rate, one of a kind is written in a
//! while, and it says how many were left out.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use aip_names::limits::LOG_INTERVAL_MS;

/// One line of a kind in [`LOG_INTERVAL_MS`]. Kinds are static texts, so that nobody outside can grow their number.
#[derive(Debug, Default)]
pub struct Seldom {
    kinds: Mutex<HashMap<&'static str, (Option<Instant>, u64)>>,
}

// === impl Seldom ===

impl Seldom {
    /// The number of lines of this kind that were left out since the last one, if one may be written now.
    pub fn admit(&self, kind: &'static str) -> Option<u64> {
        self.admit_at(kind, Instant::now())
    }

    fn admit_at(&self, kind: &'static str, now: Instant) -> Option<u64> {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, suppressed) = kinds.entry(kind).or_default();
        if last.is_some_and(|last| now.duration_since(last) < Duration::from_millis(LOG_INTERVAL_MS)) {
            *suppressed += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_events_is_one_line_an_interval() {
        let log = Seldom::default();
        let start = Instant::now();
        let later = start + Duration::from_millis(LOG_INTERVAL_MS);
        assert_eq!(log.admit_at("slow", start), Some(0));
        for _ in 0..1_000 {
            assert_eq!(log.admit_at("slow", start), None);
        }
        assert_eq!(log.admit_at("other", start), Some(0));
        assert_eq!(log.admit_at("slow", later), Some(1_000));
        assert_eq!(log.admit_at("slow", later), None);
    }
}
