//! The gateway.

pub mod front;
