//! Every byte cut, every bit flipped, tails zeroed: the right outcome each time, and nothing
//! skipped in silence.
//!
//! The file under test holds three records of three rooms, one round each:
//!
//! ```text
//!  0        4096      8192      12288     16384     20480          65536
//!  │ header │ round 0 │ round 1 │ round 2 │ mark    │ zeros …      │
//! ```

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking and reports what it covered"
)]

mod journal_model;

use std::sync::Arc;

use handoff_log::disk::Memory;
use handoff_log::journal::{
    Inline, Journal, LostRecords, OpenError, Purpose, Recovery, Refused, Report, Start, Tail,
    excused, repair,
};
use handoff_types::{Position, Room, Sequence};
use journal_model::{entry, options};

const FILE: &str = "journal/0000.journal";
const BLOCK: usize = 4096;
const ROUNDS: usize = 3;
/// The bytes of a file header behind this are zeros here, and zeros are what a reader sees there.
const FILE_HEADER: usize = 51;
const ROUND_HEADER: usize = 192;
const RECORD_HEADER: usize = 24;
const CHANGE: usize = 100;
/// Count of bodies, length of the change, the change.
const RECORD: usize = RECORD_HEADER + 8 + CHANGE;
const ROOMS: [Room; ROUNDS] = [Room::Streams, Room::Events, Room::Calls];

/// The bytes of the file, with or without the mark that an idle journal leaves.
fn three_records(marked: bool) -> Vec<u8> {
    let disk = Memory::new();
    let (journal, _) = open(&disk).unwrap();
    for (n, room) in ROOMS.into_iter().enumerate() {
        let entry = entry(room, &[u8::try_from(n).unwrap() + 1; CHANGE]);
        let permit = journal.admit(room, entry.bytes(), Purpose::Accept).unwrap();
        let (_, ticket) = journal.append(permit, entry);
        journal.commit().unwrap();
        assert!(ticket.outcome().unwrap().is_ok());
    }
    let mut bytes = disk.contents(FILE).unwrap();
    assert_eq!(bytes.len(), 64 << 10);
    if !marked {
        bytes[BLOCK * 4..BLOCK * 5].fill(0);
    }
    bytes
}

type Found = (Vec<Room>, Report);

fn open(disk: &Memory) -> Result<(Inline, Found), OpenError> {
    let mut recovery = Recovery::begin(Arc::new(disk.clone()), options(1), Start::default())?;
    let mut rooms = Vec::new();
    while let Some(replayed) = recovery.next_entry()? {
        let n = ROOMS.iter().position(|room| *room == replayed.room).unwrap();
        assert_eq!(replayed.change.as_ref(), [u8::try_from(n).unwrap() + 1; CHANGE]);
        rooms.push(replayed.room);
    }
    let (opened, report) = recovery.finish()?;
    Ok((Inline::start(opened), (rooms, report)))
}

fn look(bytes: Vec<u8>) -> Result<Found, OpenError> {
    let disk = Memory::new();
    handoff_log::disk::Disk::create_dir(&disk, "journal").unwrap();
    disk.overwrite(FILE, bytes).unwrap();
    let (journal, found) = open(&disk)?;
    // Whatever was found, the rooms that are open can go on.
    journal.commit().unwrap();
    for room in ROOMS {
        let closed = found.1.closed.iter().any(|(closed, _)| *closed == room);
        match journal.admit(room, 10, Purpose::Accept) {
            Ok(_) => assert!(!closed),
            Err(Refused::Damaged { .. }) => assert!(closed),
            Err(refused) => panic!("{refused}"),
        }
    }
    Ok(found)
}

#[test]
fn every_truncation_gives_the_rounds_before_it_and_is_reported() {
    let whole = three_records(true);
    for len in 0..=BLOCK * 6 {
        let found = look(whole[..len].to_vec());
        if len < FILE_HEADER {
            assert!(matches!(found, Err(OpenError::Header { .. })), "cut at {len}");
            continue;
        }
        let (rooms, report) = found.unwrap();
        let end_of = |n: usize| BLOCK * (n + 1) + ROUND_HEADER + RECORD;
        let whole_rounds = (0..ROUNDS).filter(|&n| len >= end_of(n)).count();
        assert_eq!(rooms, ROOMS[..whole_rounds], "cut at {len}");
        assert_eq!(report.damage, [], "cut at {len}");
        assert_eq!(report.shortened, [FILE], "cut at {len}");
        assert_eq!(report.healed.is_empty(), len >= 2048 + FILE_HEADER, "cut at {len}");
        let marked = len >= BLOCK * 4 + ROUND_HEADER;
        assert_eq!(report.tail == Tail::Marked, marked, "cut at {len}: {report:?}");
        let inside =
            (0..ROUNDS).any(|n| (BLOCK * (n + 1) + ROUND_HEADER..end_of(n)).contains(&len));
        assert_eq!(inside, matches!(report.tail, Tail::Torn | Tail::Zeroed), "cut at {len}");
    }
}

#[test]
fn every_flipped_bit_costs_exactly_the_record_it_hits() {
    for marked in [true, false] {
        let sound = three_records(marked);
        for bit in 0..BLOCK * 5 * 8 {
            let mut bytes = sound.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let (rooms, report) = look(bytes).unwrap();
            let (block, at) = (bit / 8 / BLOCK, bit / 8 % BLOCK);
            let case =
                || format!("bit {bit} (block {block}, byte {at}, marked {marked}): {report:?}");
            match block {
                0 => {
                    let header = at < 56 || (2048..2104).contains(&at);
                    assert_eq!(rooms, ROOMS, "{}", case());
                    assert_eq!(report.healed.len(), usize::from(header), "{}", case());
                    assert_eq!(report.damage, [], "{}", case());
                }
                // Nothing bears witness for the last round: it is cut, as a torn one is.
                3 if !marked && at < ROUND_HEADER + RECORD => {
                    assert_eq!(rooms, ROOMS[..2], "{}", case());
                    assert_ne!(report.tail, Tail::Marked, "{}", case());
                    assert_eq!(report.damage, [], "{}", case());
                }
                1..=3 if at < ROUND_HEADER => {
                    assert_eq!(rooms, ROOMS, "{}", case());
                    assert_eq!(report.damage.len(), 1, "{}", case());
                    assert_eq!(report.damage[0].rooms, [], "{}", case());
                    assert_eq!(report.closed, [], "{}", case());
                }
                1..=3 if at < ROUND_HEADER + RECORD => {
                    let hit = ROOMS[block - 1];
                    let rest: Vec<Room> = ROOMS.into_iter().filter(|room| *room != hit).collect();
                    let from = Position((BLOCK * (block - 1)) as u64);
                    assert_eq!(rooms, rest, "{}", case());
                    assert_eq!(report.damage.len(), 1, "{}", case());
                    assert_eq!(report.damage[0].rooms, [(hit, 1)], "{}", case());
                    assert_eq!(report.damage[0].from, from, "{}", case());
                    assert_eq!(report.closed, [(hit, from)], "{}", case());
                }
                4 if marked && at < ROUND_HEADER => {
                    assert_eq!(rooms, ROOMS, "{}", case());
                    assert_eq!(report.tail, Tail::Clean, "{}", case());
                }
                // Padding, or what no round has reached yet.
                _ => {
                    assert_eq!(rooms, ROOMS, "{}", case());
                    assert_eq!(report.damage, [], "{}", case());
                }
            }
        }
    }
}

#[test]
fn a_zeroed_tail_is_cut_when_nothing_was_acknowledged_behind_it_and_damage_when_a_mark_stands() {
    for marked in [true, false] {
        let sound = three_records(marked);
        for zeroed in 1..=2 * BLOCK {
            let mut bytes = sound.clone();
            let end = BLOCK * 4;
            bytes[end - zeroed..end].fill(0);
            let (rooms, report) = look(bytes).unwrap();
            let case = || format!("{zeroed} bytes, marked {marked}: {report:?}");
            // The last byte of a record's payload is never zero here.
            let lost = (0..ROUNDS)
                .filter(|n| end - zeroed < BLOCK * (n + 1) + ROUND_HEADER + RECORD)
                .count();
            assert_eq!(rooms, ROOMS[..ROUNDS - lost], "{}", case());
            if marked && lost > 0 {
                let hit: Vec<Room> = report.closed.iter().map(|(room, _)| *room).collect();
                let mut gone = ROOMS[ROUNDS - lost..].to_vec();
                gone.sort();
                assert_eq!(hit, gone, "{}", case());
            } else {
                assert_eq!(report.damage, [], "{}", case());
            }
        }
    }
}

#[test]
fn a_file_that_went_missing_closes_only_the_rooms_that_had_records_in_it() {
    let disk = Memory::new();
    let (journal, _) = open(&disk).unwrap();
    // The first file holds fourteen rounds, all of one room.
    for (room, fill, count) in [(Room::Streams, 1, 20), (Room::Events, 2, 20), (Room::Calls, 3, 20)]
    {
        for _ in 0..count {
            let entry = entry(room, &[fill; CHANGE]);
            let permit = journal.admit(room, entry.bytes(), Purpose::Accept).unwrap();
            drop(journal.append(permit, entry));
            journal.commit().unwrap();
        }
    }
    drop(journal);
    handoff_log::disk::Disk::remove(&disk, FILE).unwrap();
    let (_, (rooms, report)) = open(&disk).unwrap();
    assert_eq!(report.closed, [(Room::Streams, Position(0))], "{report:?}");
    assert_eq!(report.damage[0].rooms, [(Room::Streams, 14)], "{report:?}");
    assert_eq!(rooms.iter().filter(|room| **room == Room::Events).count(), 20);
    assert_eq!(rooms.iter().filter(|room| **room == Room::Calls).count(), 20);
    assert_eq!(rooms.len(), 40);
}

#[test]
fn an_unreadable_header_a_foreign_file_and_a_newer_one_are_refused_by_name() {
    let mut unreadable = three_records(true);
    unreadable[0] ^= 1;
    unreadable[2048] ^= 1;
    let error = look(unreadable).unwrap_err();
    assert!(error.to_string().contains(FILE), "{error}");

    let disk = Memory::new();
    handoff_log::disk::Disk::create_dir(&disk, "journal").unwrap();
    disk.overwrite(FILE, three_records(true)).unwrap();
    let mut foreign = options(1);
    foreign.directory = 8;
    let error = Recovery::begin(Arc::new(disk), foreign, Start::default()).unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
}

#[test]
fn repair_sets_the_damage_aside_and_opens_the_room_behind_it() {
    let mut bytes = three_records(true);
    let hit = BLOCK * 2 + ROUND_HEADER + RECORD_HEADER + 20;
    bytes[hit] ^= 4;
    let disk = Memory::new();
    disk.overwrite(FILE, bytes.clone()).unwrap();
    let (_, (rooms, report)) = open(&disk).unwrap();
    assert_eq!(rooms, [Room::Streams, Room::Calls]);
    assert_eq!(report.closed.len(), 1);

    let shared: Arc<dyn handoff_log::disk::Disk> = Arc::new(disk.clone());
    let repaired = repair(&shared, options(2), Start::default()).unwrap();
    let lost = LostRecords { room: Room::Events, from: Sequence(1), to: Sequence(1) };
    assert_eq!(repaired.accepted, [lost]);
    let aside = disk.contents(&repaired.set_aside[0]).unwrap();
    assert_eq!(aside, bytes[BLOCK * 2..BLOCK * 3], "the range as it was found");
    assert_eq!(disk.contents(FILE).unwrap(), bytes, "the journal is not touched");

    let excused = excused(&disk).unwrap();
    assert_eq!(excused, [lost]);
    let start = Start { excused, ..Start::default() };
    let mut recovery = Recovery::begin(shared, options(3), start).unwrap();
    while recovery.next_entry().unwrap().is_some() {}
    let (opened, report) = recovery.finish().unwrap();
    assert_eq!(report.closed, []);
    assert_eq!(report.lost, [lost], "still said, no longer in the way");
    let journal = Inline::start(opened);
    drop(journal.admit(Room::Events, 10, Purpose::Accept).unwrap());
}

#[test]
fn a_round_torn_while_it_was_written_again_is_still_there_in_its_first_file() {
    let disk = Memory::new();
    let (journal, _) = open(&disk).unwrap();
    for _ in 0..2 {
        let entry = entry(Room::Streams, &[1; CHANGE * 20]);
        let permit = journal.admit(Room::Streams, entry.bytes(), Purpose::Accept).unwrap();
        drop(journal.append(permit, entry));
        journal.commit().unwrap();
    }
    drop(journal);
    // Power is lost, and with it the mark behind the second round.
    let mut first = disk.contents(FILE).unwrap();
    first[BLOCK * 3..BLOCK * 4].fill(0);
    disk.overwrite(FILE, first.clone()).unwrap();
    // The next start writes the round again, to another file; then power is lost again.
    let recovery = Recovery::begin(Arc::new(disk.clone()), options(5), Start::default()).unwrap();
    Inline::start(recovery.finish().unwrap().0).commit().unwrap();
    let second = (1..4u32)
        .map(|slot| format!("journal/{slot:04}.journal"))
        .find(|path| disk.contents(path).is_some_and(|bytes| bytes[BLOCK] != 0))
        .unwrap();
    let mut torn = disk.contents(&second).unwrap();
    torn[BLOCK + 512..].fill(0);
    disk.overwrite(&second, torn).unwrap();

    let mut recovery = Recovery::begin(Arc::new(disk), options(6), Start::default()).unwrap();
    let mut found = 0;
    while recovery.next_entry().unwrap().is_some() {
        found += 1;
    }
    let (_, report) = recovery.finish().unwrap();
    assert_eq!((found, report.damage), (2, vec![]));
}

#[test]
fn a_journal_that_ends_before_what_a_checkpoint_knows_closes_the_room() {
    let disk = Memory::new();
    disk.overwrite(FILE, three_records(false)).unwrap();
    let mut start = Start { end: Position(1 << 20), ..Start::default() };
    start.known[Room::Events.index()] = Sequence(3);
    start.known_to = [Position(1 << 20); Room::MAX];
    let recovery = Recovery::begin(Arc::new(disk), options(1), start).unwrap();
    let (opened, report) = recovery.finish().unwrap();
    let lost = LostRecords { room: Room::Events, from: Sequence(2), to: Sequence(3) };
    assert_eq!(report.lost, [lost]);
    assert_eq!(report.closed.len(), 1);
    assert_eq!(report.end, Position(1 << 20), "no position is used twice");
    drop(Inline::start(opened));
}

mod garbage {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// Whatever a disk does to the file: an answer, never a panic, and never a byte that was
        /// not written.
        #[test]
        fn any_scribbling_over_a_file_is_answered(
            marked: bool,
            scribbles in prop::collection::vec((0..BLOCK * 5, prop::collection::vec(any::<u8>(), 1..600)), 1..5),
        ) {
            let mut bytes = three_records(marked);
            for (at, scribble) in scribbles {
                let end = (at + scribble.len()).min(bytes.len());
                bytes[at..end].copy_from_slice(&scribble[..end - at]);
            }
            // `look` compares every change it is given with the one that was appended.
            match look(bytes) {
                Ok((rooms, report)) => {
                    for room in ROOMS {
                        let closed = report.closed.iter().any(|(closed, _)| *closed == room);
                        let cut = report.tail != Tail::Marked;
                        prop_assert!(rooms.contains(&room) || closed || cut, "{room} is gone: {report:?}");
                    }
                }
                Err(error) => prop_assert!(matches!(error, OpenError::Header { .. }), "{error}"),
            }
        }

        /// Copies of valid rounds in places where they do not belong are not taken for rounds.
        #[test]
        fn rounds_that_were_copied_elsewhere_do_not_count(from in 1..5usize, to in 5..16usize) {
            let mut bytes = three_records(true);
            let block = bytes[from * BLOCK..(from + 1) * BLOCK].to_vec();
            bytes[to * BLOCK..(to + 1) * BLOCK].copy_from_slice(&block);
            let (rooms, report) = look(bytes).unwrap();
            prop_assert_eq!(rooms, ROOMS);
            prop_assert_eq!(report.damage, []);
        }
    }
}
