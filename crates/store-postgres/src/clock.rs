//! The database's clock, without asking it every time.
//!
//! ```text
//!  here   before ───────────────┬────────────── after      the answer says what time it was there,
//!  there                        │ told                      somewhere between the two
//! ```
//!
//! The difference is at most half the round trip wrong. The best sample is kept, and ages: clocks
//! drift apart.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use handoff_types::{Now, Steady, Wall};
use rustix::time::{ClockId, clock_gettime};

/// Counts suspend, as steady time must.
#[cfg(target_os = "linux")]
const LOCAL: ClockId = ClockId::Boottime;

/// The closest there is.
#[cfg(not(target_os = "linux"))]
const LOCAL: ClockId = ClockId::Monotonic;

/// By how much two clocks drift apart: one part in so many.
const DRIFT: i64 = 10_000;

/// What time it is there. Steady time is the same clock, and never goes back in one process.
#[derive(Debug)]
pub(crate) struct Clock {
    best: Mutex<Option<Sample>>,
    latest: AtomicU64,
}

/// What the difference was.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// The database's clock less the one here.
    ahead: i64,
    /// How wrong that may be.
    error: i64,
    /// When it was learnt, on the clock here.
    at: i64,
}

/// Microseconds of a clock here that does not go back.
pub(crate) fn moment() -> i64 {
    let time = clock_gettime(LOCAL);
    time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1_000)
}

impl Clock {
    pub(crate) const fn new() -> Self {
        Self { best: Mutex::new(None), latest: AtomicU64::new(0) }
    }

    /// An answer to what was asked at `before` says what time it is there.
    pub(crate) fn learn(&self, before: i64, told: i64) {
        let sample = Sample::of(before, moment(), told);
        let mut best = self.best.lock().unwrap_or_else(PoisonError::into_inner);
        if best.is_none_or(|best| sample.error <= best.error_at(sample.at)) {
            *best = Some(sample);
        }
    }

    pub(crate) fn now(&self) -> Now {
        let best = *self.best.lock().unwrap_or_else(PoisonError::into_inner);
        let wall = moment().saturating_add(best.map_or(0, |best| best.ahead));
        let steady = u64::try_from(wall).unwrap_or(0);
        let latest = self.latest.fetch_max(steady, Ordering::Relaxed).max(steady);
        Now { wall: Wall(wall), steady: Steady(latest) }
    }
}

impl Sample {
    const fn of(before: i64, after: i64, told: i64) -> Self {
        let error = after.saturating_sub(before) / 2;
        Self { ahead: told.saturating_sub(before.saturating_add(error)), error, at: after }
    }

    const fn error_at(self, moment: i64) -> i64 {
        self.error.saturating_add(moment.saturating_sub(self.at) / DRIFT)
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, Sample, moment};

    #[test]
    fn the_difference_is_taken_in_the_middle_and_is_half_the_round_trip_wrong() {
        let sample = Sample::of(1_000, 1_600, 50_000);
        assert_eq!((sample.ahead, sample.error), (48_700, 300));
    }

    #[test]
    fn a_worse_answer_counts_once_the_better_one_is_old() {
        let good = Sample::of(0, 100, 0);
        assert!(good.error_at(1_000_000) < 1_000);
        assert!(good.error_at(20_000_000) > 1_000);
    }

    #[test]
    fn steady_time_does_not_go_back_when_the_database_is_set_back() {
        let clock = Clock::new();
        clock.learn(moment(), 2_000_000_000_000_000);
        let before = clock.now();
        clock.best.lock().unwrap().as_mut().unwrap().ahead = 0;
        let after = clock.now();
        assert!(after.wall < before.wall && after.steady >= before.steady);
    }
}
