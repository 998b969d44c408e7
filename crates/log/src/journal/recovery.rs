//! Recovery: what a journal holds after whatever happened to it.
//!
//! A crash may leave any part of the last round and nothing else, because a round is written only
//! when everything before it is synced. So at the first place `p` that is not a valid round:
//!
//! ```text
//!  ── valid ──▶ p ── nothing readable behind it ──────────▶  the tail: cut at p
//!  ── valid ──▶ p ── … ── a readable round or mark at q ──▶  [p, q) was durable once: damage
//! ```
//!
//! The tail is told apart further ([`Tail`]), but every kind of it is cut: none of it was ever
//! acknowledged, or the mark that the journal leaves when idle would stand behind it.
//!
//! Damage costs what it hits. Records carry their number in their room, and every round and mark
//! counts the records of each room before it. Whatever is still valid inside a damaged range is
//! found by its checksum, which depends on its place. A room whose numbers are then dense has lost
//! nothing and opens. A room with a gap stays closed, and the report names it. The same rule sees
//! a missing file and a journal that begins too late.
//!
//! The last valid round may exist only in the page cache of a machine that has not crashed, and a
//! sync that failed once cannot be trusted to say so. Unless a mark bears witness for it, it is
//! written again, to a fresh file, before anything is served.

mod files;
mod repair;
mod tail;
mod window;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use handoff_types::{Now, Position, Room, Sequence};

use self::files::{Found, Used};
pub use self::repair::{RepairError, Repaired, excused, repair};
pub use self::tail::Tail;
use self::window::Window;
use super::desk::Desk;
use super::entry::Payload;
use super::error::{OpenError, ReadError};
use super::floors::Floors;
use super::format::{
    BLOCK, Counts, Geometry, Kind, Place, ROUND_BYTES_MAX, ROUND_HEADER, RecordHeader, RoundHeader,
    record_extent,
};
use super::ring::{Ring, RingPlan};
use super::round::{Queued, Round};
use super::shelf::{Shelf, Shelved};
use super::{Opened, Options};
use crate::disk::Disk;

/// What is known before the journal is read: from checkpoints, and from repairs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// Nothing below this is needed by any room.
    pub position: Position,
    /// Per room, by its index: the room needs nothing below this.
    pub needs: [Position; Room::MAX],
    /// Rooms that are not being loaded this time. Their records are kept for another.
    pub unloaded: Vec<Room>,
    /// The highest position known to be durable.
    pub end: Position,
    /// Per room, by its index: the last record whose effect every part of its checkpoint has.
    pub sequences: [Sequence; Room::MAX],
    /// Per room, by its index: the last record that any part of its checkpoint has. The journal
    /// must reach at least as far.
    pub known: [Sequence; Room::MAX],
    /// Per room, by its index: the room has no record above `known` below this position.
    pub known_to: [Position; Room::MAX],
    /// Lost records that a repair has accepted: they close no room any more.
    pub excused: Vec<LostRecords>,
}

/// Records of a room that are gone, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LostRecords {
    /// The room.
    pub room: Room,
    /// The first of them.
    pub from: Sequence,
    /// The last of them. Below the first: nobody can say how many.
    pub to: Sequence,
}

/// An entry read back, in the order of its room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Whose it is.
    pub room: Room,
    /// Its place.
    pub position: Position,
    /// Its number in its room.
    pub sequence: Sequence,
    /// The change.
    pub change: Bytes,
    /// How many bodies it has; the journal gives them by position.
    pub bodies: u32,
}

/// A range whose records were durable and are not all there any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where it begins.
    pub from: Position,
    /// Where the journal is readable again.
    pub to: Position,
    /// The rooms that lost records, and how many. Empty when every record was found.
    pub rooms: Vec<(Room, u64)>,
}

/// What recovery found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How the journal ended.
    pub tail: Tail,
    /// Where it goes on.
    pub end: Position,
    /// Damage, in the order of the journal.
    pub damage: Vec<Damage>,
    /// The records that are gone, excused ones included.
    pub lost: Vec<LostRecords>,
    /// Rooms that stay closed, and where their damage begins.
    pub closed: Vec<(Room, Position)>,
    /// Files whose header was readable in one copy only.
    pub healed: Vec<String>,
    /// Files shorter than they were made. Something other than a crash cut them, and if it cut
    /// the last rounds of the journal nothing is left to count them.
    pub shortened: Vec<String>,
    /// The latest time any record was decided at.
    pub clock: Option<Now>,
    /// Entries given to the rooms.
    pub entries: u64,
}

/// A journal being read back, entry by entry.
#[derive(Debug)]
pub struct Recovery {
    disk: Arc<dyn Disk>,
    options: Options,
    start: Start,
    found: Found,
    shelf: Arc<Shelf>,
    window: Window,
    /// The used file being read and the position in it.
    at: usize,
    position: u64,
    /// Per room, the number of the next record it needs.
    need: Counts,
    closed: [Option<u64>; Room::MAX],
    /// Per room, the last place where it had, or should have had, a record it needs.
    reach: Counts,
    damage: Vec<Damage>,
    lost: Vec<LostRecords>,
    ready: VecDeque<Replayed>,
    last: Option<Round>,
    clock: Option<Now>,
    entries: u64,
    tail: Option<Tail>,
}

type Records = Vec<(RecordHeader, u64, Bytes)>;

impl Recovery {
    /// Looks at the files of a journal. An empty directory is an empty journal.
    ///
    /// # Errors
    /// When a file's header is unreadable, newer or foreign, or the disk fails.
    pub fn begin(disk: Arc<dyn Disk>, options: Options, start: Start) -> Result<Self, OpenError> {
        let found = Found::look(&*disk, options.directory, &start)?;
        let shelf = Arc::new(Shelf::default());
        for used in &found.used {
            shelf.put(Shelved { base: used.base, salt: used.salt, file: Arc::clone(&used.file) });
        }
        // While reading back, everything that is valid counts as durable.
        shelf.advance(u64::MAX);
        let position = found.used.first().map_or(start.end.0, |used| used.base);
        Ok(Self {
            need: start.sequences.map(|sequence| sequence.0 + 1),
            disk,
            options,
            start,
            found,
            shelf,
            window: Window::default(),
            at: 0,
            position,
            closed: [None; Room::MAX],
            reach: [0; Room::MAX],
            damage: Vec::new(),
            lost: Vec::new(),
            ready: VecDeque::new(),
            last: None,
            clock: None,
            entries: 0,
            tail: None,
        })
    }

    /// The next entry that no checkpoint has, or `None` at the end.
    ///
    /// # Errors
    /// When the disk fails a read.
    pub fn next_entry(&mut self) -> Result<Option<Replayed>, OpenError> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                self.entries += 1;
                return Ok(Some(entry));
            }
            if self.tail.is_some() {
                return Ok(None);
            }
            self.step()?;
            if self.tail.is_some() {
                self.compare_with_checkpoints();
            }
        }
    }

    /// Ends recovery: the journal can be continued.
    ///
    /// # Errors
    /// When the disk fails a read; entries not asked for are passed over first.
    pub fn finish(mut self) -> Result<(Opened, Report), OpenError> {
        while self.next_entry()?.is_some() {}
        let tail = self.tail.unwrap_or(Tail::Clean);
        let end = self.position.max(self.start.end.0).next_multiple_of(BLOCK);
        let counts = self.need.map(|need| need - 1);
        let unsure = self
            .last
            .take()
            .filter(|round| tail != Tail::Marked && round.position + round.extent() == end);
        // A round that is written again must fit, whatever size files have now.
        let least = unsure.as_ref().map_or(0, |round| round.extent() + 2 * BLOCK);
        let geometry = Geometry::of_files(self.options.limits.journal_file_bytes.max(least));
        let mut ring = self.build_ring(geometry, end, unsure.as_ref());
        self.shelf.advance(unsure.as_ref().map_or(end, |round| round.position));
        let clock = self.clock.unwrap_or_default();
        let floors = self.floors(counts);
        let low = floors.iter().flatten().min().copied();
        ring.trim(low.unwrap_or(self.start.position.0));
        let report = Report {
            tail,
            end: Position(end),
            damage: self.damage,
            lost: self.lost,
            closed: closed_rooms(&self.closed),
            healed: self.found.healed,
            shortened: self.found.shortened,
            clock: self.clock,
            entries: self.entries,
        };
        // A file whose first round is written again elsewhere is void from then on: what comes
        // follows the file before it, or that one would seem to be gone.
        let last_number = self.found.used.last().map_or(0, |used| match &unsure {
            Some(round) if round.position == used.base => used.follows,
            _ => used.number,
        });
        let opened = Opened {
            disk: self.disk,
            limits: self.options.limits,
            geometry,
            last_number,
            ring: Arc::new(Mutex::new(ring)),
            shelf: self.shelf,
            desk: Desk::new(geometry, end, counts, unsure.as_ref(), clock),
            unsure,
            floors: Floors::new(floors),
            damaged: self.closed.map(|closed| closed.map(Position)),
        };
        Ok((opened, report))
    }

    /// How far back each room that can append needs the journal.
    fn floors(&self, counts: Counts) -> [Option<u64>; Room::MAX] {
        let mut floors = [None; Room::MAX];
        for room in Room::ALL.into_iter().filter(|room| !self.is_kept_out(*room)) {
            let has_records = counts.get(room.index()).is_some_and(|&count| count > 0);
            let needs = self.start.needs.get(room.index()).copied().unwrap_or_default();
            if let Some(floor) = floors.get_mut(room.index()).filter(|_| has_records) {
                *floor = Some(needs.max(self.start.position).0);
            }
        }
        floors
    }

    /// Whether a room gets no entries: it is damaged, or not being loaded.
    fn is_kept_out(&self, room: Room) -> bool {
        self.start.unloaded.contains(&room)
            || self.closed.get(room.index()).is_some_and(Option::is_some)
    }

    fn build_ring(&self, geometry: Geometry, end: u64, unsure: Option<&Round>) -> Ring {
        let plan = RingPlan {
            geometry,
            bytes_max: self.options.limits.journal_bytes_max,
            directory: self.options.directory,
            secret: self.options.entropy,
        };
        let slots = self.found.slots.iter().map(|(_, slot)| *slot).collect();
        let mut ring = Ring::new(plan, slots, self.found.next_number);
        // A damaged room keeps its files until it is repaired, one that is not loaded until it is.
        // Neither appends anything meanwhile, so what later files hold is none of their business.
        // One that never had a record keeps nothing, or the first file of all would be kept for
        // nobody.
        let has_records = |room: &Room| self.need.get(room.index()).is_some_and(|&need| need > 1);
        let kept_out =
            Room::ALL.into_iter().filter(|room| self.is_kept_out(*room) && has_records(room));
        let reach = kept_out.filter_map(|room| self.reach.get(room.index()).copied()).max();
        for (n, used) in self.found.used.iter().enumerate() {
            let file_end = self.limit(n).unwrap_or(end);
            ring.keep(used.slot, file_end, reach.is_some_and(|reach| used.base <= reach));
            ring.ends_in(used.slot);
        }
        // Of a round without a witness the copy that counts may be in the page cache only, and the
        // durable one in a file that counts for nothing. Until the round is durable again neither
        // may be recycled.
        let copies = |void: &&Used| unsure.is_some_and(|round| void.may_hold(round.position));
        for void in self.found.void.iter().filter(copies) {
            ring.keep(void.slot, end, false);
        }
        ring
    }

    /// Where the rounds of a file end because a later file goes on.
    fn limit(&self, at: usize) -> Option<u64> {
        self.found.used.get(at + 1).map(|next| next.base)
    }

    fn step(&mut self) -> Result<(), OpenError> {
        while let Some(limit) = self.limit(self.at).filter(|&limit| self.position >= limit) {
            self.at += 1;
            self.position = limit;
        }
        let Some(used) = self.found.used.get(self.at).cloned() else {
            self.tail = Some(self.classify_tail(None)?);
            return Ok(());
        };
        match self.window.round(&used, self.position)? {
            Some((header, _)) if header.mark && self.limit(self.at).is_none() => {
                self.account(&header);
                self.tail = Some(Tail::Marked);
            }
            Some((header, records)) if !header.mark => self.take_round(header, records)?,
            _ => match self.witness()? {
                Some((at, header)) => self.take_damage(at, &header)?,
                None => self.tail = Some(self.classify_tail(Some(&used))?),
            },
        }
        Ok(())
    }

    /// The tail is in the last file, or in the one that was to follow it.
    fn classify_tail(&mut self, used: Option<&Used>) -> Result<Tail, OpenError> {
        let follows = self.found.torn.iter().find(|torn| torn.base == self.position);
        match follows.or(used) {
            Some(at) => tail::classify(&mut self.window, at, self.position, &self.need),
            None => Ok(Tail::Clean),
        }
    }

    fn take_round(&mut self, header: RoundHeader, records: Records) -> Result<(), OpenError> {
        self.account(&header);
        self.last = Some(raw_round(&header, &records));
        self.position += header.extent();
        for (record, position, payload) in records {
            self.deliver(record, position, payload)?;
        }
        Ok(())
    }

    /// The first readable round or mark behind the current position, wherever it is.
    fn witness(&mut self) -> Result<Option<(usize, RoundHeader)>, OpenError> {
        let mut from = self.position + BLOCK;
        for at in self.at..self.found.used.len() {
            let Some(used) = self.found.used.get(at) else { break };
            from = from.max(used.base);
            let until = self.limit(at);
            if let Some(header) = self.window.next_header(used, from, until)? {
                return Ok(Some((at, header)));
            }
        }
        Ok(None)
    }

    fn take_damage(&mut self, until: usize, witness: &RoundHeader) -> Result<(), OpenError> {
        let (from, to) = (self.position, witness.position);
        if to > self.start.position.0 {
            self.damage.push(Damage { from: Position(from), to: Position(to), rooms: vec![] });
        }
        // A file between this one and the witness is gone. Either it was trimmed, then nobody
        // needs it, or it was lost, then numbers are missing. What this one has behind its last
        // valid round is in either case what a crash left of a round that was cut: it must not
        // come back.
        let between = self.found.used.get(self.at).zip(self.found.used.get(self.at + 1));
        let file_gone =
            until > self.at && between.is_some_and(|(used, next)| next.follows != used.number);
        let first = if file_gone { until } else { self.at };
        for at in first..=until {
            self.salvage(at, from, witness)?;
        }
        self.last = None;
        self.at = until;
        self.position = to;
        self.account(witness);
        if file_gone {
            self.damage.pop_if(|damage| damage.rooms.is_empty());
        }
        Ok(())
    }

    /// Delivers what is still valid of a file between a position and a witness.
    fn salvage(&mut self, at: usize, from: u64, witness: &RoundHeader) -> Result<(), OpenError> {
        let Some(used) = self.found.used.get(at).cloned() else { return Ok(()) };
        let end = self.limit(at).unwrap_or(witness.position).min(witness.position);
        let (need, counts) = (self.need, witness.counts);
        let plausible = |record: &RecordHeader| {
            let room = record.room.index();
            need.get(room).is_some_and(|&need| record.sequence >= need)
                && counts.get(room).is_some_and(|&count| record.sequence <= count)
        };
        for (record, position, payload) in
            self.window.salvage(&used, from.max(used.base), end, &plausible)?
        {
            self.deliver(record, position, payload)?;
        }
        Ok(())
    }

    /// Compares what a round or mark says of the records before it with what was found.
    fn account(&mut self, header: &RoundHeader) {
        let steady = self.clock.map_or(header.now.steady, |now| now.steady.max(header.now.steady));
        self.clock = Some(Now { wall: header.now.wall, steady });
        for room in Room::ALL {
            let count = header.counts.get(room.index()).copied().unwrap_or_default();
            self.need_from(room, count.saturating_add(1), header.position);
        }
    }

    /// The journal ends here. Checkpoints may know that it was longer.
    fn compare_with_checkpoints(&mut self) {
        let known =
            |of: &[Sequence; Room::MAX], room: Room| of.get(room.index()).map_or(0, |n| n.0);
        for room in Room::ALL {
            self.need_from(room, known(&self.start.known, room) + 1, self.position);
        }
        let end = self.start.end;
        let needed = self.start.position < end;
        if self.position >= end.0 || !needed || self.found.slots.is_empty() {
            return;
        }
        // Something durable is gone, and no round is left to say whose. A room is sure to have
        // lost nothing only if its own checkpoint reaches that far.
        self.damage.push(Damage { from: Position(self.position), to: end, rooms: vec![] });
        for room in Room::ALL {
            let reaches = self.start.known_to.get(room.index()).is_some_and(|&to| to >= end);
            let need = self.need.get(room.index()).copied().unwrap_or_default();
            if !reaches && !self.start.unloaded.contains(&room) {
                let (from, to) = (Sequence(need), Sequence(need - 1));
                self.close(LostRecords { room, from, to }, self.position);
            }
        }
    }

    /// The room's next record is `sequence`; whatever it still needed before that is lost.
    fn need_from(&mut self, room: Room, sequence: u64, position: u64) {
        let Some(need) = self.need.get_mut(room.index()) else { return };
        if *need < sequence {
            let lost = LostRecords { room, from: Sequence(*need), to: Sequence(sequence - 1) };
            *need = sequence;
            if let Some(reach) = self.reach.get_mut(room.index()) {
                *reach = position;
            }
            // Nobody said what a room that is not loaded has already.
            if !self.start.unloaded.contains(&room) {
                self.close(lost, position);
            }
        }
    }

    /// Notes lost records and closes their room, unless a repair has accepted the loss.
    fn close(&mut self, lost: LostRecords, position: u64) {
        let LostRecords { room, from, to } = lost;
        let count = to.0 + 1 - from.0;
        self.lost.push(lost);
        let here = |damage: &&mut Damage| damage.to.0 >= position || damage.from.0 >= position;
        if self.damage.iter_mut().next_back().as_ref().filter(|d| here(d)).is_none() {
            let from = Position(self.start.position.0.min(position));
            self.damage.push(Damage { from, to: Position(position), rooms: vec![] });
        }
        if let Some(damage) = self.damage.last_mut() {
            match damage.rooms.iter_mut().find(|(hit, _)| *hit == room) {
                Some((_, sum)) => *sum += count,
                None => damage.rooms.push((room, count)),
            }
            let excused =
                self.start.excused.iter().any(|excused| {
                    excused.room == room && excused.from <= from && to <= excused.to
                });
            if let Some(closed) = self.closed.get_mut(room.index()).filter(|_| !excused) {
                closed.get_or_insert(damage.from.0);
            }
        }
    }

    fn deliver(
        &mut self,
        record: RecordHeader,
        position: u64,
        payload: Bytes,
    ) -> Result<(), OpenError> {
        let room = record.room;
        self.need_from(room, record.sequence, position);
        let Some(need) = self.need.get_mut(room.index()) else { return Ok(()) };
        if record.sequence < *need {
            return Ok(());
        }
        *need += 1;
        if let Some(reach) = self.reach.get_mut(room.index()) {
            *reach = position;
        }
        if record.kind == Kind::Piece || self.is_kept_out(room) {
            return Ok(());
        }
        let position = Position(position);
        match self.shelf.change(record.kind, position, payload) {
            Ok((change, bodies)) => self.ready.push_back(Replayed {
                room,
                position,
                sequence: Sequence(record.sequence),
                change,
                bodies,
            }),
            Err(ReadError::Disk { position, fault }) => {
                return Err(OpenError::Disk { path: format!("position {position}"), fault });
            }
            Err(_) => {
                let sequence = Sequence(record.sequence);
                self.close(LostRecords { room, from: sequence, to: sequence }, position.0);
            }
        }
        Ok(())
    }
}

fn raw_round(header: &RoundHeader, records: &Records) -> Round {
    let records = records
        .iter()
        .map(|(record, _, payload)| Queued {
            room: record.room,
            sequence: record.sequence,
            now: header.now,
            payload: Payload::Raw(record.kind, payload.clone()),
            admitted: 0,
            promise: None,
        })
        .collect();
    Round { position: header.position, counts: header.counts, now: header.now, records }
}

fn closed_rooms(closed: &[Option<u64>; Room::MAX]) -> Vec<(Room, Position)> {
    let at = |room: Room| closed.get(room.index()).copied().flatten();
    Room::ALL.into_iter().filter_map(|room| Some((room, Position(at(room)?)))).collect()
}

/// Splits the body of a round into its records; `None` unless all of it is valid.
fn parse_records(header: &RoundHeader, salt: u64, body: &Bytes) -> Option<Records> {
    let mut records = Vec::with_capacity(header.records.min(1024) as usize);
    let mut at = 0;
    for _ in 0..header.records {
        let position = header.position + (ROUND_HEADER + at) as u64;
        let (record, payload) = RecordHeader::read(Place { salt, position }, body.get(at..)?)?;
        let payload = body.slice_ref(payload);
        at += record_extent(payload.len());
        records.push((record, position, payload));
    }
    (at == header.body_bytes as usize).then_some(records)
}

const _: () = assert!(ROUND_BYTES_MAX < u32::MAX as usize);
