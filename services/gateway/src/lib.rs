//! The gateway.

pub mod config;
pub mod edge;
pub mod errors;
pub mod front;
pub mod machine;
