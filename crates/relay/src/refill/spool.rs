//! The directory of refill files.
//!
//! ```text
//! spool/MMMMMMMMMMMMM-BLOCK.active     written by the agent; M is when it was begun, milliseconds
//! spool/MMMMMMMMMMMMM-BLOCK.refill     sealed: read by the refill sender until all is delivered
//! quarantine/NAME.FROM-TO.damaged      bytes that could not be read, copied before they were cut
//! quarantine/NAME                      a file that cannot be delivered any further
//! ```

use std::io;
use std::sync::Arc;

use handoff_log::disk::{Disk, File, Open, read_full_at, write_all_at};
use handoff_types::{Span, Wall};

use crate::key::{BlockId, SegmentKey};

const ACTIVE: &str = ".active";
const SEALED: &str = ".refill";
const COPY_BYTES: usize = 1 << 16;

/// Bounds of the spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpoolLimits {
    /// `relay.spool_bytes_max`: all files together, the active one included.
    pub bytes_max: u64,
    /// `relay.spool_age_max`: a file begun longer ago than that is given up.
    pub age_max: Span,
    /// `relay.quarantine_bytes_max`: what is kept of what cannot be delivered.
    pub quarantine_bytes_max: u64,
}

impl Default for SpoolLimits {
    fn default() -> Self {
        Self {
            bytes_max: 4 << 30,
            age_max: Span::from_secs(7 * 24 * 3600),
            quarantine_bytes_max: 256 << 20,
        }
    }
}

/// A file of the spool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpoolFile {
    /// Its name in the directory. Names sort by age.
    pub name: String,
    /// Whether it is complete.
    pub sealed: bool,
    /// When it was begun.
    pub begun: Wall,
    /// Its length.
    pub bytes: u64,
}

/// The directory of refill files and its quarantine.
#[derive(Clone, Debug)]
pub struct Spool {
    disk: Arc<dyn Disk>,
    dir: String,
    quarantine: String,
    limits: SpoolLimits,
}

impl Spool {
    /// Opens the directory; makes it if it is not there.
    ///
    /// # Errors
    /// Whatever the disk answers.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &str,
        quarantine: &str,
        limits: SpoolLimits,
    ) -> io::Result<Self> {
        for dir in [dir, quarantine] {
            disk.create_dir(dir)?;
            disk.sync_dir(dir.rsplit_once('/').map_or("", |(above, _)| above))?;
        }
        Ok(Self { disk, dir: dir.to_owned(), quarantine: quarantine.to_owned(), limits })
    }

    /// The disk it lies on.
    #[must_use]
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Its bounds.
    #[must_use]
    pub const fn limits(&self) -> &SpoolLimits {
        &self.limits
    }

    /// The name of the file of a block.
    #[must_use]
    pub fn name(begun: Wall, block: BlockId) -> String {
        format!("{:013}-{block}{ACTIVE}", begun.0.max(0) / 1_000)
    }

    pub(super) fn dir(&self) -> &str {
        &self.dir
    }

    /// Where a file of the spool lies.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }

    /// All files, oldest first. What is not ours is not looked at.
    ///
    /// # Errors
    /// Whatever the disk answers.
    pub fn files(&self) -> io::Result<Vec<SpoolFile>> {
        let mut files = Vec::new();
        for name in self.disk.list(&self.dir)? {
            let Some((millis, sealed)) = read_name(&name) else { continue };
            let bytes = match self.disk.open(&self.path(&name), Open::Read) {
                Ok(file) => file.len()?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            files.push(SpoolFile { name, sealed, begun: Wall(millis * 1_000), bytes });
        }
        Ok(files)
    }

    /// Bytes of all files together.
    ///
    /// # Errors
    /// Whatever the disk answers.
    pub fn bytes(&self) -> io::Result<u64> {
        Ok(self.files()?.iter().map(|file| file.bytes).sum())
    }

    /// The files that are too old to be delivered.
    #[must_use]
    pub fn expired<'a>(&self, files: &'a [SpoolFile], now: Wall) -> Vec<&'a SpoolFile> {
        files.iter().filter(|file| now.since(file.begun) > self.limits.age_max).collect()
    }

    /// Seals a file and gives its new name. Sealing again changes nothing.
    ///
    /// # Errors
    /// Whatever the disk answers.
    pub fn seal(&self, name: &str) -> io::Result<String> {
        let Some(stem) = name.strip_suffix(ACTIVE) else { return Ok(name.to_owned()) };
        let sealed = format!("{stem}{SEALED}");
        self.disk.rename(&self.path(name), &self.path(&sealed))?;
        self.disk.sync_dir(&self.dir)?;
        Ok(sealed)
    }

    /// Removes a file of which everything was delivered.
    ///
    /// # Errors
    /// Whatever the disk answers.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        handoff_log::disk::remove_if_there(&*self.disk, &self.path(name))?;
        self.disk.sync_dir(&self.dir)
    }

    /// Sets a file aside that cannot be delivered any further.
    ///
    /// # Errors
    /// Whatever the disk answers.
    pub fn set_aside(&self, name: &str) -> io::Result<()> {
        self.disk.rename(&self.path(name), &format!("{}/{name}", self.quarantine))?;
        self.disk.sync_dir(&self.quarantine)?;
        self.disk.sync_dir(&self.dir)
    }

    /// Copies bytes of a file into the quarantine; the same bytes are copied once. False if the
    /// quarantine is full: what is sound must go on all the same.
    ///
    /// # Errors
    /// Whatever the disk answers.
    pub fn keep_copy(&self, name: &str, file: &dyn File, from: u64, to: u64) -> io::Result<bool> {
        let path = format!("{}/{name}.{from}-{to}.damaged", self.quarantine);
        let len = to.saturating_sub(from);
        if !self.has_quarantine_room(len)? {
            return Ok(false);
        }
        // A copy that an earlier attempt left may be a part of it.
        handoff_log::disk::remove_if_there(&*self.disk, &path)?;
        let copy = self.disk.open(&path, Open::Create)?;
        let mut window = vec![0; COPY_BYTES];
        let mut at = 0;
        while at < len {
            let room = usize::try_from(len - at).unwrap_or(usize::MAX).min(COPY_BYTES);
            let read = read_full_at(file, window.get_mut(..room).unwrap_or_default(), from + at)?;
            if read == 0 {
                break;
            }
            write_all_at(&*copy, window.get(..read).unwrap_or_default(), at)?;
            at += read as u64;
        }
        copy.sync()?;
        self.disk.sync_dir(&self.quarantine)?;
        Ok(true)
    }

    /// Keeps a segment that its destination will never take. False if the quarantine is full.
    ///
    /// # Errors
    /// Whatever the disk answers.
    pub fn keep_segment(&self, name: &str, key: SegmentKey, bytes: &[u8]) -> io::Result<bool> {
        if !self.has_quarantine_room(bytes.len() as u64)? {
            return Ok(false);
        }
        let path = format!("{}/{name}.{}-{}.refused", self.quarantine, key.shard, key.segment);
        handoff_log::disk::replace_small(&*self.disk, &path, bytes)?;
        Ok(true)
    }

    fn has_quarantine_room(&self, more: u64) -> io::Result<bool> {
        Ok(self.quarantine_bytes()?.saturating_add(more) <= self.limits.quarantine_bytes_max)
    }

    /// Bytes in the quarantine.
    ///
    /// # Errors
    /// Whatever the disk answers.
    pub fn quarantine_bytes(&self) -> io::Result<u64> {
        let mut all = 0;
        for name in self.disk.list(&self.quarantine)? {
            match self.disk.open(&format!("{}/{name}", self.quarantine), Open::Read) {
                Ok(file) => all += file.len()?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }
}

/// When a file was begun, and whether it is sealed. None for a name that is not ours.
fn read_name(name: &str) -> Option<(i64, bool)> {
    let (stem, sealed) = match name.strip_suffix(SEALED) {
        Some(stem) => (stem, true),
        None => (name.strip_suffix(ACTIVE)?, false),
    };
    let (millis, block) = stem.split_once('-')?;
    let digits = millis.len() == 13 && millis.bytes().all(|byte| byte.is_ascii_digit());
    (digits && block.len() == 36).then_some(())?;
    Some((millis.parse().ok()?, sealed))
}
