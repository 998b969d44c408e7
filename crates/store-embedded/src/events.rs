//! The events room on embedded storage.
//!
//! ```text
//! change    │ kind u8 │ …
//!            1 registered   │ id │ event
//!            2 occurred     │ id │ count │ skipped │ updated signed │ due
//!            3 gone         │ id │ why u8: 0 deleted, 1 finished │ count │ skipped
//!            4 rescheduled  │ id │ due
//!            5 counted      │ totals
//! event     │ description text │ types │ type text × types, ascending │ schedule
//!           │ repeat: 0 for ever, or what is left │ updated signed │ due │ occurrences │ skipped
//! schedule  │ 0 │ period f64 │  or  │ 1 │ expression text │ zone text │  or  │ 2 │ at signed │
//! due       │ 0 │ steady │  or  │ 1 │ wall signed │
//! totals    │ registered │ deleted │ finished │ occurred │ skipped
//! chunk     │ [counted │] registered × n, ids ascending
//!
//! key       │ │ the totals      │ id u32, big-endian │ an event
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
//! each for itself. The next id is no third thing, it is the number of registrations.

use bytes::Bytes;
use handoff_events::cron::Cron;
use handoff_events::{
    Change, Due, Event, Events, Gone, Id, Period, Repeat, Schedule, State, Totals,
};
use handoff_types::{Room, Steady, Wall};

use crate::persist::{Frame, Persist, Undecodable};

const REGISTERED: u8 = 1;
const OCCURRED: u8 = 2;
const GONE: u8 = 3;
const RESCHEDULED: u8 = 4;
const COUNTED: u8 = 5;

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
        }
    }

    fn frame(_: &Change) -> Option<Frame> {
        None
    }

    fn snapshot(state: &State, from: &[u8], bytes_max: usize) -> (Bytes, Option<Bytes>) {
        let mut out = Vec::with_capacity(bytes_max.saturating_add(512).min(1 << 20));
        let from = match from.first_chunk().map(|id| u32::from_be_bytes(*id)).and_then(Id::new) {
            Some(id) => id,
            None => {
                put_counted(&mut out, &state.totals());
                Id::default()
            }
        };
        for (id, event) in state.starting_at(from) {
            if !out.is_empty() && out.len() >= bytes_max {
                return (out.into(), Some(key(id)));
            }
            put_registered(&mut out, id, event);
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
                Change::Occurred { .. } | Change::Gone { .. } | Change::Rescheduled { .. } => {
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

fn put_registered(out: &mut Vec<u8>, id: Id, event: &Event) {
    out.push(REGISTERED);
    put_number(out, id.number().into());
    put_event(out, event);
}

fn put_counted(out: &mut Vec<u8>, totals: &Totals) {
    let Totals { registered, deleted, finished, occurred, skipped } = *totals;
    out.push(COUNTED);
    for total in [registered, deleted, finished, occurred, skipped] {
        put_number(out, total);
    }
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

    fn event(&mut self) -> Result<Event, Undecodable> {
        let description = self.text()?.into();
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
        let schedule = self.schedule()?;
        let repeat = match u32::try_from(self.number()?) {
            Ok(0) => Repeat::Forever,
            Ok(left) => Repeat::Left(left),
            Err(_) => return bad("an event occurs too often"),
        };
        let event = Event {
            description,
            types: types.into(),
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
