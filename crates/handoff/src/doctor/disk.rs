//! Space, and how fast a sync is.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use handoff_server::settings::Settings;

use super::directory::may_write;
use super::{Directory, Finding};
use crate::clock;
use crate::config::bytes::about;

/// Free space against the watermark, and against what the journal may still take.
pub(super) fn space(settings: &Settings, directory: &Directory) -> Option<Finding> {
    const CHECK: &str = "free space";
    let home = directory.nearest();
    let found = match rustix::fs::statvfs(&home) {
        Ok(found) => found,
        Err(error) => return Some(Finding::skip(CHECK, format!("{}: {error}", home.display()))),
    };
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let total = found.f_blocks.saturating_mul(found.f_frsize);
    let least = settings.server.disk_free_min.unwrap_or_else(|| (total / 20).max(2 << 30));
    let what = format!(
        "{} of {} are free; below {} new messages are refused",
        about(free),
        about(total),
        about(least)
    );
    if free < least {
        let remedy =
            "free space, or lower server.disk_free_min; deletions and acknowledgements go on";
        return Some(Finding::fail(CHECK, what, remedy));
    }
    let taken = journal_bytes(&directory.path);
    let growth = settings.log.limits.journal_bytes_max.saturating_sub(taken);
    if free - least < growth {
        let what = format!("{what}; the journal may still take {}", about(growth));
        return Some(Finding::warn(CHECK, what, "free space, or lower log.journal_bytes_max"));
    }
    Some(Finding::ok(CHECK, what))
}

fn journal_bytes(directory: &Path) -> u64 {
    let files = fs::read_dir(directory.join("journal")).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|file| file.blocks() * 512).sum()
}

/// How long the measurement may take.
const MEASURE: Duration = Duration::from_secs(1);
const SAMPLES_MAX: usize = 2000;
const BLOCK: usize = 4096;
const BLOCKS: u64 = 256;

/// How long it takes to overwrite a block and sync it, where the data is or will be.
pub(super) fn syncs(directory: &Directory) -> Option<Finding> {
    const CHECK: &str = "sync speed";
    let home = directory.nearest();
    if !may_write(&home) {
        let what = format!("{} cannot be written by this user", home.display());
        return Some(Finding::skip(CHECK, what));
    }
    let mut samples = match measure(&home) {
        Ok(samples) => samples,
        Err(error) => {
            let what = format!("a file in {} cannot be written: {error}", home.display());
            return Some(Finding::fail(CHECK, what, "free space, or look at the kernel log"));
        }
    };
    samples.sort_unstable();
    let at = |part: usize| samples.get(samples.len() * part / 100).copied().unwrap_or_default();
    let (half, most) = (at(50), at(99));
    let what = format!(
        "4 KiB are on disk after {} (p50), {} (p99), {} samples in {}",
        micros(half),
        micros(most),
        samples.len(),
        home.display()
    );
    Some(judged(CHECK, half, most, what))
}

fn judged(check: &'static str, half: Duration, most: Duration, what: String) -> Finding {
    if half < Duration::from_micros(15) {
        let remedy = "no disk is that fast: it is memory, or something says done before it is; check the drive's write cache and the hypervisor's cache mode";
        return Finding::warn(check, what, remedy);
    }
    if half > Duration::from_millis(10) || most > Duration::from_millis(100) {
        let remedy = "every answer waits for one; use an SSD, or look at what else uses the disk";
        return Finding::warn(check, what, remedy);
    }
    Finding::ok(check, what)
}

fn measure(home: &Path) -> io::Result<Vec<Duration>> {
    let path = home.join(format!(".handoff-doctor-{}", std::process::id()));
    let file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    // Whatever happens from here on, nothing is left behind.
    fs::remove_file(&path)?;
    let block = [0x5a; BLOCK];
    for n in 0..BLOCKS {
        file.write_all_at(&block, n * BLOCK as u64)?;
    }
    file.sync_all()?;
    let begin = clock::moment();
    let mut samples = Vec::new();
    while begin.elapsed() < MEASURE && samples.len() < SAMPLES_MAX {
        let at = (samples.len() as u64 * 37) % BLOCKS * BLOCK as u64;
        let before = clock::moment();
        file.write_all_at(&block, at)?;
        file.sync_data()?;
        samples.push(before.elapsed());
    }
    Ok(samples)
}

fn micros(time: Duration) -> String {
    let micros = time.as_micros();
    if micros < 10_000 { format!("{micros} µs") } else { format!("{} ms", micros / 1000) }
}

#[cfg(test)]
mod tests {
    use super::{judged, measure};
    use crate::doctor::Verdict;
    use std::time::Duration;

    #[test]
    fn a_sync_too_fast_to_be_true_and_one_too_slow_are_told() {
        let check = |half: u64, most: u64| {
            let (half, most) = (Duration::from_micros(half), Duration::from_micros(most));
            judged("sync speed", half, most, String::new()).verdict
        };
        assert_eq!(check(100, 500), Verdict::Ok);
        assert_eq!(check(2, 5), Verdict::Warn);
        assert_eq!(check(20_000, 30_000), Verdict::Warn);
        assert_eq!(check(100, 200_000), Verdict::Warn);
    }

    #[test]
    fn measuring_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!measure(dir.path()).unwrap().is_empty());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
