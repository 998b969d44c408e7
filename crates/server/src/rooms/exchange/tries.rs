//! Wrong activation codes, by where they came from.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use handoff_types::{Span, Steady};

/// How long a wrong try counts.
const WINDOW: Span = Span::from_secs(60);

/// Wrong tries of the last minute. An address that has none is not in it.
#[derive(Debug, Default)]
pub(super) struct Tries(Mutex<HashMap<IpAddr, Counted>>);

#[derive(Clone, Copy, Debug)]
struct Counted {
    since: Steady,
    tries: u32,
}

/// So many tries are taken, of so many addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) tries: u32,
    pub(super) addresses: usize,
}

impl Tries {
    /// Whether somebody may try a code, which is not counted.
    ///
    /// # Errors
    /// After how many seconds.
    pub(super) fn check(&self, from: IpAddr, bounds: Bounds, now: Steady) -> Result<(), u32> {
        expect_few(&mut self.counted(), neighbourhood(from), bounds, now)
    }

    /// Counts a wrong try.
    ///
    /// # Errors
    /// After how many seconds another may be made; this one is not counted.
    pub(super) fn count(&self, from: IpAddr, bounds: Bounds, now: Steady) -> Result<(), u32> {
        let from = neighbourhood(from);
        let mut counted = self.counted();
        expect_few(&mut counted, from, bounds, now)?;
        counted.entry(from).or_insert(Counted { since: now, tries: 0 }).tries += 1;
        Ok(())
    }

    /// It was not wrong, as far as anybody knows.
    pub(super) fn give_back(&self, from: IpAddr) {
        let from = neighbourhood(from);
        let mut counted = self.counted();
        if let Some(one) = counted.get_mut(&from) {
            one.tries = one.tries.saturating_sub(1);
            if one.tries == 0 {
                counted.remove(&from);
            }
        }
    }

    fn counted(&self) -> MutexGuard<'_, HashMap<IpAddr, Counted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses an address with as many wrong tries as may be, and one that cannot be counted: it could
/// try for ever.
fn expect_few(
    counted: &mut HashMap<IpAddr, Counted>,
    from: IpAddr,
    bounds: Bounds,
    now: Steady,
) -> Result<(), u32> {
    let over = |one: &Counted| now.since(one.since) >= WINDOW;
    match counted.get(&from) {
        Some(one) if over(one) => drop(counted.remove(&from)),
        Some(one) if one.tries >= bounds.tries => {
            return Err(seconds(Span(WINDOW.0.saturating_sub(now.since(one.since).0))));
        }
        Some(_) => return Ok(()),
        None => {}
    }
    if counted.len() >= bounds.addresses {
        counted.retain(|_, one| !over(one));
    }
    if counted.len() < bounds.addresses { Ok(()) } else { Err(seconds(WINDOW)) }
}

/// Whoever has one IPv6 address has 2⁶⁴ of them.
fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => IpAddr::V6((u128::from(six) >> 64 << 64).into()),
        four @ IpAddr::V4(_) => four,
    }
}

fn seconds(span: Span) -> u32 {
    u32::try_from(span.0.div_ceil(1_000_000)).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::{Bounds, Tries};
    use handoff_types::{Span, Steady};
    use std::net::IpAddr;

    const BOUNDS: Bounds = Bounds { tries: 5, addresses: 2 };

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn after_five_wrong_tries_a_minute_passes() {
        let tries = Tries::default();
        let at = |secs| Steady(0) + Span::from_secs(secs);
        for _ in 0..5 {
            assert_eq!(tries.count(ip("10.0.0.1"), BOUNDS, at(0)), Ok(()));
        }
        assert_eq!(tries.count(ip("10.0.0.1"), BOUNDS, at(20)), Err(40));
        assert_eq!(tries.count(ip("::ffff:10.0.0.1"), BOUNDS, at(20)), Err(40), "the same");
        assert_eq!(tries.count(ip("10.0.0.2"), BOUNDS, at(20)), Ok(()), "somebody else");
        assert_eq!(tries.count(ip("10.0.0.1"), BOUNDS, at(60)), Ok(()));
    }

    #[test]
    fn right_tries_do_not_count_however_many_come_at_once() {
        let tries = Tries::default();
        for _ in 0..50 {
            assert_eq!(tries.check(ip("10.0.0.1"), BOUNDS, Steady(0)), Ok(()));
        }
        assert!(tries.counted().is_empty());
        assert_eq!(tries.count(ip("10.0.0.1"), BOUNDS, Steady(0)), Ok(()));
        tries.give_back(ip("10.0.0.1"));
        assert!(tries.counted().is_empty());
    }

    #[test]
    fn whoever_tried_too_often_is_not_told_which_code_is_right() {
        let tries = Tries::default();
        for _ in 0..5 {
            tries.count(ip("10.0.0.1"), BOUNDS, Steady(0)).unwrap();
        }
        assert_eq!(tries.check(ip("10.0.0.1"), BOUNDS, Steady(0)), Err(60));
        tries.count(ip("10.0.0.2"), BOUNDS, Steady(0)).unwrap();
        assert_eq!(tries.check(ip("10.0.0.3"), BOUNDS, Steady(0)), Err(60), "nobody counts it");
    }

    #[test]
    fn more_addresses_than_are_counted_have_to_wait() {
        let tries = Tries::default();
        assert_eq!(tries.count(ip("10.0.0.1"), BOUNDS, Steady(0)), Ok(()));
        assert_eq!(tries.count(ip("2001:db8::1"), BOUNDS, Steady(0)), Ok(()));
        assert_eq!(tries.count(ip("2001:db8::2"), BOUNDS, Steady(0)), Ok(()), "the same network");
        assert_eq!(tries.count(ip("10.0.0.3"), BOUNDS, Steady(0)), Err(60));
        let later = Steady(0) + Span::from_secs(60);
        assert_eq!(tries.count(ip("10.0.0.3"), BOUNDS, later), Ok(()));
    }
}
