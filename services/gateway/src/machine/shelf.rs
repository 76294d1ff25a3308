//! Where the records of an action, a message or a manifest can be found by those who may see them: rows by owner and
//! by tenant, so that a reader's scan never passes over what is hidden from it. Readers choose the shelves
//! (`aip_admission::Reader::places`); nothing here knows who may read.

use aip_kernel::{Applying, Hash, LogPlace, Millis};
use aip_wire::PrincipalId;

use super::{GatewayMachine, keys};

/// Log times have so many bits in a row's key.
const TIME_MAX: Millis = 0xffff_ffff_ffff;
/// Sorts behind every row of a shelf.
const BEHIND: char = '\u{7f}';

/// Rows with one owner or in one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shelf(String);

// === impl Shelf ===

impl Shelf {
    pub fn owner(owner: &PrincipalId) -> Shelf {
        Shelf::of('o', owner.as_str())
    }

    pub fn tenant(tenant: &str) -> Shelf {
        Shelf::of('t', tenant)
    }

    /// A digest, so that no name can reach into another's shelf and rows stay short.
    fn of(tag: char, name: &str) -> Shelf {
        let digest = Hash::of(name.as_bytes()).to_string();
        Shelf(format!("{tag}{}", digest.get(..32).unwrap_or(&digest)))
    }

    /// The key of the row that stands at `at` of the shelf.
    pub fn row(&self, at: &str) -> String {
        format!("{}{at}", self.0)
    }

    /// Where in the shelf a row stands.
    pub fn at<'k>(&self, key: &'k str) -> Option<&'k str> {
        key.strip_prefix(self.0.as_str())
    }

    pub fn end(&self) -> String {
        format!("{}{BEHIND}", self.0)
    }
}

/// Puts the record into the feed: what was said of it is found in the order of the log.
pub fn tell(applying: &mut Applying<'_, GatewayMachine>, owner: &PrincipalId, tenant: Option<&str>) {
    let at = feed_at(applying.log_time, applying.place, applying.header.n);
    for shelf in shelves(owner, tenant) {
        applying.index(keys::INDEX_FEED, shelf.row(&at));
    }
}

/// Puts a new action into the list: newer ones stand before older ones.
pub fn list(applying: &mut Applying<'_, GatewayMachine>, owner: &PrincipalId, tenant: Option<&str>) {
    let LogPlace { message, record } = applying.place;
    let age = TIME_MAX - applying.log_time.min(TIME_MAX);
    let at = format!("{age:012x}{:016x}{:08x}", u64::MAX - message, u32::MAX - record);
    for shelf in shelves(owner, tenant) {
        applying.index(keys::INDEX_ACTIONS, shelf.row(&at));
    }
}

fn shelves(owner: &PrincipalId, tenant: Option<&str>) -> impl Iterator<Item = Shelf> {
    std::iter::once(Shelf::owner(owner)).chain(tenant.map(Shelf::tenant))
}

/// Log time, place in the log, and the record's number in its entity.
fn feed_at(log_time: Millis, place: LogPlace, n: u64) -> String {
    format!("{}{:016x}{:08x}{n:016x}", time_at(log_time), place.message, place.record)
}

/// Before everything in the feed that has this log time.
pub fn time_at(log_time: Millis) -> String {
    format!("{:012x}", log_time.min(TIME_MAX))
}

/// The number of the record that a row of the feed stands for.
pub fn record_n(at: &str) -> Option<u64> {
    u64::from_str_radix(at.get(36..)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_feed_is_in_the_order_of_the_log_and_leads_to_the_record() {
        let place = |message, record| LogPlace { message, record };
        let rows = [
            feed_at(5, place(9, 0), 3),
            feed_at(6, place(10, 0), 1),
            feed_at(6, place(10, 1), 7),
            feed_at(6, place(11, 0), 2),
            feed_at(7, place(2, 0), 1),
        ];
        assert!(rows.is_sorted());
        assert_eq!(rows.map(|at| record_n(&at).unwrap()), [3, 1, 7, 2, 1]);
        assert!(time_at(6) > feed_at(5, place(u64::MAX, u32::MAX), u64::MAX));
        assert!(time_at(6) < feed_at(6, place(0, 0), 1));
    }

    #[test]
    fn shelves_do_not_reach_into_each_other() {
        let [owner, tenant] = [Shelf::owner(&PrincipalId::parse("a").unwrap()), Shelf::tenant("a")];
        let key = owner.row("0");
        assert_eq!((owner.at(&key), tenant.at(&key)), (Some("0"), None));
        assert!(owner.end() > owner.row(&feed_at(TIME_MAX, LogPlace { message: u64::MAX, record: 0 }, 1)));
    }
}
