//! Finds a nats-server: `NATS_SERVER_BIN`, then `PATH`, then our cache, then the network.
//!
//! A binary that somebody named is used or refused, never silently replaced by another.

use std::fmt;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::error::NatsdError;
use crate::fetch;

/// The oldest server that knows `persist_mode`.
const OLDEST: ServerVersion = ServerVersion { major: 2, minor: 12, patch: 0 };
/// What we test and ship; other versions get a warning.
const TESTED: (u32, u32) = (2, 15);

/// A server's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerVersion {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

impl ServerVersion {
    /// Reads `2.15.1`, `v2.15.1` or `2.15.1-RC.1`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_start_matches('v');
        let mut numbers = text.split(['.', '-', '+']).map(|part| part.parse::<u32>().ok());
        Some(Self { major: numbers.next()??, minor: numbers.next()??, patch: numbers.next()?? })
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// A nats-server that was asked for its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binary {
    pub path: PathBuf,
    pub version: ServerVersion,
}

/// Finds a usable server, fetching one into the cache when there is none.
///
/// # Errors
/// `NATS_SERVER_BIN` names something unusable, or nothing was found and nothing could be fetched.
pub async fn find() -> Result<Binary, NatsdError> {
    if let Some(named) = std::env::var_os("NATS_SERVER_BIN").filter(|named| !named.is_empty()) {
        return inspect(Path::new(&named)).await;
    }
    if let Some(found) = on_path() {
        match inspect(&found).await {
            Ok(binary) => return Ok(binary),
            Err(error) => tracing::warn!(%error, "the nats-server on PATH is not used"),
        }
    }
    inspect(&fetch::cached_or_fetched().await?).await
}

/// Asks a binary for its version and judges it.
async fn inspect(path: &Path) -> Result<Binary, NatsdError> {
    let not_a_server = |detail: String| NatsdError::NotAServer { path: path.to_owned(), detail };
    let output = Command::new(path)
        .arg("--version")
        .output()
        .await
        .map_err(|error| not_a_server(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.trim().strip_prefix("nats-server:").and_then(ServerVersion::parse);
    let version =
        version.ok_or_else(|| not_a_server(format!("it answers {:?} to --version", text.trim())))?;
    if version < OLDEST {
        let (found, oldest) = (version.to_string(), OLDEST.to_string());
        return Err(NatsdError::TooOld { path: path.to_owned(), found, oldest });
    }
    if (version.major, version.minor) != TESTED {
        tracing::warn!(%version, "nats-server is not the tested 2.15");
    }
    Ok(Binary { path: path.to_owned(), version })
}

fn on_path() -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join("nats-server"))
        .find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_ordered() {
        let read = |text| ServerVersion::parse(text).unwrap();
        assert_eq!(read(" v2.15.1\n").to_string(), "2.15.1");
        assert!(read("2.9.20") < read("2.12.0") && read("2.12.0-RC.1") < read("2.12.1"));
        assert_eq!(ServerVersion::parse("latest"), None);
        assert_eq!(ServerVersion::parse("2.15"), None);
    }

    #[tokio::test]
    async fn what_is_no_server_is_refused() {
        assert!(matches!(inspect(Path::new("/bin/true")).await, Err(NatsdError::NotAServer { .. })));
        assert!(matches!(inspect(Path::new("/nonexistent")).await, Err(NatsdError::NotAServer { .. })));
    }

    #[tokio::test]
    async fn an_old_server_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join("nats-server");
        std::fs::write(&old, "#!/bin/sh\necho 'nats-server: v2.10.4'\n").unwrap();
        std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o755)).unwrap();
        let refused = inspect(&old).await.unwrap_err();
        assert!(
            refused.to_string().contains("2.10.4") && refused.to_string().contains("2.12.0"),
            "{refused}"
        );
    }
}
