//! What a reader is given, and when.

use std::sync::Arc;

use handoff_log::disk::{Call, Calls, Counting, Faulty, Memory};
use handoff_log::segments::{Lane, Read};
use handoff_types::Wall;
use proptest::prelude::*;

use crate::server::{Server, bodies, frames};

#[test]
fn nothing_is_read_before_it_is_durable_and_everything_is_read_from_then_on() {
    let mut server = Server::open(Arc::new(Memory::new()));
    let reader = server.host.reader();
    server.append(&[(1, 3, b"hello")]);
    assert_eq!(reader.read(Lane(1), 0, 100).unwrap(), Read::End { end: 0 });
    server.journal.commit().unwrap();
    for offset in 0..3 {
        let read = frames(reader.read(Lane(1), offset, 0).unwrap());
        assert_eq!((read[0].base, read[0].count, &read[0].body[..]), (0, 3, &b"hello"[..]));
    }
    assert_eq!(reader.read(Lane(1), 3, 100).unwrap(), Read::End { end: 3 });
}

#[test]
fn one_read_goes_on_from_segments_into_the_journal() {
    let mut server = Server::open(Arc::new(Memory::new()));
    let reader = server.host.reader();
    server.write(1, 2, b"moved");
    server.write(1, 2, b"moved too");
    server.move_all();
    server.write(1, 2, b"copied");
    server.host.bulk().copy(9).unwrap();
    server.write(1, 2, b"in the journal");
    let read = frames(reader.read(Lane(1), 1, 1 << 20).unwrap());
    let words: Vec<_> = read.iter().map(|frame| &frame.body[..]).collect();
    assert_eq!(words, [&b"moved"[..], b"moved too", b"copied", b"in the journal"]);
}

#[test]
fn the_first_frame_is_given_whatever_its_size_and_no_more_than_there_is_room_for() {
    let mut server = Server::open(Arc::new(Memory::new()));
    let reader = server.host.reader();
    for moved in [false, true] {
        for _ in 0..4 {
            server.write(1, 1, &[7; 60]);
        }
        let count = |max| frames(reader.read(Lane(1), 0, max).unwrap()).len();
        assert_eq!([0, 103, 207, 208, 312].map(count), [1, 1, 1, 2, 3], "moved: {moved}");
        server.move_all();
    }
}

#[test]
fn a_time_is_found_in_segments_and_in_the_journal() {
    let mut server = Server::open(Arc::new(Memory::new()));
    let reader = server.host.reader();
    let find = |time| reader.find_time(Lane(1), Wall(time)).unwrap();
    assert_eq!(find(0), None);
    for n in 0..40 {
        server.write(1, 1, &[7; 500]);
        if n == 9 || n == 19 {
            server.move_all();
        }
        if n == 29 {
            server.host.bulk().copy(usize::MAX).unwrap();
        }
    }
    for n in 0..40_u64 {
        let time = i64::try_from(n).unwrap() * 10 + 10;
        assert_eq!([find(time - 9), find(time)], [Some(n); 2], "at {time}");
    }
    assert_eq!(find(401), None);
}

#[test]
fn a_lane_that_ends_before_what_is_known_of_it_is_damaged_and_nothing_above_is_given() {
    let mut server = Server::open(Arc::new(Memory::new()));
    let reader = server.host.reader();
    for _ in 0..3 {
        server.write(1, 2, b"two");
    }
    let below = |offset, end| reader.read_below(Lane(1), offset, end, 1 << 20).unwrap();
    assert_eq!(frames(below(0, 4)).len(), 2);
    assert_eq!(below(4, 4), Read::End { end: 4 });
    assert_eq!(below(6, 9), Read::Corrupt { from: 6, to: 9 });
}

#[test]
fn the_bodies_of_a_record_are_read_from_disk_once_by_mover_and_reader_each() {
    let disk = Counting::new(Arc::new(Memory::new()));
    let mut server = Server::open(Arc::new(disk.clone()));
    let body = [7; 256];
    let lines: Vec<_> = (0..100).map(|lane| (lane, 1, &body[..])).collect();
    server.append(&lines);
    server.journal.commit().unwrap();
    let reader = server.host.reader();
    let before = disk.counts().reads;
    for lane in 0..100 {
        assert_eq!(bodies(&reader, lane, 0, 1 << 20).len(), 1);
    }
    // The front of the record, then the rest of it.
    assert_eq!(disk.counts().reads - before, 2, "by readers");
    let before = disk.counts();
    server.host.bulk().copy(9).unwrap();
    let after = disk.counts();
    assert_eq!(after.reads - before.reads, 1, "by the mover, which reads ahead");
    assert_eq!(after.writes - before.writes, 200, "a header and a run for each lane");
}

/// An entry that does not fit a record is pieces. Each is read once, whoever reads.
#[test]
fn the_pieces_of_a_large_entry_are_read_once() {
    let disk = Counting::new(Arc::new(Memory::new()));
    let limits = handoff_types::Limits { journal_file_bytes: 1 << 20, ..crate::server::limits() };
    let mut server = Server::open_with(Arc::new(disk.clone()), &limits);
    let body = [7; 4096];
    let lines: Vec<_> = (0..200).map(|lane| (lane, 1, &body[..])).collect();
    server.append(&lines);
    server.journal.commit().unwrap();
    let reader = server.host.reader();
    let before = disk.counts().reads;
    for lane in 0..200 {
        assert_eq!(bodies(&reader, lane, 0, 1 << 20), [&body[..]]);
    }
    let by_readers = disk.counts().reads - before;
    assert!(by_readers < 20, "{by_readers} reads for 200 bodies");
    let before = disk.counts().reads;
    server.host.bulk().copy(9).unwrap();
    assert_eq!(disk.counts().reads - before, by_readers, "by the mover");
}

#[test]
fn a_disk_that_does_not_answer_costs_one_read() {
    let (disk, faults) = Faulty::new(Arc::new(Memory::new()));
    let mut server = Server::open(Arc::new(disk));
    server.write(1, 1, b"hello");
    let reader = server.host.reader();
    faults.fail_nth(Calls::Only(Call::Read), 1);
    assert!(reader.read(Lane(1), 0, 9).is_err());
    assert_eq!(bodies(&reader, 1, 0, 9), ["hello"]);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Append { lane: u64, count: u32, bytes: usize },
    Commit,
    Copy(usize),
    Sync,
    FailSync,
    Checkpoint,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..3_u64, 1..4_u32, 0..900_usize)
            .prop_map(|(lane, count, bytes)| Step::Append { lane, count, bytes }),
        6 => Just(Step::Commit),
        3 => (1..9_usize).prop_map(Step::Copy),
        2 => Just(Step::Sync),
        1 => Just(Step::FailSync),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Wherever its frames are, a lane reads back what was durably appended, from every offset and
    /// for every size, and times are found in it.
    #[test]
    fn a_lane_reads_as_it_was_written_wherever_it_is(
        steps in prop::collection::vec(step(), 1..60),
        max_bytes in 0..3000_u64,
    ) {
        let (disk, faults) = Faulty::new(Arc::new(Memory::new()));
        let disk: Arc<dyn handoff_log::disk::Disk> = Arc::new(disk);
        let mut server = Server::open(Arc::clone(&disk));
        let mut durable = vec![Vec::new(); 3];
        let mut appended = Vec::new();
        for (n, step) in (0_u8..).zip(steps) {
            match step {
                Step::Append { lane, count, bytes } => {
                    let body = vec![n; bytes];
                    server.append(&[(lane, count, &body)]);
                    appended.push((lane, count, body));
                }
                Step::Commit => server.journal.commit().unwrap(),
                Step::Copy(entries) => drop(server.host.bulk().copy(entries)),
                Step::Sync => server.host.bulk().sync().unwrap(),
                Step::FailSync => {
                    faults.fail_nth(Calls::Only(Call::SyncAll), 1);
                    server.host.bulk().sync().unwrap_err();
                }
                Step::Checkpoint => {
                    server.journal.commit().unwrap();
                    server.checkpoint().unwrap();
                }
                Step::Reopen => {
                    server.journal.commit().unwrap();
                    drop(server);
                    server = Server::open(Arc::clone(&disk));
                }
            }
            if !matches!(step, Step::Append { .. } | Step::Copy(_) | Step::Sync | Step::FailSync) {
                for (lane, count, body) in appended.drain(..) {
                    durable[usize::try_from(lane).unwrap()].push((count, body));
                }
            }
            let reader = server.host.reader();
            for (lane, written) in (0..).zip(&durable) {
                let read = bodies(&reader, lane, 0, max_bytes);
                prop_assert!(read.iter().eq(written.iter().map(|(_, body)| body)));
                let mut base = 0;
                for (count, body) in written {
                    let offset = base + u64::from(*count) - 1;
                    let first = frames(reader.read(Lane(lane), offset, 0).unwrap()).remove(0);
                    prop_assert_eq!((first.base, first.count), (base, *count));
                    prop_assert_eq!(&first.body, body);
                    let found = reader.find_time(Lane(lane), first.max_timestamp).unwrap();
                    prop_assert!(found.is_some_and(|found| found <= base));
                    base += u64::from(*count);
                }
            }
        }
    }
}
