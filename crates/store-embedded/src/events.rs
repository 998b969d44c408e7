//! The events room on embedded storage.
//!
//! ```text
//! change    │ kind u8 │ …
//!            1 registered   │ id │ event
//!            2 occurred     │ id │ count │ skipped │ updated signed │ due
//!            3 gone         │ id │ why u8: 0 deleted, 1 finished │ count │ skipped
//!            4 rescheduled  │ id │ due
//!            5 counted      │ totals of what there was first
//!            6 opened       │ id │ outlet
//!            7 handed       │ id │ next │ count │ handed × count
//!            8 answered     │ id │ sequence
//!            9 ended        │ id
//!           10 closed       │ id
//!           11 died         │ number │ letter
//!           12 retried      │ number
//!           13 refused again│ number │ why text
//!           14 letter gone  │ number
//!           15 counted      │ totals │ published │ dead │ dropped
//! event     │ description text │ types │ type text × types, ascending │ schedule
//!           │ repeat: 0 for ever, or what is left │ updated signed │ due │ occurrences │ skipped
//! schedule  │ 0 │ period f64 │  or  │ 1 │ expression text │ zone text │  or  │ 2 │ at signed │
//! due       │ 0 │ steady │  or  │ 1 │ wall signed │
//! totals    │ registered │ deleted │ finished │ occurred │ skipped
//! outlet    │ producer 16 bytes, big-endian │ topic text │ 0, or 1 │ key text │ description text
//!           │ types │ type text × types, ascending │ ended u8 │ next │ waiting │ handed × waiting
//! handed    │ sequence │ number │ due signed │ late u8
//! letter    │ id │ handed │ why text │ since signed │ retrying u8
//! chunk     │ [counted │] registered × n, opened × n, died × n, ids and numbers ascending
//!
//! key       │ │ the totals      │ id u32, big-endian │ an event
//!           │ 0x80 │ id u32, big-endian │ its outlet  │ 0x81 │ number u64, big-endian │ a dead letter
//! ```
//!
//! Numbers are LEB128, seven bits a byte, low bits first, shortest form only; signed ones are
//! zigzag first. A text is its length in bytes and UTF-8. The period is little-endian: clients are
//! shown the number they sent. Times are microseconds. A kind never gets another meaning: whatever
//! is to be said in another way gets a new one.
//!
//! # Why replay finds the same state
//! Chunks of a checkpoint are true at different records, and replay passes over a change if the
//! chunk that holds its key already has it. So a change must touch one key. What a registration,
//! a deletion or an occurrence does to the totals is therefore a change of its own, beside the one
//! to the event and in the same entry: the totals' chunk has the one, the event's chunk the other,
//! each for itself. The next id is no third thing, it is the number of registrations. An event, its
//! outlet and a dead letter are three aggregates for the same reason: the outlet stays while
//! something of it waits, and the event may be gone.
//!
//! Totals that nothing was ever published under are written as they always were.

use std::sync::Arc;

use bytes::Bytes;
use handoff_events::cron::Cron;
use handoff_events::{
    Change, Due, Event, Events, Gone, Handed, Id, Letter, Outlet, Period, Repeat, Schedule, Source,
    State, Totals,
};
use handoff_types::{Room, Steady, Wall};

use crate::persist::{Frame, Persist, Undecodable};

const REGISTERED: u8 = 1;
const OCCURRED: u8 = 2;
const GONE: u8 = 3;
const RESCHEDULED: u8 = 4;
const COUNTED: u8 = 5;
const OPENED: u8 = 6;
const HANDED: u8 = 7;
const ANSWERED: u8 = 8;
const ENDED: u8 = 9;
const CLOSED: u8 = 10;
const DIED: u8 = 11;
const RETRIED: u8 = 12;
const REFUSED_AGAIN: u8 = 13;
const LETTER_GONE: u8 = 14;
const COUNTED_ALL: u8 = 15;

/// Keys that are no event's: an event's begins with a bit that is not set.
const OUTLET_KEY: u8 = 0x80;
const LETTER_KEY: u8 = 0x81;

impl Persist for Events {
    const ROOM: Room = Room::Events;

    fn encode_change(change: &Change, out: &mut Vec<u8>) {
        match change {
            Change::Registered { id, event } => put_registered(out, *id, event),
            Change::Occurred { id, count, skipped, updated, due } => {
                out.push(OCCURRED);
                put_number(out, id.number().into());
                put_number(out, *count);
                put_number(out, *skipped);
                put_signed(out, updated.0);
                put_due(out, *due);
            }
            Change::Gone { id, why, count, skipped } => {
                out.push(GONE);
                put_number(out, id.number().into());
                out.push(match why {
                    Gone::Deleted => 0,
                    Gone::Finished => 1,
                });
                put_number(out, *count);
                put_number(out, *skipped);
            }
            Change::Rescheduled { id, due } => {
                out.push(RESCHEDULED);
                put_number(out, id.number().into());
                put_due(out, *due);
            }
            Change::Counted(totals) => put_counted(out, totals),
            Change::Opened { id, outlet } => put_opened(out, *id, outlet),
            Change::Handed { id, handed, next } => {
                out.push(HANDED);
                put_number(out, id.number().into());
                put_number(out, *next);
                put_number(out, handed.len() as u64);
                handed.iter().for_each(|handed| put_handed(out, handed));
            }
            Change::Answered { id, sequence } => {
                out.push(ANSWERED);
                put_number(out, id.number().into());
                put_number(out, *sequence);
            }
            Change::Ended { id } => put_one(out, ENDED, id.number().into()),
            Change::Closed { id } => put_one(out, CLOSED, id.number().into()),
            Change::Died { number, letter } => put_died(out, *number, letter),
            Change::Retried { number } => put_one(out, RETRIED, *number),
            Change::RefusedAgain { number, why } => {
                put_one(out, REFUSED_AGAIN, *number);
                put_text(out, why);
            }
            Change::LetterGone { number } => put_one(out, LETTER_GONE, *number),
        }
    }

    fn decode_change(bytes: &[u8]) -> Result<(Change, &[u8]), Undecodable> {
        let mut front = Front(bytes);
        let change = match front.byte()? {
            REGISTERED => {
                let id = front.id()?;
                Change::Registered { id, event: Box::new(front.event()?) }
            }
            OCCURRED => {
                let id = front.id()?;
                let (count, skipped) = front.counts()?;
                if count == 0 {
                    return bad("nothing occurred");
                }
                let updated = Wall(front.signed()?);
                Change::Occurred { id, count, skipped, updated, due: front.due()? }
            }
            GONE => {
                let id = front.id()?;
                let why = match front.byte()? {
                    0 => Gone::Deleted,
                    1 => Gone::Finished,
                    _ => return bad("gone for no reason there is"),
                };
                let (count, skipped) = front.counts()?;
                Change::Gone { id, why, count, skipped }
            }
            RESCHEDULED => Change::Rescheduled { id: front.id()?, due: front.due()? },
            COUNTED => Change::Counted(front.totals()?),
            OPENED => Change::Opened { id: front.id()?, outlet: Box::new(front.outlet()?) },
            HANDED => {
                let (id, next) = (front.id()?, front.number()?);
                Change::Handed { id, handed: front.all_handed(next)?, next }
            }
            ANSWERED => Change::Answered { id: front.id()?, sequence: front.number()? },
            ENDED => Change::Ended { id: front.id()? },
            CLOSED => Change::Closed { id: front.id()? },
            DIED => {
                let number = front.number()?;
                Change::Died { number, letter: Box::new(front.letter()?) }
            }
            RETRIED => Change::Retried { number: front.number()? },
            REFUSED_AGAIN => {
                Change::RefusedAgain { number: front.number()?, why: front.text()?.into() }
            }
            LETTER_GONE => Change::LetterGone { number: front.number()? },
            COUNTED_ALL => {
                let totals = front.totals()?;
                let (published, dead, dropped) =
                    (front.number()?, front.number()?, front.number()?);
                if (published, dead, dropped) == (0, 0, 0) {
                    return bad("totals are not written as totals are");
                }
                Change::Counted(Totals { published, dead, dropped, ..totals })
            }
            kind => return Err(Undecodable(format!("{kind} is no kind of change"))),
        };
        Ok((change, front.0))
    }

    fn key(change: &Change) -> Bytes {
        match change {
            Change::Registered { id, .. }
            | Change::Occurred { id, .. }
            | Change::Gone { id, .. }
            | Change::Rescheduled { id, .. } => key(*id),
            Change::Counted(_) => Bytes::new(),
            Change::Opened { id, .. }
            | Change::Handed { id, .. }
            | Change::Answered { id, .. }
            | Change::Ended { id }
            | Change::Closed { id } => outlet_key(*id),
            Change::Died { number, .. }
            | Change::Retried { number }
            | Change::RefusedAgain { number, .. }
            | Change::LetterGone { number } => letter_key(*number),
        }
    }

    fn frame(_: &Change) -> Option<Frame> {
        None
    }

    fn snapshot(state: &State, from: &[u8], bytes_max: usize) -> (Bytes, Option<Bytes>) {
        let mut out = Vec::with_capacity(bytes_max.saturating_add(512).min(1 << 20));
        let full = |out: &Vec<u8>| !out.is_empty() && out.len() >= bytes_max;
        let from = From::of(from);
        if let From::Totals = from {
            put_counted(&mut out, &state.totals());
        }
        if let From::Totals | From::Event(_) = from {
            for (id, event) in state.starting_at(from.id()) {
                if full(&out) {
                    return (out.into(), Some(key(id)));
                }
                put_registered(&mut out, id, event);
            }
        }
        if !matches!(from, From::Letter(_)) {
            let first = if let From::Outlet(id) = from { id } else { Id::default() };
            for (id, outlet) in state.outlets_from(first) {
                if full(&out) {
                    return (out.into(), Some(outlet_key(id)));
                }
                put_opened(&mut out, id, outlet);
            }
        }
        let first = if let From::Letter(number) = from { number } else { 0 };
        for (number, letter) in state.letters_from(first) {
            if full(&out) {
                return (out.into(), Some(letter_key(number)));
            }
            put_died(&mut out, number, letter);
        }
        (out.into(), None)
    }

    fn restore(state: &mut State, snapshot: &[u8]) -> Result<(), Undecodable> {
        let mut rest = snapshot;
        while !rest.is_empty() {
            let (change, behind) = Self::decode_change(rest)?;
            match change {
                Change::Registered { id, event } => state.restore(id, event),
                Change::Counted(totals) => state.restore_totals(totals),
                Change::Opened { id, outlet } => state.restore_outlet(id, outlet),
                Change::Died { number, letter } => state.restore_letter(number, *letter),
                Change::Occurred { .. }
                | Change::Gone { .. }
                | Change::Rescheduled { .. }
                | Change::Handed { .. }
                | Change::Answered { .. }
                | Change::Ended { .. }
                | Change::Closed { .. }
                | Change::Retried { .. }
                | Change::RefusedAgain { .. }
                | Change::LetterGone { .. } => {
                    return bad("a chunk holds what is there, not what happened");
                }
            }
            rest = behind;
        }
        Ok(())
    }
}

fn key(id: Id) -> Bytes {
    Bytes::copy_from_slice(&id.number().to_be_bytes())
}

fn outlet_key(id: Id) -> Bytes {
    [OUTLET_KEY].into_iter().chain(id.number().to_be_bytes()).collect()
}

fn letter_key(number: u64) -> Bytes {
    [LETTER_KEY].into_iter().chain(number.to_be_bytes()).collect()
}

/// Where a chunk begins.
#[derive(Clone, Copy)]
enum From {
    Totals,
    Event(Id),
    Outlet(Id),
    Letter(u64),
}

impl From {
    /// What a key is of. There are no others than those above.
    fn of(key: &[u8]) -> Self {
        let id = |bytes: &[u8]| bytes.first_chunk().and_then(|id| Id::new(u32::from_be_bytes(*id)));
        let found = match key {
            [OUTLET_KEY, rest @ ..] => id(rest).map(Self::Outlet),
            [LETTER_KEY, rest @ ..] => {
                rest.first_chunk().map(|number| Self::Letter(u64::from_be_bytes(*number)))
            }
            _ => id(key).map(Self::Event),
        };
        found.unwrap_or(Self::Totals)
    }

    fn id(self) -> Id {
        match self {
            Self::Event(id) | Self::Outlet(id) => id,
            Self::Totals | Self::Letter(_) => Id::default(),
        }
    }
}

fn put_one(out: &mut Vec<u8>, kind: u8, number: u64) {
    out.push(kind);
    put_number(out, number);
}

fn put_opened(out: &mut Vec<u8>, id: Id, outlet: &Outlet) {
    put_one(out, OPENED, id.number().into());
    let Outlet { source, ended, next, waiting } = outlet;
    let Source { producer, topic, key, description, types } = &**source;
    out.extend_from_slice(&producer.to_be_bytes());
    put_text(out, topic);
    out.push(u8::from(key.is_some()));
    key.iter().for_each(|key| put_text(out, key));
    put_text(out, description);
    put_number(out, types.len() as u64);
    types.iter().for_each(|name| put_text(out, name));
    out.push(u8::from(*ended));
    put_number(out, *next);
    put_number(out, waiting.len() as u64);
    waiting.iter().for_each(|handed| put_handed(out, handed));
}

fn put_handed(out: &mut Vec<u8>, handed: &Handed) {
    let Handed { sequence, number, due, late } = handed;
    put_number(out, *sequence);
    put_number(out, *number);
    put_signed(out, due.0);
    out.push(u8::from(*late));
}

fn put_died(out: &mut Vec<u8>, number: u64, letter: &Letter) {
    put_one(out, DIED, number);
    let Letter { event, handed, why, since, retrying } = letter;
    put_number(out, event.number().into());
    put_handed(out, handed);
    put_text(out, why);
    put_signed(out, since.0);
    out.push(u8::from(*retrying));
}

fn put_registered(out: &mut Vec<u8>, id: Id, event: &Event) {
    out.push(REGISTERED);
    put_number(out, id.number().into());
    put_event(out, event);
}

fn put_counted(out: &mut Vec<u8>, totals: &Totals) {
    let Totals { registered, deleted, finished, occurred, skipped, published, dead, dropped } =
        *totals;
    let newer = [published, dead, dropped];
    let has_newer = newer != [0; 3];
    out.push(if has_newer { COUNTED_ALL } else { COUNTED });
    for total in [registered, deleted, finished, occurred, skipped] {
        put_number(out, total);
    }
    newer.iter().filter(|_| has_newer).for_each(|total| put_number(out, *total));
}

fn put_event(out: &mut Vec<u8>, event: &Event) {
    let Event { description, types, schedule, repeat, updated, due, occurrences, skipped } = event;
    put_text(out, description);
    put_number(out, types.len() as u64);
    types.iter().for_each(|name| put_text(out, name));
    match schedule {
        Schedule::Every(period) => {
            out.push(0);
            out.extend_from_slice(&period.secs().to_le_bytes());
        }
        Schedule::Cron(cron) => {
            out.push(1);
            put_text(out, cron.expression());
            put_text(out, cron.zone());
        }
        Schedule::At(at) => {
            out.push(2);
            put_signed(out, at.0);
        }
    }
    put_number(
        out,
        match repeat {
            Repeat::Forever => 0,
            Repeat::Left(left) => (*left).into(),
        },
    );
    put_signed(out, updated.0);
    put_due(out, *due);
    put_number(out, *occurrences);
    put_number(out, *skipped);
}

fn put_due(out: &mut Vec<u8>, due: Due) {
    match due {
        Due::Steady(due) => {
            out.push(0);
            put_number(out, due.0);
        }
        Due::Wall(due) => {
            out.push(1);
            put_signed(out, due.0);
        }
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    loop {
        let low = number.to_le_bytes()[0] & 0x7f;
        number >>= 7;
        if number == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

fn put_signed(out: &mut Vec<u8>, number: i64) {
    put_number(out, (number.cast_unsigned() << 1) ^ (number >> 63).cast_unsigned());
}

fn bad<T>(words: &str) -> Result<T, Undecodable> {
    Err(Undecodable(words.to_owned()))
}

fn short() -> Undecodable {
    Undecodable("the bytes end too early".to_owned())
}

/// Takes one thing after the other from the front of some bytes.
struct Front<'a>(&'a [u8]);

impl<'a> Front<'a> {
    fn byte(&mut self) -> Result<u8, Undecodable> {
        let (first, rest) = self.0.split_first().ok_or_else(short)?;
        self.0 = rest;
        Ok(*first)
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], Undecodable> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(short)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn number(&mut self) -> Result<u64, Undecodable> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            let shifted = bits << shift;
            let overlong = byte == 0 && shift > 0;
            if overlong || shifted >> shift != bits {
                break;
            }
            number |= shifted;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        bad("a number is not written as numbers are")
    }

    fn signed(&mut self) -> Result<i64, Undecodable> {
        let number = self.number()?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    fn text(&mut self) -> Result<&'a str, Undecodable> {
        let length = usize::try_from(self.number()?).map_err(|_| short())?;
        let bytes = self.bytes(length)?;
        str::from_utf8(bytes).map_err(|_| Undecodable("a text is not UTF-8".to_owned()))
    }

    fn id(&mut self) -> Result<Id, Undecodable> {
        let id = u32::try_from(self.number()?).ok().and_then(Id::new);
        id.ok_or_else(|| Undecodable("an id is none".to_owned()))
    }

    fn counts(&mut self) -> Result<(u64, u64), Undecodable> {
        let (count, skipped) = (self.number()?, self.number()?);
        if skipped > count {
            return bad("more was skipped than occurred");
        }
        Ok((count, skipped))
    }

    fn totals(&mut self) -> Result<Totals, Undecodable> {
        Ok(Totals {
            registered: self.number()?,
            deleted: self.number()?,
            finished: self.number()?,
            occurred: self.number()?,
            skipped: self.number()?,
            ..Totals::default()
        })
    }

    fn flag(&mut self) -> Result<bool, Undecodable> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => bad("yes or no is neither"),
        }
    }

    fn handed(&mut self) -> Result<Handed, Undecodable> {
        Ok(Handed {
            sequence: self.number()?,
            number: self.number()?,
            due: Wall(self.signed()?),
            late: self.flag()?,
        })
    }

    /// Ascending, and all of them before the next one.
    fn all_handed(&mut self, next: u64) -> Result<Vec<Handed>, Undecodable> {
        let count = self.number()?;
        if count > self.0.len() as u64 {
            return Err(short());
        }
        let mut all = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        let mut before = 0;
        for _ in 0..count {
            let handed = self.handed()?;
            if handed.sequence <= before || handed.sequence >= next {
                return bad("sequences do not ascend");
            }
            before = handed.sequence;
            all.push(handed);
        }
        Ok(all)
    }

    fn outlet(&mut self) -> Result<Outlet, Undecodable> {
        let (producer, rest) = self.0.split_first_chunk().ok_or_else(short)?;
        self.0 = rest;
        let topic = self.text()?.into();
        let key = if self.flag()? { Some(self.text()?.into()) } else { None };
        let source = Source {
            producer: u128::from_be_bytes(*producer),
            topic,
            key,
            description: self.text()?.into(),
            types: self.types()?,
        };
        let (ended, next) = (self.flag()?, self.number()?);
        let waiting = self.all_handed(next)?.into();
        Ok(Outlet { source: Arc::new(source), ended, next, waiting })
    }

    fn letter(&mut self) -> Result<Letter, Undecodable> {
        Ok(Letter {
            event: self.id()?,
            handed: self.handed()?,
            why: self.text()?.into(),
            since: Wall(self.signed()?),
            retrying: self.flag()?,
        })
    }

    fn due(&mut self) -> Result<Due, Undecodable> {
        match self.byte()? {
            0 => Ok(Due::Steady(Steady(self.number()?))),
            1 => Ok(Due::Wall(Wall(self.signed()?))),
            _ => bad("there are two clocks"),
        }
    }

    fn schedule(&mut self) -> Result<Schedule, Undecodable> {
        match self.byte()? {
            0 => {
                let (bytes, rest) = self.0.split_first_chunk().ok_or_else(short)?;
                self.0 = rest;
                let period = Period::from_secs(f64::from_le_bytes(*bytes));
                period.map(Schedule::Every).map_err(|bad| Undecodable(bad.to_string()))
            }
            1 => {
                let (expression, zone) = (self.text()?, self.text()?);
                let cron = Cron::parse(expression, Some(zone));
                let cron = cron.map_err(|bad| Undecodable(bad.to_string()))?;
                Ok(Schedule::Cron(Box::new(cron)))
            }
            2 => Ok(Schedule::At(Wall(self.signed()?))),
            _ => bad("there are three kinds of schedule"),
        }
    }

    fn types(&mut self) -> Result<Box<[Arc<str>]>, Undecodable> {
        let count = self.number()?;
        // Each type takes at least a byte, so what is asked for in advance is what is there.
        if count > self.0.len() as u64 {
            return Err(short());
        }
        let mut before = "";
        let mut types = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        for _ in 0..count {
            let name = self.text()?;
            if name <= before {
                return bad("types do not ascend");
            }
            before = name;
            types.push(name.into());
        }
        Ok(types.into())
    }

    fn event(&mut self) -> Result<Event, Undecodable> {
        let description = self.text()?.into();
        let types = self.types()?;
        let schedule = self.schedule()?;
        let repeat = match u32::try_from(self.number()?) {
            Ok(0) => Repeat::Forever,
            Ok(left) => Repeat::Left(left),
            Err(_) => return bad("an event occurs too often"),
        };
        let event = Event {
            description,
            types,
            schedule,
            repeat,
            updated: Wall(self.signed()?),
            due: self.due()?,
            occurrences: self.number()?,
            skipped: self.number()?,
        };
        if event.is_sound() { Ok(event) } else { bad("the event cannot be kept") }
    }
}
