//! The reader of checkpoints.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use handoff_log::checkpoint::{Checkpoint, Chunk, Error, Mark, Writer, latest};
use handoff_log::disk::{Disk, Memory};
use handoff_types::{Now, Position, Room, Sequence, Steady, Wall};

use crate::edits::{self, crc, number, seal};

const ROOM: Room = Room::Events;
const DIRECTORY: u128 = 9;
const NOW: Now = Now { wall: Wall(5), steady: Steady(6) };
const FILE_HEADER: usize = 64;
const CHUNK_HEADER: usize = 48;
const FOOTER: usize = 72;

struct Sample {
    disk: Memory,
    paths: Vec<String>,
}

static SAMPLE: LazyLock<Sample> = LazyLock::new(|| {
    let disk = Memory::new();
    write(&disk, &chunks());
    let paths = disk.paths().into_iter().filter(|path| path.ends_with(".checkpoint")).collect();
    Sample { disk, paths }
});

fn chunks() -> Vec<Chunk> {
    let chunk = |from: &'static str, to: Option<&'static str>, sequence, state: String| Chunk {
        from: Bytes::from_static(from.as_bytes()),
        to: to.map(|to| Bytes::from_static(to.as_bytes())),
        mark: Mark { sequence: Sequence(sequence), position: Position(sequence * 4096) },
        state: Bytes::from(state),
    };
    vec![
        chunk("", Some("g"), 3, "a to f".to_owned()),
        chunk("g", Some("p"), 1, String::new()),
        chunk("p", None, 2, "p to z ".repeat(20)),
    ]
}

fn write(disk: &Memory, chunks: &[Chunk]) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut writer = Writer::begin(disk, ROOM, DIRECTORY).expect("memory does not fail");
    for chunk in chunks {
        writer.chunk(chunk).expect("memory does not fail");
    }
    writer.finish(NOW).expect("memory does not fail");
}

fn read(disk: &Memory) -> Result<(Mark, Mark, Vec<Chunk>), Error> {
    let found: Checkpoint = latest(disk, ROOM, DIRECTORY)?.expect("the file is there");
    let (low, high) = (found.low(), found.high());
    let mut reader = found.chunks();
    let mut chunks = Vec::new();
    while let Some(chunk) = reader.next_chunk()? {
        chunks.push(chunk);
    }
    Ok((low, high, chunks))
}

/// An octet: damage or forgery; then edits.
pub fn reader(data: &[u8]) {
    let Some((&mode, input)) = data.split_first() else { return };
    let disk = SAMPLE.disk.fork();
    if mode % 2 == 0 {
        edits::damage(&disk, &SAMPLE.paths, input);
        match read(&disk) {
            Ok((low, high, found)) => {
                assert_eq!(found, chunks());
                assert_eq!((low.sequence, high.sequence), (Sequence(1), Sequence(3)));
            }
            Err(Error::Damaged { room, .. }) => assert_eq!(room, ROOM),
            Err(error) => panic!("damage is told as such, not as: {error}"),
        }
        return;
    }
    edits::forge(&disk, &SAMPLE.paths, input);
    let path = &SAMPLE.paths[0];
    let mut file = disk.contents(path).expect("the file is there");
    reseal(&mut file);
    disk.overwrite(path, file).expect("memory does not fail");
    let Ok((_, _, found)) = read(&disk) else { return };
    assert_eq!(found.first().map(|chunk| chunk.from.len()), Some(0));
    assert!(found.windows(2).all(|pair| pair[0].to.as_ref() == Some(&pair[1].from)));
    assert!(found.last().is_some_and(|chunk| chunk.to.is_none()));
}

/// Makes every checksum right that can be found.
fn reseal(file: &mut [u8]) {
    if file.len() < FILE_HEADER + FOOTER {
        return;
    }
    seal(&mut file[..FILE_HEADER], 12);
    let chunks_end = file.len() - FOOTER;
    seal(&mut file[chunks_end..], 4);
    let mut at = FILE_HEADER;
    while at + CHUNK_HEADER <= chunks_end {
        let size = |field| number(&file[at..], field).unwrap_or(0) as usize;
        let next_key = if size(36) == u32::MAX as usize { 0 } else { size(36) };
        let rest = size(32) + next_key + size(40);
        let end = at + CHUNK_HEADER + rest;
        if end > chunks_end {
            return;
        }
        file[at + 4..at + 8].fill(0);
        let sum = crc(&[&file[at..end]]);
        file[at + 4..at + 8].copy_from_slice(&sum);
        at = end.next_multiple_of(8);
    }
}
