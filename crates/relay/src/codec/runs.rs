//! Numbers that often repeat, and numbers that are often nothing.
//!
//! ```text
//! runs        (number │ how often, less one) …
//! sparse      (control │ …) …     control even: control / 2 + 1 times nothing
//!                                 control odd:  control / 2 + 1 signed numbers follow
//! ```

use crate::wire::{self, Front, Malformed, unzigzag, zigzag};

/// Writes numbers as runs.
#[derive(Debug)]
pub(super) struct Runs<'a> {
    out: &'a mut Vec<u8>,
    number: u64,
    times: u64,
}

impl<'a> Runs<'a> {
    pub(super) const fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, number: 0, times: 0 }
    }

    #[inline]
    pub(super) fn push(&mut self, number: u64) {
        if self.times > 0 && number == self.number {
            self.times += 1;
        } else {
            self.flush();
            (self.number, self.times) = (number, 1);
        }
    }

    pub(super) fn finish(mut self) {
        self.flush();
    }

    fn flush(&mut self) {
        if let Some(more) = self.times.checked_sub(1) {
            wire::put(self.out, self.number);
            wire::put(self.out, more);
        }
    }
}

/// Reads runs number by number.
#[derive(Debug)]
pub(super) struct ReadRuns<'a> {
    front: Front<'a>,
    number: u64,
    left: u64,
}

impl<'a> ReadRuns<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { front: Front(bytes), number: 0, left: 0 }
    }

    #[inline]
    pub(super) fn next(&mut self) -> Result<u64, Malformed> {
        if self.left == 0 {
            self.number = self.front.number()?;
            self.left = self.front.number()?.saturating_add(1);
        }
        self.left -= 1;
        Ok(self.number)
    }

    pub(super) const fn end(&self) -> Result<(), Malformed> {
        if self.left == 0 { self.front.end() } else { Err(Malformed("has more numbers than said")) }
    }
}

/// Writes numbers most of which are nothing.
pub(super) fn put_sparse(out: &mut Vec<u8>, mut numbers: &[i64]) {
    while let Some(first) = numbers.first() {
        let nothing = *first == 0;
        let len = numbers.iter().position(|number| (*number == 0) != nothing);
        let (run, rest) = numbers.split_at(len.unwrap_or(numbers.len()));
        numbers = rest;
        let more = run.len() as u64 - 1;
        wire::put(out, more << 1 | u64::from(!nothing));
        if !nothing {
            for number in run {
                wire::put(out, zigzag(*number));
            }
        }
    }
}

/// Reads what [`put_sparse`] wrote, number by number.
#[derive(Debug)]
pub(super) struct ReadSparse<'a> {
    front: Front<'a>,
    nothing: bool,
    left: u64,
}

impl<'a> ReadSparse<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { front: Front(bytes), nothing: false, left: 0 }
    }

    #[inline]
    pub(super) fn next(&mut self) -> Result<i64, Malformed> {
        if self.left == 0 {
            let control = self.front.number()?;
            self.nothing = control & 1 == 0;
            self.left = (control >> 1) + 1;
        }
        self.left -= 1;
        if self.nothing { Ok(0) } else { self.front.number().map(unzigzag) }
    }

    pub(super) const fn end(&self) -> Result<(), Malformed> {
        if self.left == 0 { self.front.end() } else { Err(Malformed("has more numbers than said")) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{ReadRuns, ReadSparse, Runs, put_sparse};

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn numbers_come_back_in_their_order(
            numbers in prop::collection::vec(prop_oneof![3 => Just(0), 1 => any::<i64>()], 0..50),
        ) {
            let (mut runs, mut sparse) = (Vec::new(), Vec::new());
            let mut writer = Runs::new(&mut runs);
            numbers.iter().for_each(|number| writer.push(number.cast_unsigned()));
            writer.finish();
            put_sparse(&mut sparse, &numbers);
            let (mut runs, mut sparse) = (ReadRuns::new(&runs), ReadSparse::new(&sparse));
            for number in numbers {
                prop_assert_eq!(runs.next(), Ok(number.cast_unsigned()));
                prop_assert_eq!(sparse.next(), Ok(number));
            }
            prop_assert!(runs.end().is_ok() && sparse.end().is_ok());
        }
    }
}
