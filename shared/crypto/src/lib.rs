//! The cryptography of AIP 1.0, over JSON values as they were received.
//!
//! This crate knows bytes, keys and hashes. It knows no message type, keeps no state on disk apart from key files,
//! reads no clock and decides nothing about authority: a signature that verifies proves possession of a key, and who
//! may use that key is for the caller's directory to say (22.2).
//!
//! | module | what | specification |
//! |---|---|---|
//! | [`canonical`] | the one byte form of a JSON value that is signed and hashed | 5.5, 18.2, 22.2 |
//! | [`did`] | Ed25519 public keys as `did:key` | 22.2 |
//! | [`key`] | signing keys and the files that hold them | 22.7 |
//! | [`sign`] | signed envelopes | 22.2 |
//! | [`receipt`] | receipt hashes and chains | 18.2 |
//! | [`seal`] | opaque tokens, such as cursors | 16.2 |
//! | [`session`] | encryption between the two ends of a session | 22.11 |
//!
//! Everything here works on [`serde_json::Value`] and not on typed messages, because a signature or hash covers what
//! was sent: reading it into a type and writing it again may drop a member or add a default, and would then judge
//! something nobody signed.

pub mod canonical;
pub mod did;
pub mod key;
pub mod receipt;
pub mod seal;
pub mod session;
pub mod sign;

pub use did::{Did, DidError};
pub use key::{KeyError, SigningKey};
pub use sign::{SignError, SignatureError, sign_envelope, verify_envelope};
