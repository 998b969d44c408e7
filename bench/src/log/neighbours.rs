//! One caller's small records in one room while something large goes on beside it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bytes::Bytes;
use handoff_log::disk::{Disk, Real};
use handoff_probe::{Load, drive};
use handoff_types::Room;

use super::Plan;
use super::checkpointing::write_checkpoints;
use super::pipeline::pipeline;
use super::subject::{BULK_BYTES, Subject, entry};
use super::turns::take_turns;
use crate::report::{Goal, Row};
use crate::samples::Samples;
use crate::site::{Corner, Site};

/// What a small record may take beside anything, in microseconds.
const P99_MAX: f64 = 20_000.0;

#[derive(Debug, Default)]
struct Seen {
    p50: Samples,
    p99: Samples,
}

impl Seen {
    fn note(&mut self, load: io::Result<Load>) -> io::Result<()> {
        let load = load?;
        self.p50.push(load.micros_at(0.5));
        self.p99.push(load.micros_at(0.99));
        Ok(())
    }
}

pub(super) fn measure(plan: &Plan, site: &Site, talk: &dyn Fn(&str)) -> io::Result<Vec<Row>> {
    talk("neighbours: warming a journal");
    let corner = site.corner("neighbours")?;
    let subject = Subject::warm(plan, &corner.disk)?;
    let [mut alone, mut flooded, mut checkpointed] = [(); 3].map(|()| Seen::default());
    for turn in 0..plan.repeats {
        talk(&format!(
            "neighbours: small records alone, beside a flood, beside a checkpoint, {} of {}",
            turn + 1,
            plan.repeats
        ));
        take_turns(
            turn,
            &mut [
                &mut || alone.note(small_records(plan, &subject)),
                &mut || flooded.note(beside(plan, &subject, |stop| flood(&subject, stop))),
                &mut || {
                    checkpointed
                        .note(beside(plan, &subject, |stop| checkpoints(plan, &corner, stop)))
                },
            ],
        )?;
    }
    let rows = |key: &str, name: &str, seen: &Seen| {
        const ALONE: &str = "alone";
        let row = |what, figure: &Samples, alone: &Samples| {
            Row::new(
                format!("small_{key}_{what}"),
                format!("small records {name}, {what}"),
                "µs",
                figure,
            )
            .floor(ALONE, alone)
        };
        let p99 = row("p99", &seen.p99, &alone.p99).goal(Goal::AtMost(P99_MAX));
        [row("p50", &seen.p50, &alone.p50), p99]
    };
    let beside_flood = rows("flood", "while another room floods 1 MiB entries", &flooded);
    let beside_checkpoint = rows("checkpoint", "while a checkpoint is written", &checkpointed);
    Ok(beside_flood.into_iter().chain(beside_checkpoint).collect())
}

fn small_records(plan: &Plan, subject: &Subject) -> io::Result<Load> {
    let small = entry(Room::Events, plan.payload_bytes, None);
    drive(1, plan.time, || subject.call(small.clone()))
}

/// Measures small records while another thread does something until it is told to stop.
fn beside(
    plan: &Plan,
    subject: &Subject,
    other: impl Fn(&AtomicBool) -> io::Result<()> + Sync,
) -> io::Result<Load> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let other = scope.spawn(|| other(&stop));
        let load = small_records(plan, subject);
        stop.store(true, Ordering::Relaxed);
        other.join().unwrap_or_else(|_| Err(io::Error::other("the neighbour panicked")))?;
        load
    })
}

fn flood(subject: &Subject, stop: &AtomicBool) -> io::Result<()> {
    let body = Bytes::from(vec![0x5a; BULK_BYTES]);
    let next = || {
        let goes_on = !stop.load(Ordering::Relaxed);
        goes_on.then(|| (entry(Room::Streams, 0, Some(body.clone())), ()))
    };
    pipeline(subject, next, |committed, ()| subject.done_with(committed)).map(drop)
}

fn checkpoints(plan: &Plan, corner: &Corner, stop: &AtomicBool) -> io::Result<()> {
    let disk: Arc<dyn Disk> = Arc::<Real>::clone(&corner.disk);
    write_checkpoints(&disk, plan.file_bytes, stop)
}
