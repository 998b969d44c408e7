//! Recovery of the journal.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use handoff_log::disk::Memory;
use handoff_log::journal::{
    BodyAt, Entry, Inline, Journal, OpenError, Options, Purpose, Recovery, Replayed, Report, Start,
};
use handoff_types::entropy::mix;
use handoff_types::{Entropy, Limits, Now, Room};

use crate::edits::{self, crc, long, number, seal};

const ROOMS: [Room; 3] = [Room::Streams, Room::Events, Room::Counter];
const BLOCK: usize = 4096;
const FILE_HEADER: usize = 56;
const FILE_HEADER_COPY: usize = 2048;
const ROUND_HEADER: usize = 192;
const RECORD_HEADER: usize = 24;

type Written = BTreeMap<Room, Vec<(u64, Bytes, Vec<Bytes>)>>;

struct Sample {
    disk: Memory,
    paths: Vec<String>,
    written: Written,
}

/// Three rooms in several files; small changes, changes with bodies, and some that take pieces.
static SAMPLE: LazyLock<Sample> = LazyLock::new(|| {
    let disk = Memory::new();
    let (journal, _, _) = open(&disk, 1).expect("a new journal opens");
    let mut written = Written::new();
    for n in 0..40 {
        let room = ROOMS[mix(n) as usize % 3];
        let octets = |len: u64, seed: u64| {
            (0..len).map(|at| mix(seed ^ (at << 16)).to_le_bytes()[0]).collect::<Bytes>()
        };
        let change = octets(if n % 13 == 12 { 9_500 } else { mix(n + 100) % 900 }, n);
        let bodies: Vec<Bytes> = (0..n % 3).map(|body| octets(body * 700, n + body)).collect();
        let sequence = append(&journal, room, change.clone(), bodies.clone());
        written.entry(room).or_default().push((sequence, change, bodies));
        if n % 4 == 3 {
            journal.commit().expect("memory does not fail");
        }
    }
    journal.commit().expect("memory does not fail");
    drop(journal);
    let paths = disk.paths();
    assert!(paths.len() >= 2, "rounds are in several files");
    Sample { disk, paths, written }
});

fn append(journal: &Inline, room: Room, change: Bytes, bodies: Vec<Bytes>) -> u64 {
    let entry = Entry { room, now: Now::default(), change, bodies };
    let permit = journal.admit(room, entry.bytes(), Purpose::Accept).expect("there is room");
    journal.append(permit, entry).0.0
}

fn open(disk: &Memory, seed: u128) -> Result<(Inline, Vec<Replayed>, Report), OpenError> {
    let limits = Limits {
        journal_file_bytes: 64 << 10,
        journal_bytes_max: 512 << 10,
        journal_reserve_bytes: 64 << 10,
        room_queue_bytes_max: 128 << 10,
        change_bytes_max: 96 << 10,
        poison_secs_max: 1,
        ..Limits::default()
    };
    let options = Options { limits, directory: 7, entropy: Entropy(seed) };
    let mut recovery = Recovery::begin(Arc::new(disk.clone()), options, Start::default())?;
    let mut found = Vec::new();
    while let Some(replayed) = recovery.next_entry()? {
        found.push(replayed);
    }
    let (opened, report) = recovery.finish()?;
    Ok((Inline::start(opened), found, report))
}

/// An octet: damage or forgery; then edits.
pub fn recovery(data: &[u8]) {
    let Some((&mode, input)) = data.split_first() else { return };
    let disk = SAMPLE.disk.fork();
    if mode % 2 == 0 {
        edits::damage(&disk, &SAMPLE.paths, input);
        damaged(&disk);
        return;
    }
    edits::forge(&disk, &SAMPLE.paths, input);
    for path in &SAMPLE.paths {
        let mut file = disk.contents(path).expect("the file is there");
        reseal(&mut file);
        disk.overwrite(path, file).expect("memory does not fail");
    }
    let Ok((journal, found, _)) = open(&disk, 2) else { return };
    for replayed in found {
        for index in 0..replayed.bodies {
            drop(journal.body(BodyAt { position: replayed.position, index }));
        }
    }
    drop(journal.commit());
}

/// What is served was written, in order; a room that lacks anything but its end is closed; the
/// rooms that are open go on; and another look finds the same.
fn damaged(disk: &Memory) {
    let Ok((journal, found, report)) = open(disk, 2) else { return };
    journal.commit().expect("what was found can be continued");
    let closed: Vec<Room> = report.closed.iter().map(|(room, _)| *room).collect();
    let mut expected = Written::new();
    for replayed in found {
        let of_room = expected.entry(replayed.room).or_default();
        let written = SAMPLE.written.get(&replayed.room).into_iter().flatten();
        let (sequence, change, bodies) = written
            .clone()
            .find(|(sequence, ..)| *sequence == replayed.sequence.0)
            .expect("an entry that was never written");
        assert!(*change == replayed.change, "{}: other bytes", replayed.room);
        assert_eq!(bodies.len(), replayed.bodies as usize);
        for (index, body) in (0..).zip(bodies) {
            let at = BodyAt { position: replayed.position, index };
            assert!(journal.body(at).is_ok_and(|read| read == *body), "body {index} of {at:?}");
        }
        of_room.push((*sequence, change.clone(), bodies.clone()));
        let is_prefix = written.zip(&*of_room).all(|(written, found)| written == found);
        assert!(is_prefix || closed.contains(&replayed.room), "{report:?}");
    }
    for room in ROOMS.into_iter().filter(|room| !closed.contains(room)) {
        let change = Bytes::from_static(b"and on");
        let sequence = append(&journal, room, change.clone(), vec![]);
        expected.entry(room).or_default().push((sequence, change, vec![]));
    }
    journal.commit().expect("memory does not fail");
    drop(journal);

    let (_, found, again) = open(disk, 3).expect("a journal that was continued opens");
    let mut second = BTreeMap::<Room, Vec<(u64, Bytes)>>::new();
    for replayed in found {
        second.entry(replayed.room).or_default().push((replayed.sequence.0, replayed.change));
    }
    for room in ROOMS {
        let now = second.remove(&room).unwrap_or_default();
        let before = expected.remove(&room).unwrap_or_default();
        let before: Vec<(u64, Bytes)> =
            before.into_iter().map(|(sequence, change, _)| (sequence, change)).collect();
        let numbers = |of: &[(u64, Bytes)]| of.iter().map(|(n, _)| *n).collect::<Vec<_>>();
        assert_eq!(numbers(&now), numbers(&before), "{room}: {report:?} then {again:?}");
        assert!(now == before, "{room}: the same numbers, and other changes");
    }
    let still: Vec<Room> = again.closed.iter().map(|(room, _)| *room).collect();
    assert_eq!(still, closed, "{report:?} then {again:?}");
}

/// Makes every checksum right that can be found. Numbers stay below 2⁴⁸: sums of them do not
/// overflow, as they do not in any journal that was written.
fn reseal(file: &mut [u8]) {
    for copy in [0, FILE_HEADER_COPY] {
        if let Some(header) = file.get_mut(copy..copy + FILE_HEADER) {
            header[22..24].fill(0); // number
            header[54..56].fill(0); // bytes
            seal(header, 12);
        }
    }
    let Some(salt) = long(file, 24) else { return };
    for round in (BLOCK..file.len()).step_by(BLOCK) {
        if file.get(round..round + 4) != Some(b"HRND") || file.len() < round + ROUND_HEADER {
            continue;
        }
        // Position, steady, follows, counts.
        for field in [24, 40, 56].into_iter().chain((64..ROUND_HEADER).step_by(8)) {
            file[round + field + 6..round + field + 8].fill(0);
        }
        let body_bytes = number(file, round + 12).unwrap_or(0) as usize;
        let position = long(file, round + 24).unwrap_or(0);
        seal(&mut file[round..round + ROUND_HEADER], 8);
        let body_end = file.len().min(round + ROUND_HEADER + body_bytes);
        let mut at = round + ROUND_HEADER;
        while at + RECORD_HEADER <= body_end {
            let bytes = number(file, at + 4).unwrap_or(0) as usize;
            let end = at + RECORD_HEADER + bytes;
            if end > body_end {
                break;
            }
            let place = position + (at - round) as u64;
            file[at + 14..at + 16].fill(0); // sequence
            file[at + 16..at + 20].fill(0);
            let sum = crc(&[&salt.to_le_bytes(), &place.to_le_bytes(), &file[at..end]]);
            file[at + 16..at + 20].copy_from_slice(&sum);
            at = end.next_multiple_of(8);
        }
    }
}
