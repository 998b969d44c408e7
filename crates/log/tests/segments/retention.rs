//! Old segments go as whole files, and a reader who comes late is told where to begin.

use crate::support::{LANE, everything, frame_of, open, segment_path, sound};
use handoff_log::disk::{Counting, Crash, Disk, Memory};
use handoff_log::segments::{Frame, Lane, Read, Segments};
use handoff_types::Wall;
use std::sync::Arc;

/// One-offset frames of 200 bytes with timestamps 0, 10, 20, …: five to a segment.
fn lane_on(disk: &(impl Disk + Clone + 'static), number: u64) -> (Segments, Vec<Frame>) {
    let segments = open(disk);
    let frames: Vec<_> = (0..number).map(|base| frame_of(LANE, base, 1, 152)).collect();
    segments.append(LANE, &frames).unwrap();
    (segments, frames)
}

fn bases(disk: &Memory) -> Vec<u64> {
    let base = |path: &String| path.strip_suffix(".segment")?.rsplit('/').next()?.parse().ok();
    disk.paths().iter().filter_map(base).collect()
}

#[test]
fn trimming_unlinks_whole_files_and_never_the_one_written_to() {
    let disk = Memory::new();
    let (segments, frames) = lane_on(&disk, 23);
    assert_eq!(bases(&disk), [0, 5, 10, 15, 20]);
    assert_eq!(segments.trim(LANE, 4).unwrap(), 0);
    assert_eq!(segments.trim(LANE, 12).unwrap(), 10);
    assert_eq!(bases(&disk), [10, 15, 20]);
    assert_eq!(disk.paths().iter().filter(|path| path.ends_with(".index")).count(), 2);
    assert_eq!(segments.trim(LANE, 12).unwrap(), 10);
    assert_eq!(segments.trim(LANE, 1000).unwrap(), 20);
    assert_eq!(bases(&disk), [20]);
    assert_eq!(everything(&segments, LANE), sound(&frames[20..]));
    assert_eq!(everything(&open(&disk), LANE), sound(&frames[20..]));
}

#[test]
fn a_read_below_the_start_says_where_the_lane_begins() {
    let disk = Memory::new();
    let (segments, _) = lane_on(&disk, 23);
    segments.trim(LANE, 12).unwrap();
    for segments in [segments, open(&disk)] {
        assert_eq!(segments.read(LANE, 9, 100).unwrap(), Read::Trimmed { start: 10 });
        assert!(matches!(segments.read(LANE, 10, 100).unwrap(), Read::Frames(_)));
    }
}

/// A room decides what goes before it goes, so what would go is said first.
#[test]
fn what_retention_would_leave_is_said_and_nothing_goes() {
    let disk = Memory::new();
    let (segments, _) = lane_on(&disk, 23);
    let sealed = disk.contents(&segment_path(LANE, 0)).unwrap().len() as u64;
    let all = segments.bytes(LANE).unwrap();
    let rules = [
        (None, None),
        (Some(all), None),
        (Some(all - sealed), None),
        (Some(0), None),
        (None, Some(Wall(99))),
        (None, Some(Wall(100))),
        (Some(all - sealed), Some(Wall(151))),
    ];
    for (keep, older_than) in rules {
        let said = segments.retained(LANE, keep, older_than).unwrap();
        assert_eq!(segments.bytes(LANE).unwrap(), all, "nothing has gone");
        let copy = open(&disk.fork());
        assert_eq!(copy.retain(LANE, keep, older_than).unwrap(), said.0);
        assert_eq!(copy.bytes(LANE).unwrap(), said.1);
        let copy = open(&disk.fork());
        assert_eq!(copy.trim(LANE, said.0).unwrap(), said.0);
    }
    assert_eq!(segments.retained(LANE, Some(0), None).unwrap().0, 20);
    assert_eq!(segments.retained(Lane(99), Some(0), None).unwrap(), (0, 0));
}

#[test]
fn retention_by_bytes_keeps_at_least_that_many() {
    let disk = Memory::new();
    let (segments, _) = lane_on(&disk, 23);
    let sealed = disk.contents(&segment_path(LANE, 0)).unwrap().len() as u64;
    let all = segments.bytes(LANE).unwrap();
    assert_eq!(all, 4 * sealed + disk.contents(&segment_path(LANE, 20)).unwrap().len() as u64);
    assert_eq!(segments.retain(LANE, Some(all), None).unwrap(), 0);
    assert_eq!(segments.retain(LANE, Some(all - sealed + 1), None).unwrap(), 0);
    assert_eq!(segments.retain(LANE, Some(all - sealed), None).unwrap(), 5);
    assert_eq!(segments.bytes(LANE).unwrap(), all - sealed);
    assert_eq!(open(&disk).retain(LANE, Some(all - 3 * sealed), None).unwrap(), 15);
    assert_eq!(open(&disk).retain(LANE, Some(0), None).unwrap(), 20);
}

#[test]
fn retention_by_age_looks_at_the_youngest_frame_of_a_segment() {
    let disk = Memory::new();
    let (segments, _) = lane_on(&disk, 23);
    assert_eq!(segments.retain(LANE, None, Some(Wall(40))).unwrap(), 0);
    assert_eq!(segments.retain(LANE, None, Some(Wall(41))).unwrap(), 5);
    assert_eq!(open(&disk).retain(LANE, None, Some(Wall(150))).unwrap(), 15);
    assert_eq!(segments.retain(LANE, None, None).unwrap(), 5);
    assert_eq!(open(&disk).retain(LANE, None, Some(Wall(i64::MAX))).unwrap(), 20);
}

#[test]
fn time_is_found_across_segments_and_after_trimming() {
    let disk = Memory::new();
    let (segments, _) = lane_on(&disk, 23);
    for segments in [&segments, &open(&disk)] {
        assert_eq!(segments.find_time(LANE, Wall(-5)).unwrap(), Some(0));
        assert_eq!(segments.find_time(LANE, Wall(50)).unwrap(), Some(5));
        assert_eq!(segments.find_time(LANE, Wall(51)).unwrap(), Some(6));
        assert_eq!(segments.find_time(LANE, Wall(220)).unwrap(), Some(22));
        assert_eq!(segments.find_time(LANE, Wall(221)).unwrap(), None);
    }
    segments.trim(LANE, 12).unwrap();
    assert_eq!(segments.find_time(LANE, Wall(0)).unwrap(), Some(10));
}

#[test]
fn time_that_goes_back_finds_the_first_frame_late_enough() {
    let segments = open(&Memory::new());
    let times = [50, 10, 10, 70, 20, 60, 90, 0, 0, 0, 0, 0, 95];
    let frame = |(base, time): (u64, &i64)| Frame {
        max_timestamp: Wall(*time),
        ..frame_of(LANE, base, 1, 152)
    };
    let frames: Vec<_> = (0..).zip(&times).map(frame).collect();
    segments.append(LANE, &frames).unwrap();
    for time in 0..100 {
        let first = frames.iter().find(|frame| frame.max_timestamp >= Wall(time));
        let found = segments.find_time(LANE, Wall(time)).unwrap();
        assert_eq!(found, first.map(|frame| frame.base), "time {time}");
    }
}

#[test]
fn a_removed_lane_is_gone_and_may_begin_again() {
    let disk = Memory::new();
    let (segments, frames) = lane_on(&disk, 23);
    segments.remove_lane(LANE).unwrap();
    assert!(disk.paths().is_empty());
    assert!(segments.lanes().unwrap().is_empty());
    assert_eq!(segments.read(LANE, 3, 100).unwrap(), Read::End { end: 0 });
    segments.append(LANE, &frames[..2]).unwrap();
    assert_eq!(everything(&open(&disk), LANE), sound(&frames[..2]));
}

#[test]
fn one_segment_per_sync_is_trimmed_without_a_sync_of_its_own() {
    let disk = Counting::new(Arc::new(Memory::new()));
    let (segments, _) = lane_on(&disk, 40);
    for below in [5, 10, 15] {
        segments.sync().unwrap();
        assert_eq!(segments.trim(LANE, below).unwrap(), below);
    }
    assert_eq!(disk.counts().dir_syncs, 0);
    assert_eq!(segments.trim(LANE, 30).unwrap(), 30);
    assert_eq!((disk.counts().dir_syncs, disk.counts().sync_alls), (3, 3));
    assert_eq!(disk.counts().syncs, 0, "no file is ever synced by itself");
}

/// Of two unlinks a crash may undo the first alone. That must not look like a lane with a hole.
#[test]
fn a_crash_while_trimming_never_leaves_a_hole() {
    for seed in 0..300 {
        let disk = Crash::new();
        let (segments, frames) = lane_on(&disk, 43);
        segments.sync().unwrap();
        segments.trim(LANE, 15 + seed % 25).unwrap();
        let (disk, _) = disk.crash(seed);
        let segments = open(&disk);
        let first = frames.iter().position(|f| f.base == segments.start(LANE).unwrap()).unwrap();
        assert_eq!(everything(&segments, LANE), sound(&frames[first..]), "seed {seed}");
        let (again, _) = {
            segments.trim(LANE, 40).unwrap();
            disk.crash(!seed)
        };
        let segments = open(&again);
        let first = frames.iter().position(|f| f.base == segments.start(LANE).unwrap()).unwrap();
        assert_eq!(everything(&segments, LANE), sound(&frames[first..]), "seed {seed}, again");
    }
}
