//! Reading the directory file, and saying what is wrong with it and where. Nothing is repaired or defaulted silently.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use aip_names::limits::DIRECTORY_BYTES_MAX;

use super::{Config, Directory};

/// Why there is no directory.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error("cannot read the directory file {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the directory file has more than {DIRECTORY_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the directory file is not valid: {0}")]
    Syntax(String),
    #[error("the directory is not valid: {}", join(.0))]
    Invalid(Vec<Problem>),
}

/// One thing that is wrong with a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where, as in `principal[2].dids[0]`.
    pub place: String,
    pub message: String,
}

fn join(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("; ")
}

// === impl Directory ===

impl Directory {
    /// Reads and checks a directory file. Paths in it are relative to its own folder.
    ///
    /// # Errors
    /// The file cannot be read, is too large, is no TOML of the right shape, or contradicts itself.
    pub fn load(path: &Path) -> Result<Directory, DirectoryError> {
        let read = |source| DirectoryError::Read { path: path.to_owned(), source };
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(read)?;
        file.take(DIRECTORY_BYTES_MAX + 1).read_to_string(&mut text).map_err(read)?;
        Directory::parse(&text, path.parent().unwrap_or(Path::new(".")))
    }

    /// Checks the text of a directory file whose relative paths start at `base`.
    ///
    /// # Errors
    /// As [`Directory::load`].
    pub fn parse(text: &str, base: &Path) -> Result<Directory, DirectoryError> {
        if text.len() as u64 > DIRECTORY_BYTES_MAX {
            return Err(DirectoryError::TooLarge);
        }
        let mut config: Config =
            toml::from_str(text).map_err(|error| DirectoryError::Syntax(place(text, &error)))?;
        for issuer in &mut config.issuers {
            if let Some(file) = issuer.jwks_file.take() {
                issuer.jwks_file = Some(base.join(file));
            }
        }
        Directory::build(&config)
    }
}

/// The library's own text quotes the offending line, which may hold a key's digest: only its place and reason are told.
fn place(text: &str, error: &toml::de::Error) -> String {
    let line =
        error.span().and_then(|span| text.get(..span.start)).map(|before| before.matches('\n').count() + 1);
    match line {
        Some(line) => format!("line {line}: {}", error.message()),
        None => error.message().to_owned(),
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}
