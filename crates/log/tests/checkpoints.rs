//! Checkpoints: whole or not there, and damage is seen.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;

use bytes::Bytes;
use handoff_log::checkpoint::{Chunk, Error, Mark, Writer, latest};
use handoff_log::disk::{Crash, Disk, Memory, When};
use handoff_types::{Now, Position, Room, Sequence, Steady, Wall};

const ROOM: Room = Room::Events;
const DIRECTORY: u128 = 9;
const NOW: Now = Now { wall: Wall(5), steady: Steady(6) };

fn chunk(from: &str, to: Option<&str>, sequence: u64, state: &str) -> Chunk {
    Chunk {
        from: Bytes::copy_from_slice(from.as_bytes()),
        to: to.map(|to| Bytes::copy_from_slice(to.as_bytes())),
        mark: Mark { sequence: Sequence(sequence), position: Position(sequence * 4096) },
        state: Bytes::copy_from_slice(state.as_bytes()),
    }
}

fn chunks(generation: u64) -> Vec<Chunk> {
    let at = generation * 10;
    vec![
        chunk("", Some("g"), at + 3, &format!("a to f of {generation}")),
        chunk("g", Some("p"), at + 1, &format!("g to o of {generation}")),
        chunk("p", None, at + 2, &"p to z ".repeat(usize::try_from(generation).unwrap())),
    ]
}

fn write(disk: &Arc<dyn Disk>, generation: u64) -> Result<Mark, Error> {
    let mut writer = Writer::begin(Arc::clone(disk), ROOM, DIRECTORY)?;
    for chunk in chunks(generation) {
        writer.chunk(&chunk)?;
    }
    writer.finish(NOW)
}

fn read(disk: &dyn Disk) -> Result<Option<Vec<Chunk>>, Error> {
    let Some(found) = latest(disk, ROOM, DIRECTORY)? else { return Ok(None) };
    let mut reader = found.chunks();
    let mut chunks = Vec::new();
    while let Some(chunk) = reader.next_chunk()? {
        chunks.push(chunk);
    }
    Ok(Some(chunks))
}

#[test]
fn the_lowest_mark_and_every_chunk_come_back() {
    let memory = Memory::new();
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    assert!(read(&*disk).unwrap().is_none());
    let low = write(&disk, 2).unwrap();
    assert_eq!(low, Mark { sequence: Sequence(21), position: Position(21 * 4096) });
    assert_eq!(read(&*disk).unwrap().unwrap(), chunks(2));
    let found = latest(&*disk, ROOM, DIRECTORY).unwrap().unwrap();
    assert_eq!(
        (found.low(), found.high(), found.now()),
        (low, Mark { sequence: Sequence(23), position: Position(23 * 4096) }, NOW)
    );
}

#[test]
fn a_key_is_as_new_as_the_chunk_that_holds_it() {
    let disk: Arc<dyn Disk> = Arc::new(Memory::new());
    write(&disk, 1).unwrap();
    let mut reader = latest(&*disk, ROOM, DIRECTORY).unwrap().unwrap().chunks();
    while reader.next_chunk().unwrap().is_some() {}
    let marks = reader.into_marks();
    for (key, sequence) in
        [("", 13), ("a", 13), ("fzz", 13), ("g", 11), ("o", 11), ("p", 12), ("zz", 12)]
    {
        assert_eq!(marks.of(key.as_bytes()), Sequence(sequence), "{key}");
    }
}

#[test]
fn a_new_checkpoint_replaces_the_old_and_leaves_other_rooms_alone() {
    let memory = Memory::new();
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    let mut other = Writer::begin(Arc::clone(&disk), Room::Calls, DIRECTORY).unwrap();
    other.chunk(&chunk("", None, 1, "calls")).unwrap();
    other.finish(NOW).unwrap();
    for generation in 1..=3 {
        write(&disk, generation).unwrap();
    }
    assert_eq!(read(&*disk).unwrap().unwrap(), chunks(3));
    assert_eq!(
        memory.paths().iter().filter(|path| path.ends_with(".checkpoint")).count(),
        2,
        "{:?}",
        memory.paths()
    );
}

#[test]
fn a_crash_at_every_sync_leaves_the_old_checkpoint_or_the_new_one_whole() {
    let plain = Crash::new();
    let disk: Arc<dyn Disk> = Arc::new(plain.clone());
    write(&disk, 1).unwrap();
    let before = plain.syncs();
    write(&disk, 2).unwrap();
    let after = plain.syncs();
    let (mut old, mut new) = (0, 0);
    for n in 1..=after {
        for when in [When::Before, When::After] {
            let crash = Crash::new();
            crash.halt_at_sync(n, when);
            let disk: Arc<dyn Disk> = Arc::new(crash.clone());
            let first = write(&disk, 1).is_ok();
            let second = first && write(&disk, 2).is_ok();
            for seed in 0..20 {
                let (end, _) = crash.crash(seed);
                match read(&end) {
                    Ok(None) => assert!(!first, "sync {n} {when:?} seed {seed}"),
                    Ok(Some(found)) if found == chunks(1) => {
                        assert!(!second, "sync {n} {when:?} seed {seed}");
                        old += 1;
                    }
                    Ok(Some(found)) => {
                        assert_eq!(found, chunks(2), "sync {n} {when:?} seed {seed}");
                        assert!(n > before);
                        new += 1;
                    }
                    Err(error) => panic!("sync {n} {when:?} seed {seed}: {error}"),
                }
            }
        }
    }
    assert!(old > 0 && new > 0, "{old} {new}");
}

#[test]
fn every_flipped_bit_and_every_cut_of_a_checkpoint_is_seen() {
    let memory = Memory::new();
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    write(&disk, 1).unwrap();
    let path = memory.paths().into_iter().find(|path| path.ends_with(".checkpoint")).unwrap();
    let sound = memory.contents(&path).unwrap();
    for bit in 0..sound.len() * 8 {
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        memory.overwrite(&path, bytes).unwrap();
        match read(&*disk) {
            Err(Error::Damaged { room: ROOM, .. }) => {}
            // Zeros that only fill up to eight bytes hold nothing.
            Ok(Some(found)) => {
                assert_eq!(found, chunks(1), "bit {bit}");
                assert_eq!(sound[bit / 8], 0, "bit {bit}");
            }
            other => panic!("bit {bit}: {other:?}"),
        }
    }
    for len in 0..sound.len() {
        memory.overwrite(&path, sound[..len].to_vec()).unwrap();
        assert!(matches!(read(&*disk), Err(Error::Damaged { .. })), "cut at {len}");
    }
}
