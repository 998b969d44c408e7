//! A lane is a list of frames, whatever is done to it.

use crate::support::{LANE, SMALL, everything, frame_of, open, pieces, sound};
use handoff_log::disk::{Memory, Real};
use handoff_log::segments::{Appended, Frame, Read, Segments, WriteError};
use handoff_types::{Code, Wall};
use proptest::prelude::*;
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Act {
    Append(Vec<(u32, usize)>),
    AppendAgain,
    TruncateAtFrame(prop::sample::Index),
    Trim(prop::sample::Index),
    Reopen,
    Sync,
}

fn act() -> impl Strategy<Value = Act> {
    let body = prop_oneof![8 => 0..200usize, 1 => 800..3000usize];
    prop_oneof![
        6 => prop::collection::vec((1..5u32, body), 1..12).prop_map(Act::Append),
        1 => Just(Act::AppendAgain),
        1 => any::<prop::sample::Index>().prop_map(Act::TruncateAtFrame),
        1 => any::<prop::sample::Index>().prop_map(Act::Trim),
        2 => Just(Act::Reopen),
        1 => Just(Act::Sync),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_lane_reads_back_what_was_appended_and_not_taken_away(
        acts in prop::collection::vec(act(), 1..25),
        max_bytes in prop_oneof![Just(0u64), 1..5000u64],
        probe: u64,
    ) {
        let disk = Memory::new();
        let mut segments = open(&disk);
        let mut model: Vec<Frame> = Vec::new();
        let mut end = 0;
        for act in acts {
            match act {
                Act::Append(sizes) => {
                    let mut next = end;
                    let new: Vec<Frame> = sizes.into_iter().map(|(count, body)| {
                        let frame = frame_of(LANE, next, count, body);
                        next = frame.end();
                        frame
                    }).collect();
                    let appended = segments.append(LANE, &new).unwrap();
                    prop_assert_eq!(appended, Appended { written: new.len(), already: 0 });
                    end = next;
                    model.extend(new);
                }
                Act::AppendAgain => {
                    let appended = segments.append(LANE, &model).unwrap();
                    prop_assert_eq!(appended, Appended { written: 0, already: model.len() });
                }
                Act::TruncateAtFrame(which) if !model.is_empty() => {
                    let at = which.index(model.len());
                    end = model[at].base;
                    segments.truncate(LANE, end).unwrap();
                    model.truncate(at);
                }
                Act::Trim(which) if !model.is_empty() => {
                    let below = model[which.index(model.len())].base;
                    let start = segments.trim(LANE, below).unwrap();
                    prop_assert!(start <= below);
                    model.retain(|frame| frame.base >= start);
                    prop_assert!(model.first().is_none_or(|first| first.base == start));
                }
                Act::TruncateAtFrame(_) | Act::Trim(_) => {}
                Act::Reopen => {
                    segments = open(&disk);
                    // A lane of which nothing is left does not remember where it was.
                    if model.is_empty() && segments.end(LANE).unwrap() != end {
                        segments.resume(LANE, end).unwrap();
                    }
                }
                Act::Sync => segments.sync().unwrap(),
            }
            prop_assert_eq!(segments.end(LANE).unwrap(), end);
        }
        let start = segments.start(LANE).unwrap();
        prop_assert_eq!(pieces(&segments, LANE, start, max_bytes), sound(&model));
        if let Some(first) = model.first() {
            let offset = first.base + probe % (end - first.base);
            let holder = model.iter().find(|frame| frame.end() > offset).unwrap();
            let Read::Frames(found) = segments.read(LANE, offset, max_bytes).unwrap() else {
                panic!("nothing at {offset}");
            };
            prop_assert_eq!(&found[0], holder);
            let time = Wall(i64::try_from(offset * 10).unwrap());
            let by_time = model.iter().find(|f| f.max_timestamp >= time).map(|f| f.base);
            prop_assert_eq!(segments.find_time(LANE, time).unwrap(), by_time);
        }
    }
}

#[test]
fn lanes_do_not_mix() {
    let disk = Memory::new();
    let segments = open(&disk);
    let lanes: Vec<_> = (0..20).map(|n| handoff_log::segments::Lane(n * 1000)).collect();
    for base in 0..30 {
        for lane in &lanes {
            segments.append(*lane, &[frame_of(*lane, base, 1, 90)]).unwrap();
        }
    }
    let segments = open(&disk);
    assert_eq!(segments.lanes().unwrap(), lanes);
    for lane in lanes {
        let expected: Vec<_> = (0..30).map(|base| frame_of(lane, base, 1, 90)).collect();
        assert_eq!(everything(&segments, lane), sound(&expected));
    }
}

#[test]
fn a_frame_that_does_not_join_is_refused_and_changes_nothing() {
    let segments = open(&Memory::new());
    let first = frame_of(LANE, 0, 3, 10);
    segments.append(LANE, std::slice::from_ref(&first)).unwrap();
    for base in [1, 2, 4] {
        let error = segments.append(LANE, &[frame_of(LANE, base, 9, 10)]).unwrap_err();
        assert!(matches!(error, WriteError::Gap { end: 3, .. }), "{base}: {error}");
    }
    let good_then_gap = [frame_of(LANE, 3, 1, 10), frame_of(LANE, 5, 1, 10)];
    let error = segments.append(LANE, &good_then_gap).unwrap_err();
    assert!(matches!(error, WriteError::Gap { end: 4, base: 5, .. }), "{error}");
    let error = segments.append(LANE, &[frame_of(LANE, 3, 0, 10)]).unwrap_err();
    assert_eq!(error.code(), Code::ChangeTooLarge);
    assert_eq!(everything(&segments, LANE), sound(&[first]));
}

#[test]
fn a_lane_is_not_cut_inside_a_frame() {
    let segments = open(&Memory::new());
    let frames = crate::support::frames(0, 60);
    segments.append(LANE, &frames).unwrap();
    let wide = frames.iter().find(|frame| frame.count == 3).unwrap();
    let error = segments.truncate(LANE, wide.base + 1).unwrap_err();
    assert!(matches!(error, WriteError::InsideFrame { base, .. } if base == wide.base));
    assert_eq!(everything(&segments, LANE), sound(&frames));
}

#[test]
fn a_frame_larger_than_a_segment_has_one_of_its_own() {
    let disk = Memory::new();
    let segments = open(&disk);
    let frames = [frame_of(LANE, 0, 1, 10), frame_of(LANE, 1, 1, 5000), frame_of(LANE, 2, 1, 10)];
    segments.append(LANE, &frames).unwrap();
    assert_eq!(disk.paths().iter().filter(|path| path.ends_with(".segment")).count(), 3);
    assert_eq!(everything(&open(&disk), LANE), sound(&frames));
}

#[test]
fn a_lane_nobody_wrote_to_is_empty_and_leaves_no_trace() {
    let disk = Memory::new();
    let segments = open(&disk);
    assert_eq!(segments.read(LANE, 0, 100).unwrap(), Read::End { end: 0 });
    assert_eq!(segments.read(LANE, 9, 100).unwrap(), Read::End { end: 0 });
    assert_eq!(segments.find_time(LANE, Wall(0)).unwrap(), None);
    assert_eq!(segments.bytes(LANE).unwrap(), 0);
    assert_eq!(segments.trim(LANE, 100).unwrap(), 0);
    assert!(segments.lanes().unwrap().is_empty());
    assert!(disk.paths().is_empty());
}

#[test]
fn a_lane_lives_on_a_real_disk() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Real::new(dir.path()).unwrap());
    let segments = Segments::open(disk.clone(), SMALL).unwrap();
    let frames = crate::support::frames(0, 100);
    for few in frames.chunks(7) {
        segments.append(LANE, few).unwrap();
    }
    segments.sync().unwrap();
    let segments = Segments::open(disk, SMALL).unwrap();
    assert_eq!(everything(&segments, LANE), sound(&frames));
    segments.truncate(LANE, frames[50].base).unwrap();
    let start = segments.trim(LANE, frames[20].base).unwrap();
    segments.sync().unwrap();
    let kept: Vec<_> = frames[..50].iter().filter(|frame| frame.base >= start).cloned().collect();
    assert!(kept.len() < 50);
    assert_eq!(everything(&segments, LANE), sound(&kept));
    segments.remove_lane(LANE).unwrap();
    assert!(segments.lanes().unwrap().is_empty());
}
