//! The desk where entries wait for the next round.
//!
//! Each room has its own line and its order is kept. A round takes small records of every room
//! first, a fair share each, and then bulk up to its bound. So a flood of large records in one
//! room delays another room's small record by one round, not by the flood.

use std::collections::VecDeque;

use handoff_types::{Now, Outcome, Position, Room, Sequence, Steady};

use super::entry::{Entry, Payload};
use super::error::Lost;
use super::format::{Counts, Geometry, RoundHeader};
use super::round::{Queued, Round};
use super::ticket::{Committed, Promise, Ticket};

/// Entries that wait for the next round, and where that round will stand.
#[derive(Debug)]
pub(crate) struct Desk {
    geometry: Geometry,
    lines: [Line; Room::MAX],
    /// Where the next round begins.
    position: u64,
    /// How many records each room has in rounds already formed.
    formed: Counts,
    /// How many records each room has on disk, and up to where everything is.
    durable: Counts,
    durable_end: u64,
    /// When the oldest record of the round being written was decided.
    writing: Option<Steady>,
    now: Now,
    /// The room that is served first; moves on with every round.
    turn: usize,
}

#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<Queued>,
    last: u64,
    /// Positions of the pieces of a large change whose commit record is still to come.
    pieces: Vec<u64>,
    /// Whoever waits for everything up to a number.
    barriers: VecDeque<(u64, Promise)>,
}

impl Desk {
    /// A desk that goes on where a journal ended. If its last round is still to be written again,
    /// everything up to that round is durable and nothing behind it.
    pub(crate) fn new(
        geometry: Geometry,
        position: u64,
        formed: Counts,
        unsure: Option<&Round>,
        now: Now,
    ) -> Self {
        Self {
            geometry,
            lines: formed.map(|last| Line { last, ..Line::default() }),
            position,
            formed,
            durable: unsure.map_or(formed, |round| round.counts),
            durable_end: unsure.map_or(position, |round| round.position),
            writing: None,
            now,
            turn: 0,
        }
    }

    /// Takes an entry. Its number is known at once, its place when its round is formed.
    pub(crate) fn push(&mut self, entry: Entry) -> (Sequence, Ticket) {
        let (room, now) = (entry.room, entry.now);
        let mut admitted = entry.bytes();
        let (ticket, promise) = Ticket::new();
        let mut promise = Some(promise);
        let Some(line) = self.lines.get_mut(room.index()) else {
            unreachable!("every room has a line")
        };
        let payloads = entry.into_payloads(&self.geometry);
        let count = payloads.len();
        for (n, payload) in payloads.into_iter().enumerate() {
            line.last += 1;
            let last = n + 1 == count;
            line.waiting.push_back(Queued {
                room,
                sequence: line.last,
                now,
                payload,
                admitted: if last { std::mem::take(&mut admitted) } else { 0 },
                promise: if last { promise.take() } else { None },
            });
        }
        (Sequence(line.last), ticket)
    }

    /// A ticket for everything the room has appended so far: what an answer that reveals the
    /// room's state has to wait for, and what a checkpoint of the room is true at. Its number
    /// also counts pieces that a crash left without their commit record.
    pub(crate) fn barrier(&mut self, room: Room) -> Ticket {
        let durable = self.durable.get(room.index()).copied().unwrap_or_default();
        let position = Position(self.durable_end);
        match self.lines.get_mut(room.index()) {
            Some(line) if line.last > durable => {
                let (ticket, promise) = Ticket::new();
                line.barriers.push_back((line.last, promise));
                ticket
            }
            _ => Ticket::fulfilled(Committed { position, sequence: Sequence(durable) }),
        }
    }

    /// Forms the next round, if anything waits. It must be written, here or elsewhere: the next
    /// one stands behind it.
    pub(crate) fn form(&mut self) -> Option<Round> {
        let records = self.pick();
        if records.is_empty() {
            return None;
        }
        // A round has the records of each room in turn, so the last one need not be the latest;
        // and only a pair that was read together says how the two clocks stood.
        for record in &records {
            if record.now.steady >= self.now.steady {
                self.now = record.now;
            }
        }
        let mut round =
            Round { position: self.position, counts: self.formed, now: self.now, records };
        self.name_pieces(&mut round);
        self.writing = round.records.iter().map(|record| record.now.steady).min();
        self.position += round.extent();
        for record in &round.records {
            if let Some(count) = self.formed.get_mut(record.room.index()) {
                *count = record.sequence;
            }
        }
        Some(round)
    }

    /// Notes that a round is on disk and gives the barriers that this opens. Each is told where
    /// its own record ends: what the round has of the room behind it, the barrier does not know.
    pub(crate) fn durable(&mut self, round: &Round) -> Vec<(Promise, Committed)> {
        let mut opened = Vec::new();
        for (position, record) in round.placed() {
            let room = record.room.index();
            if let Some(count) = self.durable.get_mut(room) {
                *count = record.sequence;
            }
            let committed = Committed {
                position: Position(position + record.payload.extent() as u64),
                sequence: Sequence(record.sequence),
            };
            let Some(line) = self.lines.get_mut(room) else { continue };
            while line.barriers.front().is_some_and(|(sequence, _)| *sequence <= record.sequence) {
                let promise = line.barriers.pop_front().map(|(_, promise)| promise);
                opened.extend(promise.map(|promise| (promise, committed)));
            }
        }
        self.durable_end = round.position + round.extent();
        self.writing = None;
        opened
    }

    /// When the oldest entry was decided that is not durable yet. A room's line is in the order of
    /// its decisions, so its head is the oldest of it.
    pub(crate) fn oldest_waiting(&self) -> Option<Steady> {
        let heads = self.lines.iter().filter_map(|line| line.waiting.front());
        heads.map(|head| head.now.steady).chain(self.writing).min()
    }

    /// The witness that everything formed so far is durable, for when nothing waits.
    pub(crate) fn mark(&self) -> RoundHeader {
        RoundHeader {
            position: self.position,
            body_bytes: 0,
            records: 0,
            mark: true,
            follows: 0,
            now: self.now,
            counts: self.formed,
        }
    }

    /// Gives up what still waits, for a journal that stops. It was never written.
    pub(crate) fn abandon(&mut self) {
        for line in &mut self.lines {
            for queued in line.waiting.drain(..) {
                if let Some(promise) = queued.promise {
                    promise.fulfil(Err(Lost { outcome: Outcome::NotApplied }));
                }
            }
            line.barriers.clear();
        }
        self.writing = None;
    }

    fn pick(&mut self) -> Vec<Queued> {
        let Geometry { bulk_bytes, small_bytes, .. } = self.geometry;
        let mut records = Vec::new();
        let turn = self.turn;
        self.turn = (turn + 1) % Room::MAX;
        let (before, from) = self.lines.split_at_mut(turn.min(Room::MAX));
        for line in from.iter_mut().chain(before.iter_mut()) {
            let mut taken = 0;
            while let Some(extent) = line.waiting.front().map(|head| head.payload.extent())
                && taken + extent <= small_bytes
            {
                taken += extent;
                records.extend(line.waiting.pop_front());
            }
        }
        let mut bulk = 0;
        let mut open = true;
        while std::mem::take(&mut open) {
            for line in from.iter_mut().chain(before.iter_mut()) {
                let Some(extent) = line.waiting.front().map(|head| head.payload.extent()) else {
                    continue;
                };
                if bulk == 0 || bulk + extent <= bulk_bytes {
                    bulk += extent;
                    records.extend(line.waiting.pop_front());
                    open = true;
                }
            }
        }
        records
    }

    fn name_pieces(&mut self, round: &mut Round) {
        let places: Vec<u64> = round.placed().map(|(position, _)| position).collect();
        for (record, place) in round.records.iter_mut().zip(places) {
            let Some(line) = self.lines.get_mut(record.room.index()) else { continue };
            match &mut record.payload {
                Payload::Piece(_) => line.pieces.push(place),
                Payload::Commit(commit) => commit.positions = std::mem::take(&mut line.pieces),
                Payload::Whole(_) | Payload::Raw(..) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn desk() -> Desk {
        Desk::new(Geometry::of_files(64 << 10), 0, [0; Room::MAX], None, Now::default())
    }

    fn entry(room: Room, bytes: usize) -> Entry {
        Entry { room, now: Now::default(), change: Bytes::from(vec![7; bytes]), bodies: vec![] }
    }

    #[test]
    fn a_flood_in_one_room_does_not_delay_a_small_record_of_another() {
        let mut desk = desk();
        for _ in 0..50 {
            drop(desk.push(entry(Room::Streams, 6000)));
        }
        drop(desk.push(entry(Room::Events, 40)));
        let round = desk.form().unwrap();
        assert!(round.records.iter().any(|record| record.room == Room::Events));
    }

    #[test]
    fn a_room_keeps_its_order_and_every_round_fits_a_file() {
        let geometry = Geometry::of_files(64 << 10);
        let mut desk = desk();
        for n in 0..200 {
            drop(desk.push(entry(Room::Streams, (n * 331) % 20_000)));
            drop(desk.push(entry(Room::Calls, n % 90)));
        }
        let mut last = [0; Room::MAX];
        let mut position = 0;
        while let Some(round) = desk.form() {
            assert_eq!(round.position, position);
            assert!(round.extent() <= geometry.file_bytes - 4096, "{}", round.extent());
            for record in &round.records {
                assert_eq!(record.sequence, last[record.room.index()] + 1);
                last[record.room.index()] = record.sequence;
            }
            position += round.extent();
        }
    }

    /// A process that opens goes on from this pair. One made up from two readings, with the
    /// operator setting the clock in between, would bring every deadline forward by as much.
    #[test]
    fn a_round_says_the_latest_time_as_both_clocks_showed_it_together() {
        use handoff_types::Wall;
        let at = |wall: i64, steady: u64| Now { wall: Wall(wall), steady: Steady(steady) };
        let mut desk = desk();
        for (room, now) in [(Room::Streams, at(100, 1)), (Room::House, at(900, 2))] {
            drop(desk.push(Entry { now, ..entry(room, 10) }));
        }
        assert_eq!(desk.form().unwrap().now, at(900, 2));
        drop(desk.push(Entry { now: at(500, 3), ..entry(Room::Streams, 10) }));
        assert_eq!(desk.form().unwrap().now, at(500, 3));
    }

    #[test]
    fn an_entry_is_the_oldest_until_its_round_is_durable() {
        let at = |steady| Now { steady: Steady(steady), ..Now::default() };
        let mut desk = desk();
        assert_eq!(desk.oldest_waiting(), None);
        drop(desk.push(Entry { now: at(7), ..entry(Room::Streams, 10) }));
        drop(desk.push(Entry { now: at(5), ..entry(Room::Events, 10) }));
        assert_eq!(desk.oldest_waiting(), Some(Steady(5)));
        let round = desk.form().unwrap();
        drop(desk.push(Entry { now: at(9), ..entry(Room::Events, 10) }));
        assert_eq!(desk.oldest_waiting(), Some(Steady(5)));
        drop(desk.durable(&round));
        assert_eq!(desk.oldest_waiting(), Some(Steady(9)));
        drop(desk.form());
        desk.abandon();
        assert_eq!(desk.oldest_waiting(), None);
    }

    #[test]
    fn a_barrier_opens_with_the_last_record_before_it() {
        let mut desk = desk();
        assert!(desk.barrier(Room::Events).outcome().is_some());
        drop(desk.push(entry(Room::Events, 10)));
        let barrier = desk.barrier(Room::Events);
        assert!(desk.barrier(Room::Calls).outcome().is_some());
        let round = desk.form().unwrap();
        assert!(barrier.outcome().is_none());
        for (promise, committed) in desk.durable(&round) {
            promise.fulfil(Ok(committed));
        }
        assert_eq!(barrier.outcome().unwrap().unwrap().sequence, Sequence(1));
    }

    /// A checkpoint is cut at a barrier. Were it told of the second record, recovery would pass
    /// over a change that the checkpoint does not have.
    #[test]
    fn a_barrier_does_not_speak_for_what_was_appended_after_it() {
        let mut desk = desk();
        drop(desk.push(entry(Room::Events, 10)));
        let barrier = desk.barrier(Room::Events);
        drop(desk.push(entry(Room::Events, 10)));
        let round = desk.form().unwrap();
        let second = round.placed().nth(1).unwrap().0;
        for (promise, committed) in desk.durable(&round) {
            promise.fulfil(Ok(committed));
        }
        let committed = barrier.outcome().unwrap().unwrap();
        assert_eq!((committed.sequence, committed.position), (Sequence(1), Position(second)));
    }
}
