//! What can go wrong on the way to a running server, said so that a person can mend it.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NatsdError {
    #[error("{action} {path}")]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },
    #[error("{path} is not a nats-server: {detail}")]
    NotAServer { path: PathBuf, detail: String },
    #[error("nats-server {found} at {path} is too old, at least {oldest} is needed")]
    TooOld { path: PathBuf, found: String, oldest: String },
    #[error(
        "no nats-server found and none could be fetched ({detail}); install nats-server 2.15 and put it on PATH \
         or name it in NATS_SERVER_BIN"
    )]
    NotFound { detail: String },
    #[error("{0}")]
    Name(#[from] aip_names::NameError),
    #[error("key file {path}: {detail}")]
    Key { path: PathBuf, detail: String },
    #[error("no key for identity {0}")]
    UnknownIdentity(String),
    #[error("nats-server did not become ready: {detail}; its log ends with:\n{log}")]
    NotReady { detail: String, log: String },
    #[error("nats-server is not running")]
    NotRunning,
    #[error("signal nats-server")]
    Signal(#[from] nix::Error),
}

impl NatsdError {
    /// For `map_err`: names what was being done to which file.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}
