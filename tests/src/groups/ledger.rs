//! What this process knows of those who read: handed out, counted, refused, unknown.
//!
//! For each message of each group:
//!
//! ```text
//!  handed out under lease 7, 9, 12 ──▶ counted once, under the last of them
//!                                 └──▶ or nobody knows, and then it is processed or dead all the same
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;

use serde_json::Value;

use crate::consumer::{Got, Message, copy_of, is_copied};
use crate::ledger::Trouble;
use crate::letters::{self, Topic};
use crate::member::{Outcome, Verdict, place};

/// What became of what was handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Consumers that were started.
    pub consumers: u64,
    /// Of those, killed.
    pub consumers_killed: u64,
    /// How often one was frozen.
    pub consumers_frozen: u64,
    /// Messages that were handed out.
    pub handed_out: u64,
    /// Of those, for the second time or later.
    pub again: u64,
    /// Verdicts that count: processed.
    pub ok: u64,
    /// Verdicts that count: failed.
    pub failed: u64,
    /// Verdicts that count: to be tried again.
    pub retried: u64,
    /// Verdicts that do not count.
    pub refused: u64,
    /// Verdicts nobody answered after which nothing more happened to the message.
    pub unknown_there: u64,
    /// Verdicts nobody answered after which it was handed out again.
    pub unknown_missing: u64,
    /// Dead letters.
    pub dead: u64,
    /// Messages stored with a commit.
    pub copies: u64,
}

impl AddAssign for Outcomes {
    fn add_assign(&mut self, other: Self) {
        self.consumers += other.consumers;
        self.consumers_killed += other.consumers_killed;
        self.consumers_frozen += other.consumers_frozen;
        self.handed_out += other.handed_out;
        self.again += other.again;
        self.ok += other.ok;
        self.failed += other.failed;
        self.retried += other.retried;
        self.refused += other.refused;
        self.unknown_there += other.unknown_there;
        self.unknown_missing += other.unknown_missing;
        self.dead += other.dead;
        self.copies += other.copies;
    }
}

/// What a message is in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Final {
    Processed,
    Dead,
}

/// A partition as a group sees it: group, topic, partition.
type Shelf = (String, String, u32);

/// A message as a group sees it.
#[derive(Debug)]
struct Entry {
    message: Message,
    /// The leases it was handed out under, and how often it had been by then.
    leases: BTreeMap<u64, u32>,
    /// What counts in the end, and under which lease.
    counted: Option<(Final, u64)>,
    /// The last lease under which it counts that it is to be tried again.
    retried: Option<u64>,
    /// What nobody answered.
    doubts: BTreeSet<(u64, String)>,
}

/// The ledger.
#[derive(Debug)]
pub(super) struct Ledger {
    attempts_max: u32,
    shelves: BTreeMap<Shelf, BTreeMap<u64, Entry>>,
    /// Whose a lease is.
    holders: BTreeMap<(Shelf, u64), u64>,
    frontiers: BTreeMap<Shelf, u64>,
    generations: BTreeMap<String, u64>,
    letters: BTreeMap<Shelf, BTreeMap<u64, u32>>,
    copies: BTreeSet<String>,
    /// What was heard since it was compared.
    fresh: Vec<(Shelf, u64)>,
    outcomes: Outcomes,
}

impl Ledger {
    pub(super) fn new(attempts_max: u32) -> Self {
        Self {
            attempts_max,
            shelves: BTreeMap::new(),
            holders: BTreeMap::new(),
            frontiers: BTreeMap::new(),
            generations: BTreeMap::new(),
            letters: BTreeMap::new(),
            copies: BTreeSet::new(),
            fresh: Vec::new(),
            outcomes: Outcomes::default(),
        }
    }

    pub(super) fn outcomes(&self) -> Outcomes {
        let mut outcomes = self.outcomes;
        for entry in self.shelves.values().flat_map(BTreeMap::values) {
            let last = entry.leases.last_key_value().map(|(lease, _)| *lease);
            let (there, missing): (Vec<_>, Vec<_>) =
                entry.doubts.iter().partition(|(lease, _)| Some(*lease) == last);
            outcomes.unknown_there += there.len() as u64;
            outcomes.unknown_missing += missing.len() as u64;
        }
        outcomes
    }

    pub(super) fn count(&mut self) -> &mut Outcomes {
        &mut self.outcomes
    }

    /// Somebody was handed messages.
    pub(super) fn handed(&mut self, group: &str, whom: u64, got: &Got) -> Result<(), Trouble> {
        let Got { topic, partition, base, attempt, lease, messages } = got;
        let shelf: Shelf = (group.to_owned(), topic.clone(), *partition);
        let holder = *self.holders.entry((shelf.clone(), *lease)).or_insert(whom);
        if holder != whom {
            let words = format!("{shelf:?}: consumers {holder} and {whom} have lease {lease}");
            return Err(Trouble(words));
        }
        if *attempt == 0 || *attempt > self.attempts_max {
            return Err(Trouble(format!("{shelf:?} {base}: attempt {attempt}")));
        }
        self.outcomes.handed_out += messages.len() as u64;
        for (offset, message) in (*base..).zip(messages) {
            let entries = self.shelves.entry(shelf.clone()).or_default();
            let entry = entries.entry(offset).or_insert_with(|| Entry {
                message: message.clone(),
                leases: BTreeMap::new(),
                counted: None,
                retried: None,
                doubts: BTreeSet::new(),
            });
            let wrong = |entry: &Entry, what: &str| {
                let words = format!("{shelf:?} {offset} {what} under {lease}/{attempt}: {entry:?}");
                Err(Trouble(words))
            };
            if entry.message != *message {
                return wrong(entry, "is another message");
            }
            if entry.counted.is_some_and(|(_, counted)| counted < *lease) {
                return wrong(entry, "was finished and is handed out");
            }
            self.outcomes.again += u64::from(!entry.leases.is_empty());
            let before = entry.leases.range(..lease).next_back().map(|(_, attempt)| *attempt);
            let after = entry.leases.range(lease + 1..).next().map(|(_, attempt)| *attempt);
            let fits = before.is_none_or(|before| before <= *attempt)
                && after.is_none_or(|after| *attempt <= after);
            if !fits || entry.leases.insert(*lease, *attempt).is_some() {
                return wrong(entry, "is handed out");
            }
            self.fresh.push((shelf.clone(), offset));
        }
        Ok(())
    }

    /// A commit was taken, the whole of it.
    pub(super) fn told(
        &mut self,
        group: &str,
        asked: &[Verdict],
        results: &[Outcome],
        again: bool,
    ) -> Result<(), Trouble> {
        let mut answered: u64 = 0;
        for result in results {
            let of = |verdict: &&Verdict| {
                (&verdict.topic, verdict.partition) == (&result.topic, result.partition)
                    && verdict.from <= result.from
                    && result.to <= verdict.to
            };
            let verdict = asked.iter().find(of);
            let verdict = verdict.ok_or_else(|| Trouble(format!("nobody asked: {result:?}")))?;
            let part = Verdict { from: result.from, to: result.to, ..verdict.clone() };
            answered += result.to - result.from + 1;
            match (result.counts(), again) {
                (true, _) => self.counts(group, &part)?,
                (false, true) => self.doubt(group, &[part]),
                (false, false) => self.outcomes.refused += result.to - result.from + 1,
            }
        }
        let whole: u64 = asked.iter().map(|verdict| verdict.to - verdict.from + 1).sum();
        if answered != whole {
            return Err(Trouble(format!("{whole} verdicts, {answered} answers: {results:?}")));
        }
        Ok(())
    }

    /// A commit was refused, the whole of it.
    pub(super) fn refused(
        &mut self,
        group: &str,
        asked: &[Verdict],
        code: &str,
        again: bool,
    ) -> Result<(), Trouble> {
        if code != "streams.fenced" {
            return Err(Trouble(format!("{asked:?} was refused: {code}")));
        }
        match again {
            true => self.doubt(group, asked),
            false => {
                let all = asked.iter().map(|verdict| verdict.to - verdict.from + 1);
                self.outcomes.refused += all.sum::<u64>();
            }
        }
        Ok(())
    }

    /// Nobody will answer these.
    pub(super) fn doubt(&mut self, group: &str, asked: &[Verdict]) {
        for verdict in asked {
            for offset in verdict.from..=verdict.to {
                if let Some(entry) = self.entry(group, verdict, offset)
                    && verdict.status != "extend"
                {
                    entry.doubts.insert((verdict.lease, verdict.status.clone()));
                }
            }
        }
    }

    fn counts(&mut self, group: &str, verdict: &Verdict) -> Result<(), Trouble> {
        let count = verdict.to - verdict.from + 1;
        match &*verdict.status {
            "ok" => self.outcomes.ok += count,
            "failed" => self.outcomes.failed += count,
            "retry" => self.outcomes.retried += count,
            _ => return Ok(()),
        }
        let (lease, attempts_max) = (verdict.lease, self.attempts_max);
        for offset in verdict.from..=verdict.to {
            let words = format!("{group}: {verdict:?} counts for {offset}");
            let Some(entry) = self.entry(group, verdict, offset) else {
                return Err(Trouble(format!("{words}, which nobody was handed")));
            };
            let attempt = entry.leases.get(&lease).copied().unwrap_or(0);
            let outcome = match &*verdict.status {
                "ok" => Some(Final::Processed),
                "retry" if attempt < attempts_max => None,
                _ => Some(Final::Dead),
            };
            let fits = match outcome {
                // Whoever was handed it later fences whoever had it before, so it is the last lease.
                Some(outcome) => {
                    let counted = (outcome, lease);
                    entry.leases.last_key_value().is_some_and(|(last, _)| *last == lease)
                        && entry.counted.replace(counted).is_none_or(|before| before == counted)
                        && entry.retried.is_none_or(|retried| retried < lease)
                }
                None => {
                    entry.retried = entry.retried.max(Some(lease));
                    entry.counted.is_none_or(|(_, counted)| counted > lease)
                }
            };
            if !fits {
                return Err(Trouble(format!("{words}: {entry:?}")));
            }
        }
        Ok(())
    }

    fn entry(&mut self, group: &str, verdict: &Verdict, offset: u64) -> Option<&mut Entry> {
        let shelf = (group.to_owned(), verdict.topic.clone(), verdict.partition);
        self.shelves.get_mut(&shelf)?.get_mut(&offset)
    }

    /// Where a group is: it never goes back.
    pub(super) fn frontier(
        &mut self,
        group: &str,
        topic: &str,
        partition: u32,
        committed: u64,
    ) -> Result<(), Trouble> {
        let shelf = (group.to_owned(), topic.to_owned(), partition);
        match self.frontiers.insert(shelf.clone(), committed) {
            Some(before) if before > committed => {
                Err(Trouble(format!("{shelf:?} went back from {before} to {committed}")))
            }
            _ => Ok(()),
        }
    }

    /// The generation of a group: it never goes back.
    pub(super) fn generation(&mut self, group: &str, generation: u64) -> Result<(), Trouble> {
        match self.generations.insert(group.to_owned(), generation) {
            Some(before) if before > generation => {
                Err(Trouble(format!("{group} went back from generation {before} to {generation}")))
            }
            _ => Ok(()),
        }
    }

    /// What was handed out is what stands there, and stays there.
    pub(super) fn compare(&mut self, letters: &letters::Ledger) -> Result<(), Trouble> {
        for (shelf, offset) in std::mem::take(&mut self.fresh) {
            let (_, topic, partition) = &shelf;
            let topic = Topic::ALL.into_iter().find(|one| one.name() == topic);
            let text = topic.and_then(|topic| letters.text_at(topic, *partition, offset));
            let found = self.shelves.get(&shelf).and_then(|entries| entries.get(&offset));
            let crc = text.as_ref().map(|text| crc32c::crc32c(text.as_bytes()));
            if crc.is_none() || crc != found.map(|entry| entry.message.crc) {
                let text = text.map(|text| text.chars().take(40).collect::<String>());
                let words = format!("{shelf:?} {offset} should be {text:?}: {found:?}");
                return Err(Trouble(words));
            }
        }
        Ok(())
    }

    /// First deliveries of what has to come in order did.
    pub(super) fn in_order(&self, group: &str, ordering: &str) -> Result<(), Trouble> {
        for (shelf, entries) in self.shelves.iter().filter(|((of, ..), _)| of == group) {
            let mut last: BTreeMap<Option<&str>, (u64, u64)> = BTreeMap::new();
            for (offset, entry) in entries {
                let key = entry.message.key.as_deref();
                if ordering == "key" && key.is_none() {
                    continue;
                }
                let key = key.filter(|_| ordering == "key");
                let Some(first) = entry.leases.first_key_value().map(|(lease, _)| *lease) else {
                    continue;
                };
                if let Some((before, at)) = last.insert(key, (*offset, first))
                    && at > first
                {
                    let words = format!("{shelf:?} {key:?}: {offset} came before {before}");
                    return Err(Trouble(words));
                }
            }
        }
        Ok(())
    }

    /// The dead letters of a group.
    pub(super) fn buried(&mut self, group: &str, letters: &[Value]) -> Result<(), Trouble> {
        for letter in letters {
            let text = letter.to_string().chars().take(400).collect::<String>();
            let wrong = || Trouble(format!("{group}, a letter: {text}"));
            let origin = letter.get("origin").ok_or_else(wrong)?;
            let (topic, partition) = place(origin).ok_or_else(wrong)?;
            let offset = origin.get("offset").and_then(Value::as_u64).ok_or_else(wrong)?;
            let attempt = letter.get("attempt").and_then(Value::as_u64).ok_or_else(wrong)?;
            let attempt = u32::try_from(attempt).map_err(|_| wrong())?;
            let payload = letter.get("payload").and_then(Value::as_str).ok_or_else(wrong)?;
            let shelf = (group.to_owned(), topic, partition);
            let entry = self.shelves.get(&shelf).and_then(|entries| entries.get(&offset));
            let crc = crc32c::crc32c(payload.as_bytes());
            if entry.is_some_and(|entry| entry.message.crc != crc) {
                return Err(wrong());
            }
            if self.letters.entry(shelf).or_default().insert(offset, attempt).is_some() {
                return Err(Trouble(format!("{group}, buried twice: {text}")));
            }
            self.outcomes.dead += 1;
        }
        Ok(())
    }

    /// What was stored with commits.
    pub(super) fn copied(&mut self, copies: Vec<String>) -> Result<(), Trouble> {
        self.outcomes.copies += copies.len() as u64;
        for copy in copies {
            if let Some(copy) = self.copies.replace(copy) {
                return Err(Trouble(format!("copied twice: {copy}")));
            }
        }
        Ok(())
    }

    /// Everything of a partition is processed or dead, as it was said, and copied if it should be.
    pub(super) fn ended(
        &mut self,
        group: &str,
        topic: &str,
        partition: u32,
        end: u64,
    ) -> Result<(), Trouble> {
        let shelf = (group.to_owned(), topic.to_owned(), partition);
        let committed = self.frontiers.get(&shelf).copied();
        if committed != Some(end) {
            return Err(Trouble(format!("{shelf:?} is at {committed:?} of {end}")));
        }
        let none = BTreeMap::new();
        let entries = self.shelves.get(&shelf).unwrap_or(&none);
        for offset in 0..end {
            let dead = self.letters.get(&shelf).and_then(|letters| letters.get(&offset));
            let entry = entries.get(&offset);
            let copy = copy_of(group, topic, partition, offset);
            let is_copied = is_copied(offset) && dead.is_none();
            if self.copies.contains(&copy) != is_copied {
                let words = format!("{copy}: copied or not, {dead:?}: {entry:?}");
                return Err(Trouble(words));
            }
            let may_be = match (entry, dead) {
                // Handed out as often as may be, and nobody heard of it.
                (None, dead) => dead == Some(&self.attempts_max),
                (Some(entry), dead) => self.may_be(entry, dead.copied()),
            };
            if !may_be {
                let words = format!("{shelf:?} {offset}, a letter {dead:?}: {entry:?}");
                return Err(Trouble(words));
            }
        }
        Ok(())
    }

    fn may_be(&self, entry: &Entry, dead: Option<u32>) -> bool {
        let last = entry.leases.last_key_value().map_or(0, |(lease, _)| *lease);
        let doubted = |status: &str| entry.doubts.contains(&(last, status.to_owned()));
        match (entry.counted, dead) {
            (Some((counted, _)), dead) => (counted == Final::Dead) == dead.is_some(),
            (None, None) => doubted("ok"),
            (None, Some(attempt)) => doubted("failed") || attempt == self.attempts_max,
        }
    }

    /// What the server says of a message.
    pub(super) fn shown(
        &self,
        group: &str,
        topic: &str,
        partition: u32,
        offset: u64,
        shown: &Final,
    ) -> Result<(), Trouble> {
        let shelf = (group.to_owned(), topic.to_owned(), partition);
        let is_dead = self.letters.get(&shelf).is_some_and(|letters| letters.contains_key(&offset));
        if is_dead != (*shown == Final::Dead) {
            return Err(Trouble(format!("{shelf:?} {offset} is shown as {shown:?}")));
        }
        Ok(())
    }
}
