//! Small lanes whose every byte is known.

use bytes::Bytes;
use handoff_log::disk::Disk;
use handoff_log::segments::{Frame, Lane, Options, Read, Segments};
use handoff_types::Wall;
use handoff_types::entropy::mix;
use std::sync::Arc;

pub(crate) const LANE: Lane = Lane(0x2a);

/// Some frames to a segment, some entries to an index.
pub(crate) const SMALL: Options =
    Options { segment_bytes: 1024, index_bytes: 128, files_open_max: 4, warm_bytes: 0 };

pub(crate) fn open(disk: &(impl Disk + Clone + 'static)) -> Segments {
    Segments::open(Arc::new(disk.clone()), SMALL).unwrap()
}

/// A frame whose body follows from its lane, its base and its length.
pub(crate) fn frame_of(lane: Lane, base: u64, count: u32, body: usize) -> Frame {
    let seed = mix(lane.0) ^ base;
    let body: Vec<u8> =
        (0..body as u64).map(|at| mix(seed ^ (at << 32)).to_le_bytes()[0]).collect();
    let max_timestamp = Wall(i64::try_from(base * 10).unwrap());
    Frame { base, count, max_timestamp, body: Bytes::from(body) }
}

/// Frames from `base` on, with one to three offsets and bodies of all sorts of lengths.
pub(crate) fn frames(base: u64, number: usize) -> Vec<Frame> {
    let mut next = base;
    let one = |_| {
        let chance = mix(next);
        let count = u32::try_from(1 + chance % 3).unwrap();
        let body = usize::try_from((chance >> 8) % 120).unwrap();
        let frame = frame_of(LANE, next, count, body);
        next = frame.end();
        frame
    };
    (0..number).map(one).collect()
}

/// What stands at the offsets of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Frame(Frame),
    Corrupt(u64, u64),
}

/// Reads a lane from an offset to its end, neighbouring damage taken together.
pub(crate) fn pieces(segments: &Segments, lane: Lane, from: u64, max_bytes: u64) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut at = from;
    loop {
        match segments.read(lane, at, max_bytes).unwrap() {
            Read::Frames(frames) => {
                assert!(!frames.is_empty(), "a read of frames has one");
                at = frames.last().unwrap().end();
                pieces.extend(frames.into_iter().map(Piece::Frame));
            }
            Read::Corrupt { from, to } => {
                assert!(from <= at && at < to, "{from}..{to} does not hold {at}");
                at = to;
                match pieces.last_mut() {
                    Some(Piece::Corrupt(_, end)) if *end == from => *end = to,
                    _ => pieces.push(Piece::Corrupt(from, to)),
                }
            }
            Read::End { end } => {
                assert_eq!(end, segments.end(lane).unwrap());
                assert!(at == end || from > end, "the lane ends at {end}, not at {at}");
                return pieces;
            }
            Read::Trimmed { start } => panic!("{at} is trimmed, the lane starts at {start}"),
        }
    }
}

/// Everything a lane holds, from its start on.
pub(crate) fn everything(segments: &Segments, lane: Lane) -> Vec<Piece> {
    pieces(segments, lane, segments.start(lane).unwrap(), 4096)
}

pub(crate) fn sound(frames: &[Frame]) -> Vec<Piece> {
    frames.iter().cloned().map(Piece::Frame).collect()
}

pub(crate) fn segment_path(lane: Lane, base: u64) -> String {
    format!("segments/{:016x}/{base:020}.segment", lane.0)
}

pub(crate) fn index_path(lane: Lane, base: u64) -> String {
    format!("segments/{:016x}/{base:020}.index", lane.0)
}
