//! What this process knows of the letters: answered, refused, unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;

use serde_json::Value;

use super::work::{Asked, What};
use crate::ledger::Trouble;
use crate::wall::millis_of;

/// The topics there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topic {
    /// As it comes.
    Letters,
    /// With batches that are compressed.
    Pressed,
}

impl Topic {
    pub(crate) const ALL: [Self; 2] = [Self::Letters, Self::Pressed];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Letters => "letters",
            Self::Pressed => "pressed",
        }
    }

    pub(crate) fn partitions(self) -> u32 {
        match self {
            Self::Letters => 4,
            Self::Pressed => 2,
        }
    }

    pub(super) fn compression(self) -> &'static str {
        match self {
            Self::Letters => "none",
            Self::Pressed => "zstd",
        }
    }
}

/// What became of what was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Messages that were answered with an offset.
    pub acknowledged: u64,
    /// Of those, repeated ones that had been stored before.
    pub duplicates: u64,
    /// Requests that were refused, as they should be.
    pub refused: u64,
    /// Messages nobody answered that are there.
    pub unknown_there: u64,
    /// Messages nobody answered that are not.
    pub unknown_missing: u64,
    /// Messages that were delivered when they were due.
    pub delivered: u64,
    /// Messages that were cancelled before.
    pub cancelled: u64,
    /// Messages read.
    pub read: u64,
}

impl AddAssign for Outcomes {
    fn add_assign(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.duplicates += other.duplicates;
        self.refused += other.refused;
        self.unknown_there += other.unknown_there;
        self.unknown_missing += other.unknown_missing;
        self.delivered += other.delivered;
        self.cancelled += other.cancelled;
        self.read += other.read;
    }
}

/// A letter as it was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Letter {
    pub(super) topic: Topic,
    pub(super) bytes: usize,
    /// Not before this, in milliseconds since 1970.
    pub(super) due: Option<i64>,
}

impl Letter {
    pub(super) fn text(self, number: u64) -> String {
        let head = format!("letter {number} ");
        let fill = char::from(b'a' + u8::try_from(number % 26).unwrap_or(0));
        let more = self.bytes.saturating_sub(head.len());
        head + &fill.to_string().repeat(more)
    }
}

/// A letter as it was read.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) offset: u64,
    timestamp: String,
    text: String,
}

impl Found {
    pub(super) fn read(message: &Value) -> Option<Self> {
        let text = |name: &str| message.get(name)?.as_str().map(str::to_owned);
        let offset = message.get("offset")?.as_u64()?;
        Some(Self { offset, timestamp: text("timestamp")?, text: text("payload")? })
    }

    fn number(&self) -> Option<u64> {
        self.text.strip_prefix("letter ")?.split(' ').next()?.parse().ok()
    }
}

type Place = (Topic, u32, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Asked, not answered yet.
    Asked,
    /// Not answered, and never asked again: it may be there.
    Unknown,
    /// Answered: it is there, at its place if that was told.
    There,
    /// Answered: it waits, or was delivered.
    Waiting,
    /// Nobody will answer whether it was cancelled.
    MaybeCancelled,
    /// Answered: it was cancelled before it was delivered.
    Cancelled,
}

#[derive(Debug)]
struct Entry {
    letter: Letter,
    fate: Fate,
    place: Option<Place>,
    /// The id of one that waits.
    id: Option<String>,
}

/// The ledger.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: Vec<Entry>,
    forbidden: u64,
    /// What stands where, read or answered.
    places: BTreeMap<Place, u64>,
    /// What each producer was not answered yet.
    unanswered: BTreeMap<usize, Vec<Asked>>,
    /// Sequences of a producer that were answered.
    acknowledged: BTreeMap<usize, BTreeSet<u64>>,
    /// The timestamp read last of each partition.
    last: BTreeMap<(Topic, u32), i64>,
    looked: BTreeSet<u64>,
    outcomes: Outcomes,
}

impl Ledger {
    /// What became of what was asked.
    #[must_use]
    pub fn outcomes(&self) -> Outcomes {
        let mut outcomes = self.outcomes;
        for entry in &self.entries {
            match (entry.fate, entry.place) {
                (Fate::Unknown, Some(_)) => outcomes.unknown_there += 1,
                (Fate::Unknown, None) => outcomes.unknown_missing += 1,
                (Fate::Waiting | Fate::MaybeCancelled, Some(_)) => outcomes.delivered += 1,
                (Fate::Cancelled, _) => outcomes.cancelled += 1,
                _ => {}
            }
        }
        outcomes
    }

    /// The server is gone, and with it every answer that did not come. What has a sequence may be
    /// asked again.
    pub(super) fn gone(&mut self) {
        for entry in &mut self.entries {
            if entry.fate == Fate::Asked {
                entry.fate = Fate::Unknown;
            }
        }
    }

    pub(super) fn write(&mut self, letter: Letter) -> u64 {
        let number = self.entries.len() as u64;
        self.entries.push(Entry { letter, fate: Fate::Asked, place: None, id: None });
        number
    }

    pub(super) fn forbid(&mut self) -> u64 {
        self.forbidden += 1;
        self.forbidden
    }

    pub(super) fn asking(&mut self, writer: usize, asked: &Asked) {
        self.unanswered.entry(writer).or_default().push(asked.clone());
    }

    /// What a producer was not answered. It asks again or never.
    pub(super) fn unanswered(&mut self, writer: usize) -> Vec<Asked> {
        self.unanswered.remove(&writer).unwrap_or_default()
    }

    pub(super) fn acknowledged_sequence(&self, writer: usize) -> Option<u64> {
        // Recent, so that its content is still remembered.
        self.acknowledged.get(&writer)?.last().copied()
    }

    pub(super) fn some_scheduled(&self, roll: u64) -> Option<(u64, String)> {
        let waiting = self.entries.iter().enumerate().rev().take(400).filter_map(|(n, entry)| {
            let id = entry.id.clone().filter(|_| entry.fate == Fate::Waiting)?;
            Some((n as u64, id))
        });
        let waiting: Vec<_> = waiting.collect();
        let place = usize::try_from(roll).unwrap_or(0).checked_rem(waiting.len())?;
        waiting.get(place).cloned()
    }

    pub(super) fn cancelling(&mut self, letter: u64) {
        if let Some(entry) = self.entry(letter) {
            entry.fate = Fate::MaybeCancelled;
        }
    }

    pub(crate) fn end_of(&self, topic: Topic, partition: u32) -> u64 {
        let of = (topic, partition, 0)..=(topic, partition, u64::MAX);
        // Answers may be ahead of what was read; nothing below them is missing.
        self.places.range(of).next_back().map_or(0, |((_, _, offset), _)| offset + 1)
    }

    /// The letter that stands somewhere, as far as anybody knows.
    pub(crate) fn text_at(&self, topic: Topic, partition: u32, offset: u64) -> Option<String> {
        let number = *self.places.get(&(topic, partition, offset))?;
        let entry = self.entries.get(usize::try_from(number).ok()?)?;
        Some(entry.letter.text(number))
    }

    pub(super) fn answered(
        &mut self,
        asked: &Asked,
        status: u16,
        answer: &Value,
    ) -> Result<(), Trouble> {
        let wrong = || Trouble(format!("{asked:?} was answered {status} {answer}"));
        match &asked.what {
            What::Refused { status: expected } if status == *expected => {
                self.outcomes.refused += 1;
                Ok(())
            }
            What::Cancel(letter) => self.cancelled(*letter, status).ok_or_else(wrong),
            What::Produce { letters, producer, again } if status == 200 => {
                if let Some((writer, first)) = producer {
                    let unanswered = self.unanswered.entry(*writer).or_default();
                    unanswered.retain(|other| other.body != asked.body);
                    let sequences = (*first..).take(letters.len());
                    self.acknowledged.entry(*writer).or_default().extend(sequences);
                }
                let results = answer.get("results").and_then(Value::as_array).ok_or_else(wrong)?;
                if results.len() != letters.len() {
                    return Err(wrong());
                }
                for (letter, result) in letters.iter().zip(results) {
                    self.produced(*letter, result, *again)?;
                }
                Ok(())
            }
            // The journal is small here and may be full for a moment: it was not stored.
            What::Produce { letters, .. } if status == 503 || status == 507 => {
                for letter in letters {
                    if let Some(entry) = self.entry(*letter) {
                        entry.fate = Fate::Unknown;
                    }
                }
                Ok(())
            }
            _ => Err(wrong()),
        }
    }

    fn cancelled(&mut self, letter: u64, status: u16) -> Option<()> {
        let entry = self.entry(letter)?;
        entry.fate = match status {
            200 if entry.place.is_none() => Fate::Cancelled,
            // Delivered, or cancelled before by a request nobody answered.
            404 => Fate::MaybeCancelled,
            503 | 507 => Fate::MaybeCancelled,
            _ => return None,
        };
        Some(())
    }

    fn produced(&mut self, letter: u64, result: &Value, again: bool) -> Result<(), Trouble> {
        let wrong = || Trouble(format!("letter {letter}: {result}"));
        let status = result.get("status").and_then(Value::as_str).ok_or_else(wrong)?;
        let entry = self.entry(letter).ok_or_else(wrong)?;
        if status == "scheduled" {
            entry.id = result.get("id").and_then(Value::as_str).map(str::to_owned);
            entry.fate = Fate::Waiting;
            return if entry.letter.due.is_some() { Ok(()) } else { Err(wrong()) };
        }
        let partition = result.get("partition").and_then(Value::as_u64);
        let partition = partition.and_then(|partition| u32::try_from(partition).ok());
        let offset = result.get("offset").and_then(Value::as_u64);
        let told = partition
            .zip(offset)
            .map(|(partition, offset)| (entry.letter.topic, partition, offset));
        let stored_before = entry.place.is_some() || entry.fate == Fate::There;
        match status {
            "duplicate" if again => self.outcomes.duplicates += 1,
            "stored" | "stored_after_gap" | "stored_late" if !stored_before => {}
            _ => return Err(wrong()),
        }
        self.outcomes.acknowledged += 1;
        if let Some(entry) = self.entry(letter) {
            entry.fate = Fate::There;
        }
        match told {
            Some(place) => self.stands(letter, place),
            None if status == "duplicate" => Ok(()),
            None => Err(wrong()),
        }
    }

    pub(super) fn look_begins(&mut self) {
        self.looked.clear();
        self.last.clear();
    }

    /// A message was read.
    pub(super) fn read(
        &mut self,
        topic: Topic,
        partition: u32,
        found: &Found,
    ) -> Result<(), Trouble> {
        let place = (topic, partition, found.offset);
        let words = |what: &str| Trouble(format!("{place:?} {what}: {:.60}", found.text));
        self.outcomes.read += 1;
        let at = millis_of(&found.timestamp).ok_or_else(|| words("has no time"))?;
        // Pages of a look come in order, and a glance begins behind everything that was read.
        if self.last.insert((topic, partition), at).is_some_and(|last| last > at) {
            return Err(words("is older than the one before"));
        }
        let number = found.number().ok_or_else(|| words("is no letter"))?;
        let entry = self.entry(number).ok_or_else(|| words("was never written"))?;
        let due = entry.letter.due;
        if entry.letter.text(number) != found.text || entry.letter.topic != topic {
            return Err(words("is not as it was written"));
        }
        if entry.fate == Fate::Cancelled {
            return Err(words("was cancelled"));
        }
        if due.is_some_and(|due| at < due) {
            return Err(words("came before its time"));
        }
        self.looked.insert(number);
        self.stands(number, place)
    }

    pub(super) fn read_to_end(
        &self,
        topic: Topic,
        partition: u32,
        end: u64,
    ) -> Result<(), Trouble> {
        let known = self.end_of(topic, partition);
        if end < known {
            return Err(Trouble(format!("{topic:?}/{partition} ends at {end}, {known} was known")));
        }
        Ok(())
    }

    /// Everything was read: what was answered is among it. When `all` is due, what waited is too.
    pub(super) fn look_ends(&mut self, all: bool) -> Result<(), Trouble> {
        for (number, entry) in (0_u64..).zip(&self.entries) {
            let must = entry.place.is_some()
                || entry.fate == Fate::There
                || (all && entry.fate == Fate::Waiting);
            if must && !self.looked.contains(&number) {
                return Err(Trouble(format!("letter {number} is gone: {entry:?}")));
            }
        }
        Ok(())
    }

    fn stands(&mut self, letter: u64, place: Place) -> Result<(), Trouble> {
        if let Some(other) = self.places.insert(place, letter)
            && other != letter
        {
            return Err(Trouble(format!("{place:?} is of letters {other} and {letter}")));
        }
        let Some(entry) = self.entry(letter) else { return Ok(()) };
        match entry.place.replace(place) {
            Some(before) if before != place => {
                Err(Trouble(format!("letter {letter} is at {before:?} and at {place:?}")))
            }
            _ => Ok(()),
        }
    }

    fn entry(&mut self, letter: u64) -> Option<&mut Entry> {
        self.entries.get_mut(usize::try_from(letter).ok()?)
    }
}
