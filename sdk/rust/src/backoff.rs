//! Waiting before trying again.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// No server is tried more often than this.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// A server that asks for a longer wait is tried all the same.
const LONGEST_ASKED: Duration = Duration::from_secs(3600);

/// How long to wait before trying again: doubled each time up to the longest, and each time
/// some of it by chance, so that many clients do not come back at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first wait.
    pub first: Duration,
    /// The longest.
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(250), longest: Duration::from_secs(15) }
    }
}

impl Backoff {
    /// The wait after some failures in a row: between half of the full wait and all of it. What
    /// the server asks for is a floor, within reason.
    pub(crate) fn wait(self, failures: u32, asked: Option<Duration>) -> Duration {
        self.wait_by(failures, asked, fraction())
    }

    /// The same by a chance from 0 to 1.
    pub(crate) fn wait_by(self, failures: u32, asked: Option<Duration>, chance: f64) -> Duration {
        let first = self.first.max(SHORTEST_WAIT);
        let doubled = first.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX));
        let half = doubled.min(self.longest).max(SHORTEST_WAIT) / 2;
        let some = half.mul_f64(chance);
        (half + some).max(asked.unwrap_or_default().min(LONGEST_ASKED))
    }
}

/// A number in 0..1.
pub(crate) fn fraction() -> f64 {
    f64::from(u32::try_from(drawn() >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

/// 128 bits that nobody else has.
pub(crate) fn unique() -> u128 {
    u128::from(drawn()) << 64 | u128::from(drawn())
}

/// 64 bits by chance, from the keys that the standard library draws for every map.
fn drawn() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Backoff;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn waits_grow_up_to_the_longest_and_differ_by_chance() {
        let backoff = Backoff { first: 100 * MS, longest: 1000 * MS };
        for (failures, full) in [(0, 100), (1, 200), (3, 800), (4, 1000), (31, 1000), (99, 1000)] {
            let waits: Vec<_> = (0..100).map(|_| backoff.wait(failures, None)).collect();
            assert!(waits.iter().all(|wait| *wait >= full / 2 * MS && *wait <= full * MS));
            assert!(waits.iter().any(|wait| *wait != waits[0]), "{waits:?}");
        }
    }

    #[test]
    fn no_wait_is_nothing_and_none_is_for_ever() {
        let hurry = Backoff { first: Duration::ZERO, longest: Duration::ZERO };
        assert!(hurry.wait(0, None) > Duration::ZERO);
        let patient = Backoff { first: Duration::MAX, longest: Duration::MAX };
        assert!(patient.wait(u32::MAX, None) > 1000 * MS);
    }

    #[test]
    fn what_the_server_asks_for_is_the_least_within_reason() {
        let backoff = Backoff { first: 100 * MS, longest: 1000 * MS };
        assert_eq!(backoff.wait(0, Some(5000 * MS)), 5000 * MS);
        assert!(backoff.wait(4, Some(MS)) >= 500 * MS);
        assert_eq!(backoff.wait(0, Some(Duration::MAX)), Duration::from_secs(3600));
    }
}
