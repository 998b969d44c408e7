//! A sorted set of which most is added at the end and taken away at the front, so that one of it
//! takes its own size and little more.
//!
//! ```text
//!  from 10 │ 12 13 17 …      a run is of things that follow each other: at most 128
//!  from 90 │ 90 91           what it is found by is at most the first of it
//! ```

use std::collections::BTreeMap;
use std::ops::Bound;

/// The most of a run.
const RUN_MAX: usize = 128;

/// A run that is this short is joined with one beside it, if the two are short together.
const RUN_SHORT: usize = RUN_MAX / 8;

/// A sorted set.
#[derive(Clone, Debug)]
pub(crate) struct Runs<T> {
    runs: BTreeMap<T, Vec<T>>,
    len: usize,
}

impl<T> Default for Runs<T> {
    fn default() -> Self {
        Self { runs: BTreeMap::new(), len: 0 }
    }
}

impl<T: Copy + Ord> Runs<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn first(&self) -> Option<T> {
        self.runs.first_key_value().and_then(|(_, run)| run.first().copied())
    }

    /// All of it, in order.
    pub(crate) fn iter(&self) -> Iter<impl Iterator<Item = T>> {
        Iter { all: self.runs.values().flatten().copied(), left: self.len }
    }

    /// The first one after this one.
    pub(crate) fn after(&self, one: T) -> Option<T> {
        let run = self.runs.range(..=one).next_back().map(|(_, run)| run);
        let in_run = run.and_then(|run| run.get(run.partition_point(|other| *other <= one)));
        let behind = || {
            let next = self.runs.range((Bound::Excluded(one), Bound::Unbounded)).next();
            next.and_then(|(_, run)| run.first())
        };
        in_run.or_else(behind).copied()
    }

    /// Adds one. Whether it was not there.
    pub(crate) fn insert(&mut self, one: T) -> bool {
        let Some((_, run)) = self.runs.range_mut(..=one).next_back() else {
            self.insert_first(one);
            return true;
        };
        let Err(at) = run.binary_search(&one) else { return false };
        self.len += 1;
        if run.len() < RUN_MAX {
            run.insert(at, one);
        } else if at == run.len() {
            // Whatever is added in order leaves full runs behind.
            self.runs.insert(one, vec![one]);
        } else {
            let mut behind = run.split_off(RUN_MAX / 2);
            run.shrink_to(RUN_MAX / 2 + 1);
            match at.checked_sub(RUN_MAX / 2) {
                Some(at) => behind.insert(at, one),
                None => run.insert(at, one),
            }
            if let Some(first) = behind.first() {
                self.runs.insert(*first, behind);
            }
        }
        true
    }

    /// Adds one that is before all runs.
    fn insert_first(&mut self, one: T) {
        self.len += 1;
        let first = self.runs.first_entry().filter(|first| first.get().len() < RUN_MAX);
        let mut run = first.map(|first| first.remove()).unwrap_or_default();
        run.insert(0, one);
        self.runs.insert(one, run);
    }

    /// Takes one away. Whether it was there.
    pub(crate) fn remove(&mut self, one: T) -> bool {
        let Some((from, run)) = self.runs.range_mut(..=one).next_back() else { return false };
        let from = *from;
        let Ok(at) = run.binary_search(&one) else { return false };
        run.remove(at);
        self.len -= 1;
        if run.len() < RUN_SHORT {
            self.join(from);
        } else {
            trim(run);
        }
        true
    }

    /// Joins a short run with one beside it, unless that would be a long one.
    fn join(&mut self, from: T) {
        if self.runs.get(&from).is_none_or(Vec::is_empty) {
            self.runs.remove(&from);
            return;
        }
        let next = self.runs.range((Bound::Excluded(from), Bound::Unbounded)).next();
        let next = next.map(|(next, _)| *next);
        let before = self.runs.range(..from).next_back().map(|(before, _)| *before);
        let joined = next.is_some_and(|next| self.append(from, next));
        if !joined && !before.is_some_and(|before| self.append(before, from)) {
            self.runs.get_mut(&from).into_iter().for_each(trim);
        }
    }

    /// Appends a run to the one before it, if both are short together.
    fn append(&mut self, to: T, from: T) -> bool {
        let many = |at| self.runs.get(&at).map_or(0, Vec::len);
        if many(to) + many(from) > RUN_MAX / 2 {
            return false;
        }
        let behind = self.runs.remove(&from).unwrap_or_default();
        self.runs.entry(to).or_default().extend(behind);
        true
    }
}

/// Gives back what a run that was longer has no use for.
fn trim<T>(run: &mut Vec<T>) {
    if run.len() * 4 <= run.capacity() {
        run.shrink_to(run.len() * 2);
    }
}

/// All of a set, and how many are left.
#[derive(Clone, Debug)]
pub(crate) struct Iter<I> {
    all: I,
    left: usize,
}

impl<I: Iterator> Iterator for Iter<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        let next = self.all.next()?;
        self.left = self.left.saturating_sub(1);
        Some(next)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<I: Iterator> ExactSizeIterator for Iter<I> {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::{RUN_MAX, Runs};

    fn check(runs: &Runs<u32>, set: &BTreeSet<u32>) {
        assert_eq!(runs.iter().collect::<Vec<_>>(), set.iter().copied().collect::<Vec<_>>());
        assert_eq!((runs.len(), runs.iter().len()), (set.len(), set.len()));
        assert_eq!((runs.first(), runs.is_empty()), (set.first().copied(), set.is_empty()));
        for (from, run) in &runs.runs {
            assert!(!run.is_empty() && run.len() <= RUN_MAX && run.iter().all(|one| one >= from));
        }
    }

    proptest! {
        #[test]
        fn it_is_a_sorted_set(
            steps in prop::collection::vec((0u32..2000, 1u32..400, any::<bool>(), any::<bool>()), 0..20),
            asked in prop::collection::vec(0u32..2500, 10),
        ) {
            let mut runs = Runs::default();
            let mut set = BTreeSet::new();
            for (from, many, adds, backwards) in steps {
                let ones: Vec<u32> = match backwards {
                    true => (from..from + many).rev().collect(),
                    false => (from..from + many).collect(),
                };
                for one in ones {
                    // Some are left out, so that there are gaps.
                    match adds {
                        true if one % 5 != many % 5 => prop_assert_eq!(runs.insert(one), set.insert(one)),
                        true => {}
                        false => prop_assert_eq!(runs.remove(one), set.remove(&one)),
                    }
                }
                check(&runs, &set);
            }
            for one in asked {
                prop_assert_eq!(runs.after(one), set.range(one + 1..).next().copied());
            }
        }
    }

    #[test]
    fn what_is_added_in_order_leaves_full_runs_and_what_is_thinned_out_few() {
        let mut runs = Runs::default();
        (0..10_000u32).for_each(|one| assert!(runs.insert(one)));
        assert_eq!(runs.runs.len(), 10_000usize.div_ceil(RUN_MAX));
        for one in (0..10_000).filter(|one| one % 100 != 0) {
            assert!(runs.remove(one));
        }
        assert_eq!(runs.len(), 100);
        assert!(runs.runs.len() <= 12, "{} runs", runs.runs.len());
    }
}
