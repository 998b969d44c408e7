//! The rules of sequences.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use crate::{Place, Refusal, Remembered, Status};

/// The highest sequence there is, so that every language has a number for it.
pub(crate) const SEQUENCE_MAX: u64 = i64::MAX.unsigned_abs();

/// What is known of a producer's sequences: all of them, or those to one topic.
///
/// ```text
///            floor                          missing             last
///  ──────────┼───────────────────────────────┤  ├────────┤  ├────┼──────────▶
///  too old     stored, place forgotten         late if it    │    last + 1: stored
///                                              comes now     │    beyond: stored after a gap
///                                      remembered ───────────┘
/// ```
///
/// Floor and last are stored themselves, and between two missing ranges something is. What is
/// remembered may lie below the floor: it is known to be stored all the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sequences {
    /// The first sequence of which anything is known. None before the first message.
    pub floor: Option<u64>,
    /// The highest sequence stored.
    pub last: u64,
    /// Ranges between floor and last that never came, ascending; at most [`crate::Bounds`] allows.
    pub missing: Vec<RangeInclusive<u64>>,
    /// The latest stored ones with their places, oldest first.
    pub remembered: VecDeque<Remembered>,
}

/// What a sequence is, as far as it follows from floor, last and what is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    Next,
    /// These never came.
    Gap(RangeInclusive<u64>),
    Late,
    Known,
    TooOld(u64),
}

impl Sequences {
    /// Notes that a message is stored. One that was stored already, or that nobody can know
    /// anything of, changes nothing.
    pub(crate) fn store(&mut self, stored: Remembered, remembered_max: u32, missing_max: u32) {
        match self.course(stored.sequence) {
            Course::Known | Course::TooOld(_) => return,
            Course::Next | Course::Gap(_) | Course::Late => {}
        }
        self.advance(stored.sequence, missing_max);
        let max = usize::try_from(remembered_max).unwrap_or(usize::MAX);
        if max > 0 {
            self.remembered.push_back(stored);
        }
        while self.remembered.len() > max {
            self.remembered.pop_front();
        }
    }

    fn course(&self, sequence: u64) -> Course {
        let Some(floor) = self.floor else { return Course::Next };
        let next = self.last.saturating_add(1);
        if sequence > next {
            return Course::Gap(next..=sequence - 1);
        }
        if sequence > self.last {
            return Course::Next;
        }
        if sequence < floor {
            return Course::TooOld(floor);
        }
        match self.missing_at(sequence) {
            Some(_) => Course::Late,
            None => Course::Known,
        }
    }

    /// The place of the missing range that holds a sequence.
    fn missing_at(&self, sequence: u64) -> Option<usize> {
        let at = self.missing.partition_point(|range| *range.end() < sequence);
        self.missing.get(at).filter(|range| range.contains(&sequence)).map(|_| at)
    }

    /// Moves floor, last and what is missing behind a sequence that is stored now.
    fn advance(&mut self, sequence: u64, missing_max: u32) {
        match self.course(sequence) {
            Course::Known | Course::TooOld(_) => return,
            Course::Next => {
                self.floor.get_or_insert(sequence);
                self.last = sequence;
            }
            Course::Gap(range) => {
                self.missing.push(range);
                self.last = sequence;
            }
            Course::Late => {
                if let Some(at) = self.missing_at(sequence) {
                    let range = self.missing.remove(at);
                    let (start, end) = range.into_inner();
                    let below = (start < sequence).then(|| start..=sequence - 1);
                    let above = (sequence < end).then(|| sequence + 1..=end);
                    self.missing.splice(at..at, below.into_iter().chain(above));
                }
            }
        }
        let max = usize::try_from(missing_max).unwrap_or(usize::MAX);
        while self.missing.len() > max {
            // Of what is below nobody could say any more whether it is stored.
            let dropped = self.missing.remove(0);
            self.floor = Some(dropped.end().saturating_add(1));
        }
    }
}

/// A request's sequences, judged one after the other as if each were stored before the next.
#[derive(Debug)]
pub(crate) struct Trial<'a> {
    known: Option<&'a Sequences>,
    /// Floor, last and missing so far; nothing is remembered here.
    ahead: Sequences,
    /// What of `known` is remembered, by sequence: made when it is first looked for.
    index: Option<Vec<(u64, usize)>>,
    stored: usize,
    remembered_max: usize,
    missing_max: u32,
}

impl<'a> Trial<'a> {
    pub(crate) fn new(known: Option<&'a Sequences>, remembered_max: u32, missing_max: u32) -> Self {
        let ahead = known.map_or_else(Sequences::default, |known| Sequences {
            floor: known.floor,
            last: known.last,
            missing: known.missing.clone(),
            remembered: VecDeque::new(),
        });
        let remembered_max = usize::try_from(remembered_max).unwrap_or(usize::MAX);
        Self { known, ahead, index: None, stored: 0, remembered_max, missing_max }
    }

    /// What becomes of a message. A duplicate has its place, if it is remembered; any other is
    /// to be stored.
    pub(crate) fn judge(&mut self, sequence: u64, crc: u32) -> Result<Verdict, Refusal> {
        if let Some(remembered) = self.remembered(sequence) {
            let Remembered { crc: before, place, .. } = remembered;
            return match before == crc {
                true => Ok(Verdict::Duplicate(Some(place))),
                false => Err(Refusal::SequenceReused { sequence, place }),
            };
        }
        let verdict = match self.ahead.course(sequence) {
            Course::Next => Verdict::Store(Status::Stored, None),
            Course::Gap(range) => Verdict::Store(Status::StoredAfterGap, Some(range)),
            Course::Late => Verdict::Store(Status::StoredLate, None),
            Course::Known => return Ok(Verdict::Duplicate(None)),
            Course::TooOld(floor) => return Err(Refusal::SequenceTooOld { sequence, floor }),
        };
        self.ahead.advance(sequence, self.missing_max);
        self.stored += 1;
        Ok(verdict)
    }

    /// What is remembered of a sequence. A request never says one twice, so what it stores itself
    /// is not looked for; but what it stores makes the oldest forgotten.
    fn remembered(&mut self, sequence: u64) -> Option<Remembered> {
        let known = self.known?;
        if sequence > known.last {
            return None;
        }
        let index = self.index.get_or_insert_with(|| {
            let places = known.remembered.iter().enumerate();
            let mut index: Vec<_> = places.map(|(at, one)| (one.sequence, at)).collect();
            index.sort_unstable();
            index
        });
        let found = index.binary_search_by_key(&sequence, |(sequence, _)| *sequence).ok()?;
        let (_, at) = *index.get(found)?;
        // As many as were there and came, less what there is room for. A lowered limit counts
        // only once something is stored.
        let held = known.remembered.len() + self.stored;
        let gone = if self.stored == 0 { 0 } else { held.saturating_sub(self.remembered_max) };
        if at < gone { None } else { known.remembered.get(at).copied() }
    }
}

/// What becomes of a message with a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is stored, with the range that never came before it.
    Store(Status, Option<RangeInclusive<u64>>),
    /// It is there.
    Duplicate(Option<Place>),
}
