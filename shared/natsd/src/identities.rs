//! The nkeys of NATS users: one seed file an identity, made once, read again on every start.
//!
//! A seed never leaves its file through this crate: services are given the path. Only public keys are returned.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use aip_names::{Identity, User};
use nkeys::{KeyPair, KeyPairType};

use crate::error::NatsdError;

/// The key folder of one installation.
#[derive(Debug, Clone)]
pub struct Identities {
    folder: PathBuf,
    public_keys: BTreeMap<Identity, String>,
}

impl Identities {
    /// Reads the keys of `users`, making those that are missing. The folder gets mode 0700, a file 0600.
    ///
    /// # Errors
    /// The folder cannot be used, or a file holds no user seed or can be read by others.
    pub fn ensure(folder: &Path, users: &[User]) -> Result<Self, NatsdError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(NatsdError::io("create", folder))?;
        let mut public_keys = BTreeMap::new();
        for user in users {
            let path = seed_file(folder, &user.identity);
            if !path.exists() {
                create(folder, &path)?;
            }
            public_keys.insert(user.identity.clone(), read(&path)?.public_key());
        }
        Ok(Self { folder: folder.to_owned(), public_keys })
    }

    /// The file that holds the seed, for the program that connects as `identity`.
    pub fn seed_file(&self, identity: &Identity) -> PathBuf {
        seed_file(&self.folder, identity)
    }

    /// The key by which the server knows `identity`.
    ///
    /// # Errors
    /// The identity was not among the users.
    pub fn public_key(&self, identity: &Identity) -> Result<&str, NatsdError> {
        let known = self.public_keys.get(identity);
        known.map(String::as_str).ok_or_else(|| NatsdError::UnknownIdentity(identity.to_string()))
    }
}

fn seed_file(folder: &Path, identity: &Identity) -> PathBuf {
    folder.join(format!("{identity}.nk"))
}

/// Makes a key unless another process made one meanwhile; a reader never sees half a file.
fn create(folder: &Path, path: &Path) -> Result<(), NatsdError> {
    let seed = KeyPair::new_user().seed().map_err(|error| key(path, error))?;
    // a temporary file has mode 0600 from its first byte
    let mut file =
        tempfile::NamedTempFile::new_in(folder).map_err(NatsdError::io("create a file in", folder))?;
    writeln!(file, "{seed}").map_err(NatsdError::io("write", path))?;
    file.as_file().sync_all().map_err(NatsdError::io("sync", path))?;
    match file.persist_noclobber(path) {
        Err(failed) if failed.error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(NatsdError::io("create", path)(failed.error))
        }
        _ => Ok(()),
    }
}

fn read(path: &Path) -> Result<KeyPair, NatsdError> {
    let mode = fs::metadata(path).map_err(NatsdError::io("read", path))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(key(path, format!("others may read it (mode {:o}); chmod 600", mode & 0o777)));
    }
    let text = fs::read_to_string(path).map_err(NatsdError::io("read", path))?;
    let pair = KeyPair::from_seed(text.trim()).map_err(|error| key(path, error))?;
    match pair.key_pair_type() {
        KeyPairType::User => Ok(pair),
        other => Err(key(path, format!("it holds a key of type {other:?}, not of a user"))),
    }
}

fn key(path: &Path, detail: impl ToString) -> NatsdError {
    NatsdError::Key { path: path.to_owned(), detail: detail.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_made_once_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let keys = folder.path().join("keys");
        let users = [User::gateway(), User::client("alice").unwrap()];
        let first = Identities::ensure(&keys, &users).unwrap();
        let again = Identities::ensure(&keys, &users).unwrap();
        for user in &users {
            let public = first.public_key(&user.identity).unwrap();
            assert!(public.starts_with('U'));
            assert_eq!(again.public_key(&user.identity).unwrap(), public);
            let mode = fs::metadata(first.seed_file(&user.identity)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert_eq!(fs::metadata(&keys).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(matches!(first.public_key(&Identity::Admin), Err(NatsdError::UnknownIdentity(_))));
    }

    #[test]
    fn an_open_or_foreign_key_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let users = [User::admin()];
        let keys = Identities::ensure(folder.path(), &users).unwrap();
        let path = keys.seed_file(&Identity::Admin);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Identities::ensure(folder.path(), &users).unwrap_err().to_string().contains("chmod 600"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, KeyPair::new_account().seed().unwrap()).unwrap();
        assert!(matches!(Identities::ensure(folder.path(), &users), Err(NatsdError::Key { .. })));
        fs::write(&path, "not a seed").unwrap();
        assert!(matches!(Identities::ensure(folder.path(), &users), Err(NatsdError::Key { .. })));
    }
}
