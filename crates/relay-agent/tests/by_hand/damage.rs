//! An agent that starts on a damaged spool: what was not hit arrives, and what was is kept and counted.

use std::sync::Arc;

use handoff_log::disk::{Disk, Memory};
use handoff_relay_agent::Settings;
use handoff_types::Span;

use crate::world::{World, settings};

const SEGMENTS: u64 = 3;
const SAMPLES: u64 = 20;

/// Each segment stands behind a snapshot.
fn with_snapshots() -> Settings {
    let mut settings = settings(1);
    settings.rules.key_frame_bytes = 1;
    settings
}

/// A file of three segments, the samples of all blocks before it one segment more, and where each of
/// its frames begins.
fn sound() -> (String, Vec<u8>, Vec<(u8, usize)>) {
    let disk = Memory::new();
    let mut world = World::new(with_snapshots(), Arc::new(disk.clone()));
    world.centres[0].up = false;
    // The first block waits for its destination in vain; the next knows that it is gone.
    for _ in 0..=SEGMENTS {
        world.ask(SAMPLES).unwrap();
        world.run(Span::from_millis(200));
    }
    world.agent = None;
    let paths = disk.paths();
    assert_eq!(paths.len(), 2, "{paths:?}");
    let bytes = disk.contents(&paths[1]).unwrap();
    let (mut frames, mut at) = (Vec::new(), 8);
    while at < bytes.len() {
        frames.push((bytes[at], at));
        let size = u32::from_le_bytes(bytes[at + 7..at + 11].try_into().unwrap());
        at += 11 + size as usize + 4;
    }
    let segments = frames.iter().filter(|(kind, _)| *kind == 4).count();
    assert_eq!(segments as u64, SEGMENTS, "{frames:?}");
    (paths[1].clone(), bytes, frames)
}

#[test]
fn whatever_byte_of_a_file_is_hit_the_agent_starts_and_delivers_all_that_was_not_hit() {
    let (path, bytes, frames) = sound();
    let (mut whole, mut partly) = (0, 0);
    for at in 0..bytes.len() {
        let mut hit = bytes.clone();
        hit[at] ^= 0x55;
        let disk = Memory::new();
        disk.create_dir("spool").unwrap();
        disk.overwrite(&path, hit).unwrap();
        let mut world = World::new(with_snapshots(), Arc::new(disk.clone()));
        world.run(Span::from_secs(2));
        let taken = &world.centres[0].taken;
        assert!(taken.values().all(|count| *count == 1), "byte {at}: something came twice");
        let frame = frames.iter().rposition(|(_, begin)| *begin <= at);
        let Some(frame) = frame.filter(|frame| *frame > 1) else {
            // Without its head, title or names a file says nothing: all of it is kept, or left alone.
            assert!(taken.is_empty(), "byte {at}");
            assert!(!disk.paths().is_empty(), "byte {at}: nothing is kept");
            continue;
        };
        let (kind, _) = frames[frame];
        let number = frames[..frame].iter().filter(|(kind, _)| *kind == 4).count() as u64;
        let lost = |sample: &u64| kind == 4 && (*sample - 1) / SAMPLES == number + 1;
        let all = SAMPLES + 1..=(SEGMENTS + 1) * SAMPLES;
        let expected: Vec<u64> = all.filter(|sample| !lost(sample)).collect();
        let found: Vec<u64> = taken.keys().copied().collect();
        assert_eq!(found, expected, "byte {at} of frame {frame}, a {kind}");
        assert!(world.files().is_empty(), "byte {at}: {:?}", world.files());
        let kept = disk.list("quarantine").unwrap();
        assert!(!kept.is_empty(), "byte {at}: no copy of what was hit");
        let torn = frame + 1 == frames.len();
        assert!(torn || world.agent().given_up() > 0, "byte {at} is not counted");
        if kind == 4 {
            partly += 1
        } else {
            whole += 1
        }
        // It takes samples as if nothing had been.
        world.ask(1).unwrap();
    }
    assert!(whole > 100 && partly > 100, "{whole} and {partly}");
}
