//! Words that a block has said already: symbols, label-name sets and label sets, each by a number.
//!
//! All three only grow, so that an earlier dictionary is a prefix of a later one ([`Extent`]): a
//! segment carries what came since the one before, a key frame everything up to a point.
//!
//! ```text
//! delta       │ symbols │ name sets │ series          so many there were before
//!             │ symbols │ name sets │ series          so many are new
//!             │ length × new symbols │ their bytes
//!             │ (labels │ symbol × labels) × new name sets
//!             │ (name set, signed, less that of the series before │ value × its labels) × new series
//! value       0 what the series before had for this name │ 1 the symbol behind the greatest so far
//!             │ n the symbol n − 2
//! ```

use hashbrown::HashMap;

use super::CodecLimits;
use crate::wire::{self, Front, Malformed};

/// How much of a dictionary is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) symbols: u32,
    pub(crate) name_sets: u32,
    pub(crate) series: u32,
}

/// Pieces of one kind behind each other, found by number.
#[derive(Clone, Debug)]
struct Pieces<T> {
    items: Vec<T>,
    ends: Vec<u32>,
}

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        Self { items: Vec::new(), ends: Vec::new() }
    }
}

impl<T: Copy> Pieces<T> {
    fn len(&self) -> u32 {
        u32::try_from(self.ends.len()).unwrap_or(u32::MAX)
    }

    #[inline]
    fn get(&self, at: u32) -> Option<&[T]> {
        let at = at as usize;
        let end = *self.ends.get(at)? as usize;
        let begin = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied();
        self.items.get(begin.unwrap_or(0) as usize..end)
    }

    fn push(&mut self, items: impl IntoIterator<Item = T>) {
        let items = items.into_iter();
        grow(&mut self.items, items.size_hint().0);
        self.items.extend(items);
        grow(&mut self.ends, 1);
        // The limits of the dictionary keep all items far below four billion.
        self.ends.push(u32::try_from(self.items.len()).unwrap_or(u32::MAX));
    }
}

/// Makes room by an eighth at a time: a doubled vector would cost a series more than its labels.
pub(super) fn grow<T>(items: &mut Vec<T>, more: usize) {
    if items.capacity() - items.len() < more {
        items.reserve_exact(more.max(items.len() / 8).max(16));
    }
}

/// Symbols, label-name sets and label sets by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dictionary {
    symbols: Pieces<u8>,
    name_sets: Pieces<u32>,
    /// Of each series its name set, then a symbol for each name.
    series: Pieces<u32>,
}

impl Dictionary {
    pub(crate) fn extent(&self) -> Extent {
        Extent {
            symbols: self.symbols.len(),
            name_sets: self.name_sets.len(),
            series: self.series.len(),
        }
    }

    /// The bytes of all symbols.
    pub(super) const fn symbol_bytes(&self) -> usize {
        self.symbols.items.len()
    }

    /// Names and values of all series, counted.
    pub(super) const fn label_count(&self) -> usize {
        self.series.items.len() + self.name_sets.items.len()
    }

    #[inline]
    pub(crate) fn symbol(&self, at: u32) -> Option<&[u8]> {
        self.symbols.get(at)
    }

    pub(super) fn name_set(&self, at: u32) -> Option<&[u32]> {
        self.name_sets.get(at)
    }

    /// The name symbol and the value symbol of each label of a series.
    #[inline]
    pub(crate) fn label_symbols(&self, series: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let (names, values) = self.set(series).unwrap_or_default();
        names.iter().copied().zip(values.iter().copied())
    }

    /// The labels of a series.
    pub(crate) fn labels(&self, series: u32) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.label_symbols(series)
            .filter_map(|(name, value)| Some((self.symbol(name)?, self.symbol(value)?)))
    }

    fn set(&self, series: u32) -> Option<(&[u32], &[u32])> {
        let (names, values) = self.series.get(series)?.split_first()?;
        Some((self.name_sets.get(*names)?, values))
    }

    pub(super) fn push_symbol(&mut self, bytes: &[u8]) -> u32 {
        let at = self.symbols.len();
        self.symbols.push(bytes.iter().copied());
        at
    }

    pub(super) fn push_name_set(&mut self, names: &[u32]) -> u32 {
        let at = self.name_sets.len();
        self.name_sets.push(names.iter().copied());
        at
    }

    pub(super) fn push_series(&mut self, name_set: u32, values: &[u32]) -> u32 {
        let at = self.series.len();
        grow(&mut self.series.items, values.len() + 1);
        self.series.push(std::iter::once(name_set).chain(values.iter().copied()));
        at
    }

    /// Writes what lies between two extents.
    pub(super) fn write(&self, from: Extent, to: Extent, out: &mut Vec<u8>) {
        for number in [from.symbols, from.name_sets, from.series] {
            wire::put(out, number.into());
        }
        let news = [
            to.symbols.saturating_sub(from.symbols),
            to.name_sets.saturating_sub(from.name_sets),
            to.series.saturating_sub(from.series),
        ];
        for number in news {
            wire::put(out, number.into());
        }
        let symbols = || (from.symbols..to.symbols).filter_map(|at| self.symbol(at));
        for symbol in symbols() {
            wire::put_len(out, symbol.len());
        }
        for symbol in symbols() {
            out.extend_from_slice(symbol);
        }
        for names in (from.name_sets..to.name_sets).filter_map(|at| self.name_set(at)) {
            wire::put_len(out, names.len());
            for name in names {
                wire::put(out, (*name).into());
            }
        }
        let mut context = Context::new(from.symbols);
        for series in from.series..to.series {
            let Some((name_set, values)) = self.series.get(series).and_then(<[u32]>::split_first)
            else {
                continue;
            };
            wire::put_signed(out, i64::from(*name_set) - i64::from(context.name_set));
            context.name_set = *name_set;
            let names = self.name_set(*name_set).unwrap_or_default();
            for (name, value) in names.iter().zip(values) {
                wire::put(out, context.code(*name, *value));
            }
        }
    }

    /// Reads what [`Self::write`] wrote and grows by it.
    ///
    /// # Errors
    /// Nothing is allocated beyond the limits. The dictionary may have grown in part.
    pub(super) fn read(
        &mut self,
        front: &mut Front<'_>,
        limits: &CodecLimits,
    ) -> Result<(), Malformed> {
        let (from, to) = read_extents(front)?;
        if from != self.extent() {
            return Err(Malformed("its dictionary does not continue the one before"));
        }
        if to.series > limits.series_max {
            return Err(Malformed("has more series than allowed"));
        }
        self.read_symbols(front, to.symbols - from.symbols, limits)?;
        for _ in from.name_sets..to.name_sets {
            self.read_name_set(front, limits)?;
        }
        let mut context = Context::new(from.symbols);
        for _ in from.series..to.series {
            self.read_series(front, &mut context, limits)?;
        }
        Ok(())
    }

    fn read_symbols(
        &mut self,
        front: &mut Front<'_>,
        new: u32,
        limits: &CodecLimits,
    ) -> Result<(), Malformed> {
        let mut lengths = *front;
        let mut all = 0_u64;
        for _ in 0..new {
            all = all.saturating_add(front.number()?);
        }
        let all = usize::try_from(all).ok().filter(|all| *all <= front.left());
        let all = all.ok_or(Malformed("has symbols longer than itself"))?;
        if self.symbol_bytes().saturating_add(all) > limits.symbol_bytes_max {
            return Err(Malformed("has more symbol bytes than allowed"));
        }
        for _ in 0..new {
            let len = usize::try_from(lengths.number()?).unwrap_or(usize::MAX);
            let symbol = front.bytes(len)?;
            self.push_symbol(symbol);
        }
        Ok(())
    }

    fn read_name_set(
        &mut self,
        front: &mut Front<'_>,
        limits: &CodecLimits,
    ) -> Result<(), Malformed> {
        let count = front.count()?;
        if count > limits.labels_max || self.label_count() + count > limits.label_count_max {
            return Err(Malformed("has more labels than allowed"));
        }
        let mut names = Vec::with_capacity(count);
        for _ in 0..count {
            let name = front.small()?;
            self.symbol(name).ok_or(Malformed("names a symbol that does not exist"))?;
            names.push(name);
        }
        self.push_name_set(&names);
        Ok(())
    }

    fn read_series(
        &mut self,
        front: &mut Front<'_>,
        context: &mut Context,
        limits: &CodecLimits,
    ) -> Result<(), Malformed> {
        let name_set = i64::from(context.name_set).checked_add(front.signed()?);
        let name_set = name_set.and_then(|number| u32::try_from(number).ok());
        let name_set = name_set.ok_or(Malformed("names a name set that does not exist"))?;
        context.name_set = name_set;
        let names = self.name_sets.get(name_set);
        let names = names.ok_or(Malformed("names a name set that does not exist"))?;
        if self.label_count() + names.len() + 1 > limits.label_count_max {
            return Err(Malformed("has more labels than allowed"));
        }
        context.values.clear();
        for name in names {
            let value = context.value(*name, front.number()?)?;
            if value >= self.symbols.len() {
                return Err(Malformed("names a symbol that does not exist"));
            }
            context.values.push(value);
        }
        let values = std::mem::take(&mut context.values);
        self.push_series(name_set, &values);
        context.values = values;
        Ok(())
    }
}

/// The two extents in front of a delta.
pub(super) fn read_extents(front: &mut Front<'_>) -> Result<(Extent, Extent), Malformed> {
    let from =
        Extent { symbols: front.small()?, name_sets: front.small()?, series: front.small()? };
    let mut grown = |from: u32| {
        let new = u32::try_from(front.count()?).map_err(|_| Malformed("grows too far"))?;
        from.checked_add(new).ok_or(Malformed("grows too far"))
    };
    let to = Extent {
        symbols: grown(from.symbols)?,
        name_sets: grown(from.name_sets)?,
        series: grown(from.series)?,
    };
    Ok((from, to))
}

/// What values are coded against, within one delta.
struct Context {
    name_set: u32,
    last: HashMap<u32, u32, Mixed>,
    fresh: u32,
    values: Vec<u32>,
}

impl Context {
    fn new(fresh: u32) -> Self {
        Self { name_set: 0, last: HashMap::default(), fresh, values: Vec::new() }
    }

    fn code(&mut self, name: u32, value: u32) -> u64 {
        let code = if self.last.get(&name) == Some(&value) {
            0
        } else if value == self.fresh {
            1
        } else {
            u64::from(value) + 2
        };
        self.learn(name, value);
        code
    }

    fn value(&mut self, name: u32, code: u64) -> Result<u32, Malformed> {
        let value = match code {
            0 => self.last.get(&name).copied().ok_or(Malformed("repeats a value nobody had"))?,
            1 => self.fresh,
            _ => u32::try_from(code - 2).map_err(|_| Malformed("a number is too large"))?,
        };
        self.learn(name, value);
        Ok(value)
    }

    fn learn(&mut self, name: u32, value: u32) {
        self.last.insert(name, value);
        self.fresh = self.fresh.max(value.saturating_add(1));
    }
}

/// Hashes a symbol's number. Numbers are given by ourselves or bounded by the limits, so a peer
/// gains nothing by choosing them.
#[derive(Clone, Copy, Debug, Default)]
struct Mixed;

impl std::hash::BuildHasher for Mixed {
    type Hasher = Mixing;

    fn build_hasher(&self) -> Mixing {
        Mixing(0)
    }
}

struct Mixing(u64);

impl std::hash::Hasher for Mixing {
    fn finish(&self) -> u64 {
        handoff_types::entropy::mix(self.0)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0 << 8 ^ u64::from(*byte);
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = number.into();
    }
}
