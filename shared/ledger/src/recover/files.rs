//! Recovery and verification on store files: locks them, works beside them, and sets old files aside.

use std::fs;
use std::path::{Path, PathBuf};

use time::OffsetDateTime;
use time::macros::format_description;

use aip_kernel::Machine;
use aip_names::limits;

use super::{Log, Options, RecoverError, Report, Source, mend, rebuild};
use crate::store::{Identity, Store};
use crate::verify::{EntityCheck, Verified, VerifyError};

/// Recovers the log and the stores at `paths`. Each store that is rebuilt stands under its old name afterwards; the
/// file that was there is kept as `<name>.before-recovery-<time>`. `prefer` names the store to follow where stores
/// contradict each other.
///
/// # Errors
/// See [`RecoverError`]; a store that a service has open is refused.
pub fn recover<M: Machine>(
    machine: &M,
    log: &mut dyn Log,
    identity: &Identity,
    paths: &[PathBuf],
    prefer: Option<&Path>,
    mut options: Options<'_>,
) -> Result<Report, RecoverError> {
    let paths = real(paths)?;
    if let Some(prefer) = prefer {
        let wanted = prefer.canonicalize().unwrap_or_else(|_| prefer.to_owned());
        let place = paths.iter().position(|path| *path == wanted);
        options.prefer = Some(place.ok_or(RecoverError::NotGiven(wanted))?);
    }
    let mut stores = Vec::with_capacity(paths.len());
    for path in &paths {
        stores.push((path.display().to_string(), open(path, identity)?));
    }
    let sources: Vec<Source<'_>> = stores.iter().map(|(name, store)| Source { name, store }).collect();
    let Some(first) = paths.first() else { return Err(RecoverError::TooMany(0)) };
    let scratch = Temporary::make(beside(first, "scratch"), identity)?;
    let mut report = mend(machine, log, &sources, scratch.store()?, &mut options)?;
    if report.whole || options.dry_run {
        return Ok(report);
    }
    drop(scratch);
    let mut fresh = Temporary::make(beside(first, "rebuilt"), identity)?;
    let found = rebuild(machine, log, fresh.store()?)?;
    if found != report.digest {
        return Err(RecoverError::Replay { wanted: report.digest, found });
    }
    fresh.close();
    // The old files are still open, and so locked, until all new ones stand in their places.
    for path in &paths {
        report.rebuilt.push((path.clone(), replace(path, &fresh.path)?));
    }
    Ok(report)
}

/// Verifies the store at `path` against the log; see [`crate::verify::verify`].
///
/// # Errors
/// See [`VerifyError`]; a store that a service has open is refused.
pub fn verify<M: Machine>(
    machine: &M,
    log: &mut dyn Log,
    identity: &Identity,
    path: &Path,
    check: &mut EntityCheck<'_, M>,
) -> Result<Verified, VerifyError> {
    let paths = real(&[path.to_owned()])?;
    let Some(path) = paths.first() else { return Err(RecoverError::NoStore(path.to_owned()).into()) };
    let store = open(path, identity)?;
    let scratch = Temporary::make(beside(path, "verify"), identity)?;
    crate::verify::verify(machine, log, &store, scratch.store()?, check)
}

/// Each given store once, by its real name.
fn real(paths: &[PathBuf]) -> Result<Vec<PathBuf>, RecoverError> {
    if paths.is_empty() || paths.len() > limits::RECOVERY_STORES_MAX {
        return Err(RecoverError::TooMany(paths.len()));
    }
    let mut all = Vec::with_capacity(paths.len());
    for path in paths {
        let real = path.canonicalize().ok().filter(|real| real.is_file());
        let real = real.ok_or_else(|| RecoverError::NoStore(path.clone()))?;
        if !all.contains(&real) {
            all.push(real);
        }
    }
    Ok(all)
}

fn open(path: &Path, identity: &Identity) -> Result<Store, RecoverError> {
    Store::open(path, identity).map_err(|source| RecoverError::OfStore { path: path.to_owned(), source })
}

/// A file of ours beside a store.
fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".recovery-{what}"));
    PathBuf::from(name)
}

/// A store of ours that goes when it is not needed any more.
struct Temporary {
    path: PathBuf,
    store: Option<Store>,
}

// === impl Temporary ===

impl Temporary {
    fn make(path: PathBuf, identity: &Identity) -> Result<Temporary, RecoverError> {
        // A run that was interrupted left it; the lock on the store beside it says that nobody else uses it.
        if path.exists() {
            fs::remove_file(&path).map_err(failed("can't remove", &path))?;
        }
        let store = Some(open(&path, identity)?);
        Ok(Temporary { path, store })
    }

    fn store(&self) -> Result<&Store, RecoverError> {
        self.store.as_ref().ok_or_else(|| RecoverError::NoStore(self.path.clone()))
    }

    fn close(&mut self) {
        self.store = None;
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        self.close();
        // What can't be removed is removed by the next run.
        let _ = fs::remove_file(&self.path);
    }
}

/// Puts a copy of `fresh` in the place of `path`, whose file is set aside under the name that is returned.
fn replace(path: &Path, fresh: &Path) -> Result<PathBuf, RecoverError> {
    let new = beside(path, "new");
    fs::copy(fresh, &new).map_err(failed("can't write", &new))?;
    fs::File::open(&new).and_then(|file| file.sync_all()).map_err(failed("can't sync", &new))?;
    let aside = aside(path)?;
    // A second name, which is refused where one stands already, and then one step: the store is never missing.
    fs::hard_link(path, &aside).map_err(failed("can't set aside", path))?;
    fs::rename(&new, path).map_err(failed("can't put in place", path))?;
    if let Some(folder) = path.parent() {
        fs::File::open(folder).and_then(|file| file.sync_all()).map_err(failed("can't sync", folder))?;
    }
    Ok(aside)
}

fn aside(path: &Path) -> Result<PathBuf, RecoverError> {
    let format = format_description!("[year][month][day]T[hour][minute][second].[subsecond digits:3]Z");
    let now = OffsetDateTime::now_utc().format(&format).map_err(std::io::Error::other);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".before-recovery-{}", now.map_err(failed("can't name", path))?));
    Ok(PathBuf::from(name))
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> RecoverError {
    let path = path.to_owned();
    move |source| RecoverError::File { what, path, source }
}
