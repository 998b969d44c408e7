//! Faults that were found by reading, each with the test that would have found it.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod journal_model;

use std::io;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bytes::Bytes;
use handoff_log::disk::{Call, Calls, Disk, Faulty, File, Memory, Open, Walk};
use handoff_log::journal::{
    Ahead, BodyAt, Entry, Inline, Journal, LostRecords, Options, Purpose, ReadError, Recovery,
    Refused, Replayed, Report, Start, Threaded, Ticket, excused, repair,
};
use handoff_types::{Limits, Now, Position, Room, Sequence};
use journal_model::{entry, options};

const BLOCK: usize = 4096;
const FIRST_FILE: &str = "journal/0000.journal";
const SECOND_FILE: &str = "journal/0001.journal";
const THIRD_FILE: &str = "journal/0002.journal";
/// A byte inside the change of the first record of a round.
const IN_RECORD: usize = 192 + 24 + 20;

fn open(disk: &Arc<dyn Disk>, options: Options, start: Start) -> (Inline, Vec<Replayed>, Report) {
    let mut recovery = Recovery::begin(Arc::clone(disk), options, start).unwrap();
    let mut found = Vec::new();
    while let Some(entry) = recovery.next_entry().unwrap() {
        found.push(entry);
    }
    let (opened, report) = recovery.finish().unwrap();
    let journal = Inline::start(opened);
    journal.commit().unwrap();
    (journal, found, report)
}

fn put(
    journal: &dyn Journal,
    room: Room,
    change: &[u8],
    purpose: Purpose,
) -> Result<(Sequence, Ticket), Refused> {
    let entry = entry(room, change);
    let permit = journal.admit(room, entry.bytes(), purpose)?;
    Ok(journal.append(permit, entry))
}

fn put_round(journal: &Inline, room: Room, change: &[u8]) {
    drop(put(journal, room, change, Purpose::Accept).unwrap());
    journal.commit().unwrap();
}

fn flip(memory: &Memory, path: &str, byte: usize) {
    let mut bytes = memory.contents(path).unwrap();
    bytes[byte] ^= 1;
    memory.overwrite(path, bytes).unwrap();
}

fn zero(memory: &Memory, path: &str, blocks: std::ops::Range<usize>) {
    let mut bytes = memory.contents(path).unwrap();
    bytes[blocks.start * BLOCK..blocks.end * BLOCK].fill(0);
    memory.overwrite(path, bytes).unwrap();
}

/// The other rooms go on, and their checkpoints let the journal forget; but not what the damaged
/// room still has on either side of its damage.
#[test]
fn the_sound_records_of_a_damaged_room_survive_the_trims_of_others() {
    let memory = Memory::new();
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    let (journal, ..) = open(&disk, options(1), Start::default());
    for _ in 0..20 {
        put_round(&journal, Room::Streams, &[1; 100]);
    }
    drop(journal);
    // The second file begins with record 15; the round of record 18 is its fourth.
    flip(&memory, "journal/0001.journal", BLOCK * 4 + IN_RECORD);
    let lost = [LostRecords { room: Room::Streams, from: Sequence(18), to: Sequence(18) }];
    let mut start = Start::default();
    let mut files = Vec::new();
    for life in 0..8 {
        let (journal, _, report) = open(&disk, options(10 + life), start.clone());
        assert_eq!(report.lost, lost, "life {life}: {report:?}");
        assert_eq!(report.closed.len(), 1, "life {life}");
        for _ in 0..200 {
            put_round(&journal, Room::Events, &[2; 100]);
            let mark = journal.barrier(Room::Events).outcome().unwrap().unwrap();
            journal.trim(Room::Events, mark.position);
            start.end = mark.position;
            start.needs[Room::Events.index()] = mark.position;
            start.sequences[Room::Events.index()] = mark.sequence;
            start.known[Room::Events.index()] = mark.sequence;
        }
        start.known_to = [start.end; Room::MAX];
        drop(journal);
        files.push(disk.list("journal").unwrap().len());
    }
    assert!(files.iter().all(|count| *count <= 12), "files pile up: {files:?}");
}

/// The first round of a file is written again to a fresh one after a kill. That one said it follows
/// the file it replaces, which is void then, so the next opening took a file for gone and looked
/// for nothing more in the damaged round before.
#[test]
fn what_was_salvaged_once_is_salvaged_again_though_the_next_file_was_written_anew() {
    let memory = Memory::new();
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    let (journal, ..) = open(&disk, options(1), Start::default());
    let begun =
        |path| memory.contents(path).is_some_and(|all| all[BLOCK..].iter().any(|b| *b != 0));
    let mut rounds = 0;
    while !begun(SECOND_FILE) {
        drop(put(&journal, Room::Streams, &[1; 100], Purpose::Accept).unwrap());
        put_round(&journal, Room::Events, &[2; 100]);
        rounds += 1;
    }
    drop(journal);
    // Killed before the mark of an idle journal: the second file has one round and nothing else.
    let blocks = memory.contents(SECOND_FILE).unwrap().len() / BLOCK;
    zero(&memory, SECOND_FILE, 2..blocks);
    // The last round of the first file, and in it the record of one room.
    flip(&memory, FIRST_FILE, (rounds - 1) * BLOCK + IN_RECORD);
    let mut salvaged = Vec::new();
    for life in 2..5 {
        let (_, found, report) = open(&disk, options(life), Start::default());
        let closed: Vec<Room> = report.closed.iter().map(|(room, _)| *room).collect();
        assert_eq!(closed, [Room::Streams], "life {life}: {report:?}");
        salvaged.push(found.iter().filter(|entry| entry.room == Room::Events).count());
    }
    assert_eq!(salvaged, [rounds; 3]);
}

/// A room that is not loaded this time finds its records the next time, whatever others trim.
#[test]
fn a_room_that_is_not_loaded_keeps_its_part_of_the_journal() {
    let disk: Arc<dyn Disk> = Arc::new(Memory::new());
    let (journal, ..) = open(&disk, options(1), Start::default());
    for n in 0..20 {
        put_round(&journal, Room::Streams, &[n; 100]);
    }
    drop(journal);
    let mut start = Start { unloaded: vec![Room::Streams], ..Start::default() };
    for life in 0..3 {
        let (journal, found, report) = open(&disk, options(2 + life), start.clone());
        assert_eq!((found.len(), report.damage), (0, vec![]), "life {life}");
        for _ in 0..100 {
            put_round(&journal, Room::Events, &[9; 100]);
            let mark = journal.barrier(Room::Events).outcome().unwrap().unwrap();
            journal.trim(Room::Events, mark.position);
            start.needs[Room::Events.index()] = mark.position;
            start.sequences[Room::Events.index()] = mark.sequence;
        }
    }
    start.unloaded.clear();
    let (_, found, report) = open(&disk, options(9), start);
    assert_eq!(report.lost, []);
    let streams = found.iter().filter(|entry| entry.room == Room::Streams);
    assert_eq!(
        streams.map(|entry| entry.change[0]).collect::<Vec<_>>(),
        (0..20).collect::<Vec<_>>()
    );
}

/// Rooms that were not loaded kept the first file of all though they never had a record. The one
/// behind it, which nobody needed any more either, was recycled first, and the journal then ended
/// before what a checkpoint knew: a room that had never written anything was closed for damage.
#[test]
fn rooms_without_records_keep_nothing_and_lose_nothing() {
    let memory = Memory::new();
    let (disk, faults) = Faulty::new(Arc::new(memory.clone()));
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let mut start = Start { unloaded: vec![Room::Streams], ..Start::default() };
    for life in 1..3 {
        let (journal, ..) = open(&disk, options(life), start.clone());
        // The second time there is no other file to be recycled before these two.
        faults.fill(if life == 2 { 0 } else { 1 << 20 });
        put_round(&journal, Room::Events, &[9; 100]);
        let mark = journal.barrier(Room::Events).outcome().unwrap().unwrap();
        if life == 2 {
            let events = Room::Events.index();
            start.end = mark.position;
            (start.needs[events], start.known_to[events]) = (mark.position, mark.position);
            (start.known[events], start.sequences[events]) = (mark.sequence, mark.sequence);
        }
        journal.close().unwrap();
    }
    faults.clear();
    let first = memory.contents(FIRST_FILE);
    for life in 3..9 {
        let (_, _, report) = open(&disk, options(life), start.clone());
        assert_eq!((report.damage, report.closed), (vec![], vec![]), "life {life}");
    }
    assert_ne!(memory.contents(FIRST_FILE), first, "kept for nobody");
}

/// A trim needs a checkpoint, that needs a barrier, and that needs what was admitted to be
/// written: it must always fit.
#[test]
fn what_was_admitted_is_written_when_the_ring_is_full_to_the_brim() {
    for bytes in [40, 300, 3000, 20_000] {
        let disk: Arc<dyn Disk> = Arc::new(Memory::new());
        let (journal, ..) = open(&disk, options(1), Start::default());
        loop {
            let change = vec![1; bytes];
            let admitted = (0..6)
                .filter(|_| put(&journal, Room::Events, &change, Purpose::Finish).is_ok())
                .count();
            if admitted == 0 {
                break;
            }
            journal.commit().unwrap();
            assert!(journal.barrier(Room::Events).outcome().is_some());
        }
    }
}

/// A fault seals the file being written and costs its rest, after that rest was counted on.
#[test]
fn what_was_admitted_is_written_when_a_fault_costs_space_in_a_full_ring() {
    let (faulty, faults) = Faulty::new(Arc::new(Memory::new()));
    let disk: Arc<dyn Disk> = Arc::new(faulty);
    let (journal, ..) = open(&disk, options(1), Start::default());
    let mut stalls = 0;
    loop {
        let change = [1; 3000];
        let admitted = (0..6)
            .filter(|_| put(&journal, Room::Events, &change, Purpose::Finish).is_ok())
            .count();
        if admitted == 0 {
            break;
        }
        faults.fail_nth(Calls::Only(Call::Sync), 1);
        if journal.commit().is_err() {
            stalls += 1;
            faults.clear();
            journal.commit().unwrap();
        }
    }
    assert!(stalls > 3, "{stalls}");
}

#[test]
fn an_entry_with_very_many_bodies_is_found_again() {
    for (file_bytes, bodies) in [(8 << 20, 60_000), (64 << 10, 4_000)] {
        let disk: Arc<dyn Disk> = Arc::new(Memory::new());
        let mut options = options(1);
        options.limits = Limits {
            journal_file_bytes: file_bytes,
            journal_bytes_max: file_bytes * 8,
            journal_reserve_bytes: 0,
            ..Limits::default()
        };
        let (journal, ..) = open(&disk, options.clone(), Start::default());
        let bodies: Vec<Bytes> =
            (0..bodies).map(|n: u32| n.to_le_bytes().to_vec().into()).collect();
        let change = Bytes::from_static(b"change");
        let entry = Entry { room: Room::Streams, now: Now::default(), change, bodies };
        let permit = journal.admit(Room::Streams, entry.bytes(), Purpose::Accept).unwrap();
        let (_, ticket) = journal.append(permit, entry.clone());
        journal.commit().unwrap();
        let position = ticket.outcome().unwrap().unwrap().position;
        drop(journal);
        let (journal, found, report) = open(&disk, options, Start::default());
        assert_eq!(found.len(), 1, "acknowledged and gone: {report:?}");
        for index in [0, 1, 2040, 3999] {
            let body = journal.body(BodyAt { position, index }).unwrap();
            assert_eq!(body, entry.bodies[index as usize], "body {index}");
        }
    }
}

#[test]
fn closing_a_journal_on_a_full_disk_comes_to_an_end() {
    let (faulty, faults) = Faulty::new(Arc::new(Memory::new()));
    let disk: Arc<dyn Disk> = Arc::new(faulty);
    let recovery = Recovery::begin(disk, options(1), Start::default()).unwrap();
    let opened = recovery.finish().unwrap().0;
    faults.fill(70 << 10);
    let journal = Threaded::start(opened).unwrap();
    // Admitted against files that the disk will not give.
    for _ in 0..60 {
        drop(put(&journal, Room::Events, &[1; 1900], Purpose::Accept));
    }
    let (ended, wait) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        drop(journal);
        ended.send(())
    });
    wait.recv_timeout(Duration::from_secs(60)).expect("still closing");
}

/// A disk on which one file cannot be opened for writing.
#[derive(Debug)]
struct OneBadFile {
    inner: Memory,
    bad: Mutex<Option<&'static str>>,
}

impl Disk for OneBadFile {
    fn open(&self, path: &str, how: Open) -> io::Result<Arc<dyn File>> {
        if how == Open::Write && *self.bad.lock().unwrap() == Some(path) {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.inner.open(path, how)
    }

    fn walk(&self, dir: &str) -> io::Result<Walk> {
        self.inner.walk(dir)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename_new(from, to)
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        self.inner.remove_dir(dir)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.inner.create_dir(dir)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.inner.sync_all()
    }
}

#[test]
fn one_file_that_cannot_be_recycled_does_not_stop_the_ring() {
    let bad = Arc::new(OneBadFile { inner: Memory::new(), bad: Mutex::new(None) });
    let disk: Arc<dyn Disk> = Arc::clone(&bad) as Arc<dyn Disk>;
    let (journal, ..) = open(&disk, options(1), Start::default());
    *bad.bad.lock().unwrap() = Some(FIRST_FILE);
    let mut written = 0;
    for _ in 0..800 {
        // While the bad file is being tried the journal may say so; it comes round.
        match put(&journal, Room::Events, &[1; 3000], Purpose::Accept) {
            Ok(_) => {
                journal.commit().unwrap();
                written += 1;
            }
            Err(Refused::NoFile { .. }) => {}
            Err(refused) => panic!("{refused}"),
        }
        journal.trim(Room::Events, journal.durable());
    }
    assert!(written > 300, "{written}");
}

/// Notes what a checkpoint of a room knows once the room has nothing under way.
fn checkpoint(journal: &Inline, room: Room, start: &mut Start) {
    let mark = journal.barrier(room).outcome().unwrap().unwrap();
    start.end = mark.position;
    start.needs[room.index()] = mark.position;
    start.known_to[room.index()] = mark.position;
    start.known[room.index()] = mark.sequence;
    start.sequences[room.index()] = mark.sequence;
}

/// Two files with rounds that nobody needs any more, one without, and what a checkpoint knows.
fn two_used_files(disk: &Arc<dyn Disk>, rooms: [Room; 2]) -> Start {
    let mut start = Start::default();
    for (life, room) in (1..).zip(rooms) {
        let (journal, ..) = open(disk, options(life), Start::default());
        put_round(&journal, room, &[9; 100]);
        checkpoint(&journal, room, &mut start);
        journal.close().unwrap();
    }
    for name in disk.list("journal").unwrap() {
        let path = format!("journal/{name}");
        if ![FIRST_FILE, SECOND_FILE, THIRD_FILE].contains(&path.as_str()) {
            disk.remove(&path).unwrap();
        }
    }
    start
}

/// A write failed while an older file was recycled, and the ring took the next one: the last that
/// held rounds. The journal then ended before what a checkpoint knew, and every room that could not
/// prove that it had lost nothing was closed.
#[test]
fn the_last_rounds_outlast_older_ones_whichever_write_fails() {
    for nth in 1..6 {
        let (disk, faults) = Faulty::new(Arc::new(Memory::new()));
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let start = two_used_files(&disk, [Room::Events; 2]);
        faults.fail_nth(Calls::Only(Call::Write), nth);
        let (journal, ..) = open(&disk, options(3), start.clone());
        for _ in 0..3 {
            journal.commit().unwrap();
        }
        drop(journal);
        faults.clear();
        let (_, _, report) = open(&disk, options(4), start);
        assert_eq!((report.damage, report.closed), (vec![], vec![]), "write {nth} failed");
    }
}

/// The same while the journal runs: a fault seals the file being written, its rounds are the last,
/// and a second fault leaves older ones in another file.
#[test]
fn the_last_rounds_outlast_older_ones_whichever_two_writes_fail() {
    for (first, second) in (1..7).flat_map(|first| (1..7).map(move |second| (first, second))) {
        let (disk, faults) = Faulty::new(Arc::new(Memory::new()));
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let mut start = two_used_files(&disk, [Room::Events; 2]);
        let (journal, ..) = open(&disk, options(3), start.clone());
        for nth in [first, first + second] {
            faults.fail_nth(Calls::Only(Call::Write), nth);
        }
        drop(put(&journal, Room::Events, &[9; 100], Purpose::Accept).unwrap());
        while journal.commit().is_err() {}
        checkpoint(&journal, Room::Events, &mut start);
        journal.trim(Room::Events, start.end);
        for _ in 0..3 {
            journal.commit().unwrap();
        }
        drop(journal);
        faults.clear();
        let (_, _, report) = open(&disk, options(4), start);
        let failed = format!("write {first} and {second} more failed");
        assert_eq!((report.damage, report.closed), (vec![], vec![]), "{failed}");
    }
}

/// A file that a room keeps for another time holds rounds too, and is never recycled first.
#[test]
fn the_last_rounds_outlast_those_kept_for_a_room_that_is_not_loaded() {
    let disk: Arc<dyn Disk> = Arc::new(Memory::new());
    let mut start = two_used_files(&disk, [Room::Streams, Room::Events]);
    for of in [&mut start.known, &mut start.sequences] {
        of[Room::Streams.index()] = Sequence::NONE;
    }
    start.unloaded = vec![Room::Streams];
    for life in 3..9 {
        let (_, _, report) = open(&disk, options(life), start.clone());
        assert_eq!((report.damage, report.closed), (vec![], vec![]), "life {life}");
    }
}

/// Neither of two files can be given: one is bad, and the other must outlast it.
#[test]
fn a_ring_that_can_recycle_no_file_gets_a_fresh_one() {
    let bad = Arc::new(OneBadFile { inner: Memory::new(), bad: Mutex::new(None) });
    let disk: Arc<dyn Disk> = Arc::clone(&bad) as Arc<dyn Disk>;
    let mut start = two_used_files(&disk, [Room::Events; 2]);
    disk.remove(THIRD_FILE).unwrap();
    *bad.bad.lock().unwrap() = Some(FIRST_FILE);
    for life in 3..6u8 {
        let (journal, _, report) = open(&disk, options(life.into()), start.clone());
        assert_eq!((report.damage, report.closed), (vec![], vec![]), "life {life}");
        put_round(&journal, Room::Events, &[life; 100]);
        start.end = journal.durable();
    }
}

/// A disk with no room left must not keep a journal from going on in the one file it has.
#[test]
fn the_last_rounds_make_room_when_there_are_no_others_and_the_disk_is_full() {
    let (disk, faults) = Faulty::new(Arc::new(Memory::new()));
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let start = two_used_files(&disk, [Room::Events; 2]);
    for path in [FIRST_FILE, THIRD_FILE] {
        disk.remove(path).unwrap();
    }
    faults.fill(0);
    let (journal, _, report) = open(&disk, options(3), start);
    assert_eq!((report.damage, report.closed), (vec![], vec![]));
    drop(put(&journal, Room::Events, &[1; 100], Purpose::Finish).unwrap());
    journal.commit().unwrap();
}

/// Streams' checkpoint knows that everything below a position was durable, and has nothing new
/// there itself. Whoever's record it was, its loss is not silent.
#[test]
fn a_journal_cut_below_a_position_that_was_durable_closes_whoever_may_have_lost() {
    let memory = Memory::new();
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    let (journal, ..) = open(&disk, options(1), Start::default());
    put_round(&journal, Room::Streams, &[1; 100]);
    put_round(&journal, Room::Events, &[2; 100]);
    let mark = journal.barrier(Room::Streams).outcome().unwrap().unwrap();
    drop(journal);
    zero(&memory, FIRST_FILE, 3..4);
    flip(&memory, FIRST_FILE, BLOCK * 2 + IN_RECORD);
    let mut start = Start { end: mark.position, ..Start::default() };
    start.known[Room::Streams.index()] = mark.sequence;
    start.known_to[Room::Streams.index()] = mark.position;
    let (journal, _, report) = open(&disk, options(2), start.clone());
    let closed = |room| report.closed.iter().any(|(closed, _)| *closed == room);
    assert!(closed(Room::Events) && !closed(Room::Streams), "{report:?}");
    drop(journal);
    repair(&disk, options(3), start.clone()).unwrap();
    start.excused = excused(&*disk).unwrap();
    let (_, _, report) = open(&disk, options(4), start);
    assert_eq!(report.closed, []);
}

#[test]
fn repair_accepts_what_only_a_checkpoint_knows_to_be_lost() {
    let disk: Arc<dyn Disk> = Arc::new(Memory::new());
    let (journal, ..) = open(&disk, options(1), Start::default());
    put_round(&journal, Room::Events, &[1; 100]);
    drop(journal);
    let mut start = Start { end: Position(1 << 20), ..Start::default() };
    start.known[Room::Events.index()] = Sequence(3);
    repair(&disk, options(2), start.clone()).unwrap();
    start.excused = excused(&*disk).unwrap();
    let (_, _, report) = open(&disk, options(3), start);
    assert_eq!(report.closed, []);
}

/// There is always a block left for the mark.
#[test]
fn damage_to_the_last_round_of_a_full_file_is_not_silent() {
    let memory = Memory::new();
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    let (journal, ..) = open(&disk, options(1), Start::default());
    for _ in 0..14 {
        put_round(&journal, Room::Events, &[1; 100]);
    }
    journal.close().unwrap();
    flip(&memory, FIRST_FILE, BLOCK * 14 + IN_RECORD);
    let (_, _, report) = open(&disk, options(2), Start::default());
    assert_eq!(report.closed.len(), 1, "{report:?}");
}

/// A torn round leaves a sound record that nobody acknowledged. The next life gives its number to
/// another record, in another file. That file goes missing.
#[test]
fn a_record_that_was_cut_does_not_come_back_when_a_file_goes_missing() {
    let memory = Memory::new();
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    let (journal, ..) = open(&disk, options(1), Start::default());
    put_round(&journal, Room::Events, b"one");
    drop(put(&journal, Room::Events, b"never acknowledged", Purpose::Accept).unwrap());
    put_round(&journal, Room::Streams, &[9; 6000]);
    drop(journal);
    zero(&memory, FIRST_FILE, 3..6);
    let (journal, found, _) = open(&disk, options(2), Start::default());
    assert_eq!(found.len(), 1);
    let before = memory.fork();
    put_round(&journal, Room::Events, b"acknowledged");
    let written = |path: &&String| memory.contents(path) != before.contents(path);
    let path = memory.paths().iter().find(written).unwrap().clone();
    for _ in 0..20 {
        put_round(&journal, Room::Calls, &[1; 100]);
    }
    drop(journal);
    disk.remove(&path).unwrap();
    let (_, found, report) = open(&disk, options(3), Start::default());
    assert!(!found.iter().any(|entry| entry.change == b"never acknowledged"[..]), "{report:?}");
    assert!(report.closed.iter().any(|(room, _)| *room == Room::Events), "{report:?}");
}

#[test]
fn files_may_be_made_smaller_between_two_starts() {
    let memory = Memory::new();
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    let mut large = options(1);
    large.limits = Limits { journal_file_bytes: 8 << 20, ..Limits::default() };
    let (journal, ..) = open(&disk, large, Start::default());
    put_round(&journal, Room::Events, &[1; 200_000]);
    drop(journal);
    let end = 1 + (192 + 24 + 8 + 200_000usize).div_ceil(BLOCK);
    zero(&memory, FIRST_FILE, end..end + 1);
    let (journal, found, _) = open(&disk, options(2), Start::default());
    assert_eq!(found.len(), 1);
    for _ in 0..100 {
        put_round(&journal, Room::Events, &[2; 100]);
        journal.trim(Room::Events, journal.durable());
    }
}

/// Bytes a user chose look like headers of long records, all the way. Recovery that checksummed
/// each of them to its claimed end would take minutes.
#[test]
fn a_tail_full_of_plausible_headers_is_classified_all_the_same() {
    let memory = Memory::new();
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    let mut large = options(1);
    large.limits = Limits { journal_file_bytes: 8 << 20, ..Limits::default() };
    let (journal, ..) = open(&disk, large.clone(), Start::default());
    let mut head = vec![1u8, Room::Events.number(), 1, 0];
    head.extend(500_000u32.to_le_bytes());
    head.extend(2u64.to_le_bytes());
    head.extend([0; 8]);
    let body: Vec<u8> = head.iter().copied().cycle().take(1_000_000).collect();
    put_round(&journal, Room::Events, &body);
    drop(journal);
    let end = 1 + (192 + 24 + 8 + 1_000_000usize).div_ceil(BLOCK);
    zero(&memory, FIRST_FILE, end..end + 1);
    flip(&memory, FIRST_FILE, BLOCK + 700);
    let (_, found, report) = open(&disk, large, Start::default());
    assert_eq!((found.len(), report.damage), (0, vec![]));
}

#[test]
fn damage_in_what_was_read_ahead_costs_the_record_it_hits() {
    let memory = Memory::new();
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    let (journal, ..) = open(&disk, options(1), Start::default());
    let mut positions = Vec::new();
    for n in 0..3 {
        let body = Bytes::from(vec![n; 100]);
        let entry = Entry { bodies: vec![body], ..entry(Room::Events, b"x") };
        let permit = journal.admit(Room::Events, entry.bytes(), Purpose::Accept).unwrap();
        let (_, ticket) = journal.append(permit, entry);
        journal.commit().unwrap();
        positions.push(ticket.outcome().unwrap().unwrap().position);
    }
    flip(&memory, FIRST_FILE, BLOCK * 2 + 192 + 24 + 60);
    let mut ahead = Ahead::default();
    let mut read = |nth: usize| journal.bodies_ahead(positions[nth], &mut ahead);
    assert_eq!(read(0).unwrap(), [vec![0; 100]]);
    assert!(matches!(read(1), Err(ReadError::Corrupt(_))));
    assert_eq!(read(2).unwrap(), [vec![2; 100]]);
    assert_eq!(read(0).unwrap(), [vec![0; 100]], "going back reads again");
}

#[test]
fn a_trimmed_position_is_never_answered_as_damage() {
    let disk: Arc<dyn Disk> = Arc::new(Memory::new());
    let (journal, ..) = open(&disk, options(1), Start::default());
    let entry = Entry { bodies: vec![Bytes::from_static(b"body")], ..entry(Room::Events, b"x") };
    let permit = journal.admit(Room::Events, entry.bytes(), Purpose::Accept).unwrap();
    let (_, ticket) = journal.append(permit, entry);
    journal.commit().unwrap();
    let at = BodyAt { position: ticket.outcome().unwrap().unwrap().position, index: 0 };
    journal.close().unwrap();
    let (journal, ..) = open(&disk, options(2), Start::default());
    journal.trim(Room::Events, journal.durable());
    for n in 0..60 {
        put_round(&journal, Room::Events, &[1; 100]);
        match journal.body(at) {
            Ok(_) | Err(ReadError::Trimmed(_)) => {}
            Err(error) => panic!("round {n}: {error}"),
        }
    }
}
