//! How far the folders are behind.
//!
//! Bodies are filed about in the order they were taken. Of so many that have no file yet, the oldest
//! is the one that was taken so many before the last:
//!
//! ```text
//!  taken   ●●●●●●●●●●●●○○○○○○○   now
//!          08:00:00    ▲ 08:00:04
//!                      └ the first of 7 that have no file: so far behind
//! ```
//!
//! That is what was; what will be, [`super::pace`] says.

use std::collections::VecDeque;

use handoff_types::{Span, Steady};

/// Bodies that were taken within this of each other count as taken together.
const TOGETHER: Span = Span::from_millis(100);

/// When bodies were taken that may have no file yet.
#[derive(Debug)]
pub(super) struct Lag {
    begun: Steady,
    taken: u64,
    /// When, and how many were taken before.
    samples: VecDeque<(Steady, u64)>,
}

impl Lag {
    /// Bodies of before the start count as taken at the start.
    pub(super) fn new(now: Steady) -> Self {
        Self { begun: now, taken: 0, samples: VecDeque::new() }
    }

    /// So many bodies were taken.
    pub(super) fn take(&mut self, many: usize, now: Steady) {
        if many == 0 {
            return;
        }
        if self.samples.back().is_none_or(|(at, _)| now.since(*at) >= TOGETHER) {
            self.samples.push_back((now, self.taken));
        }
        self.taken += many as u64;
    }

    /// So many bodies have no file that is on disk for sure: since when the oldest of them waits.
    pub(super) fn behind(&mut self, unfiled: usize, now: Steady) -> Span {
        let unfiled = unfiled as u64;
        if unfiled == 0 {
            self.samples.clear();
            return Span::ZERO;
        }
        let Some(filed) = self.taken.checked_sub(unfiled) else { return now.since(self.begun) };
        while self.samples.get(1).is_some_and(|(_, before)| *before <= filed) {
            self.samples.pop_front();
        }
        self.samples.front().map_or(Span::ZERO, |(at, _)| now.since(*at))
    }
}

#[cfg(test)]
mod tests {
    use super::Lag;
    use handoff_types::{Span, Steady};

    fn at(secs: u64) -> Steady {
        Steady(0) + Span::from_secs(secs)
    }

    #[test]
    fn the_oldest_body_without_a_file_says_how_far_behind() {
        let mut lag = Lag::new(at(0));
        assert_eq!(lag.behind(0, at(9)), Span::ZERO);
        lag.take(5, at(10));
        lag.take(5, at(12));
        lag.take(5, at(14));
        assert_eq!(lag.behind(15, at(14)), Span::from_secs(4));
        assert_eq!(lag.behind(11, at(15)), Span::from_secs(5), "the fifth is one of the first");
        assert_eq!(lag.behind(10, at(15)), Span::from_secs(3));
        assert_eq!(lag.behind(1, at(15)), Span::from_secs(1));
        assert_eq!(lag.behind(0, at(15)), Span::ZERO);
        lag.take(1, at(20));
        assert_eq!(lag.behind(1, at(20)), Span::ZERO);
    }

    #[test]
    fn bodies_of_before_the_start_wait_since_the_start() {
        let mut lag = Lag::new(at(100));
        lag.take(1, at(103));
        assert_eq!(lag.behind(7, at(105)), Span::from_secs(5));
    }

    #[test]
    fn a_steady_stream_is_as_far_behind_as_its_oldest_whatever_came_before() {
        let mut lag = Lag::new(at(0));
        lag.take(10, at(0));
        for second in 1..1_000 {
            lag.take(10, at(second));
            assert_eq!(lag.behind(20, at(second)), Span::from_secs(1));
        }
        assert!(lag.samples.len() < 4);
    }
}
