//! What the services of the system are around their machines: configuration, a place in the queue group while the
//! ledger is ready, messages from the other services in and answers out, health pages, drain. Nothing here knows what
//! any of them decides.
//!
//! What comes from outside comes through the gateway, which authenticates it and forwards what another service owns
//! ([`ask`]) together with its word about who asks. Only services of the system may publish on each other's subjects,
//! so that word needs no further proof ([`door`]). A service that has something to say to the gateway says it as its
//! own principal, in a signed envelope ([`tell`]).

pub mod ask;
pub mod clock;
pub mod config;
pub mod door;
pub mod fault;
mod health;
pub mod member;
pub mod run;
pub mod tell;

pub use ask::ask;
pub use config::{Config, ConfigError};
pub use door::{Request, Service};
pub use member::attend;
pub use run::{Exposition, Parts, RunError, run};
pub use tell::Teller;
