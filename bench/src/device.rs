//! What the device itself counts: how often it was told to empty its cache.
//!
//! An independent witness that a sync reached the device. The counter is that of the whole
//! device, so whatever else writes to it counts too.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Where among the fields of a line of `/proc/diskstats` the completed flushes stand.
const FLUSHES_FIELD: usize = 18;

/// The flush counter of one device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flushes {
    major: u32,
    minor: u32,
}

impl Flushes {
    /// The counter of the device below a directory, if the system shows one.
    pub(crate) fn below(dir: &Path) -> Option<Self> {
        let device = fs::metadata(dir).ok()?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let found = Self::of_partition(major, minor).unwrap_or(Self { major, minor });
        found.count().map(|_| found)
    }

    /// Flushes completed so far.
    pub(crate) fn count(self) -> Option<u64> {
        count_in(&fs::read_to_string("/proc/diskstats").ok()?, self.major, self.minor)
    }

    /// Flushes are counted for a disk as a whole and not for its partitions.
    fn of_partition(major: u32, minor: u32) -> Option<Self> {
        let partition = format!("/sys/dev/block/{major}:{minor}");
        fs::metadata(format!("{partition}/partition")).ok()?;
        let disk = fs::read_to_string(format!("{partition}/../dev")).ok()?;
        let (major, minor) = disk.trim().split_once(':')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

fn count_in(diskstats: &str, major: u32, minor: u32) -> Option<u64> {
    let number = |field: Option<&str>| field?.parse::<u32>().ok();
    diskstats.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let ours = number(fields.next()) == Some(major) && number(fields.next()) == Some(minor);
        ours.then(|| fields.nth(FLUSHES_FIELD - 2)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::count_in;

    #[test]
    fn flushes_are_read_from_the_line_of_the_device() {
        let stats = "   7  0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n \
                     254  0 vda 542 6 552 63 99 284 829 274 0 73 922 116 39 289 157 197 11\n";
        assert_eq!(count_in(stats, 254, 0), Some(197));
        assert_eq!(count_in(stats, 254, 1), None);
    }

    #[test]
    fn an_older_system_that_does_not_count_flushes_is_told() {
        let stats = "254 0 vda 542 6 552 63 99 284 829 274 0 73 922 116 39 289 157\n";
        assert_eq!(count_in(stats, 254, 0), None);
    }
}
