//! Every object, enum and union of the wire, grouped as the specification groups them.
//! Shape only: what one member demands of another is judged in `rules`, not here.

mod action;
mod approval;
mod audit;
mod callback;
mod content;
mod contract;
mod delegation;
mod discovery;
mod error;
mod escalation;
mod event;
mod lifecycle;
mod policy;
mod principal;
mod resource;
mod session;
mod transaction;

pub use action::*;
pub use approval::*;
pub use audit::*;
pub use callback::*;
pub use content::*;
pub use contract::*;
pub use delegation::*;
pub use discovery::*;
pub use error::*;
pub use escalation::*;
pub use event::*;
pub use lifecycle::*;
pub use policy::*;
pub use principal::*;
pub use resource::*;
pub use session::*;
pub use transaction::*;
