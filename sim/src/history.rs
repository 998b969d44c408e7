//! What happened in a run: a hash of everything, a count of each kind of thing, and the words.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::{self, Write};

use crate::room::{Command, Reply};

/// How many of the last lines are kept when not all are.
const LAST_LINES: usize = 24;

/// Everything that happened, in order.
///
/// Two runs did the same if their histories have the same [`History::hash`].
#[derive(Clone, Debug)]
pub struct History {
    hash: u64,
    lines: VecDeque<String>,
    keep: usize,
    census: Census,
}

/// How much of a history is kept in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The last lines, for whoever reads a failure.
    Last,
    /// All of them.
    All,
}

/// How often each kind of thing happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census(BTreeMap<(Kind, &'static str), u64>);

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Steps of a world.
    Step,
    /// Commands, by kind.
    Sent,
    /// Commands that were done.
    Acknowledged,
    /// Commands that had been done before.
    Repeated,
    /// Commands that were refused.
    Refused,
    /// Commands whose fate their sender does not know.
    Unknown,
    /// Refusals, by reason.
    Refusal,
    /// Actions performed.
    Performed,
    /// Faults that the simulator put in the way.
    Injected,
    /// What a broker went through.
    Broker,
    /// Commands that storage did not admit, by reason.
    NotAdmitted,
    /// What storage went through.
    Storage,
    /// How a process ended, and what came of opening its directory again.
    Restart,
}

impl History {
    /// An empty history.
    #[must_use]
    pub fn new(keep: Keep) -> Self {
        let keep = match keep {
            Keep::Last => LAST_LINES,
            Keep::All => usize::MAX,
        };
        let hash = 0xcbf2_9ce4_8422_2325;
        Self { hash, lines: VecDeque::new(), keep, census: Census::default() }
    }

    /// Writes down that something happened.
    pub fn tell(&mut self, what: fmt::Arguments<'_>) {
        let mut line = if self.lines.len() < self.keep {
            String::new()
        } else {
            self.lines.pop_front().unwrap_or_default()
        };
        line.clear();
        if line.write_fmt(what).is_err() {
            line.push_str(" (and words failed)");
        }
        for byte in line.bytes().chain([b'\n']) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        self.lines.push_back(line);
    }

    /// Counts something.
    pub fn count(&mut self, kind: Kind, what: &'static str) {
        self.census.add(kind, what, 1);
    }

    /// Counts an answer by its outcome.
    pub(crate) fn count_answer(&mut self, command: &Command, reply: &Reply) {
        match reply {
            Reply::Refused(refusal) => {
                self.count(Kind::Refused, command.kind());
                self.count(Kind::Refusal, refusal.kind());
            }
            Reply::Repeated { .. } => self.count(Kind::Repeated, command.kind()),
            _ => self.count(Kind::Acknowledged, command.kind()),
        }
    }

    /// The hash of all lines so far (FNV-1a).
    #[must_use]
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// The lines that were kept, oldest first.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }

    /// The counts.
    #[must_use]
    pub const fn census(&self) -> &Census {
        &self.census
    }
}

impl Census {
    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Self) {
        for ((kind, what), count) in &other.0 {
            self.add(*kind, what, *count);
        }
    }

    /// How often this happened.
    #[must_use]
    pub fn of(&self, kind: Kind, what: &'static str) -> u64 {
        self.0.get(&(kind, what)).copied().unwrap_or(0)
    }

    /// How often anything of this kind happened.
    #[must_use]
    pub fn total(&self, kind: Kind) -> u64 {
        self.of_kind(kind).map(|(_, count)| count).sum()
    }

    /// The counts of one kind, by name.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (&'static str, u64)> {
        self.0
            .iter()
            .filter(move |((of, _), _)| *of == kind)
            .map(|((_, what), count)| (*what, *count))
    }

    fn add(&mut self, kind: Kind, what: &'static str, count: u64) {
        *self.0.entry((kind, what)).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use super::{History, Keep, Kind, LAST_LINES};

    #[test]
    fn the_hash_covers_lines_that_are_no_longer_kept() {
        let of = |first: &str| {
            let mut history = History::new(Keep::Last);
            history.tell(format_args!("{first}"));
            (0..LAST_LINES).for_each(|line| history.tell(format_args!("{line}")));
            assert_eq!(history.lines().count(), LAST_LINES);
            (history.hash(), history.lines().map(str::to_owned).collect::<Vec<_>>())
        };
        let (one, other) = (of("a"), of("b"));
        assert_ne!(one.0, other.0);
        assert_eq!(one.1, other.1);
    }

    #[test]
    fn counts_add_up_over_histories() {
        let mut history = History::new(Keep::All);
        history.count(Kind::Sent, "add");
        history.count(Kind::Sent, "hold");
        let mut census = history.census().clone();
        census.merge(history.census());
        assert_eq!(census.of(Kind::Sent, "add"), 2);
        assert_eq!(census.total(Kind::Sent), 4);
        assert_eq!(census.total(Kind::Injected), 0);
    }
}
