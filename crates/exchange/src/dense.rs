//! Values by numbers that are given one after the other, so that most of those between the smallest
//! and the largest are there.
//!
//! ```text
//!  numbers 64..128  │ there 1 0 1 1 0 … │ values a c d …
//!                               the third one is the third value
//! ```
//!
//! A value takes its own size and little more, whichever of its neighbours are gone.

use std::collections::BTreeMap;

/// Numbers of a group, as many as a word has bits.
const GROUP: u64 = 64;

/// Values by numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dense<T> {
    groups: BTreeMap<u64, Group<T>>,
    len: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Group<T> {
    /// One bit for each number, those that are there set.
    there: u64,
    /// Of those that are there, in order.
    values: Vec<T>,
}

impl<T> Default for Dense<T> {
    fn default() -> Self {
        Self { groups: BTreeMap::new(), len: 0 }
    }
}

impl<T> Dense<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        let group = self.groups.get(&(number / GROUP))?;
        group.values.get(group.place(number).ok()?)
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let group = self.groups.get_mut(&(number / GROUP))?;
        let at = group.place(number).ok()?;
        group.values.get_mut(at)
    }

    /// Puts a value in place of whatever there is.
    pub(crate) fn insert(&mut self, number: u64, value: T) {
        let new = || Group { there: 0, values: Vec::new() };
        let group = self.groups.entry(number / GROUP).or_insert_with(new);
        match group.place(number) {
            Ok(at) => {
                if let Some(place) = group.values.get_mut(at) {
                    *place = value;
                }
            }
            Err(at) => {
                group.values.insert(at, value);
                group.there |= bit(number);
                self.len += 1;
            }
        }
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        let group = self.groups.get_mut(&(number / GROUP))?;
        let at = group.place(number).ok()?;
        let gone = group.values.remove(at);
        group.there &= !bit(number);
        self.len -= 1;
        if group.values.is_empty() {
            self.groups.remove(&(number / GROUP));
        } else if group.values.len() * 4 <= group.values.capacity() {
            group.values.shrink_to(group.values.len() * 2);
        }
        Some(gone)
    }

    /// Those from a number on, in order.
    pub(crate) fn from(&self, number: u64) -> impl Iterator<Item = (u64, &T)> {
        let groups = self.groups.range(number / GROUP..);
        let all = groups.flat_map(|(at, group)| {
            let first = at * GROUP;
            let there = (0..GROUP).filter(|one| group.there >> one & 1 == 1);
            there.map(move |one| first + one).zip(&group.values)
        });
        all.skip_while(move |(found, _)| *found < number)
    }
}

impl<T> Group<T> {
    /// Which of the values a number has, or would have.
    fn place(&self, number: u64) -> Result<usize, usize> {
        let before = (self.there & (bit(number) - 1)).count_ones() as usize;
        if self.there & bit(number) == 0 { Err(before) } else { Ok(before) }
    }
}

fn bit(number: u64) -> u64 {
    1 << (number % GROUP)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::Dense;

    proptest! {
        #[test]
        fn it_is_a_map_of_numbers(
            steps in prop::collection::vec((0u64..400, any::<Option<u8>>()), 0..600),
            from in 0u64..400,
        ) {
            let mut dense = Dense::default();
            let mut map = BTreeMap::new();
            for (number, value) in steps {
                match value {
                    Some(value) => {
                        dense.insert(number, value);
                        map.insert(number, value);
                    }
                    None => prop_assert_eq!(dense.remove(number), map.remove(&number)),
                }
                prop_assert_eq!(dense.get(number), map.get(&number));
                prop_assert_eq!(dense.get_mut(number), map.get_mut(&number));
                prop_assert_eq!(dense.len(), map.len());
            }
            let found: Vec<_> = dense.from(from).collect();
            let expected: Vec<_> = map.range(from..).map(|(number, value)| (*number, value)).collect();
            prop_assert_eq!(found, expected);
            // Two of the same are equal, whatever they lived through.
            let mut again = Dense::default();
            map.iter().for_each(|(number, value)| again.insert(*number, *value));
            prop_assert_eq!(dense, again);
        }
    }
}
