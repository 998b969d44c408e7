//! When an event occurs.

use std::time::Duration;

use handoff_types::{Span, Wall};
use thiserror::Error;

use crate::cron::Cron;

/// When an event occurs.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// Every so often.
    Every(Period),
    /// At times of a calendar.
    Cron(Box<Cron>),
    /// Once, at a time. `repeat` must be 1 (or 0).
    At(Wall),
}

/// A schedule that cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct BadSchedule(pub String);

impl Schedule {
    /// A period in seconds as clients send it.
    ///
    /// # Errors
    /// [`BadSchedule`] when it is negative, not a number, infinite, or above 100 years. Whether it
    /// is too short is decided by the room, which knows the bounds.
    pub fn every_secs(secs: f64) -> Result<Self, BadSchedule> {
        Period::from_secs(secs).map(Self::Every)
    }
}

/// The time between two occurrences.
///
/// Clients send a number of seconds and are shown the same number again, bit for bit, whether
/// microseconds can express it or not. What the room waits is that number to the nearest
/// microsecond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Period(f64);

impl Period {
    /// 100 years of 365¼ days.
    pub const MAX: Span = Span::from_secs(3_155_760_000);

    /// A period in seconds as clients send it.
    ///
    /// # Errors
    /// As [`Schedule::every_secs`].
    pub fn from_secs(secs: f64) -> Result<Self, BadSchedule> {
        let bad = |what: &str| Err(BadSchedule(format!("the period is {secs} seconds; {what}")));
        if secs.is_nan() {
            return Err(BadSchedule("the period is not a number".to_owned()));
        }
        if secs < 0.0 {
            return bad("it cannot be negative");
        }
        if secs > Self::from(Self::MAX).0 {
            return bad("100 years (3155760000 seconds) are the most");
        }
        // A negative zero is no time at all, and shown as that.
        Ok(Self(secs.abs()))
    }

    /// In seconds, as it was given.
    #[must_use]
    pub const fn secs(self) -> f64 {
        self.0
    }

    /// To the nearest microsecond.
    #[must_use]
    pub fn span(self) -> Span {
        let nanos = Duration::try_from_secs_f64(self.0).map_or(0, |period| period.as_nanos());
        Span(u64::try_from((nanos + 500) / 1_000).unwrap_or(u64::MAX))
    }
}

impl From<Span> for Period {
    /// Correctly rounded, because up to [`Period::MAX`] both numbers of the division are exact:
    /// what has at most six decimals comes out as the number that is written with them.
    fn from(span: Span) -> Self {
        Self(secs(span))
    }
}

/// A span in seconds, as the protocol and the API write it.
pub(crate) fn secs(span: Span) -> f64 {
    span.0 as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_period_is_shown_as_it_was_sent(secs in 0.0..=3_155_760_000.0_f64) {
            prop_assert_eq!(Period::from_secs(secs).unwrap().secs().to_bits(), secs.to_bits());
        }

        #[test]
        fn a_period_of_whole_microseconds_is_waited_exactly(micros in 0..=Period::MAX.0) {
            prop_assert_eq!(Period::from(Span(micros)).span(), Span(micros));
        }

        #[test]
        fn a_decimal_number_of_seconds_and_its_microseconds_are_the_same_number(
            micros in 0..=Period::MAX.0
        ) {
            let written = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
            let parsed: f64 = written.parse().unwrap();
            prop_assert_eq!(Period::from(Span(micros)).secs().to_bits(), parsed.to_bits());
        }

        #[test]
        fn what_is_waited_is_within_half_a_microsecond(secs in 0.0..1e6_f64) {
            let waited = Period::from_secs(secs).unwrap().span().0 as f64 / 1e6;
            prop_assert!((waited - secs).abs() <= 0.501e-6);
        }
    }

    #[test]
    fn a_period_that_no_clock_can_keep_is_refused_with_words() {
        for (secs, word) in [
            (-0.1, "negative"),
            (f64::NEG_INFINITY, "negative"),
            (f64::NAN, "not a number"),
            (f64::INFINITY, "100 years"),
            (3_155_760_000.1, "100 years"),
        ] {
            let words = Schedule::every_secs(secs).unwrap_err().to_string();
            assert!(words.contains(word), "{secs}: {words}");
        }
        for secs in [0.0, -0.0, 0.1, 3_155_760_000.0] {
            assert!(Schedule::every_secs(secs).is_ok(), "{secs}");
        }
    }
}
