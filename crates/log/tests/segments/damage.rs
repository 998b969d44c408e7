//! Damage costs what it hits: every bit of a segment is flipped, every length cut.

use crate::support::{
    LANE, Piece, everything, frames, index_path, open, pieces, segment_path, sound,
};
use handoff_log::disk::{Disk, Memory};
use handoff_log::segments::{Frame, Read, ReadError, Segments};
use handoff_types::{Code, Wall};

const FILE_HEADER: usize = 32;
const FRAME_HEADER: usize = 40;

/// A lane of several segments, all but the last sealed.
struct Sample {
    disk: Memory,
    frames: Vec<Frame>,
    /// The frames by segment.
    segments: Vec<Vec<Frame>>,
}

impl Sample {
    fn new() -> Self {
        let disk = Memory::new();
        let frames = frames(5, 28);
        let segments = open(&disk);
        segments.resume(LANE, 5).unwrap();
        segments.append(LANE, &frames).unwrap();
        let bases: Vec<u64> = disk
            .paths()
            .iter()
            .filter_map(|path| path.strip_suffix(".segment")?.rsplit('/').next()?.parse().ok())
            .collect();
        let of = |base: &u64| {
            let end = bases.iter().find(|other| *other > base).copied().unwrap_or(u64::MAX);
            frames.iter().filter(|f| f.base >= *base && f.base < end).cloned().collect()
        };
        let by_segment = bases.iter().map(of).collect();
        let sample = Self { disk, frames, segments: by_segment };
        assert!(sample.segments.len() >= 3, "the middle one has neighbours");
        assert!(sample.segments.iter().all(|frames| frames.len() > 1), "one frame is no lane");
        sample
    }

    /// A copy of the disk on which one file is something else.
    fn with(&self, path: &str, change: impl FnOnce(&mut Vec<u8>)) -> Memory {
        let disk = self.disk.fork();
        let mut bytes = disk.contents(path).unwrap();
        change(&mut bytes);
        disk.overwrite(path, bytes).unwrap();
        disk
    }

    /// All frames, with these taken for damaged.
    fn without(&self, hit: &[Frame]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for frame in &self.frames {
            match pieces.last_mut() {
                _ if !hit.contains(frame) => pieces.push(Piece::Frame(frame.clone())),
                Some(Piece::Corrupt(_, end)) => *end = frame.end(),
                _ => pieces.push(Piece::Corrupt(frame.base, frame.end())),
            }
        }
        pieces
    }

    fn middle(&self) -> (&[Frame], String) {
        let frames = &self.segments[1];
        (frames, segment_path(LANE, frames[0].base))
    }

    fn last(&self) -> (&[Frame], String) {
        let frames = self.segments.last().unwrap();
        (frames, segment_path(LANE, frames[0].base))
    }
}

/// Where each frame stands in its file: first byte, end of body.
fn places(frames: &[Frame]) -> Vec<(usize, usize)> {
    let mut at = FILE_HEADER;
    let place = |frame: &Frame| {
        let place = (at, at + FRAME_HEADER + frame.body.len());
        at = place.1.next_multiple_of(8);
        place
    };
    frames.iter().map(place).collect()
}

#[test]
fn a_flipped_bit_in_a_sealed_segment_costs_its_frame_and_no_other() {
    let sample = Sample::new();
    let (frames, path) = sample.middle();
    let places = places(frames);
    for with_index in [true, false] {
        for bit in 0..sample.disk.contents(&path).unwrap().len() * 8 {
            let disk = sample.with(&path, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
            if !with_index {
                disk.remove(&index_path(LANE, frames[0].base)).unwrap();
            }
            let hit = places.iter().position(|(from, to)| (*from..*to).contains(&(bit / 8)));
            let expected = sample.without(hit.map_or(&[], |at| &frames[at..=at]));
            assert_eq!(everything(&open(&disk), LANE), expected, "bit {bit}, index {with_index}");
        }
    }
}

#[test]
fn a_flipped_bit_in_the_last_segment_costs_its_frame_and_no_other() {
    let sample = Sample::new();
    let (frames, path) = sample.last();
    let places = places(frames);
    let (last_from, _) = *places.last().unwrap();
    for bit in 0..sample.disk.contents(&path).unwrap().len() * 8 {
        let disk = sample.with(&path, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        let hit = places.iter().position(|(from, to)| (*from..*to).contains(&(bit / 8)));
        let mut expected = sample.without(hit.map_or(&[], |at| &frames[at..=at]));
        // Without its header the last frame cannot be told from a torn tail.
        if (last_from..last_from + FRAME_HEADER).contains(&(bit / 8)) {
            expected.pop();
        }
        assert_eq!(everything(&open(&disk), LANE), expected, "bit {bit}");
    }
}

#[test]
fn a_sealed_segment_cut_short_costs_the_frames_cut_off() {
    let sample = Sample::new();
    let (frames, path) = sample.middle();
    let places = places(frames);
    for with_index in [true, false] {
        for len in 0..sample.disk.contents(&path).unwrap().len() {
            let disk = sample.with(&path, |bytes| bytes.truncate(len));
            if !with_index {
                disk.remove(&index_path(LANE, frames[0].base)).unwrap();
            }
            // What is written in whole is served, padding or not, if something says it is there.
            let whole = places.iter().filter(|(_, to)| *to <= len).count();
            let aligned = places.iter().filter(|(_, to)| to.next_multiple_of(8) <= len).count();
            let left = if with_index { whole } else { aligned };
            let expected = sample.without(&frames[left..]);
            assert_eq!(everything(&open(&disk), LANE), expected, "cut to {len}, {with_index}");
        }
    }
}

#[test]
fn a_last_segment_cut_short_ends_with_its_last_whole_frame_and_can_be_written_on() {
    let sample = Sample::new();
    let (frames, path) = sample.last();
    let places = places(frames);
    for len in 0..sample.disk.contents(&path).unwrap().len() {
        let disk = sample.with(&path, |bytes| bytes.truncate(len));
        let left = places.iter().filter(|(_, to)| to.next_multiple_of(8) <= len).count();
        let cut = &frames[left..];
        let segments = open(&disk);
        assert_eq!(segments.end(LANE).unwrap(), cut[0].base, "cut to {len}");
        segments.append(LANE, cut).unwrap();
        assert_eq!(everything(&segments, LANE), sound(&sample.frames), "cut to {len}");
        assert_eq!(everything(&open(&disk), LANE), sound(&sample.frames), "cut to {len}");
    }
}

#[test]
fn a_missing_segment_costs_its_offsets() {
    let sample = Sample::new();
    let (frames, path) = sample.middle();
    let opened_before = open(&sample.disk);
    opened_before.end(LANE).unwrap();
    sample.disk.remove(&path).unwrap();
    let expected = sample.without(frames);
    assert_eq!(everything(&opened_before, LANE), expected);
    assert_eq!(everything(&open(&sample.disk), LANE), expected);
}

#[test]
fn a_lane_that_lost_its_end_goes_on_behind_the_loss() {
    let sample = Sample::new();
    let (frames, path) = sample.last();
    sample.disk.remove(&path).unwrap();
    let next = frames.last().unwrap().end();
    let segments = open(&sample.disk);
    let resumed = segments.resume(LANE, next).unwrap();
    assert_eq!(resumed.lost, Some(frames[0].base..next));
    let more = crate::support::frames(next, 5);
    segments.append(LANE, &more).unwrap();
    let expected = [sample.without(frames), sound(&more)].concat();
    assert_eq!(everything(&segments, LANE), expected);
    assert_eq!(everything(&open(&sample.disk), LANE), expected);
}

#[test]
fn a_wiped_range_costs_the_frames_it_hit_wherever_it_lies() {
    let sample = Sample::new();
    let (frames, path) = sample.middle();
    let places = places(frames);
    let len = sample.disk.contents(&path).unwrap().len();
    for from in (0..len).step_by(24) {
        for to in (from + 1..len).step_by(56) {
            let disk = sample.with(&path, |bytes| bytes[from..to].fill(0xff));
            let is_hit = |place: &&(usize, usize)| place.0 < to && from < place.1;
            let first = places.iter().take_while(|place| !is_hit(place)).count();
            let count = places.iter().filter(is_hit).count();
            let expected = sample.without(&frames[first..first + count]);
            assert_eq!(everything(&open(&disk), LANE), expected, "wiped {from}..{to}");
        }
    }
}

/// A body may hold the bytes of a segment file. They are not taken for frames of this one.
#[test]
fn a_frame_inside_a_body_is_never_served_as_a_frame() {
    let disk = Memory::new();
    let segments = open(&disk);
    segments.append(LANE, &frames(0, 3)).unwrap();
    let inner = disk.contents(&segment_path(LANE, 0)).unwrap();
    let end = segments.end(LANE).unwrap();
    let nested = Frame { body: inner.into(), ..crate::support::frame_of(LANE, end, 1, 0) };
    let after = frames(nested.end(), 2);
    segments.append(LANE, std::slice::from_ref(&nested)).unwrap();
    segments.append(LANE, &after).unwrap();
    let path = segment_path(LANE, 0);
    let mut bytes = disk.contents(&path).unwrap();
    let at = places(&frames(0, 3)).last().unwrap().1.next_multiple_of(8);
    bytes[at] ^= 1;
    disk.overwrite(&path, bytes).unwrap();
    let lost = Piece::Corrupt(nested.base, nested.end());
    let expected = [sound(&frames(0, 3)), vec![lost], sound(&after)].concat();
    assert_eq!(everything(&open(&disk), LANE), expected);
}

#[test]
fn an_index_that_is_missing_torn_or_flipped_changes_no_answer() {
    let sample = Sample::new();
    let (frames, _) = sample.middle();
    let path = index_path(LANE, frames[0].base);
    let expected = answers(&open(&sample.disk), &sample);
    let index = sample.disk.contents(&path).unwrap();
    assert!(index.len() > 64 + 24, "the index has entries");
    for bit in 0..index.len() * 8 {
        let disk = sample.with(&path, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        assert_eq!(answers(&open(&disk), &sample), expected, "bit {bit}");
    }
    for len in 0..index.len() {
        let disk = sample.with(&path, |bytes| bytes.truncate(len));
        assert_eq!(answers(&open(&disk), &sample), expected, "cut to {len}");
    }
    let disk = sample.with(&path, |bytes| bytes.resize(1 << 20, 0));
    assert_eq!(answers(&open(&disk), &sample), expected);
    sample.disk.remove(&path).unwrap();
    assert_eq!(answers(&open(&sample.disk), &sample), expected);
}

/// What the middle segment answers for each of its offsets and times.
fn answers(segments: &Segments, sample: &Sample) -> Vec<(Read, Option<u64>)> {
    let (frames, _) = sample.middle();
    let offsets = frames[0].base..frames.last().unwrap().end();
    let answer = |offset: u64| {
        let time = Wall(i64::try_from(offset * 10).unwrap());
        (segments.read(LANE, offset, 1).unwrap(), segments.find_time(LANE, time).unwrap())
    };
    offsets.map(answer).collect()
}

#[test]
fn a_segment_of_a_later_version_is_refused_and_named() {
    let sample = Sample::new();
    let (frames, path) = sample.middle();
    let disk = sample.with(&path, |bytes| {
        bytes[8] = 2;
        bytes[12..16].fill(0);
        let crc = crc32c::crc32c(&bytes[..FILE_HEADER]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    });
    let error = open(&disk).read(LANE, frames[0].base, 100).unwrap_err();
    assert!(matches!(&error, ReadError::Newer { path: named, version: 2 } if *named == path));
    assert_eq!(error.code(), Code::DirectoryNewer);
}

#[test]
fn the_frames_before_damage_are_served_in_one_read_and_those_behind_in_the_next() {
    let sample = Sample::new();
    let (frames, path) = sample.middle();
    let (from, _) = places(frames)[1];
    let disk = sample.with(&path, |bytes| bytes[from] ^= 1);
    let segments = open(&disk);
    let start = sample.frames[0].base;
    let Read::Frames(before) = segments.read(LANE, start, u64::MAX).unwrap() else {
        panic!("frames come before the damage");
    };
    assert_eq!(before.last(), frames.first());
    let behind = pieces(&segments, LANE, frames[1].end(), u64::MAX);
    let at = sample.frames.iter().position(|frame| frame.base == frames[2].base).unwrap();
    assert_eq!(behind, sound(&sample.frames[at..]));
}
