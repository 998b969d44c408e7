//! `bench log`: the journal, its segments and its recovery.
//!
//! ```text
//!  callers      raw sync │ 1 caller │ probe 1, 16, 256 │ 16, 256 callers      take turns
//!  bulk         raw 1 MiB rounds │ burst │ recycle-and-move │ mover on, 1 and 1,000 lanes
//!  neighbours   small records alone │ beside a flood │ beside a checkpoint
//!  recovery     plain read of the files │ recovery, from the disk and from memory
//! ```

mod bulk;
mod callers;
mod checkpointing;
mod neighbours;
mod pipeline;
mod recovery;
mod subject;
mod turns;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::bystanders::Ticks;
use crate::report::{Goal, Report, Settings};
use crate::site::Site;
use crate::{Failed, Row};

/// What the kernel's own work for this takes, roughly. Above it something else ran, and figures are
/// worth little.
const BYSTANDERS_MAX: f64 = 15.0;

/// A part of the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Callers that wait for small records.
    Callers,
    /// Rounds of 1 MiB, moved and not.
    Bulk,
    /// Small records beside something large.
    Neighbours,
    /// Reading the journal back.
    Recovery,
}

impl Part {
    /// Every part, in the order they are measured.
    pub const ALL: [Self; 4] = [Self::Callers, Self::Bulk, Self::Neighbours, Self::Recovery];
}

/// What is measured, and how long.
#[derive(Clone, Debug)]
pub struct Plan {
    parts: Vec<Part>,
    /// A fresh directory is made in this one.
    parent: PathBuf,
    /// How long one measurement runs.
    time: Duration,
    repeats: usize,
    /// Bytes of a small record.
    payload_bytes: usize,
    /// Bytes of one file of the ring, and of the whole ring.
    file_bytes: u64,
    ring_bytes: u64,
    /// What a measurement of bulk writes at most.
    bulk_bytes_max: u64,
    /// How much journal is recovered.
    recovery_bytes: u64,
    /// What the filesystem must have free.
    needed_bytes: u64,
}

impl Plan {
    /// Measurements of this length, each three times, below a directory.
    #[must_use]
    pub fn of(parent: &Path, time: Duration) -> Self {
        Self {
            parts: Part::ALL.to_vec(),
            parent: parent.to_owned(),
            time,
            repeats: 3,
            payload_bytes: 1024,
            file_bytes: 64 << 20,
            ring_bytes: 1 << 30,
            bulk_bytes_max: 1 << 30,
            recovery_bytes: 1 << 30,
            needed_bytes: 5 << 30,
        }
    }

    /// Everything once and short, to see that it works.
    #[must_use]
    pub fn quick(parent: &Path) -> Self {
        Self {
            repeats: 1,
            file_bytes: 8 << 20,
            ring_bytes: 256 << 20,
            bulk_bytes_max: 64 << 20,
            recovery_bytes: 64 << 20,
            needed_bytes: 1 << 30,
            ..Self::of(parent, Duration::from_millis(300))
        }
    }

    /// Only this part.
    #[must_use]
    pub fn only(self, part: Part) -> Self {
        Self { parts: vec![part], ..self }
    }
}

/// Measures, and tells on the way what it is doing.
///
/// # Errors
/// See [`Failed`].
pub fn run(plan: &Plan, talk: &dyn Fn(&str)) -> Result<Report, Failed> {
    let site = Site::make(&plan.parent, plan.needed_bytes)?;
    let begun = Ticks::now();
    let mut rows: Vec<Row> = Vec::new();
    for part in &plan.parts {
        rows.extend(match part {
            Part::Callers => callers::measure(plan, &site, talk)?,
            Part::Bulk => bulk::measure(plan, &site, talk)?,
            Part::Neighbours => neighbours::measure(plan, &site, talk)?,
            Part::Recovery => recovery::measure(plan, &site, talk)?,
        });
    }
    let others = Ticks::now().zip(begun).map(|(now, begun)| now.others_since(begun));
    rows.push(
        Row::new(
            "bystanders",
            "processors busy with something else",
            "%",
            &others.into_iter().collect(),
        )
        .goal(Goal::AtMost(BYSTANDERS_MAX)),
    );
    let settings = Settings {
        seconds: plan.time.as_secs_f64(),
        repeats: plan.repeats,
        payload_bytes: plan.payload_bytes,
        processors: thread::available_parallelism().map_or(1, usize::from),
    };
    Ok(Report { bench: "log", settings, rows })
}
