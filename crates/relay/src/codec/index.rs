//! How an encoder finds the number of what it has said before.

use handoff_types::entropy::mix;
use hashbrown::HashTable;

use super::dictionary::Dictionary;
use crate::labels::{Labels, hash};
use crate::wire::low_half;

/// A number and half of the hash it is found by: the other half chose the shard.
type Entry = (u32, u32);

#[derive(Debug, Default)]
pub(super) struct Index {
    symbols: HashTable<Entry>,
    name_sets: HashTable<Entry>,
    series: HashTable<Entry>,
    names: Vec<u32>,
    values: Vec<u32>,
}

impl Index {
    /// The number of a series, if it was said before.
    #[inline]
    pub(super) fn series(
        &self,
        dictionary: &Dictionary,
        hash: u64,
        labels: Labels<'_>,
    ) -> Option<u32> {
        let half = low_half(hash);
        let found = self.series.find(spread(half), |(number, known)| {
            *known == half && dictionary.labels(*number).eq(labels.iter())
        });
        found.map(|(number, _)| *number)
    }

    /// Gives a number to a series that has none.
    pub(super) fn add(
        &mut self,
        dictionary: &mut Dictionary,
        hash: u64,
        labels: Labels<'_>,
    ) -> u32 {
        self.names.clear();
        self.values.clear();
        for (name, value) in labels.iter() {
            let name = symbol(&mut self.symbols, dictionary, name);
            let value = symbol(&mut self.symbols, dictionary, value);
            self.names.push(name);
            self.values.push(value);
        }
        let name_set = name_set(&mut self.name_sets, dictionary, &self.names);
        let number = dictionary.push_series(name_set, &self.values);
        insert(&mut self.series, number, low_half(hash));
        number
    }
}

fn symbol(table: &mut HashTable<Entry>, dictionary: &mut Dictionary, bytes: &[u8]) -> u32 {
    let half = low_half(hash(bytes));
    let found = table.find(spread(half), |(number, known)| {
        *known == half && dictionary.symbol(*number) == Some(bytes)
    });
    if let Some((number, _)) = found {
        return *number;
    }
    let number = dictionary.push_symbol(bytes);
    insert(table, number, half);
    number
}

fn name_set(table: &mut HashTable<Entry>, dictionary: &mut Dictionary, names: &[u32]) -> u32 {
    let half = names_half(names);
    let found = table.find(spread(half), |(number, known)| {
        *known == half && dictionary.name_set(*number) == Some(names)
    });
    if let Some((number, _)) = found {
        return *number;
    }
    let number = dictionary.push_name_set(names);
    insert(table, number, half);
    number
}

fn insert(table: &mut HashTable<Entry>, number: u32, half: u32) {
    table.insert_unique(spread(half), (number, half), |(_, half)| spread(*half));
}

fn names_half(names: &[u32]) -> u32 {
    low_half(names.iter().fold(0, |state, name| mix(state ^ u64::from(*name))))
}

/// Half a hash made whole again, for a table that looks at both ends of it.
const fn spread(half: u32) -> u64 {
    (half as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
