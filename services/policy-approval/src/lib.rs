//! Who must agree before something is done (section 12): approvals, from the request that the gateway derives of an
//! admitted action to their end, and the evidence beside them.
//!
//! [`rule`] judges who has to agree and [`authority`] who may; [`machine`] is what an approval is. All three are pure.
//! [`service`] answers the gateway, `query` what may be read, `tell` says what became of an approval; [`run`] is the
//! process.

pub mod authority;
pub mod machine;
mod operator;
mod page;
mod query;
pub mod rule;
pub mod run;
pub mod service;
mod tell;
mod view;
