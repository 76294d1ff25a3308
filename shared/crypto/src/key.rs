//! Signing keys and the files that hold them (22.7). A seed must never be printed, logged, compared or left in memory
//! that was given back.
//!
//! A key file is one line: the 32-byte Ed25519 seed as 64 lower-case hexadecimal digits. Only its owner may have any
//! right to it.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ed25519_dalek::Signer;
use zeroize::Zeroizing;

use crate::did::Did;

/// A seed in hexadecimal, and the line's end.
const FILE_BYTES_MAX: u64 = 65;

/// An Ed25519 private key. Wiped when dropped; prints as its DID.
pub struct SigningKey {
    key: ed25519_dalek::SigningKey,
    did: Did,
}

/// Why a key couldn't be made, read or written.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("cannot read the key file")]
    Read(#[source] io::Error),
    #[error("the key file is not a regular file")]
    NotAFile,
    /// Group or others have rights to the file; `chmod 600` mends it, but the key should be considered known.
    #[error("the key file may be used by others than its owner (mode {mode:03o}, wanted 600 or less)")]
    Exposed { mode: u32 },
    #[error("the key file does not hold 64 lower-case hexadecimal digits")]
    Malformed,
    /// Also when the file is there already: a key is never overwritten.
    #[error("cannot write the key file")]
    Write(#[source] io::Error),
    #[error("the system gives no randomness")]
    Random(#[source] getrandom::Error),
}

// === impl SigningKey ===

impl SigningKey {
    pub fn generate() -> Result<Self, KeyError> {
        let mut seed = Zeroizing::new([0; 32]);
        getrandom::fill(seed.as_mut()).map_err(KeyError::Random)?;
        Ok(Self::from_seed(&seed))
    }

    /// The key of a 32-byte seed (the private key of RFC 8032). The caller wipes its own copy.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let key = ed25519_dalek::SigningKey::from_bytes(seed);
        let did = Did::of(key.verifying_key());
        Self { key, did }
    }

    /// Reads a key file, refusing one that others may use.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let file = File::open(path).map_err(KeyError::Read)?;
        // Asked of the open file, not of the path, so that the file that is judged is the one that is read.
        let metadata = file.metadata().map_err(KeyError::Read)?;
        if !metadata.is_file() {
            return Err(KeyError::NotAFile);
        }
        let mode = metadata.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(KeyError::Exposed { mode });
        }
        let mut text = Zeroizing::new(Vec::with_capacity(FILE_BYTES_MAX as usize + 1));
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(KeyError::Read)?;
        let digits = text.strip_suffix(b"\n").unwrap_or(&text);
        if digits.iter().any(u8::is_ascii_uppercase) {
            return Err(KeyError::Malformed);
        }
        let mut seed = Zeroizing::new([0; 32]);
        hex::decode_to_slice(digits, seed.as_mut()).map_err(|_| KeyError::Malformed)?;
        Ok(Self::from_seed(&seed))
    }

    /// Writes a new key file with rights for its owner only. After a crash the file is whole or absent.
    pub fn save(&self, path: &Path) -> Result<(), KeyError> {
        let draft = draft_path(path)?;
        let written = self.write_new(&draft).and_then(|()| fs::hard_link(&draft, path));
        let removed = fs::remove_file(&draft);
        written.and(removed).and_then(|()| sync_directory(path)).map_err(KeyError::Write)
    }

    pub fn did(&self) -> &Did {
        &self.did
    }

    /// A key for another purpose that follows from this one: whoever holds this key can make it, nobody else.
    pub(crate) fn derived(&self, purpose: &str) -> Zeroizing<[u8; 32]> {
        let seed = Zeroizing::new(self.key.to_bytes());
        let mut derived = Zeroizing::new([0; 32]);
        // 32 bytes are never too many for HKDF to give
        let _ =
            hkdf::Hkdf::<sha2::Sha256>::new(None, seed.as_ref()).expand(purpose.as_bytes(), derived.as_mut());
        derived
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.key.sign(message).to_bytes()
    }

    fn write_new(&self, path: &Path) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let seed = Zeroizing::new(self.key.to_bytes());
        let mut line = Zeroizing::new([b'\n'; FILE_BYTES_MAX as usize]);
        let (digits, _) = line.split_at_mut(2 * seed.len());
        hex::encode_to_slice(seed.as_ref(), digits).map_err(io::Error::other)?;
        file.write_all(line.as_ref())?;
        file.sync_all()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.did)
    }
}

/// A name of its own beside `path`, so that two writers never share a draft and the link stays on one file system.
fn draft_path(path: &Path) -> Result<PathBuf, KeyError> {
    let nonce = getrandom::u64().map_err(KeyError::Random)?;
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{nonce:016x}"));
    Ok(path.with_file_name(name))
}

fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_saved_key_loads_and_is_its_owners_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gateway.key");
        let key = SigningKey::generate().unwrap();
        key.save(&path).unwrap();
        assert_eq!(SigningKey::load(&path).unwrap().did(), key.did());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no draft is left behind");
    }

    #[test]
    fn a_key_is_never_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let first = SigningKey::generate().unwrap();
        first.save(&path).unwrap();
        let refused = SigningKey::generate().unwrap().save(&path).unwrap_err();
        assert!(matches!(refused, KeyError::Write(e) if e.kind() == io::ErrorKind::AlreadyExists));
        assert_eq!(SigningKey::load(&path).unwrap().did(), first.did());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_key_that_others_may_use_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        SigningKey::generate().unwrap().save(&path).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o601, 0o777] {
            chmod(&path, mode);
            assert!(matches!(SigningKey::load(&path), Err(KeyError::Exposed { mode: m }) if m == mode));
        }
        chmod(&path, 0o400);
        assert!(SigningKey::load(&path).is_ok());
    }

    #[test]
    fn only_a_seed_line_is_a_key_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let good = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
        let malformed = [
            String::new(),
            "\n".to_owned(),
            good[1..].to_owned(),
            format!("{good}\n\n"),
            format!("{good}00"),
            good.to_uppercase(),
            good.replace('9', "g"),
            format!(" {good}"),
        ];
        for text in malformed {
            fs::write(&path, &text).unwrap();
            chmod(&path, 0o600);
            assert!(matches!(SigningKey::load(&path), Err(KeyError::Malformed)), "{text:?}");
        }
        for text in [good.to_owned(), format!("{good}\n")] {
            fs::write(&path, &text).unwrap();
            assert!(SigningKey::load(&path).is_ok());
        }
        assert!(matches!(SigningKey::load(directory.path()), Err(KeyError::NotAFile)));
        assert!(matches!(SigningKey::load(&path.join("none")), Err(KeyError::Read(_))));
    }

    #[test]
    fn debug_shows_the_public_key_only() {
        let key = SigningKey::from_seed(&[7; 32]);
        assert_eq!(format!("{key:?}"), format!("SigningKey({})", key.did()));
    }
}
