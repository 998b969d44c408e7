//! A journal under a random workload, and what must be true of it after any crash.
//!
//! The model knows what was appended and which tickets were fulfilled. After a crash each room
//! must find a prefix of what it appended, nothing missing that was acknowledged, byte for byte.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use handoff_log::disk::Disk;
use handoff_log::journal::{
    Ahead, BodyAt, Entry, Inline, Journal, Options, Purpose, Recovery, Report, Start, Ticket,
};
use handoff_types::entropy::mix;
use handoff_types::{Entropy, Limits, Now, Position, Room, Sequence, Steady, Wall};

pub const ROOMS: [Room; 3] = [Room::Streams, Room::Events, Room::Counter];

pub fn limits() -> Limits {
    Limits {
        journal_file_bytes: 64 << 10,
        journal_bytes_max: 512 << 10,
        journal_reserve_bytes: 64 << 10,
        room_queue_bytes_max: 128 << 10,
        change_bytes_max: 96 << 10,
        poison_secs_max: 1,
        ..Limits::default()
    }
}

pub fn options(entropy: u128) -> Options {
    Options { limits: limits(), directory: 7, entropy: Entropy(entropy) }
}

pub fn entry(room: Room, change: &[u8]) -> Entry {
    Entry { room, now: Now::default(), change: Bytes::copy_from_slice(change), bodies: vec![] }
}

/// Dice with a seed.
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0) % sides
    }

    pub fn size(&mut self, sides: u64) -> usize {
        usize::try_from(self.roll(sides)).unwrap()
    }

    pub fn bytes(&mut self, len: usize) -> Bytes {
        let fill = self.roll(256);
        (0..len).map(|n| mix(fill + n as u64).to_le_bytes()[0]).collect::<Vec<u8>>().into()
    }
}

#[derive(Clone, Debug)]
struct Appended {
    sequence: u64,
    change: Bytes,
    bodies: Vec<Bytes>,
}

/// What one room appended and how much of it is acknowledged.
#[derive(Clone, Debug, Default)]
struct RoomModel {
    appended: Vec<Appended>,
    /// It appended once, even if a crash left nothing of that but pieces that do not count.
    touched: bool,
    acknowledged: usize,
    /// What a checkpoint kept elsewhere says: everything up to here is safe without the journal.
    checkpoint: (u64, u64),
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    rooms: BTreeMap<Room, RoomModel>,
    end: u64,
    steady: u64,
}

/// A journal and its model.
pub struct Run {
    pub journal: Inline,
    pub model: Model,
    pub dice: Dice,
    tickets: Vec<(Room, usize, Ticket)>,
}

impl Run {
    /// Opens the journal and checks what it gives back against the model.
    pub fn open(disk: Arc<dyn Disk>, model: &Model, seed: u64) -> Result<(Self, Report), String> {
        let mut dice = Dice(seed);
        let entropy = u128::from(dice.roll(u64::MAX)) << 64 | u128::from(dice.roll(u64::MAX));
        let mut recovery = Recovery::begin(disk, options(entropy), model.start())
            .map_err(|error| format!("open: {error}"))?;
        let mut found: BTreeMap<Room, Vec<_>> = BTreeMap::new();
        while let Some(replayed) = recovery.next_entry().map_err(|error| error.to_string())? {
            found.entry(replayed.room).or_default().push(replayed);
        }
        let (opened, report) = recovery.finish().map_err(|error| error.to_string())?;
        let journal = Inline::start(opened);
        let mut model = model.clone();
        if !report.damage.is_empty() || !report.closed.is_empty() {
            return Err(format!("damage reported where there is none: {report:?}"));
        }
        // Served only after this commit; a test crashes right behind it and looks again.
        match journal.commit() {
            Ok(()) => {}
            Err(stalled) => return Err(format!("cannot go on: {stalled}")),
        }
        for room in ROOMS {
            let found = found.remove(&room).unwrap_or_default();
            model.check(room, &found, &journal)?;
        }
        Ok((Self { journal, model, dice, tickets: vec![] }, report))
    }

    /// Does something: mostly appends, often a commit, sometimes a checkpoint and trim.
    pub fn step(&mut self) {
        match self.dice.roll(10) {
            0..=5 => self.append(),
            6..=8 => self.commit(),
            _ => self.checkpoint(),
        }
    }

    pub fn append(&mut self) {
        let room = ROOMS[self.dice.size(3)];
        let change = match self.dice.roll(12) {
            0 => 9_000 + self.dice.size(20_000),
            1..=3 => self.dice.size(6_000),
            _ => self.dice.size(200),
        };
        let bodies = match self.dice.roll(6) {
            0 => 1 + self.dice.size(3),
            _ => 0,
        };
        let change = self.dice.bytes(change);
        let bodies: Vec<Bytes> = (0..bodies)
            .map(|_| {
                let len = self.dice.size(12_000);
                self.dice.bytes(len)
            })
            .collect();
        self.model.steady += 1;
        let now = Now { wall: Wall(0), steady: Steady(self.model.steady) };
        let entry = Entry { room, now, change: change.clone(), bodies: bodies.clone() };
        let Ok(permit) = self.journal.admit(room, entry.bytes(), Purpose::Accept) else { return };
        let (sequence, ticket) = self.journal.append(permit, entry);
        let model = self.model.rooms.entry(room).or_default();
        model.touched = true;
        model.appended.push(Appended { sequence: sequence.0, change, bodies });
        self.tickets.push((room, model.appended.len(), ticket));
    }

    pub fn commit(&mut self) {
        // Whether it went through shows in the tickets.
        drop(self.journal.commit());
        self.collect();
    }

    /// Notes which tickets were fulfilled.
    pub fn collect(&mut self) {
        for (room, count, ticket) in &self.tickets {
            if let Some(Ok(committed)) = ticket.outcome() {
                let model = self.model.rooms.entry(*room).or_default();
                model.acknowledged = model.acknowledged.max(*count);
                assert_eq!(committed.sequence.0, model.appended[count - 1].sequence);
            }
        }
        self.tickets.retain(|(_, _, ticket)| ticket.outcome().is_none());
    }

    /// A room's checkpoint, kept elsewhere, lets the journal forget.
    pub fn checkpoint(&mut self) {
        self.collect();
        for room in ROOMS {
            let Some(model) = self.model.rooms.get_mut(&room) else { continue };
            let Some(Ok(mark)) = self.journal.barrier(room).outcome() else { continue };
            model.checkpoint = (mark.sequence.0, mark.position.0);
            self.model.end = self.model.end.max(mark.position.0);
            self.journal.trim(room, mark.position);
        }
    }
}

impl Model {
    pub fn acknowledged(&self) -> usize {
        self.rooms.values().map(|room| room.acknowledged).sum()
    }

    pub fn found(&self) -> usize {
        self.rooms.values().map(|room| room.appended.len()).sum()
    }

    pub fn start(&self) -> Start {
        let mut start = Start { end: Position(self.end), ..Start::default() };
        let with_records = self.rooms.values().filter(|room| room.touched);
        start.position = Position(with_records.map(|room| room.checkpoint.1).min().unwrap_or(0));
        for (room, model) in &self.rooms {
            start.sequences[room.index()] = Sequence(model.checkpoint.0);
        }
        start
    }

    fn check(
        &mut self,
        room: Room,
        found: &[handoff_log::journal::Replayed],
        journal: &Inline,
    ) -> Result<(), String> {
        let model = self.rooms.entry(room).or_default();
        let from = model.appended.iter().filter(|a| a.sequence <= model.checkpoint.0).count();
        let total = from + found.len();
        if total < model.acknowledged || total > model.appended.len() {
            return Err(format!(
                "{room}: {total} found, {} acknowledged, {} appended",
                model.acknowledged,
                model.appended.len()
            ));
        }
        let mut ahead = Ahead::default();
        for (appended, found) in model.appended[from..].iter().zip(found) {
            if appended.sequence != found.sequence.0 || appended.change != found.change {
                return Err(format!("{room}: entry {} differs", appended.sequence));
            }
            for (index, body) in appended.bodies.iter().enumerate() {
                let index = u32::try_from(index).unwrap();
                let at = BodyAt { position: found.position, index };
                if journal.body(at).map_err(|error| error.to_string())? != *body {
                    return Err(format!("{room}: body {index} of {} differs", appended.sequence));
                }
            }
            let bodies = journal.bodies_ahead(found.position, &mut ahead);
            if bodies.map_err(|error| error.to_string())? != appended.bodies {
                return Err(format!("{room}: {} read ahead differs", appended.sequence));
            }
        }
        model.appended.truncate(total);
        model.acknowledged = total;
        Ok(())
    }
}
