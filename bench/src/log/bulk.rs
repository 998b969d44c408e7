//! Rounds of 1 MiB: what the ring takes in a burst, and what stays when everything is moved on.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use bytes::Bytes;
use handoff_log::disk::Disk;
use handoff_log::journal::{Ahead, BodyAt, Journal};
use handoff_log::segments::{Bodies, BodyError, Lane, Move, Mover, Options, Segments};
use handoff_probe::{Moved, Moving, now, overwrite, recycle_and_move, zero_filled};
use handoff_types::{Position, Room, Wall};

use super::Plan;
use super::pipeline::pipeline;
use super::subject::{BULK_BYTES, Subject, entry};
use super::turns::take_turns;
use crate::report::{Goal, Row};
use crate::samples::Samples;
use crate::site::{Corner, Site};

/// One round of the floors.
const ROUND_BYTES: usize = 1 << 20;
/// What is moved at once, if that much waits.
const MOVE_BYTES: usize = 16 << 20;
/// What is moved is made durable each time it has grown by this.
const SYNC_BYTES: u64 = 64 << 20;
/// How far what is moved may be behind.
const BEHIND_BYTES: u64 = 64 << 20;
/// What the journal and its mover should reach of the disk's own rate.
const OF_FLOOR_MIN: f64 = 0.7;
const MEGABYTE: f64 = 1e6;

/// Bodies of one size that go to some lanes in turn.
#[derive(Clone, Copy, Debug)]
struct Lanes {
    count: u64,
    body_bytes: usize,
}

const ONE_LANE: Lanes = Lanes { count: 1, body_bytes: BULK_BYTES };
/// A batch of sixteen small records to each of many lanes.
const MANY_LANES: Lanes = Lanes { count: 1000, body_bytes: 16 << 10 };

pub(super) fn measure(plan: &Plan, site: &Site, talk: &dyn Fn(&str)) -> io::Result<Vec<Row>> {
    talk("bulk: warming a journal");
    let corner = site.corner("bulk")?;
    let subject = Subject::warm(plan, &corner.disk)?;
    let ring_bytes = 4 * plan.file_bytes;
    let ring = zero_filled(&corner.file("ring"), ring_bytes)?;
    let [mut raw, mut bursts, mut floor, mut one, mut many] = [(); 5].map(|()| Samples::default());
    for turn in 0..plan.repeats {
        talk(&format!("bulk: a burst, then written and moved, {} of {}", turn + 1, plan.repeats));
        take_turns(
            turn,
            &mut [
                &mut || {
                    let load = overwrite(&ring, ring_bytes, ROUND_BYTES, plan.time)?;
                    raw.push(load.rate() * ROUND_BYTES as f64 / MEGABYTE);
                    Ok(())
                },
                &mut || note(&mut bursts, burst(plan, &subject)),
            ],
        )?;
        take_turns(
            turn,
            &mut [
                &mut || note(&mut floor, plain_move(plan, &corner, &ring, ring_bytes)),
                &mut || note(&mut one, sustained(plan, site, &subject, ONE_LANE)),
                &mut || note(&mut many, sustained(plan, site, &subject, MANY_LANES)),
            ],
        )?;
    }
    const MOVED: &str = "plain recycle and move";
    Ok(vec![
        Row::new("burst_rate", "burst of 1 MiB rounds, not moved", "MB/s", &bursts)
            .floor("plain 1 MiB rounds", &raw),
        Row::new("sustained_1_lane", "sustained with the mover on, 1 lane", "MB/s", &one)
            .floor(MOVED, &floor)
            .goal(Goal::OfFloor(OF_FLOOR_MIN)),
        Row::new("sustained_1000_lanes", "sustained with the mover on, 1,000 lanes", "MB/s", &many)
            .floor(MOVED, &floor)
            .goal(Goal::OfFloor(OF_FLOOR_MIN)),
    ])
}

/// Fills as much of the page cache as a measurement will, and gives it back without writing it. A
/// virtual machine may get each page from its host at the first touch, more slowly than a disk
/// writes. Without this, who comes first pays for those who come after.
fn touch_memory(plan: &Plan, corner: &Corner) -> io::Result<()> {
    let path = corner.file("touched");
    let file = File::create_new(&path)?;
    let zeros = vec![0; ROUND_BYTES];
    for round in 0..plan.bulk_bytes_max / ROUND_BYTES as u64 {
        file.write_all_at(&zeros, round * ROUND_BYTES as u64)?;
    }
    std::fs::remove_file(path)
}

fn note(samples: &mut Samples, moved: io::Result<Moved>) -> io::Result<()> {
    samples.push(moved?.rate() / MEGABYTE);
    Ok(())
}

fn burst(plan: &Plan, subject: &Subject) -> io::Result<Moved> {
    let body = Bytes::from(vec![0x5a; BULK_BYTES]);
    let begun = now();
    let next = || {
        let goes_on = begun.elapsed() < plan.time;
        goes_on.then(|| (entry(Room::Counter, 0, Some(body.clone())), ()))
    };
    let bytes = pipeline(subject, next, |committed, ()| subject.done_with(committed))?;
    Ok(Moved { bytes, elapsed: begun.elapsed() })
}

fn plain_move(plan: &Plan, corner: &Corner, ring: &File, ring_bytes: u64) -> io::Result<Moved> {
    let moving = Moving {
        round_bytes: ROUND_BYTES,
        ring_bytes,
        sync_bytes: SYNC_BYTES.min(ring_bytes / 4),
        behind_bytes: BEHIND_BYTES.min(ring_bytes / 2),
        bytes_max: plan.bulk_bytes_max,
        time: plan.time,
    };
    touch_memory(plan, corner)?;
    let rest = corner.file("rest");
    let moved = recycle_and_move(&moving, ring, &rest, || corner.disk.sync_all())?;
    std::fs::remove_file(rest)?;
    Ok(moved)
}

/// Appends from one thread, moves on another, until everything is durable in its lane.
fn sustained(plan: &Plan, site: &Site, subject: &Subject, lanes: Lanes) -> io::Result<Moved> {
    let corner = site.corner("lanes")?;
    let disk: Arc<dyn Disk> = Arc::<handoff_log::disk::Real>::clone(&corner.disk);
    let segments = Arc::new(Segments::open(disk, Options::default()).map_err(io::Error::other)?);
    touch_memory(plan, &corner)?;
    let body = Bytes::from(vec![0x5a; lanes.body_bytes]);
    let behind = usize::try_from(BEHIND_BYTES).unwrap_or(usize::MAX) / lanes.body_bytes;
    let begun = now();
    let bytes = thread::scope(|scope| {
        let (written, to_move) = sync_channel(behind);
        let mover = scope.spawn(|| move_all(subject, segments, lanes, to_move));
        let (mut entries, mut written_bytes) = (0, 0);
        let next = || {
            if written_bytes >= plan.bulk_bytes_max || begun.elapsed() >= plan.time {
                return None;
            }
            let (lane, base) = (Lane(entries % lanes.count), entries / lanes.count);
            entries += 1;
            written_bytes += lanes.body_bytes as u64;
            Some((entry(Room::Counter, 32, Some(body.clone())), (lane, base)))
        };
        let bytes = pipeline(subject, next, |committed, (lane, base)| {
            let body = (committed.position, 0);
            let next = Move { lane, base, count: 1, max_timestamp: Wall(0), body };
            written.send(next).map_err(|_| io::Error::other("the mover stopped"))
        });
        drop(written);
        mover.join().unwrap_or_else(|_| Err(io::Error::other("the mover panicked")))?;
        bytes
    })?;
    Ok(Moved { bytes, elapsed: begun.elapsed() })
}

fn move_all(
    subject: &Subject,
    segments: Arc<Segments>,
    lanes: Lanes,
    to_move: Receiver<Move>,
) -> io::Result<()> {
    let mut mover = Mover::new(segments, InJournal(subject));
    let mut unsynced = 0;
    while let Ok(first) = to_move.recv() {
        let mut moves = vec![first];
        moves.extend(to_move.try_iter().take(MOVE_BYTES.div_ceil(lanes.body_bytes)));
        mover.copy(&moves).map_err(io::Error::other)?;
        unsynced += (moves.len() * lanes.body_bytes) as u64;
        if unsynced >= SYNC_BYTES {
            unsynced = 0;
            sync(subject, &mut mover)?;
        }
    }
    sync(subject, &mut mover)
}

fn sync(subject: &Subject, mover: &mut Mover<InJournal<'_>>) -> io::Result<()> {
    let mark = mover.sync().map_err(io::Error::other)?;
    if let Some(through) = mark.through {
        subject.journal.trim(Room::Counter, through);
    }
    Ok(())
}

/// The journal as the mover reads it.
#[derive(Debug)]
struct InJournal<'a>(&'a Subject);

impl Bodies for InJournal<'_> {
    fn body(&self, position: Position, index: u32) -> Result<Bytes, BodyError> {
        Ok(self.0.journal.body(BodyAt { position, index })?)
    }

    fn bodies(&self, position: Position, ahead: &mut Ahead) -> Result<Vec<Bytes>, BodyError> {
        Ok(self.0.journal.bodies_ahead(position, ahead)?)
    }
}
