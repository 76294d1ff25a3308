//! A disk in memory under redb, that forgets what was not synced.
//!
//! A write is in the page cache until the next sync. When the power goes, each sector that was written since keeps
//! any of the contents it had: the one of the last sync, the newest, or one between. The length may fall back too. A
//! killed process loses nothing it wrote. A sync that succeeded is believed: disks that lie are not modelled.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::Rng as _;
use redb::StorageBackend;

use crate::{Fault, Rng};

const PAGE: usize = 4096;
/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

/// How a process ended, as its disk sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The process is gone, the machine is not: everything written is kept.
    Killed,
    /// The machine is gone: what was not synced is kept, lost or torn.
    PowerLoss,
}

/// An operation that will fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    Read,
    Write,
    Sync,
}

#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<Inner>>);

/// The disk as one process has it open; when that process ends, every operation fails.
#[derive(Debug)]
struct Mounted {
    disk: Disk,
    mount: u64,
}

#[derive(Debug, Default)]
struct Inner {
    image: Vec<u8>,
    synced_len: usize,
    /// Contents that pages had since the last sync, the synced one first. The newest is in `image`.
    unsynced: BTreeMap<usize, Vec<Box<[u8]>>>,
    mount: u64,
    /// The operation that fails, after this many more that don't.
    fuse: Option<(Operation, u32)>,
    fired: Vec<Fault>,
}

// === impl Disk ===

impl Disk {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the disk for a new process; the one before has no access any more.
    pub fn mount(&self) -> impl StorageBackend {
        let mut inner = self.lock();
        inner.mount += 1;
        Mounted { disk: self.clone(), mount: inner.mount }
    }

    /// The process that has the disk open ends now. To be called before its database is dropped, which would
    /// otherwise close the file in good order.
    pub fn unmount(&self) {
        self.lock().mount += 1;
    }

    /// The `after`-th next operation of this kind fails.
    pub fn arm(&self, operation: Operation, after: u32) {
        self.lock().fuse = Some((operation, after));
    }

    pub fn disarm(&self) {
        self.lock().fuse = None;
    }

    /// What went wrong since this was asked last.
    pub fn take_fired(&self) -> Vec<Fault> {
        std::mem::take(&mut self.lock().fired)
    }

    /// Decides what the disk holds after its process or machine ended.
    pub fn settle(&self, ending: Ending, rng: &mut Rng) {
        let mut inner = self.lock();
        if ending == Ending::PowerLoss {
            inner.lose(rng);
        }
        inner.sync();
    }
}

// === impl Inner ===

impl Inner {
    fn page(&self, page: usize) -> Box<[u8]> {
        let mut content = vec![0; PAGE];
        let from = (page * PAGE).min(self.image.len());
        let until = ((page + 1) * PAGE).min(self.image.len());
        content[..until - from].copy_from_slice(&self.image[from..until]);
        content.into()
    }

    fn set_page(&mut self, page: usize, content: &[u8]) {
        let from = (page * PAGE).min(self.image.len());
        let until = ((page + 1) * PAGE).min(self.image.len());
        self.image[from..until].copy_from_slice(&content[..until - from]);
    }

    /// Remembers what the pages of this range hold, before they change.
    fn remember(&mut self, from: usize, until: usize) {
        for page in from / PAGE..until.div_ceil(PAGE) {
            let content = self.page(page);
            self.unsynced.entry(page).or_default().push(content);
        }
    }

    fn sync(&mut self) {
        self.unsynced.clear();
        self.synced_len = self.image.len();
    }

    fn lose(&mut self, rng: &mut Rng) {
        if self.unsynced.is_empty() {
            return;
        }
        // One mood for the whole crash: often everything or nothing is lost, for that is what happens most.
        let mood = rng.random_range(0..4_u32);
        self.fired.push(match mood {
            0 => Fault::WritesKept,
            1 => Fault::WritesLost,
            _ => Fault::WritesTorn,
        });
        if mood == 1 || (mood > 1 && rng.random()) {
            let len = self.synced_len;
            self.image.resize(len, 0);
        }
        for (page, mut contents) in std::mem::take(&mut self.unsynced) {
            contents.push(self.page(page));
            let newest = contents.len() - 1;
            let whole = rng.random_range(0..=newest);
            let mut result = vec![0; PAGE];
            for sector in 0..PAGE / SECTOR {
                let at = sector * SECTOR..(sector + 1) * SECTOR;
                let version = match mood {
                    0 => newest,
                    1 => 0,
                    2 => whole,
                    _ => rng.random_range(0..=newest),
                };
                result[at.clone()].copy_from_slice(&contents[version][at]);
            }
            self.set_page(page, &result);
        }
    }

    fn admit(&mut self, mount: u64, operation: Operation) -> io::Result<()> {
        if mount != self.mount {
            return Err(io::Error::other("the process has ended"));
        }
        let Some((fails, after)) = self.fuse else { return Ok(()) };
        if fails != operation {
            return Ok(());
        }
        if after > 0 {
            self.fuse = Some((fails, after - 1));
            return Ok(());
        }
        self.fuse = None;
        self.fired.push(match operation {
            Operation::Read => Fault::DiskReadError,
            Operation::Write => Fault::DiskWriteError,
            Operation::Sync => Fault::DiskSyncError,
        });
        Err(io::Error::other("simulated disk error"))
    }
}

fn place(offset: u64, len: usize, end: usize) -> io::Result<(usize, usize)> {
    let from = usize::try_from(offset).map_err(io::Error::other)?;
    let until = from.checked_add(len).filter(|until| *until <= end);
    Ok((from, until.ok_or_else(|| io::Error::other("beyond the end of the disk"))?))
}

impl StorageBackend for Mounted {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.lock().image.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut inner = self.disk.lock();
        inner.admit(self.mount, Operation::Read)?;
        let (from, until) = place(offset, out.len(), inner.image.len())?;
        out.copy_from_slice(&inner.image[from..until]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut inner = self.disk.lock();
        inner.admit(self.mount, Operation::Write)?;
        let (before, len) = (inner.image.len(), usize::try_from(len).map_err(io::Error::other)?);
        if len < before {
            inner.remember(len, before);
        }
        inner.image.resize(len, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut inner = self.disk.lock();
        inner.admit(self.mount, Operation::Sync)?;
        inner.sync();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut inner = self.disk.lock();
        inner.admit(self.mount, Operation::Write)?;
        let (from, until) = place(offset, data.len(), inner.image.len())?;
        inner.remember(from, until);
        inner.image[from..until].copy_from_slice(data);
        Ok(())
    }
}
