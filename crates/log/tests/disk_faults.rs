//! The faults of the faulty disk take place as planned, and end when they are told to.
#![expect(clippy::unwrap_used, reason = "a test stops at the first lie")]

use handoff_log::disk::{
    Call, Calls, Crash, Disk, Faults, Faulty, File, Memory, Open, Short, read_full_at, write_all_at,
};
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// `EIO` of every Unix.
const EIO: Option<i32> = Some(5);

#[test]
fn the_nth_call_of_any_kind_fails_once() {
    for n in 1..=4 {
        let (disk, _, faults) = disk();
        faults.fail_nth(Calls::Any, n);
        let results = [
            disk.create_dir("d").err(),
            disk.list("").err(),
            disk.sync_dir("").err(),
            disk.sync_all().err(),
            disk.list("").err(),
        ];
        for (call, error) in (1..).zip(results) {
            let expected = if call == n { EIO } else { None };
            assert_eq!(error.and_then(|error| error.raw_os_error()), expected, "{n}: call {call}");
        }
        assert_eq!(faults.struck(), 1);
    }
}

#[test]
fn each_kind_of_call_can_be_failed_and_does_nothing_then() {
    let (disk, memory, faults) = disk();
    memory.overwrite("a", b"hello".to_vec()).unwrap();
    let file = disk.open("a", Open::Write).unwrap();
    let calls: [(Call, &dyn Fn() -> io::Result<()>); 12] = [
        (Call::Open, &|| disk.open("new", Open::Create).map(drop)),
        (Call::List, &|| disk.list("").map(drop)),
        (Call::CreateDir, &|| disk.create_dir("d")),
        (Call::Rename, &|| disk.rename("a", "b")),
        (Call::Remove, &|| disk.remove("a")),
        (Call::SyncDir, &|| disk.sync_dir("")),
        (Call::SyncAll, &|| disk.sync_all()),
        (Call::Len, &|| file.len().map(drop)),
        (Call::Read, &|| file.read_at(&mut [0], 0).map(drop)),
        (Call::Write, &|| file.write_at(b"J", 0).map(drop)),
        (Call::SetLen, &|| file.set_len(0)),
        (Call::Sync, &|| file.sync()),
    ];
    for (call, make) in calls {
        faults.fail_nth(Calls::Only(call), 1);
        assert_eq!(make().unwrap_err().raw_os_error(), EIO, "{call:?}");
    }
    assert_eq!(faults.struck(), 12);
    assert_eq!(disk.list("").unwrap(), ["a"]);
    assert_eq!(memory.contents("a").unwrap(), b"hello");
}

#[test]
fn a_fault_counts_only_the_calls_it_is_meant_for() {
    let (disk, memory, faults) = disk();
    memory.overwrite("a", b"hello".to_vec()).unwrap();
    let file = disk.open("a", Open::Write).unwrap();
    faults.fail_nth(Calls::Only(Call::Read), 2);
    file.read_at(&mut [0], 0).unwrap();
    file.write_at(b"J", 0).unwrap();
    file.len().unwrap();
    assert_eq!(file.read_at(&mut [0], 0).unwrap_err().raw_os_error(), EIO);
    file.read_at(&mut [0], 0).unwrap();
}

#[test]
fn a_lasting_fault_lasts_until_it_is_cleared() {
    let (disk, _, faults) = disk();
    let file = disk.open("a", Open::Create).unwrap();
    faults.fail_all(Calls::Syncs);
    for _ in 0..3 {
        disk.sync_dir("").unwrap_err();
        disk.sync_all().unwrap_err();
        file.sync().unwrap_err();
    }
    file.write_at(b"x", 0).unwrap();
    faults.clear();
    disk.sync_dir("").unwrap();
    disk.sync_all().unwrap();
    assert_eq!(faults.struck(), 9, "what took place is not forgotten");
}

#[test]
fn a_full_disk_takes_what_fits_and_then_refuses() {
    let (disk, memory, faults) = disk();
    let file = disk.open("a", Open::Create).unwrap();
    write_all_at(file.as_ref(), b"12345", 0).unwrap();
    faults.fill(3);
    assert_eq!(file.write_at(b"abcdef", 4).unwrap(), 4, "one inside and the three that fit");
    assert_eq!(file.write_at(b"x", 8).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(memory.contents("a").unwrap(), b"1234abcd");
    assert_eq!(faults.struck(), 2);
}

#[test]
fn a_full_disk_refuses_all_that_grows_and_nothing_else() {
    let (disk, memory, faults) = disk();
    disk.create_dir("d").unwrap();
    let file = disk.open("a", Open::Create).unwrap();
    write_all_at(file.as_ref(), b"12345", 0).unwrap();
    faults.fill(0);
    let refused = [
        disk.open("b", Open::Create).map(drop),
        disk.create_dir("e"),
        file.set_len(6),
        file.write_at(b"x", 5).map(drop),
        file.write_at(b"x", 100).map(drop),
    ];
    for result in refused {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::StorageFull);
    }
    disk.create_dir("d").unwrap();
    write_all_at(file.as_ref(), b"abcde", 0).unwrap();
    disk.open("a", Open::Write).unwrap();
    disk.rename("a", "d/a").unwrap();
    file.sync().unwrap();
    disk.sync_all().unwrap();
    assert_eq!(memory.contents("d/a").unwrap(), b"abcde");
    faults.clear();
    write_all_at(file.as_ref(), b"fg", 5).unwrap();
    assert_eq!(memory.contents("d/a").unwrap(), b"abcdefg");
}

#[test]
fn a_gap_before_a_write_needs_room_as_well() {
    let (disk, memory, faults) = disk();
    let file = disk.open("a", Open::Create).unwrap();
    faults.fill(10);
    assert_eq!(file.write_at(b"x", 10).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.write_at(b"xyz", 8).unwrap(), 2);
    assert_eq!(memory.contents("a").unwrap(), b"\0\0\0\0\0\0\0\0xy");
}

#[test]
fn removing_replacing_and_cutting_give_room_back() {
    let (disk, memory, faults) = disk();
    for path in ["a", "b", "c"] {
        memory.overwrite(path, vec![1; 10]).unwrap();
    }
    let file = disk.open("c", Open::Write).unwrap();
    faults.fill(0);
    disk.remove("a").unwrap();
    write_all_at(file.as_ref(), &[2; 10], 10).unwrap();
    disk.rename("c", "b").unwrap();
    write_all_at(file.as_ref(), &[3; 10], 20).unwrap();
    file.set_len(20).unwrap();
    write_all_at(file.as_ref(), &[4; 10], 20).unwrap();
    assert_eq!(file.write_at(&[5], 30).unwrap_err().kind(), ErrorKind::StorageFull);
}

#[test]
fn short_writes_take_part_and_write_all_completes_them() {
    for short in [Short::Half, Short::OneByte] {
        for period in 1..=3 {
            let (disk, memory, faults) = disk();
            let file = disk.open("a", Open::Create).unwrap();
            faults.shorten_every(period, short);
            write_all_at(file.as_ref(), b"hello, world", 0).unwrap();
            write_all_at(file.as_ref(), b" and goodbye", 12).unwrap();
            write_all_at(file.as_ref(), b" again", 24).unwrap();
            assert_eq!(memory.contents("a").unwrap(), b"hello, world and goodbye again");
            assert!(faults.struck() > 0, "{short:?} {period}");
        }
    }
}

#[test]
fn a_write_can_be_cut_in_the_middle_by_a_short_one_and_a_failure() {
    let (disk, memory, faults) = disk();
    let file = disk.open("a", Open::Create).unwrap();
    faults.shorten_nth(1, Short::Half);
    faults.fail_nth(Calls::Only(Call::Write), 2);
    write_all_at(file.as_ref(), b"12345678", 0).unwrap_err();
    assert_eq!(memory.contents("a").unwrap(), b"1234");
    write_all_at(file.as_ref(), b"5678", 4).unwrap();
    assert_eq!(memory.contents("a").unwrap(), b"12345678");
}

#[test]
fn a_failed_sync_leaves_the_data_at_the_mercy_of_a_crash_and_repeating_it_does_not_help() {
    let crash = Crash::new();
    let (disk, faults) = Faulty::new(Arc::new(crash.clone()));
    let file = disk.open("a", Open::Create).unwrap();
    disk.sync_dir("").unwrap();
    write_all_at(file.as_ref(), b"hello", 0).unwrap();
    faults.fail_nth(Calls::Syncs, 1);
    file.sync().unwrap_err();
    file.sync().unwrap();
    let left = |disk: Crash| content(disk.open("a", Open::Read).unwrap().as_ref());
    assert_eq!(left(crash.crash_keeping_nothing().0), b"");
}

#[test]
fn a_file_opened_again_after_a_failed_sync_can_be_synced() {
    let crash = Crash::new();
    let (disk, faults) = Faulty::new(Arc::new(crash.clone()));
    let file = disk.open("a", Open::Create).unwrap();
    disk.sync_dir("").unwrap();
    faults.fail_nth(Calls::Syncs, 1);
    file.sync().unwrap_err();
    let file = disk.open("a", Open::Write).unwrap();
    write_all_at(file.as_ref(), b"hello", 0).unwrap();
    file.sync().unwrap();
    let disk = crash.crash_keeping_nothing().0;
    assert_eq!(content(disk.open("a", Open::Read).unwrap().as_ref()), b"hello");
}

#[test]
fn a_flip_changes_exactly_one_stored_bit() {
    let (disk, memory, faults) = disk();
    for bit in 0..24 {
        memory.overwrite("a", vec![0x55; 3]).unwrap();
        let open_before = disk.open("a", Open::Read).unwrap();
        faults.flip("a", bit).unwrap();
        let stored = memory.contents("a").unwrap();
        let number = stored.iter().rev().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
        assert_eq!(number ^ 0x0055_5555, 1 << bit);
        assert_eq!(content(open_before.as_ref()), stored);
    }
    assert_eq!(faults.flip("a", 24).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(faults.flip("b", 0).unwrap_err().kind(), ErrorKind::NotFound);
}

fn disk() -> (Faulty, Memory, Faults) {
    let memory = Memory::new();
    let (disk, faults) = Faulty::new(Arc::new(memory.clone()));
    (disk, memory, faults)
}

fn content(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    assert_eq!(read_full_at(file, &mut bytes, 0).unwrap(), bytes.len());
    bytes
}
