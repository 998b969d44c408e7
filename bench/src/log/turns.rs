//! Measurements that take turns.

use std::io;

/// Takes one measurement and keeps what it saw.
pub(super) type Measurement<'a> = dyn FnMut() -> io::Result<()> + 'a;

/// Takes measurements one after the other, each time beginning with the next one: a disk that has
/// just written much is slower for a while, and so is whoever comes first or last every time.
pub(super) fn take_turns(turn: usize, measurements: &mut [&mut Measurement<'_>]) -> io::Result<()> {
    let first = turn % measurements.len().max(1);
    measurements.rotate_left(first);
    measurements.iter_mut().try_for_each(|measurement| measurement())
}

#[cfg(test)]
mod tests {
    use super::take_turns;
    use std::cell::RefCell;

    #[test]
    fn each_measurement_comes_first_once_in_as_many_turns() {
        let seen = RefCell::new(String::new());
        for turn in 0..3 {
            let note = |name| {
                seen.borrow_mut().push(name);
                Ok(())
            };
            let (mut a, mut b, mut c) = (|| note('a'), || note('b'), || note('c'));
            take_turns(turn, &mut [&mut a, &mut b, &mut c]).unwrap();
        }
        assert_eq!(seen.into_inner(), "abcbcacab");
    }
}
