//! A folder for one test, gone with it.

use std::path::{Path, PathBuf};

/// Removed on drop, unless the test failed: then its path is printed and it stays to be looked at.
#[derive(Debug)]
pub struct Scratch(Option<tempfile::TempDir>);

impl Scratch {
    pub fn new() -> Self {
        Self(Some(tempfile::Builder::new().prefix("aip-test-").tempdir().expect("make a scratch folder")))
    }

    pub fn path(&self) -> &Path {
        self.0.as_ref().expect("a scratch folder until drop").path()
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(folder) = self.0.take().filter(|_| std::thread::panicking()) {
            eprintln!("kept for inspection: {}", folder.keep().display());
        }
    }
}
