//! The reader of segments and of their indexes.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use handoff_log::disk::Memory;
use handoff_log::segments::{Frame, Lane, Options, Read, ReadError, Segments};
use handoff_types::Wall;
use handoff_types::entropy::mix;

use crate::edits::{self, crc, long, number, seal};

const LANE: Lane = Lane(0x2a);
const FIRST: u64 = 5;
const FILE_HEADER: usize = 32;
const FRAME_HEADER: usize = 40;
const INDEX_HEADER: usize = 64;

struct Sample {
    disk: Memory,
    paths: Vec<String>,
    frames: Vec<Frame>,
}

static SAMPLE: LazyLock<Sample> = LazyLock::new(|| {
    let disk = Memory::new();
    let mut next = FIRST;
    let frames: Vec<Frame> = (0..28)
        .map(|_| {
            let chance = mix(next);
            let body = (0..(chance >> 8) % 120).map(|at| mix(chance ^ at).to_le_bytes()[0]);
            let frame = Frame {
                base: next,
                count: 1 + (chance % 3) as u32,
                max_timestamp: Wall(next as i64 * 10),
                body: Bytes::from_iter(body),
            };
            next = frame.end();
            frame
        })
        .collect();
    let segments = open(&disk);
    segments.resume(LANE, FIRST).expect("memory does not fail");
    segments.append(LANE, &frames).expect("memory does not fail");
    let paths = disk.paths();
    assert!(paths.len() >= 5, "some segments, and their indexes");
    Sample { disk, paths, frames }
});

fn open(disk: &Memory) -> Segments {
    let small =
        Options { segment_bytes: 1024, index_bytes: 128, files_open_max: 4, warm_bytes: 4096 };
    Segments::open(Arc::new(disk.clone()), small).expect("memory does not fail")
}

/// An octet: damage or forgery, and how much is read at once; then edits.
pub fn reader(data: &[u8]) {
    let Some((&mode, input)) = data.split_first() else { return };
    let disk = SAMPLE.disk.fork();
    let bytes_max = 1 + u64::from(mode) * 16;
    if mode % 2 == 0 {
        edits::damage(&disk, &SAMPLE.paths, input);
        let segments = open(&disk);
        let (frames, end) = read(&segments, bytes_max).expect("damage is told, not an error");
        for frame in frames {
            assert!(SAMPLE.frames.contains(&frame), "{frame:?} was never written");
        }
        goes_on(&segments, end);
        return;
    }
    edits::forge(&disk, &SAMPLE.paths, input);
    for path in &SAMPLE.paths {
        let mut file = disk.contents(path).expect("the file is there");
        reseal(path, &mut file);
        disk.overwrite(path, file).expect("memory does not fail");
    }
    let segments = open(&disk);
    // Found or not: it ends, without a panic.
    drop(walk(&segments, bytes_max));
    drop(segments.find_time(LANE, Wall(i64::from(mode))));
}

/// Everything a lane serves, and its end. What is not served must be told.
fn read(segments: &Segments, bytes_max: u64) -> Result<(Vec<Frame>, u64), ReadError> {
    let mut at = segments.start(LANE)?;
    let mut found: Vec<Frame> = Vec::new();
    loop {
        match segments.read(LANE, at, bytes_max)? {
            Read::Frames(frames) => {
                for frame in frames {
                    assert!((frame.base..frame.end()).contains(&at), "{frame:?} is not at {at}");
                    at = frame.end();
                    found.push(frame);
                }
            }
            Read::Corrupt { from, to } => {
                assert!((from..to).contains(&at), "{from}..{to} does not hold {at}");
                at = to;
            }
            Read::End { end } => {
                assert_eq!(end, segments.end(LANE)?);
                assert_eq!(at, end, "the lane ends where its last piece does");
                return Ok((found, end));
            }
            Read::Trimmed { start } => panic!("{at} is trimmed, the lane starts at {start}"),
        }
    }
}

/// Reads a lane to its end, wherever its forger puts that. Every read must lead on.
fn walk(segments: &Segments, bytes_max: u64) -> Result<(), ReadError> {
    let mut at = segments.start(LANE)?;
    loop {
        let next = match segments.read(LANE, at, bytes_max)? {
            Read::Frames(frames) => frames.last().map_or(at, Frame::end),
            Read::Corrupt { to, .. } => to,
            Read::End { .. } | Read::Trimmed { .. } => return Ok(()),
        };
        assert!(next > at, "reading at {at} leads to {next}");
        at = next;
    }
}

/// A lane takes frames behind whatever is left of it.
fn goes_on(segments: &Segments, end: u64) {
    assert_eq!(segments.start(LANE).expect("damage is no error"), FIRST);
    let frame = Frame {
        base: end,
        count: 1,
        max_timestamp: Wall(i64::MAX),
        body: Bytes::from_static(b"and on"),
    };
    segments.resume(LANE, end).expect("a lane that ends there goes on there");
    segments.append(LANE, std::slice::from_ref(&frame)).expect("the frame joins the end");
    match segments.read(LANE, end, 1).expect("damage is no error") {
        Read::Frames(frames) => assert_eq!(frames, [frame]),
        other => panic!("not what was appended: {other:?}"),
    }
}

/// Makes every checksum right that can be found.
fn reseal(path: &str, file: &mut [u8]) {
    if path.ends_with(".index") {
        if file.len() >= INDEX_HEADER {
            seal(file, 12);
        }
        return;
    }
    if file.len() < FILE_HEADER {
        return;
    }
    seal(&mut file[..FILE_HEADER], 12);
    let (Some(lane), Some(base)) = (long(file, 16), long(file, 24)) else { return };
    let mut at = FILE_HEADER;
    while at + FRAME_HEADER <= file.len() {
        let body_bytes = number(file, at + 8).unwrap_or(0) as usize;
        let body_end = at + FRAME_HEADER + body_bytes;
        if let Some(body) = file.get(at + FRAME_HEADER..body_end) {
            let sum = crc(&[body]);
            file[at + 32..at + 36].copy_from_slice(&sum);
        }
        let sum = crc(&[
            &lane.to_le_bytes(),
            &base.to_le_bytes(),
            &(at as u64).to_le_bytes(),
            &file[at..at + 36],
        ]);
        file[at + 36..at + 40].copy_from_slice(&sum);
        at = body_end.next_multiple_of(8);
    }
}
