//! Who must agree before something is done (section 12): approvals from the request that the gateway derives of an
//! admitted action to their end, and the evidence beside them.
//!
//! [`rule`] judges who has to agree and [`authority`] who may; [`machine`] is what an approval is. All three are pure.

pub mod authority;
pub mod machine;
pub mod rule;
