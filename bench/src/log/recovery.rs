//! How long a journal takes to be read back.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use handoff_log::disk::{Disk, Real};
use handoff_probe::now;
use handoff_types::Room;

use super::Plan;
use super::pipeline::pipeline;
use super::subject::{Subject, begin, entry};
use crate::report::Row;
use crate::samples::Samples;
use crate::site::{Corner, Site};

const MEGABYTE: f64 = 1e6;

/// Where the files are when they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Disk,
    Memory,
}

#[derive(Debug, Default)]
struct Times {
    plain: Samples,
    recovery: Samples,
}

/// What recovery found.
struct Found {
    took: Duration,
    entries: u64,
}

pub(super) fn measure(plan: &Plan, site: &Site, talk: &dyn Fn(&str)) -> io::Result<Vec<Row>> {
    let corner = site.corner("recovery")?;
    let mebibytes = plan.recovery_bytes >> 20;
    talk(&format!("recovery: writing {mebibytes} MiB of journal"));
    let bytes = fill(plan, &corner.disk)?;
    let files = files(&corner)?;
    let [mut cold, mut warm] = [(); 2].map(|()| Times::default());
    let mut entries = Samples::default();
    let mut forgotten = true;
    for repeat in 1..=plan.repeats {
        talk(&format!("recovery: from the disk and from memory, {repeat} of {}", plan.repeats));
        for (times, from) in [(&mut cold, From::Disk), (&mut warm, From::Memory)] {
            forgotten &= from == From::Memory || forget(&files).is_ok();
            times.plain.push(read_plainly(&files)?.as_secs_f64());
            forgotten &= from == From::Memory || forget(&files).is_ok();
            let found = recover(plan, &corner.disk)?;
            times.recovery.push(found.took.as_secs_f64());
            entries.push(found.entries as f64);
        }
    }
    let size = if mebibytes == 1024 { "1 GiB".to_owned() } else { format!("{mebibytes} MiB") };
    let rows = |key: &str, name: &str, times: &Times| {
        const PLAIN: &str = "plain read";
        let rate = |times: &Samples| times.map(|seconds| bytes as f64 / seconds / MEGABYTE);
        let row = |what: &str, unit, samples: &Samples| {
            let key = format!("recovery_{key}_{what}");
            Row::new(key, format!("recovery of {size} {name}"), unit, samples)
        };
        [
            row("seconds", "s", &times.recovery).floor(PLAIN, &times.plain),
            row("rate", "MB/s", &rate(&times.recovery)).floor(PLAIN, &rate(&times.plain)),
        ]
    };
    let cold_name = if forgotten { "from the disk" } else { "(system keeps it in memory)" };
    let mut all = Vec::from(rows("cold", cold_name, &cold));
    all.extend(rows("warm", "from memory", &warm));
    all.push(Row::new("recovery_entries", "recovery, entries", "", &entries));
    Ok(all)
}

/// Writes a journal of mixed records and closes it. Gives its bytes.
fn fill(plan: &Plan, disk: &Arc<Real>) -> io::Result<u64> {
    let subject = Subject::cold(plan, disk, 2 * plan.recovery_bytes)?;
    let body = Bytes::from(vec![0x5a; 256 << 10]);
    let mut count: usize = 0;
    let next = || {
        count += 1;
        let written = subject.journal.stats().bytes;
        (written < plan.recovery_bytes).then(|| (mixed(count, &body), ()))
    };
    pipeline(&subject, next, |_, ()| Ok(()))?;
    Ok(subject.journal.stats().bytes)
}

/// Mostly small changes of several rooms; now and then a batch, rarely a large one.
fn mixed(count: usize, body: &Bytes) -> handoff_log::journal::Entry {
    match count % 64 {
        0 => entry(Room::Streams, 64, Some(body.clone())),
        16 | 32 | 48 => entry(Room::Streams, 64, Some(body.slice(..16 << 10))),
        n if n % 4 == 0 => entry(Room::Calls, 600, None),
        n if n % 4 == 1 => entry(Room::Events, 120, None),
        n if n % 4 == 2 => entry(Room::Exchange, 1024, None),
        _ => entry(Room::Counter, 32, None),
    }
}

fn recover(plan: &Plan, disk: &Arc<Real>) -> io::Result<Found> {
    let disk: Arc<dyn Disk> = Arc::<Real>::clone(disk);
    let begun = now();
    let mut recovery = begin(plan, disk, 2 * plan.recovery_bytes)?;
    let mut entries = 0;
    while recovery.next_entry().map_err(io::Error::other)?.is_some() {
        entries += 1;
    }
    let (_, report) = recovery.finish().map_err(io::Error::other)?;
    let took = begun.elapsed();
    if report.damage.is_empty() && report.entries == entries {
        Ok(Found { took, entries })
    } else {
        Err(io::Error::other(format!("recovery did not find what was written: {report:?}")))
    }
}

fn files(corner: &Corner) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(corner.file("journal"))?.map(|entry| Ok(entry?.path())).collect()
}

fn read_plainly(files: &[PathBuf]) -> io::Result<Duration> {
    let mut bytes = vec![0; 1 << 20];
    let begun = now();
    for path in files {
        let mut file = File::open(path)?;
        while file.read(&mut bytes)? > 0 {}
    }
    Ok(begun.elapsed())
}

/// Asks the system to drop the files from memory. Those of nobody else: this is a guest.
#[cfg(target_os = "linux")]
fn forget(files: &[PathBuf]) -> io::Result<()> {
    for path in files {
        let file = File::open(path)?;
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn forget(_files: &[PathBuf]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
