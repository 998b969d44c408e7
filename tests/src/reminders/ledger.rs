//! What this process knows of the events: answered, refused, unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;
use std::time::{Duration, Instant};

use super::work::{PREFIX, Reminder, What};
use crate::clock;
use crate::ledger::Trouble;
use crate::sevent::{Message, Told, code};

/// An event that ran out so long ago must be gone, however busy the machine is.
const SLACK: Duration = Duration::from_secs(15);

const INVALID_PROPERTY: u8 = 2;
const EVENT_NOT_EXISTS: u8 = 4;

/// What became of what was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Registrations that were answered with an id.
    pub acknowledged: u64,
    /// Requests that were refused, as they should be.
    pub refused: u64,
    /// Registrations nobody answered, and the event is there.
    pub unknown_there: u64,
    /// Registrations nobody answered, and the event is not there.
    pub unknown_missing: u64,
    /// Events that were deleted.
    pub deleted: u64,
    /// Notifications.
    pub notified: u64,
    /// Events looked at.
    pub looked: u64,
}

impl AddAssign for Outcomes {
    fn add_assign(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.unknown_there += other.unknown_there;
        self.unknown_missing += other.unknown_missing;
        self.deleted += other.deleted;
        self.notified += other.notified;
        self.looked += other.looked;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Asked, not answered yet.
    Asked,
    /// Nobody will ever answer; it may be there.
    Unknown,
    /// It is, or was, there.
    There,
    /// It was never registered.
    Never,
    /// It is not there and would have run out: it may still be told of, late.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deletion {
    None,
    /// Asked, not answered yet, or never.
    Asked,
    Done,
}

#[derive(Debug)]
struct Entry {
    reminder: Reminder,
    fate: Fate,
    id: Option<i32>,
    asked_at: Instant,
    /// When it was surely there.
    there_at: Option<Instant>,
    deletion: Deletion,
    /// Deletions that are not answered yet.
    deletions: u32,
    /// The counter was seen at this or is known to be below: it never grows again.
    repeat_max: i32,
    /// What was told last of a counted event: what was left before it.
    told_repeat: Option<i32>,
    /// The last update told, of an event without end.
    told_at: Option<i64>,
}

impl Entry {
    fn life(&self) -> Option<Duration> {
        let count = u32::try_from(self.reminder.repeat).ok()?;
        Some(self.reminder.period * count)
    }

    /// Whether it may have run out by now.
    fn may_be_over(&self) -> bool {
        self.life().is_some_and(|life| self.asked_at.elapsed() >= life)
    }

    /// Whether it must have run out at `when`.
    fn must_be_over(&self, when: Instant) -> bool {
        let since = self.there_at.map(|at| when.saturating_duration_since(at));
        self.life().zip(since).is_some_and(|(life, since)| since >= life + SLACK)
    }
}

/// The ledger.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: BTreeMap<u64, Entry>,
    by_id: BTreeMap<i32, u64>,
    /// Ids of events that were deleted before their registration was heard of.
    deleted_early: BTreeSet<i32>,
    /// Ids that were known when this server started; new ones must be above.
    highest_before: Option<i32>,
    outcomes: Outcomes,
}

impl Ledger {
    /// What became of what was asked.
    #[must_use]
    pub fn outcomes(&self) -> Outcomes {
        self.outcomes
    }

    pub(super) fn begin(&mut self) {
        self.highest_before = self.by_id.keys().next_back().copied();
    }

    /// The server is gone, and with it every answer that did not come.
    pub(super) fn gone(&mut self) {
        for entry in self.entries.values_mut() {
            if entry.fate == Fate::Asked {
                entry.fate = Fate::Unknown;
            }
            entry.deletions = 0;
        }
    }

    pub(super) fn asking(&mut self, reminder: Reminder) -> u64 {
        let serial = self.entries.keys().next_back().map_or(1, |last| last + 1);
        let repeat_max = reminder.repeat;
        let entry = Entry {
            reminder,
            fate: Fate::Asked,
            id: None,
            asked_at: clock(),
            there_at: None,
            deletion: Deletion::None,
            deletions: 0,
            repeat_max,
            told_repeat: None,
            told_at: None,
        };
        self.entries.insert(serial, entry);
        serial
    }

    /// Some id that was given, perhaps of an event that is gone.
    pub(super) fn some_id(&self, roll: u64) -> Option<i32> {
        let place = usize::try_from(roll).unwrap_or(0).checked_rem(self.by_id.len())?;
        // Mostly young ones: the old are gone or idle.
        self.by_id.keys().rev().nth(place.min(512)).copied()
    }

    pub(super) fn deleting(&mut self, id: i32) {
        let serial = self.by_id.get(&id);
        if let Some(entry) = serial.and_then(|serial| self.entries.get_mut(serial)) {
            begin_deletion(entry);
        }
    }

    pub(super) fn deleting_type(&mut self, name: &str) {
        for entry in self.entries.values_mut() {
            if entry.reminder.types.contains(&name) {
                begin_deletion(entry);
            }
        }
    }

    pub(super) fn answered(&mut self, what: &What, answer: &Message) -> Result<(), Trouble> {
        match (what, answer.code) {
            (What::Register(serial), code::EVENT_REGISTRATION) => {
                let id = answer.id().ok_or_else(|| wrong(answer))?;
                self.outcomes.acknowledged += 1;
                if self.highest_before.is_some_and(|highest| id <= highest) {
                    return Err(Trouble(format!("id {id} was given in an earlier life")));
                }
                self.found_there(*serial, id)
            }
            (What::Refused, code::ERROR) => {
                self.outcomes.refused += 1;
                match answer.error() {
                    Some((code::REGISTER_EVENT, INVALID_PROPERTY, _)) => Ok(()),
                    _ => Err(wrong(answer)),
                }
            }
            (What::Delete(id), code::DELETED_EVENTS) => {
                let deleted = answer.ids().ok_or_else(|| wrong(answer))?;
                match &*deleted {
                    [] => self.not_deleted(*id)?,
                    [one] if one == id => self.deleted(*id)?,
                    _ => return Err(wrong(answer)),
                }
                self.deletion_over(|entry| entry.id == Some(*id));
                Ok(())
            }
            (What::DeleteType(name), code::DELETED_EVENTS) => {
                let deleted = answer.ids().ok_or_else(|| wrong(answer))?;
                for id in deleted {
                    let serial = self.by_id.get(&id);
                    let entry = serial.and_then(|serial| self.entries.get(serial));
                    if entry.is_some_and(|entry| !entry.reminder.types.contains(name)) {
                        return Err(Trouble(format!("event {id} is not of type {name}")));
                    }
                    self.deleted(id)?;
                }
                self.deletion_over(|entry| entry.reminder.types.contains(name));
                Ok(())
            }
            (What::Get(id), code::EVENT_INFO) => {
                let told = answer.told().ok_or_else(|| wrong(answer))?;
                if told.id != *id {
                    return Err(wrong(answer));
                }
                self.seen(&told).map(drop)
            }
            (What::Get(id), code::ERROR) => match answer.error() {
                Some((code::GET_EVENT, EVENT_NOT_EXISTS, _)) => {
                    self.must_be_gone(*id, "it cannot be looked at")
                }
                _ => Err(wrong(answer)),
            },
            _ => Err(Trouble(format!("{what:?} is answered {answer:?}"))),
        }
    }

    /// Everything there is was looked at.
    pub(super) fn looked(
        &mut self,
        listed: &[i32],
        found: &[(i32, Message)],
        began: Instant,
    ) -> Result<(), Trouble> {
        if !listed.is_sorted_by(|a, b| a < b) {
            return Err(Trouble("the list is not ascending, or has an id twice".to_owned()));
        }
        let mut there = BTreeSet::new();
        for (id, answer) in found {
            self.outcomes.looked += 1;
            if answer.code == code::ERROR {
                self.must_be_gone(*id, "it was listed and cannot be looked at")?;
                continue;
            }
            let told = answer.told().filter(|told| told.id == *id).ok_or_else(|| wrong(answer))?;
            let serial = self.seen(&told)?;
            if !there.insert(serial) {
                return Err(Trouble(format!("reminder {serial} is there twice")));
            }
        }
        let serials: Vec<u64> = self.entries.keys().copied().collect();
        for serial in serials {
            self.settle(serial, there.contains(&serial), began)?;
        }
        Ok(())
    }

    fn settle(&mut self, serial: u64, there: bool, began: Instant) -> Result<(), Trouble> {
        let Some(entry) = self.entries.get_mut(&serial) else { return Ok(()) };
        if there {
            if entry.deletion == Deletion::Done {
                return Err(Trouble(format!(
                    "reminder {serial} was deleted and is there: {entry:?}"
                )));
            }
            if entry.must_be_over(began) {
                return Err(Trouble(format!("reminder {serial} ran out and is there: {entry:?}")));
            }
            // A deletion nobody answered did not happen, or it would be gone.
            entry.deletion = Deletion::None;
            return Ok(());
        }
        match entry.fate {
            Fate::Unknown => {
                entry.fate = if entry.may_be_over() { Fate::Over } else { Fate::Never };
                self.outcomes.unknown_missing += 1;
            }
            Fate::There if entry.deletion == Deletion::None && !entry.may_be_over() => {
                return Err(Trouble(format!("reminder {serial} is lost: {entry:?}")));
            }
            Fate::There if entry.deletion == Deletion::Asked => entry.deletion = Deletion::Done,
            Fate::There | Fate::Never | Fate::Over | Fate::Asked => {}
        }
        Ok(())
    }

    pub(super) fn notified(&mut self, message: &Message) -> Result<(), Trouble> {
        let told = message.told().ok_or_else(|| wrong(message))?;
        self.outcomes.notified += 1;
        let serial = self.shown(&told)?;
        let Some(entry) = self.entries.get_mut(&serial) else { return Ok(()) };
        if told.repeat == -1 {
            if entry.told_at.is_some_and(|last| told.timestamp <= last) {
                return Err(Trouble(format!("an occurrence is told twice: {told:?}, {entry:?}")));
            }
            entry.told_at = Some(told.timestamp);
        } else {
            // Told late it may be behind the counter, but never behind what was told before.
            if entry.told_repeat.is_some_and(|last| told.repeat >= last) {
                return Err(Trouble(format!("an occurrence is told twice: {told:?}, {entry:?}")));
            }
            entry.told_repeat = Some(told.repeat);
            // The counter was durable before this was told.
            entry.repeat_max = entry.repeat_max.min(told.repeat - 1);
        }
        Ok(())
    }

    /// An event was looked at. Its counter must not have grown.
    fn seen(&mut self, told: &Told) -> Result<u64, Trouble> {
        let serial = self.shown(told)?;
        let Some(entry) = self.entries.get_mut(&serial) else { return Ok(serial) };
        if told.repeat > entry.repeat_max {
            return Err(Trouble(format!("a counter has grown: {told:?}, {entry:?}")));
        }
        entry.repeat_max = told.repeat;
        Ok(serial)
    }

    /// An event was shown. It must be as it was asked for.
    fn shown(&mut self, told: &Told) -> Result<u64, Trouble> {
        let serial = told.description.strip_prefix(PREFIX).and_then(|text| text.parse().ok());
        let serial: u64 = serial.ok_or_else(|| Trouble(format!("nobody asked for {told:?}")))?;
        self.found_there(serial, told.id)?;
        let Some(entry) = self.entries.get_mut(&serial) else { return Ok(serial) };
        let Reminder { period, repeat, types } = &entry.reminder;
        let same_kind = (*repeat == -1) == (told.repeat == -1);
        if told.types != *types || told.period != period.as_secs_f64() || !same_kind {
            return Err(Trouble(format!("{told:?} is not what was asked: {entry:?}")));
        }
        if told.repeat == 0 || told.repeat > *repeat {
            return Err(Trouble(format!("a counter that cannot be: {told:?}, {entry:?}")));
        }
        Ok(serial)
    }

    /// A reminder has this id, now and for ever.
    fn found_there(&mut self, serial: u64, id: i32) -> Result<(), Trouble> {
        let Some(entry) = self.entries.get_mut(&serial) else {
            return Err(Trouble(format!("nobody asked for reminder {serial}")));
        };
        if entry.fate == Fate::Never {
            return Err(Trouble(format!("reminder {serial} was not there and is now: {entry:?}")));
        }
        if entry.fate == Fate::Unknown {
            self.outcomes.unknown_there += 1;
        }
        if entry.id.is_some_and(|known| known != id) {
            return Err(Trouble(format!("reminder {serial} is event {id} now: {entry:?}")));
        }
        (entry.fate, entry.id) = (Fate::There, Some(id));
        entry.there_at.get_or_insert_with(clock);
        if self.deleted_early.remove(&id) {
            entry.deletion = Deletion::Done;
            self.outcomes.deleted += 1;
        }
        match self.by_id.insert(id, serial) {
            Some(other) if other != serial => {
                Err(Trouble(format!("id {id} is reminder {other} and reminder {serial}")))
            }
            _ => Ok(()),
        }
    }

    fn deleted(&mut self, id: i32) -> Result<(), Trouble> {
        let serial = self.by_id.get(&id);
        let Some(entry) = serial.and_then(|serial| self.entries.get_mut(serial)) else {
            let first = self.deleted_early.insert(id);
            return first.then_some(()).ok_or_else(|| Trouble(format!("{id} is deleted twice")));
        };
        if entry.deletion == Deletion::Done {
            return Err(Trouble(format!("event {id} is deleted twice: {entry:?}")));
        }
        entry.deletion = Deletion::Done;
        self.outcomes.deleted += 1;
        Ok(())
    }

    /// A deletion found nothing: it is gone already, or another deletion took it meanwhile.
    fn not_deleted(&mut self, id: i32) -> Result<(), Trouble> {
        let serial = self.by_id.get(&id);
        let entry = serial.and_then(|serial| self.entries.get(serial));
        match entry {
            Some(entry)
                if entry.deletion == Deletion::Asked
                    && entry.deletions == 1
                    && !entry.may_be_over() =>
            {
                Err(Trouble(format!("event {id} is lost, a deletion did not find it: {entry:?}")))
            }
            _ => self.must_be_gone(id, "a deletion did not find it"),
        }
    }

    fn deletion_over(&mut self, of: impl Fn(&Entry) -> bool) {
        for entry in self.entries.values_mut().filter(|entry| of(entry)) {
            entry.deletions = entry.deletions.saturating_sub(1);
            // Its registration came after the deletion that named its type, or the deletion found
            // nothing: the next look at everything tells.
            if entry.deletions == 0 && entry.deletion == Deletion::Asked {
                entry.deletion = Deletion::None;
            }
        }
    }

    fn must_be_gone(&mut self, id: i32, how: &str) -> Result<(), Trouble> {
        let serial = self.by_id.get(&id);
        let Some(entry) = serial.and_then(|serial| self.entries.get_mut(serial)) else {
            return Ok(());
        };
        if entry.deletion == Deletion::None && !entry.may_be_over() {
            return Err(Trouble(format!("event {id} is lost, {how}: {entry:?}")));
        }
        // The deletion that took it may still be on its way here.
        if entry.deletion == Deletion::Asked && entry.deletions == 0 {
            entry.deletion = Deletion::Done;
        }
        Ok(())
    }
}

fn begin_deletion(entry: &mut Entry) {
    entry.deletions += 1;
    if entry.deletion == Deletion::None {
        entry.deletion = Deletion::Asked;
    }
}

fn wrong(message: &Message) -> Trouble {
    Trouble(format!("not an answer to this: {message:?}"))
}
