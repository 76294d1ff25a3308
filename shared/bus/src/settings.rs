//! What a connection needs, and how connecting fails.

use std::path::PathBuf;

use aip_names::Identity;

/// How to connect.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `nats://host:port` or `tls://host:port`; several are separated by commas.
    pub url: String,
    /// Whose permissions apply; names the inbox too.
    pub identity: Identity,
    /// File with the nkey seed of that identity.
    pub seed_file: PathBuf,
    /// What operators see in the server's list of connections, for example `gateway-1`.
    pub name: String,
}

/// Why there is no usable connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BusError {
    #[error("read the key of {identity} from {path}")]
    Seed { identity: Identity, path: PathBuf, source: std::io::Error },
    #[error("{path} does not hold the nkey seed of a user")]
    NotASeed { path: PathBuf },
    #[error("connect to {url}")]
    Connect { url: String, source: async_nats::ConnectError },
    #[error("no connection to nats-server within {waited_ms} ms: {reason}")]
    NotConnected { waited_ms: u64, reason: String },
    #[error("the nats-server cannot carry our traffic: {reason}")]
    Unfit { reason: String },
    #[error("{action} {subject}: {detail}")]
    Subscribe { action: &'static str, subject: String, detail: String },
}
