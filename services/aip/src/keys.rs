//! `aip keys`: signing keys and API keys. Secrets go into files that only their owner reads, never to the screen.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use aip_crypto::SigningKey;
use clap::Subcommand;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::output::{self, Failure, because, say};

/// Random bytes of an API key.
const API_KEY_BYTES: usize = 32;

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Make an Ed25519 signing key
    New {
        /// The file to write; an existing one is never overwritten
        file: PathBuf,
        #[arg(long)]
        json: bool,
    },
    /// Show the did:key of a signing key
    Show {
        file: PathBuf,
        #[arg(long)]
        json: bool,
    },
    /// Make an API key and show the digest that the directory wants
    ApiKey {
        /// The file to write; an existing one is never overwritten
        file: PathBuf,
        #[arg(long)]
        json: bool,
    },
}

pub fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::New { file, json } => {
            if file.exists() {
                return Err(Failure::new(format!("{} exists already", file.display())).json(json));
            }
            let key = SigningKey::generate().map_err(|error| because("can't make a key", &error))?;
            key.save(&file).map_err(|error| because("can't save the key", &error).json(json))?;
            show(&file, &key, json)
        }
        Command::Show { file, json } => {
            let key =
                SigningKey::load(&file).map_err(|error| because("can't read the key", &error).json(json))?;
            show(&file, &key, json)
        }
        Command::ApiKey { file, json } => {
            let digest = new_api_key(&file).map_err(|failure| failure.json(json))?;
            if json {
                output::print_json(&json!({"file": file, "sha256": digest}))?;
            } else {
                say!("{}: an API key\n  sha256 = \"{digest}\"   (goes into the directory)", file.display());
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn show(file: &Path, key: &SigningKey, json: bool) -> Result<ExitCode, Failure> {
    let did = key.did().to_string();
    if json {
        output::print_json(&json!({"file": file, "did": did}))?;
    } else {
        say!("{}\n  did = \"{did}\"   (goes into the directory)", file.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a new API key and returns its digest in hexadecimal digits.
pub fn new_api_key(file: &Path) -> Result<String, Failure> {
    let mut secret = [0; API_KEY_BYTES];
    getrandom::fill(&mut secret).map_err(|error| Failure::new(format!("no randomness: {error}")))?;
    let key = format!("aip_{}", hex::encode(secret));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let written = options.open(file).and_then(|mut open| open.write_all(key.as_bytes()));
    written.map_err(|error| because(&format!("can't write {}", file.display()), &error))?;
    Ok(digest(&key))
}

pub fn digest(api_key: &str) -> String {
    hex::encode(Sha256::digest(api_key.as_bytes()))
}
