//! Where an approval can be found by those who may see it: rows by who asked, by tenant, and by each authority that may
//! decide, so that a reader's scan meets little that is not for it. What may be seen is judged again for each row.

use aip_kernel::{Hash, Millis};
use aip_wire::{ApprovalId, ApprovalRule, PrincipalId};

/// Log times have so many bits in a row's key.
const TIME_MAX: Millis = 0xffff_ffff_ffff;
/// Sorts behind every row of a shelf.
const BEHIND: char = '\u{7f}';

/// Rows that are found together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shelf(String);

// === impl Shelf ===

impl Shelf {
    pub fn owner(owner: &PrincipalId) -> Shelf {
        Shelf::of('o', &[owner.as_str()])
    }

    pub fn tenant(tenant: &str) -> Shelf {
        Shelf::of('t', &[tenant])
    }

    /// Of all that a leaf of a rule lets decide in this tenant, or outside any. Grants are looked at one by one, so they
    /// share one shelf.
    pub fn leaf(leaf: &ApprovalRule, tenant: Option<&str>) -> Shelf {
        let tenant = tenant.unwrap_or_default();
        match leaf {
            ApprovalRule::Principal { id } => Shelf::of('p', &[id.as_str()]),
            ApprovalRule::Role { name } => Shelf::of('r', &[tenant, name]),
            ApprovalRule::Group { name } => Shelf::of('g', &[tenant, name]),
            ApprovalRule::TenantPolicy { policy_id } => Shelf::of('y', &[tenant, policy_id]),
            ApprovalRule::ExternalSystem { system } => Shelf::of('x', &[tenant, system]),
            _ => Shelf::of('d', &[tenant]),
        }
    }

    /// A digest, so that no name can reach into another's shelf and rows stay short.
    fn of(tag: char, names: &[&str]) -> Shelf {
        let names: Vec<[u8; 32]> = names.iter().map(|name| Hash::of(name.as_bytes()).0).collect();
        let digest = Hash::of(&names.concat()).to_string();
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

/// Where an approval stands on its shelves: before all older ones.
pub fn place(created_at: Millis, id: &ApprovalId) -> String {
    let age = TIME_MAX - created_at.min(TIME_MAX);
    let digest = Hash::of(id.as_str().as_bytes()).to_string();
    format!("{age:012x}{}", digest.get(..24).unwrap_or(&digest))
}
