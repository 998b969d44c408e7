//! A file is begun late, holds what was put in, and goes when all is delivered.

use handoff_log::disk::{Call, Calls, Faulty, Memory};
use handoff_relay::refill::{
    Frame, Refill, RefillError, RefillLimits, Rejected, Spool, SpoolLimits,
};
use handoff_relay::{AckStatus, SegmentKey};
use handoff_types::{Span, Wall};
use std::sync::Arc;

use crate::world::{
    BEGUN, BLOCK, key, names, open, payload, readable, refill, segment, shards, snapshot, spool,
};

#[test]
fn a_healthy_path_makes_no_file_and_the_first_segment_makes_one() {
    let disk = Memory::new();
    let spool = spool(disk.clone());
    let mut refill = refill(&spool);
    refill.append(&[]).unwrap();
    refill.write_ack_status(&AckStatus::new(names(), shards())).unwrap();
    assert_eq!(disk.paths(), Vec::<String>::new());
    refill.append(&[segment(0, 0)]).unwrap();
    assert_eq!(disk.paths(), ["spool/1700000000000-05050505-0505-0505-0505-050505050505.active"]);
}

#[test]
fn what_was_written_is_read_again_by_the_next_process() {
    let disk = Memory::new();
    let spool = spool(disk);
    let mut first = refill(&spool);
    first.append(&[segment(0, 0), segment(1, 0)]).unwrap();
    first.append(&[segment(0, 1)]).unwrap();
    let mut acks = AckStatus::new(names(), shards());
    acks.ack(key(0, 1), 1);
    first.write_ack_status(&acks).unwrap();
    let rejected = Rejected { destination: 0, key: key(0, 1) };
    first.append(&[Frame::Rejects(vec![rejected])]).unwrap();
    let (second, troubles) = open(&spool, first.name());
    let second = second.unwrap();
    assert_eq!(troubles, Default::default());
    assert_eq!(second.ledger(), first.ledger());
    assert_eq!(second.ledger().rejects(), [rejected]);
    assert_eq!(second.ledger().acks(), &acks);
    assert_eq!(readable(&second), [key(0, 0), key(0, 1), key(1, 0)]);
}

#[test]
fn a_segment_needs_the_one_before_it_or_a_snapshot() {
    let spool = spool(Memory::new());
    let mut refill = refill(&spool);
    let gap = |refill: &mut Refill, frame: Frame| match refill.append(&[frame]) {
        Err(RefillError::UnknownShard(key)) => Some(key),
        Ok(()) => None,
        Err(error) => panic!("{error}"),
    };
    assert_eq!(gap(&mut refill, segment(0, 3)), Some(key(0, 3)));
    assert!(!refill.exists());
    assert_eq!(gap(&mut refill, segment(2, 0)), Some(key(2, 0)), "there are two shards");
    assert_eq!(gap(&mut refill, snapshot(0, 3)), None);
    assert_eq!(gap(&mut refill, segment(0, 3)), None);
    assert_eq!(gap(&mut refill, segment(0, 5)), Some(key(0, 5)));
    assert_eq!(gap(&mut refill, segment(0, 3)), Some(key(0, 3)));
    assert_eq!(gap(&mut refill, segment(0, 4)), None);
    assert_eq!(readable(&refill), [key(0, 3), key(0, 4)]);
}

#[test]
fn the_way_to_a_segment_begins_at_the_nearest_snapshot() {
    let spool = spool(Memory::new());
    let mut refill = refill(&spool);
    let frames = [segment(0, 0), segment(0, 1), snapshot(0, 2), segment(0, 2), segment(0, 3)];
    refill.append(&frames).unwrap();
    refill.append(&[snapshot(1, 7), segment(1, 7)]).unwrap();
    let way = |shard, segment| -> Option<Vec<u32>> {
        let way = refill.ledger().restore(key(shard, segment))?;
        Some(way.iter().map(|entry| entry.segment).collect())
    };
    assert_eq!(way(0, 0), Some(vec![]));
    assert_eq!(way(0, 1), Some(vec![0]));
    assert_eq!(way(0, 2), Some(vec![2]));
    assert_eq!(way(0, 4), Some(vec![2, 2, 3]));
    assert_eq!(way(0, 5), None);
    assert_eq!(way(1, 7), Some(vec![7]));
    assert_eq!(way(1, 0), Some(vec![]), "a decoder needs nothing before the first");
    assert_eq!(way(1, 3), None);
}

#[test]
fn a_file_goes_when_every_destination_has_everything() {
    let disk = Memory::new();
    let spool = spool(disk.clone());
    let mut refill = refill(&spool);
    refill.append(&[segment(0, 0), segment(0, 1)]).unwrap();
    let mut acks = AckStatus::new(names(), shards());
    acks.ack(key(0, 1), 0);
    acks.ack(key(0, 0), 1);
    refill.write_ack_status(&acks).unwrap();
    assert!(!refill.ledger().is_delivered());
    acks.ack(key(0, 1), 1);
    refill.write_ack_status(&acks).unwrap();
    assert!(refill.ledger().is_delivered());
    refill.finish().unwrap();
    assert_eq!(disk.paths(), Vec::<String>::new());
}

#[test]
fn a_failed_write_or_sync_poisons_the_file_until_it_is_opened_again() {
    for call in [Call::Write, Call::Sync, Call::SyncDir, Call::Open] {
        let (disk, faults) = Faulty::new(Arc::new(Memory::new()));
        let spool = spool(disk);
        let mut refill = refill(&spool);
        faults.fail_nth(Calls::Only(call), 1);
        assert!(matches!(refill.append(&[segment(0, 0)]), Err(RefillError::Disk(_))), "{call:?}");
        assert!(faults.struck() > 0, "{call:?}");
        assert!(matches!(refill.append(&[segment(0, 0)]), Err(RefillError::Poisoned)), "{call:?}");
        assert!(refill.ledger().entries(0).is_empty(), "what is not durable is not in the books");
    }
}

#[test]
fn a_disk_that_fills_up_in_the_middle_of_a_frame_loses_nothing_that_was_durable() {
    let (disk, faults) = Faulty::new(Arc::new(Memory::new()));
    let spool = spool(disk);
    let mut refill = refill(&spool);
    refill.append(&[segment(0, 0)]).unwrap();
    for room in 0..59 {
        faults.fill(room);
        assert!(matches!(refill.append(&[segment(0, 1)]), Err(RefillError::Disk(_))), "{room}");
        faults.clear();
        let (again, troubles) = open(&spool, refill.name());
        refill = again.unwrap();
        assert_eq!(troubles.torn_bytes, room);
        assert_eq!(readable(&refill), [key(0, 0)], "room for {room} bytes");
    }
    refill.append(&[segment(0, 1)]).unwrap();
    assert_eq!(readable(&refill), [key(0, 0), key(0, 1)]);
}

#[test]
fn a_full_spool_refuses_and_changes_nothing() {
    let limits = SpoolLimits { bytes_max: 300, ..SpoolLimits::default() };
    let spool = Spool::open(Arc::new(Memory::new()), "spool", "quarantine", limits).unwrap();
    let mut refill = refill(&spool);
    let mut taken = 0;
    let refused = loop {
        match refill.append(&[segment(0, taken)]) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, RefillError::Full), "{refused}");
    assert!(taken > 1 && refill.bytes() <= 300 && spool.bytes().unwrap() <= 300);
    assert_eq!(readable(&refill).len(), taken as usize);
}

#[test]
fn a_segment_larger_than_a_frame_is_refused_by_name() {
    let spool = spool(Memory::new());
    let limits = RefillLimits { payload_bytes_max: 100, ..RefillLimits::default() };
    let acks = AckStatus::new(names(), shards());
    let mut refill = Refill::new(spool, limits, BEGUN, BLOCK, acks);
    let large = SegmentKey { shard: 0, segment: 0 };
    let frame = Frame::Segment { key: large, bytes: payload(large, 101) };
    assert!(matches!(refill.append(&[frame]), Err(RefillError::TooLarge(key)) if key == large));
}

#[test]
fn files_are_listed_by_age_sealed_once_and_given_up_when_too_old() {
    let spool = spool(Memory::new());
    let mut refill = refill(&spool);
    refill.append(&[segment(0, 0)]).unwrap();
    let sealed = refill.seal().unwrap().unwrap();
    assert!(sealed.ends_with(".refill"));
    assert_eq!(spool.seal(&sealed).unwrap(), sealed);
    let files = spool.files().unwrap();
    assert_eq!(files.len(), 1);
    assert!(files[0].sealed && files[0].begun == BEGUN && files[0].bytes == refill.bytes());
    assert!(spool.expired(&files, BEGUN).is_empty());
    let late = Wall(BEGUN.0) + Span::from_secs(8 * 24 * 3600);
    assert_eq!(spool.expired(&files, late).len(), 1);
}
