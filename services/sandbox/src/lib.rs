//! Providers to try the system with, and to test it against: a restaurant, a bank's accounts, a report writer, a slow
//! job, and one that misbehaves on request. Each is a service of its own with a store of its own, written as any
//! provider would be: with [`aip_sdk`], and with nothing of the gateway's.
//!
//! | service | capabilities |
//! |---|---|
//! | `sandbox-restaurant` | `cap:restaurant:table:search`, `…:booking:create`, `…:booking:cancel` |
//! | `sandbox-accounts` | `cap:accounts:balance:read`, `…:transfer:create`, `…:refund:create` |
//! | `sandbox-report` | `cap:report:write` |
//! | `sandbox-slow` | `cap:slow:job` |
//! | `sandbox-chaos` | `cap:chaos:misbehave`, `…:misbehave_safe`, `…:effects:read` |
//!
//! Every tenant has data of its own, with samples from its first visit. Effects are written once for an action id and
//! once for an idempotency key, in the transaction that does them, and are counted: what a test believes about
//! "exactly one effect" it can read back.
//!
//! Nothing here authenticates or authorizes: that was done before a handler runs. One process at a time may use a data
//! folder.

mod accounts;
mod book;
mod chaos;
mod config;
mod report;
mod restaurant;
mod run;
mod slow;
#[cfg(test)]
mod tests;

pub use config::{Config, ConfigError, Nats, Provider};
pub use run::{SandboxError, run};

/// The NATS service tokens of all providers.
pub const SERVICES: [&str; 5] =
    ["sandbox-restaurant", "sandbox-accounts", "sandbox-report", "sandbox-slow", "sandbox-chaos"];

/// Which capabilities each service registers, as the gateway's directory wants to know it.
pub const REGISTRATIONS: [(&str, &str); 5] = [
    ("sandbox-restaurant", "cap:restaurant:*"),
    ("sandbox-accounts", "cap:accounts:*"),
    ("sandbox-report", "cap:report:*"),
    ("sandbox-slow", "cap:slow:*"),
    ("sandbox-chaos", "cap:chaos:*"),
];
