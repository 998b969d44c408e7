//! The watch over the disk: below the watermark nothing new is taken.
//!
//! Deletions and occurrences go on: they finish what was promised, and they make space.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use handoff_log::journal::{Journal as _, Purpose, Refused, Threaded};
use handoff_types::Room;
use tokio::time::{Instant, sleep};
use tracing::{error, info, warn};

use super::Readiness;
use crate::rooms::RoomError;
use crate::telemetry::DiskSpace;

/// How often somebody looks at the disk.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// And after this much was written.
const LOOK_BYTES: u64 = 64 << 20;

/// How often the journal is asked how much that is, and whether it has stopped.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// What is kept free unless the operator says otherwise: the larger of these.
const FREE_MIN_PERCENT: u64 = 5;
const FREE_MIN_BYTES: u64 = 2 << 30;

/// How much space the disk of the data directory has, and whether that is enough for new things.
#[derive(Debug)]
pub struct Watermark {
    path: PathBuf,
    /// `server.disk_free_min`; none: derived from the size of the disk.
    wanted: AtomicU64,
    free: AtomicU64,
    min: AtomicU64,
    low: AtomicBool,
}

/// `wanted`, if the operator said nothing.
const DERIVED: u64 = u64::MAX;

impl Watermark {
    /// Looks at the disk for the first time.
    ///
    /// # Errors
    /// When the system cannot say how full it is.
    pub fn new(data_dir: &Path, free_min: Option<u64>) -> io::Result<Arc<Self>> {
        let watermark = Self {
            path: data_dir.to_owned(),
            wanted: AtomicU64::new(free_min.unwrap_or(DERIVED)),
            free: AtomicU64::new(0),
            min: AtomicU64::new(0),
            low: AtomicBool::new(false),
        };
        watermark.look()?;
        Ok(Arc::new(watermark))
    }

    /// Whether something new may be taken.
    ///
    /// # Errors
    /// [`RoomError::DiskLow`]
    pub fn check(&self) -> Result<(), RoomError> {
        if !self.low.load(Ordering::Relaxed) {
            return Ok(());
        }
        let DiskSpace { free, min } = self.space();
        Err(RoomError::DiskLow { free, min })
    }

    /// What the last look saw.
    #[must_use]
    pub fn space(&self) -> DiskSpace {
        let of = |place: &AtomicU64| place.load(Ordering::Relaxed);
        DiskSpace { free: of(&self.free), min: of(&self.min) }
    }

    /// Changes `server.disk_free_min`.
    pub fn set_free_min(&self, free_min: Option<u64>) {
        self.wanted.store(free_min.unwrap_or(DERIVED), Ordering::Relaxed);
    }

    /// Looks at the disk.
    ///
    /// # Errors
    /// When the system cannot say; what was seen before stays.
    pub fn look(&self) -> io::Result<()> {
        let seen = rustix::fs::statvfs(&self.path)?;
        let free = seen.f_bavail.saturating_mul(seen.f_frsize);
        let total = seen.f_blocks.saturating_mul(seen.f_frsize);
        let min = match self.wanted.load(Ordering::Relaxed) {
            DERIVED => FREE_MIN_BYTES.max(total / 100 * FREE_MIN_PERCENT),
            wanted => wanted,
        };
        self.see(free, min);
        Ok(())
    }

    fn see(&self, free: u64, min: u64) {
        self.free.store(free, Ordering::Relaxed);
        self.min.store(min, Ordering::Relaxed);
        let low = free < min;
        match (self.low.swap(low, Ordering::Relaxed), low) {
            (false, true) => warn!(free, min, "the disk is nearly full: nothing new is taken"),
            (true, false) => info!(free, min, "the disk has space again"),
            _ => {}
        }
    }
}

/// Watches disk and journal until the journal stops for good, and says why it did. While the disk
/// fails the journal, the board says so.
///
/// # Cancel safety
/// It may be begun again.
pub async fn watch(
    watermark: &Watermark,
    journal: &Threaded,
    readiness: &Readiness,
) -> Arc<io::Error> {
    let (mut looked, mut written) = (Instant::now(), journal.stats().bytes);
    let mut blind = false;
    loop {
        if let Some(fault) = journal.stopped() {
            error!(%fault, "the journal has stopped");
            return fault;
        }
        let refused = journal.admit(Room::House, 1, Purpose::Finish).err();
        readiness.set_trouble(refused.filter(is_trouble).map(|refused| refused.to_string()));
        let bytes = journal.stats().bytes;
        if looked.elapsed() >= LOOK_EVERY || bytes.saturating_sub(written) >= LOOK_BYTES {
            (looked, written) = (Instant::now(), bytes);
            let seen = watermark.look();
            if let (Err(fault), false) = (&seen, blind) {
                warn!(%fault, "the system does not say how full the disk is");
            }
            blind = seen.is_err();
        }
        sleep(ASK_EVERY).await;
    }
}

/// Whether a refusal concerns every room and will pass.
fn is_trouble(refused: &Refused) -> bool {
    matches!(refused, Refused::Poisoned { .. } | Refused::NoFile { .. })
}

#[cfg(test)]
mod tests {
    use super::Watermark;
    use crate::rooms::RoomError;

    #[test]
    fn below_the_watermark_nothing_new_is_taken_and_above_it_again() {
        let directory = tempfile::tempdir().unwrap();
        let watermark = Watermark::new(directory.path(), Some(0)).unwrap();
        assert!(watermark.check().is_ok());
        watermark.set_free_min(Some(u64::MAX - 1));
        watermark.look().unwrap();
        assert!(
            matches!(watermark.check(), Err(RoomError::DiskLow { min, .. }) if min == u64::MAX - 1)
        );
        watermark.set_free_min(Some(1));
        watermark.look().unwrap();
        assert!(watermark.check().is_ok());
    }

    #[test]
    fn unless_told_otherwise_a_twentieth_and_two_gigabytes_are_kept_free() {
        let directory = tempfile::tempdir().unwrap();
        let watermark = Watermark::new(directory.path(), None).unwrap();
        assert!(watermark.space().min >= 2 << 30);
    }
}
