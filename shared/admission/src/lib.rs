//! Who is asking, and may it in.
//!
//! A request passes three gates here, each a type that only the gate before it can make:
//!
//! 1. [`Valid`]: it obeys the wire's rules (`aip_wire` checked it).
//! 2. [`Authentic`]: a signature or a token proved who sent it ([`Authenticator`], sections 22.2 and 22.3).
//! 3. [`Admitted`]: tenant, credential, scope and capability policy allow it ([`admit`], section 11.3).
//!
//! Who is known, and what for, stands in the [`Directory`]: a configuration that is checked as a whole. Everything that
//! a message says about its sender is compared with the directory and never believed. What admission established
//! travels to the worker as a [`TrustedContext`] (section 11.2).
//!
//! Nothing here stores or sends anything. The replay claim of a signed message and the idempotency reservation of an
//! action are handed out as data, for the ledger to judge; the wall clock is always an argument.

mod again;
pub mod approval;
mod authentic;
mod caller;
pub mod constraint;
pub mod context;
pub mod contract;
pub mod directory;
pub mod idempotency;
mod keys;
pub mod pattern;
mod policy;
mod reader;
mod reads;
#[cfg(test)]
mod testing;
mod token;

pub use again::{admit_again, recall};
pub use authentic::{Authentic, Authenticator, AuthenticatorError, ReplayClaim, Valid};
pub use caller::{Caller, Method};
pub use context::{METADATA_KEY, TrustedContext};
pub use contract::{ContractView, contract_hash};
pub use directory::{Directory, DirectoryError, Problem};
pub use idempotency::Reservation;
pub use policy::{Admitted, admit};
pub use reader::{Place, Reader, Thing};
pub use reads::{Family, may_cancel, may_discover, may_read, may_register};
