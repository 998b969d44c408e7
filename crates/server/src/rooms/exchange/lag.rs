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
//! That is what was. What comes in large pieces may be more than can be filed in time while its
//! oldest is still young, so the rate of filing is measured too, and says how long those that have
//! no file will take. It is what is filed in a second *of work*: whoever files has nothing to do while
//! few bodies come, and a rate that fell then would keep them few.

use std::collections::VecDeque;

use handoff_types::{Span, Steady};

/// Bodies that were taken within this of each other count as taken together.
const TOGETHER: Span = Span::from_millis(100);

/// The rate is measured whenever files have become durable, over so much work at least.
const RATE_OVER: Span = Span::from_millis(100);

/// After so much work without a durable file, the rate is falling.
const IN_VAIN: Span = Span::from_secs(1);

/// What a slow disk files in a second; what is believed until it was measured.
const RATE_GUESSED: u64 = 1_000;

/// When bodies were taken that may have no file yet.
#[derive(Debug)]
pub(super) struct Lag {
    begun: Steady,
    taken: u64,
    /// Of those, how many have no file.
    unfiled: u64,
    /// When, and how many were taken before.
    samples: VecDeque<(Steady, u64)>,
    /// Bodies filed in a second of work.
    rate: u64,
    /// How much work had been done when it was measured, and how many had been filed.
    measured: (Span, u64),
}

impl Lag {
    /// Bodies of before the start count as taken at the start.
    pub(super) fn new(now: Steady) -> Self {
        let (samples, measured) = (VecDeque::new(), (Span::ZERO, 0));
        Self { begun: now, taken: 0, unfiled: 0, samples, rate: RATE_GUESSED, measured }
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
        self.unfiled += many as u64;
    }

    /// So many bodies have no file, after so much work on files: since when the oldest of them waits.
    pub(super) fn behind(&mut self, unfiled: usize, worked: Span, now: Steady) -> Span {
        let unfiled = unfiled as u64;
        self.unfiled = unfiled;
        self.measure(self.taken.saturating_sub(unfiled), worked);
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

    /// How long those that have no file will take.
    pub(super) fn ahead(&self) -> Span {
        let micros = u128::from(self.unfiled) * 1_000_000 / u128::from(self.rate.max(1));
        Span(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    fn measure(&mut self, filed: u64, worked: Span) {
        let (before, filed_before) = self.measured;
        let took = Span(worked.0.saturating_sub(before.0));
        let more = filed.saturating_sub(filed_before);
        if more > 0 && took >= RATE_OVER {
            self.rate = a_second(more, took);
            self.measured = (worked, filed);
        } else if more == 0 && took >= IN_VAIN {
            // Not even one was made durable.
            self.rate = self.rate.min(a_second(1, took));
        }
    }
}

fn a_second(many: u64, took: Span) -> u64 {
    let rate = u128::from(many) * 1_000_000 / u128::from(took.0.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::Lag;
    use handoff_types::{Span, Steady};

    fn at(secs: u64) -> Steady {
        Steady(0) + Span::from_secs(secs)
    }

    const NONE: Span = Span::ZERO;

    #[test]
    fn the_oldest_body_without_a_file_says_how_far_behind() {
        let mut lag = Lag::new(at(0));
        assert_eq!(lag.behind(0, NONE, at(9)), Span::ZERO);
        lag.take(5, at(10));
        lag.take(5, at(12));
        lag.take(5, at(14));
        assert_eq!(lag.behind(15, NONE, at(14)), Span::from_secs(4));
        assert_eq!(
            lag.behind(11, NONE, at(15)),
            Span::from_secs(5),
            "the fifth is one of the first"
        );
        assert_eq!(lag.behind(10, NONE, at(15)), Span::from_secs(3));
        assert_eq!(lag.behind(1, NONE, at(15)), Span::from_secs(1));
        assert_eq!(lag.behind(0, NONE, at(15)), Span::ZERO);
        lag.take(1, at(20));
        assert_eq!(lag.behind(1, NONE, at(20)), Span::ZERO);
    }

    #[test]
    fn what_has_no_file_takes_as_long_as_files_took_before() {
        let mut lag = Lag::new(at(0));
        lag.take(3_000, at(9));
        assert_eq!(lag.ahead(), Span::from_secs(3), "believed of a slow disk");
        lag.take(97_000, at(10));
        lag.behind(100_000, Span::ZERO, at(10));
        lag.behind(96_000, Span::from_secs(1), at(11));
        assert_eq!(lag.ahead(), Span::from_secs(24));
        lag.take(4_000, at(11));
        assert_eq!(lag.ahead(), Span::from_secs(25), "what came since counts at once");
        lag.behind(99_999, Span::from_millis(1_050), at(12));
        assert_eq!(lag.ahead(), Span::from_micros(24_999_750), "a moment says nothing");
    }

    /// Devices that were slowed for a moment stayed slow for good: what was filed in a second was
    /// what had come in it, so the rate fell with them.
    #[test]
    fn whoever_has_little_to_file_is_not_slow() {
        let mut lag = Lag::new(at(0));
        let mut worked = Span::ZERO;
        for second in 1..100 {
            lag.take(100, at(second));
            lag.behind(100, worked, at(second));
            worked = Span(worked.0 + 10_000);
            lag.behind(0, worked, at(second));
        }
        lag.take(10_000, at(100));
        assert_eq!(lag.ahead(), Span::from_secs(1), "100 files in 10 ms of work");
    }

    #[test]
    fn a_disk_that_stands_still_files_nothing_in_time() {
        let mut lag = Lag::new(at(0));
        lag.take(10, at(10));
        lag.behind(10, Span::ZERO, at(10));
        lag.behind(10, Span::from_secs(2), at(12));
        assert!(lag.ahead() >= Span::from_secs(10), "{:?}", lag.ahead());
        lag.behind(5, Span::from_secs(10), at(20));
        lag.behind(0, Span::from_secs(11), at(21));
        lag.take(5, at(22));
        assert_eq!(lag.ahead(), Span::from_secs(1), "and it goes on as fast as it is");
    }

    #[test]
    fn bodies_of_before_the_start_wait_since_the_start() {
        let mut lag = Lag::new(at(100));
        lag.take(1, at(103));
        assert_eq!(lag.behind(7, NONE, at(105)), Span::from_secs(5));
    }

    #[test]
    fn a_steady_stream_is_as_far_behind_as_its_oldest_whatever_came_before() {
        let mut lag = Lag::new(at(0));
        lag.take(10, at(0));
        for second in 1..1_000 {
            lag.take(10, at(second));
            assert_eq!(lag.behind(20, NONE, at(second)), Span::from_secs(1));
        }
        assert!(lag.samples.len() < 4);
    }
}
