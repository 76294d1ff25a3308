//! Reading a key set from its file or URL, within bounds of size and time. Never follows a redirect.

use std::path::Path;
use std::time::Duration;

use tokio::io::AsyncReadExt;

use aip_names::limits::{JWKS_BYTES_MAX, JWKS_FETCH_TIMEOUT_MS};

use super::{KeySet, KeySetError};
use crate::directory::KeySource;

/// Why a key set was not read. For the log: a client learns only that keys are unavailable.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("cannot read the key set file")]
    File(#[source] std::io::Error),
    #[error("cannot fetch the key set")]
    Fetch(#[source] reqwest::Error),
    #[error("the key set's server answered {0}")]
    Status(reqwest::StatusCode),
    #[error("the key set has more than {JWKS_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the key set is not usable")]
    Content(#[from] KeySetError),
}

/// Fetches key sets over HTTP.
#[derive(Debug, Clone)]
pub(crate) struct Fetcher(reqwest::Client);

// === impl Fetcher ===

impl Fetcher {
    pub fn new() -> Result<Fetcher, reqwest::Error> {
        // another crate of the process may have installed one already, which is as good
        let _ = rustls::crypto::ring::default_provider().install_default();
        reqwest::Client::builder()
            .timeout(Duration::from_millis(JWKS_FETCH_TIMEOUT_MS))
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map(Fetcher)
    }

    pub async fn read(&self, source: &KeySource) -> Result<KeySet, SourceError> {
        let bytes = match source {
            KeySource::File(path) => read_file(path).await?,
            KeySource::Url(url) => self.fetch(url).await?,
        };
        Ok(KeySet::parse(&bytes)?)
    }

    async fn fetch(&self, url: &str) -> Result<Vec<u8>, SourceError> {
        let mut response = self.0.get(url).send().await.map_err(SourceError::Fetch)?;
        if response.status() != reqwest::StatusCode::OK {
            return Err(SourceError::Status(response.status()));
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(SourceError::Fetch)? {
            if bytes.len() + chunk.len() > JWKS_BYTES_MAX {
                return Err(SourceError::TooLarge);
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }
}

async fn read_file(path: &Path) -> Result<Vec<u8>, SourceError> {
    let file = tokio::fs::File::open(path).await.map_err(SourceError::File)?;
    let mut bytes = Vec::new();
    file.take(JWKS_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).await.map_err(SourceError::File)?;
    if bytes.len() > JWKS_BYTES_MAX {
        return Err(SourceError::TooLarge);
    }
    Ok(bytes)
}
