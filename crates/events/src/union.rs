//! Ids from several places, in one order.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, btree_set};
use std::vec;

use crate::Id;

/// The ids of several ascending sources: ascending, each once, taken as they are asked for.
#[derive(Debug)]
pub(crate) struct Union<'a> {
    sources: Vec<Source<'a>>,
    /// The first id of each source that has one, and which source that is.
    heads: BinaryHeap<Reverse<(Id, usize)>>,
    last: Option<Id>,
}

#[derive(Debug)]
enum Source<'a> {
    Set(btree_set::Range<'a, Id>),
    List(vec::IntoIter<Id>),
}

impl Source<'_> {
    fn next(&mut self) -> Option<Id> {
        match self {
            Self::Set(ids) => ids.next().copied(),
            Self::List(ids) => ids.next(),
        }
    }
}

impl<'a> Union<'a> {
    pub(crate) const fn new() -> Self {
        Self { sources: Vec::new(), heads: BinaryHeap::new(), last: None }
    }

    /// Adds what a set has from an id on.
    pub(crate) fn set(&mut self, ids: &'a BTreeSet<Id>, from: Id) {
        self.source(Source::Set(ids.range(from..)));
    }

    /// Adds a list, in any order.
    pub(crate) fn list(&mut self, mut ids: Vec<Id>) {
        ids.sort_unstable();
        self.source(Source::List(ids.into_iter()));
    }

    fn source(&mut self, mut source: Source<'a>) {
        if let Some(head) = source.next() {
            self.heads.push(Reverse((head, self.sources.len())));
            self.sources.push(source);
        }
    }
}

impl Iterator for Union<'_> {
    type Item = Id;

    fn next(&mut self) -> Option<Id> {
        loop {
            let mut head = self.heads.peek_mut()?;
            let Reverse((id, source)) = *head;
            match self.sources.get_mut(source).and_then(Source::next) {
                Some(next) => *head = Reverse((next, source)),
                None => drop(std::collections::binary_heap::PeekMut::pop(head)),
            }
            if self.last != Some(id) {
                self.last = Some(id);
                return Some(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_union_is_ascending_and_has_each_id_once(
            sets in prop::collection::vec(prop::collection::btree_set(0u32..40, 0..12), 0..5),
            list in prop::collection::vec(0u32..40, 0..12),
            from in 0u32..40,
        ) {
            let id = |number: &u32| Id::new(*number).unwrap();
            let sets: Vec<BTreeSet<Id>> = sets.iter().map(|set| set.iter().map(id).collect()).collect();
            let mut union = Union::new();
            let mut expected: BTreeSet<Id> = list.iter().map(id).collect();
            union.list(list.iter().map(id).collect());
            for set in &sets {
                union.set(set, id(&from));
                expected.extend(set.range(id(&from)..));
            }
            prop_assert_eq!(union.collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
        }
    }
}
