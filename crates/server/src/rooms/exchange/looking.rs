//! When the folders are looked at for files that people put there.
//!
//! A look lists every name in Messages, beside other work: a moment for thousands of files, seconds for
//! a million. Whatever it takes, what is between two looks is a hundred times as long.

use std::sync::{Mutex, MutexGuard, PoisonError};

use handoff_types::{Span, Steady};

/// Between two looks, at least and at most.
const EVERY_MIN: Span = Span::from_secs(2);
const EVERY_MAX: Span = Span::from_secs(600);

/// How much longer than a look the time until the next one is; and if there was more than could be
/// taken in at once.
const REST: u64 = 100;
const REST_IF_MORE: u64 = 10;

/// The same, if there was more, at least.
const AGAIN_MIN: Span = Span::from_millis(200);

/// Who looks when.
#[derive(Debug)]
pub(super) struct Looking(Mutex<Turn>);

#[derive(Clone, Copy, Debug)]
enum Turn {
    /// Nobody looks, and somebody is to from then on.
    From(Steady),
    /// Somebody has been looking since.
    Since(Steady),
}

impl Default for Looking {
    /// The first comparison is under way.
    fn default() -> Self {
        Self(Mutex::new(Turn::Since(Steady(0))))
    }
}

impl Looking {
    /// Whether it is time to look. Whoever is told so does.
    pub(super) fn is_due(&self, now: Steady) -> bool {
        let mut turn = self.turn();
        match *turn {
            Turn::From(due) if due <= now => {
                *turn = Turn::Since(now);
                true
            }
            _ => false,
        }
    }

    /// Everything was compared. How long that took says nothing of a look.
    pub(super) fn compared(&self, now: Steady) {
        *self.turn() = Turn::From(now + EVERY_MIN);
    }

    /// The folders were looked at. `more`: there are files that could not be taken in at once.
    pub(super) fn done(&self, more: bool, now: Steady) {
        let mut turn = self.turn();
        let took = match *turn {
            Turn::Since(begun) => now.since(begun),
            Turn::From(_) => Span::ZERO,
        };
        let (least, rest) = if more { (AGAIN_MIN, REST_IF_MORE) } else { (EVERY_MIN, REST) };
        let pause = took.0.saturating_mul(rest).clamp(least.0, EVERY_MAX.0);
        *turn = Turn::From(now + Span(pause));
    }

    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::Looking;
    use handoff_types::{Span, Steady};

    fn at(millis: u64) -> Steady {
        Steady(0) + Span::from_millis(millis)
    }

    #[test]
    fn folders_that_are_soon_seen_are_looked_at_every_two_seconds() {
        let looking = Looking::default();
        assert!(!looking.is_due(at(60_000)), "they are being compared");
        looking.compared(at(60_000));
        assert!(!looking.is_due(at(61_999)));
        assert!(looking.is_due(at(62_000)));
        assert!(!looking.is_due(at(69_000)), "somebody does");
        looking.done(false, at(62_001));
        assert!(!looking.is_due(at(64_000)));
        assert!(looking.is_due(at(64_001)));
    }

    #[test]
    fn what_takes_long_is_done_seldom() {
        let looking = Looking::default();
        looking.done(false, at(1_000));
        assert!(!looking.is_due(at(100_000)));
        assert!(looking.is_due(at(101_000)));
        looking.done(false, at(161_000));
        assert!(!looking.is_due(at(760_000)));
        assert!(looking.is_due(at(761_000)), "but as often as everything is compared");
    }

    #[test]
    fn many_files_do_not_wait_two_seconds_for_each_few() {
        let looking = Looking::default();
        looking.done(true, at(1));
        assert!(!looking.is_due(at(200)));
        assert!(looking.is_due(at(201)));
        looking.done(true, at(301));
        assert!(!looking.is_due(at(1_300)));
        assert!(looking.is_due(at(1_301)));
    }
}
