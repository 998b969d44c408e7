//! What is known of the offsets between the first that is not finished and the next to be handed
//! out, as ranges.
//!
//! ```text
//!        start                                              next
//!          ▼                                                  ▼
//!  ─ done ─┤ leased 7 │ done │ waiting │ leased 9 │  waiting  ├─ not looked at yet ─
//! ```
//!
//! The ranges lie side by side without a gap. Neighbours of which the same is known are one range,
//! so that memory grows with disorder and not with what is in flight; only keys take four bytes a
//! message, and none if no message has one.

use std::collections::BTreeMap;
use std::sync::Arc;

use handoff_types::Steady;

use super::position::LeaseId;

/// The longest range that knows keys: the window is no larger.
const KEYED_MAX: u64 = 1 << 20;

/// What is known of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    /// To be handed out.
    Waiting {
        /// Not before this.
        until: Steady,
        /// How often it was handed out.
        attempt: u32,
        /// What was said when it came back last.
        error: Option<Arc<str>>,
    },
    /// Handed out.
    Leased {
        /// Under which lease.
        lease: LeaseId,
        /// How often it was handed out, this time included.
        attempt: u32,
    },
    /// Finished, one way or the other.
    Done,
}

impl Mark {
    /// To be handed out for the first time, at once.
    pub(crate) const FRESH: Self = Self::Waiting { until: Steady(0), attempt: 0, error: None };
}

/// What the keys of some messages hash to, 0 for one without a key. Empty: none has one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Keys(Vec<u32>);

impl Keys {
    /// These, one for each message.
    #[must_use]
    pub fn of(hashes: Vec<u32>) -> Self {
        if hashes.iter().all(|hash| *hash == 0) { Self::default() } else { Self(hashes) }
    }

    /// One for each message, or none at all.
    #[must_use]
    pub fn hashes(&self) -> &[u32] {
        &self.0
    }

    /// The hash of the n-th; 0: it has no key.
    #[must_use]
    pub fn get(&self, n: u64) -> u32 {
        let n = usize::try_from(n).unwrap_or(usize::MAX);
        self.0.get(n).copied().unwrap_or(0)
    }

    fn split_off(&mut self, at: u64) -> Self {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        if at >= self.0.len() {
            return Self::default();
        }
        let behind = Self::of(self.0.split_off(at));
        self.0.shrink_to_fit();
        *self = Self::of(std::mem::take(&mut self.0));
        behind
    }

    fn join(&mut self, count: u64, behind: &Self, behind_count: u64) {
        if self.0.is_empty() && behind.0.is_empty() {
            return;
        }
        let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let total = size(count).saturating_add(size(behind_count));
        self.0.resize(size(count), 0);
        self.0.extend_from_slice(&behind.0);
        self.0.resize(total, 0);
    }
}

/// Messages of which the same is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// The last offset.
    pub last: u64,
    /// What is known.
    pub mark: Mark,
    /// Their keys; none of what is finished.
    pub keys: Keys,
}

/// The ranges, by their first offsets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ranges(BTreeMap<u64, Range>);

impl Ranges {
    /// All of them.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &Range)> {
        self.0.iter().map(|(first, range)| (*first, range))
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The range an offset lies in.
    pub(crate) fn at(&self, offset: u64) -> Option<(u64, &Range)> {
        let (first, range) = self.0.range(..=offset).next_back()?;
        (range.last >= offset).then_some((*first, range))
    }

    /// Those that some offsets lie in; the first and the last may reach beyond them.
    pub(crate) fn over(&self, first: u64, last: u64) -> impl Iterator<Item = (u64, &Range)> {
        let from = self.at(first).map_or(first, |(from, _)| from);
        let end = if first > last { from } else { last.saturating_add(1) };
        self.0.range(from..end.max(from)).map(|(first, range)| (*first, range))
    }

    /// Puts a range where it is said to begin, as it is.
    pub(crate) fn put(&mut self, first: u64, range: Range) {
        self.0.insert(first, range);
    }

    /// Puts a range behind the last one. Whoever does so sees to it that there is no gap.
    pub(crate) fn push(&mut self, first: u64, range: Range) {
        self.0.insert(first, range);
        self.unite(first);
    }

    /// Lets what is finished at the front go; gives the first offset that is not.
    pub(crate) fn advance(&mut self) -> Option<u64> {
        let mut start = None;
        while let Some(entry) = self.0.first_entry()
            && entry.get().mark == Mark::Done
        {
            start = Some(entry.remove().last.saturating_add(1));
        }
        start
    }

    /// Changes what is known of the offsets from one to another. `change` is told what was known of
    /// a part of them and gives what is known then; none: as before.
    pub(crate) fn rewrite(
        &mut self,
        first: u64,
        last: u64,
        mut change: impl FnMut(u64, &Range) -> Option<Mark>,
    ) {
        if first > last {
            return;
        }
        self.cut(first);
        if let Some(behind) = last.checked_add(1) {
            self.cut(behind);
        }
        let mut touched = Vec::new();
        for (first, range) in self.0.range_mut(first..=last) {
            if let Some(mark) = change(*first, range) {
                if mark == Mark::Done {
                    range.keys = Keys::default();
                }
                range.mark = mark;
            }
            touched.push(*first);
        }
        // From the back, so that each meets a neighbour that is united already.
        for first in touched.iter().rev() {
            self.unite(*first);
        }
        if let Some((next, _)) = last.checked_add(1).and_then(|next| self.at(next)) {
            self.unite(next);
        }
    }

    /// Makes a range begin at an offset.
    fn cut(&mut self, at: u64) {
        let Some((first, range)) = self.0.range_mut(..at).next_back() else { return };
        if range.last < at {
            return;
        }
        let keys = range.keys.split_off(at - first);
        let behind = Range { last: range.last, mark: range.mark.clone(), keys };
        range.last = at - 1;
        self.0.insert(at, behind);
    }

    /// Makes the range that begins here one with that before it, if the same is known of both.
    fn unite(&mut self, first: u64) {
        let Some(before) = first.checked_sub(1).and_then(|last| self.at(last)) else { return };
        let from = before.0;
        let same = |range: &Range| {
            let keyless = range.keys.0.is_empty() && before.1.keys.0.is_empty();
            range.mark == before.1.mark && (keyless || range.last - from < KEYED_MAX)
        };
        if from == first || !self.0.get(&first).is_some_and(same) {
            return;
        }
        let Some(behind) = self.0.remove(&first) else { return };
        if let Some(range) = self.0.get_mut(&from) {
            range.keys.join(first - from, &behind.keys, behind.last - first + 1);
            range.last = behind.last;
        }
    }
}
