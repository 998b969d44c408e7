//! Every byte cut, every bit flipped, tails zeroed: what lies before is delivered, what lies behind
//! from the next snapshot on, and the rest is kept aside and counted.

use handoff_log::disk::Memory;
use handoff_relay::refill::Refill;

use crate::world::{key, open, readable, segment, spool, three_segments};

/// The bytes of the file, its name, and where each frame ends.
fn sound() -> (Vec<u8>, String, Vec<usize>) {
    let disk = Memory::new();
    let spool = spool(disk.clone());
    let (name, _) = three_segments(&spool);
    let bytes = disk.contents(&spool.path(&name)).unwrap();
    let mut ends = Vec::new();
    let mut at = 8;
    while at < bytes.len() {
        let size = u32::from_le_bytes(bytes[at + 7..at + 11].try_into().unwrap());
        at += 11 + size as usize + 4;
        ends.push(at);
    }
    assert_eq!(ends.len(), 8, "title, names, and six frames");
    (bytes, name, ends)
}

fn look(bytes: Vec<u8>, name: &str) -> (Memory, Option<Refill>, handoff_relay::refill::Troubles) {
    let disk = Memory::new();
    let spool = spool(disk.clone());
    disk.overwrite(&spool.path(name), bytes).unwrap();
    let (refill, troubles) = open(&spool, name);
    (disk, refill, troubles)
}

fn quarantined(disk: &Memory) -> Vec<Vec<u8>> {
    let paths = disk.paths().into_iter().filter(|path| path.starts_with("quarantine/"));
    paths.map(|path| disk.contents(&path).unwrap()).collect()
}

#[test]
fn a_file_cut_at_any_byte_keeps_every_whole_frame_before_it() {
    let (bytes, name, ends) = sound();
    for len in 0..bytes.len() {
        let (disk, refill, troubles) = look(bytes[..len].to_vec(), &name);
        let whole = ends.iter().filter(|end| **end <= len).count();
        let Some(mut refill) = refill else {
            assert!(whole < 2, "cut at {len}");
            assert!(disk.contents(&format!("spool/{name}")).is_none(), "cut at {len}");
            continue;
        };
        let expected = [key(0, 0), key(0, 1), key(0, 2), key(1, 0)];
        let written = [3, 5, 8, 4];
        let expected: Vec<_> = expected
            .into_iter()
            .zip(written)
            .filter(|(_, at)| *at <= whole)
            .map(|(k, _)| k)
            .collect();
        assert_eq!(readable(&refill), expected, "cut at {len}");
        let cut = len - ends[whole - 1];
        assert_eq!(troubles.torn_bytes, cut as u64, "cut at {len}");
        assert_eq!(refill.bytes(), ends[whole - 1] as u64);
        let kept: Vec<u8> = quarantined(&disk).concat();
        assert_eq!(kept, &bytes[len - cut..len], "what was cut at {len} is kept");
        // The file goes on where it was cut.
        let next = if whole >= 4 { 1 } else { 0 };
        refill.append(&[segment(1, next)]).unwrap();
        assert!(readable(&refill).contains(&key(1, next)));
    }
}

#[test]
fn every_flipped_bit_is_found_and_only_what_it_hit_is_lost() {
    let (bytes, name, ends) = sound();
    let mut middles = 0;
    for bit in 8 * 8..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let (disk, refill, troubles) = look(flipped.clone(), &name);
        let frame = ends.iter().position(|end| bit / 8 < *end).unwrap();
        if frame < 2 {
            assert!(refill.is_none(), "bit {bit}");
            assert_eq!(quarantined(&disk).concat(), flipped, "bit {bit}");
            continue;
        }
        let refill = refill.unwrap();
        // 2: segment 0/0, 3: 1/0, 4: 0/1, 5: statuses, 6: snapshot for 0/2, 7: 0/2.
        let mut expected = vec![key(0, 0), key(0, 1), key(0, 2), key(1, 0)];
        match frame {
            2 => expected.retain(|found| *found != key(0, 0) && *found != key(0, 1)),
            3 => expected.retain(|found| *found != key(1, 0)),
            4 => expected.retain(|found| *found != key(0, 1)),
            7 => expected.retain(|found| *found != key(0, 2)),
            _ => {}
        }
        assert_eq!(readable(&refill), expected, "bit {bit} of frame {frame}");
        let begin = ends[frame - 1];
        assert_eq!(quarantined(&disk).concat(), &flipped[begin..ends[frame]], "bit {bit}");
        if frame == 7 {
            assert_eq!(troubles.torn_bytes, (ends[7] - begin) as u64, "bit {bit}");
        } else {
            assert_eq!(troubles.damage.len(), 1, "bit {bit}");
            assert_eq!(troubles.damage[0].from, begin as u64);
            assert_eq!(troubles.damage[0].to, ends[frame] as u64);
            middles += 1;
        }
        assert_eq!(refill.ledger().acks().last(0, 0).is_none(), frame == 5, "bit {bit}");
    }
    assert!(middles > 1_000);
}

#[test]
fn a_file_with_a_flipped_head_is_set_aside_whole_or_left_alone() {
    let (bytes, name, _) = sound();
    for bit in 0..8 * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let disk = Memory::new();
        let spool = spool(disk.clone());
        disk.overwrite(&spool.path(&name), flipped.clone()).unwrap();
        match Refill::open(spool.clone(), Default::default(), &name) {
            // A version of which nothing is known is not touched.
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
                assert_eq!(disk.contents(&spool.path(&name)), Some(flipped), "bit {bit}");
            }
            Ok(handoff_relay::refill::Opened::Nothing(_)) => {
                assert_eq!(quarantined(&disk).concat(), flipped, "bit {bit}");
            }
            Ok(handoff_relay::refill::Opened::Refill(refill, _)) => {
                assert!((56..64).contains(&bit), "the encoder's version is all that differs");
                // Its segments are offered as what they claim to be.
                assert_ne!(refill.ledger().layout().encoder(), 1);
            }
        }
    }
}

#[test]
fn a_tail_of_zeros_is_cut_and_nothing_is_kept_of_it() {
    let (bytes, name, _) = sound();
    for zeros in (1..=8_192).chain([100_000]) {
        let mut longer = bytes.clone();
        longer.resize(bytes.len() + zeros, 0);
        let (disk, refill, troubles) = look(longer, &name);
        assert_eq!(readable(&refill.unwrap()).len(), 4);
        assert_eq!((troubles.zero_bytes, troubles.torn_bytes), (zeros as u64, 0));
        assert!(quarantined(&disk).is_empty());
        assert_eq!(disk.contents(&format!("spool/{name}")).unwrap(), bytes);
    }
}

#[test]
fn the_last_bytes_zeroed_in_place_lose_the_last_frames_only() {
    let (bytes, name, ends) = sound();
    for zeros in 1..bytes.len() - ends[1] {
        let mut hurt = bytes.clone();
        let from = bytes.len() - zeros;
        hurt[from..].fill(0);
        let (_, refill, _) = look(hurt, &name);
        let whole = ends.iter().filter(|end| **end <= from).count();
        let written = [(3, key(0, 0)), (5, key(0, 1)), (8, key(0, 2)), (4, key(1, 0))];
        let expected: Vec<_> =
            written.into_iter().filter(|(at, _)| *at <= whole).map(|(_, key)| key).collect();
        // Bytes that were zero already may leave one more frame whole.
        let found = readable(&refill.unwrap());
        assert!(expected.iter().all(|key| found.contains(key)), "{zeros} zeros");
        assert!(found.len() <= expected.len() + 1, "{zeros} zeros");
    }
}

#[test]
fn damage_at_rest_is_found_when_the_segment_is_read() {
    let disk = Memory::new();
    let spool = spool(disk.clone());
    let (name, _) = three_segments(&spool);
    let (refill, _) = open(&spool, &name);
    let refill = refill.unwrap();
    let mut bytes = disk.contents(&spool.path(&name)).unwrap();
    let last = bytes.len() - 10;
    bytes[last] ^= 1;
    disk.overwrite(&spool.path(&name), bytes).unwrap();
    assert!(refill.get(key(0, 1)).unwrap().is_some());
    let read = refill.get(key(0, 2));
    assert!(matches!(read, Err(handoff_relay::refill::RefillError::Damaged(k)) if k == key(0, 2)));
}

#[test]
fn a_file_of_which_a_part_could_never_be_delivered_is_set_aside_at_its_end() {
    let (mut bytes, name, ends) = sound();
    bytes[ends[1] + 20] ^= 1;
    let (disk, refill, _) = look(bytes.clone(), &name);
    refill.unwrap().finish().unwrap();
    assert_eq!(disk.contents(&format!("quarantine/{name}")), Some(bytes));
    assert_eq!(disk.contents(&format!("spool/{name}")), None);
}

#[test]
fn a_full_quarantine_does_not_keep_a_file_from_being_delivered() {
    use std::sync::Arc;

    use handoff_relay::refill::{Opened, RefillLimits, Spool, SpoolLimits};

    let (mut bytes, name, ends) = sound();
    bytes[ends[2] + 20] ^= 1;
    bytes.extend_from_slice(b"torn");
    let disk = Memory::new();
    let limits = SpoolLimits { quarantine_bytes_max: 0, ..SpoolLimits::default() };
    let spool = Spool::open(Arc::new(disk.clone()), "spool", "quarantine", limits).unwrap();
    disk.overwrite(&spool.path(&name), bytes).unwrap();
    let opened = Refill::open(spool, RefillLimits::default(), &name).unwrap();
    let Opened::Refill(refill, troubles) = opened else { panic!() };
    assert_eq!(readable(&refill), [key(0, 0), key(0, 1), key(0, 2)]);
    let lost = (ends[3] - ends[2]) as u64 + 4;
    assert_eq!(troubles.unkept_bytes, lost, "it is counted");
    assert!(quarantined(&disk).is_empty());
}
