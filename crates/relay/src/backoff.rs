//! When a destination that did not answer is tried again.

use handoff_types::{Entropy, Span};

/// How long one waits between attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffRules {
    /// `relay.retry_first`: about as long before the second attempt.
    pub first: Span,
    /// `relay.retry_max`: never longer than that.
    pub most: Span,
}

impl Default for BackoffRules {
    fn default() -> Self {
        Self { first: Span::from_secs(1), most: Span::from_secs(30) }
    }
}

/// Waits that grow by half each time, with chance in them so that a fleet does not come back at
/// once.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    rules: BackoffRules,
    wait: Span,
}

impl Backoff {
    /// Before the first attempt.
    #[must_use]
    pub const fn new(rules: BackoffRules) -> Self {
        Self { rules, wait: rules.first }
    }

    /// The attempt failed: how long until the next, between half and one and a half of the wait,
    /// and not before the other side said.
    pub fn failed(&mut self, not_before: Span, entropy: Entropy) -> Span {
        // Half as much again is within the limit, so that not even the longest waits are all alike.
        let wait = self.wait.0.min(self.rules.most.0 / 3 * 2);
        let chance = entropy.word(0) % (wait + 1);
        self.wait = Span(wait + wait / 2);
        Span((wait / 2 + chance).max(not_before.0))
    }

    /// The attempt succeeded.
    pub const fn succeeded(&mut self) {
        self.wait = self.rules.first;
    }
}

#[cfg(test)]
mod tests {
    use handoff_types::{Entropy, Span};

    use super::{Backoff, BackoffRules};

    #[test]
    fn waits_grow_to_their_limit_are_spread_and_begin_anew_after_success() {
        let rules = BackoffRules::default();
        let mut backoff = Backoff::new(rules);
        let first = backoff.failed(Span::ZERO, Entropy(1));
        assert!((500_000..=1_500_000).contains(&first.0), "{first:?}");
        let mut seen = std::collections::BTreeSet::new();
        for dice in 0..50 {
            let wait = backoff.failed(Span::ZERO, Entropy(dice));
            assert!(wait <= rules.most);
            seen.insert(wait);
        }
        assert!(seen.len() > 10, "chance is in it");
        assert_eq!(backoff.failed(Span::from_secs(90), Entropy(1)), Span::from_secs(90));
        backoff.succeeded();
        assert!(backoff.failed(Span::ZERO, Entropy(1)) <= Span::from_millis(1_500));
    }

    #[test]
    fn a_fleet_that_lost_its_destination_at_once_does_not_come_back_at_once() {
        const AGENTS: u64 = 200;
        let down = Span::from_secs(600).0;
        let mut seconds = std::collections::BTreeMap::<u64, u64>::new();
        for agent in 0..AGENTS {
            let mut backoff = Backoff::new(BackoffRules::default());
            let (mut now, mut tries) = (0, 0);
            while now < down {
                tries += 1;
                let dice = Entropy(u128::from(agent * 1_000 + tries) << 64 | u128::from(agent));
                now += backoff.failed(Span::ZERO, dice).0;
            }
            assert!(tries < 60, "{tries} tries in ten minutes");
            *seconds.entry((now - down) / 1_000_000).or_default() += 1;
        }
        let (last, most) = (seconds.keys().max(), seconds.values().max());
        assert!(last < Some(&30), "everybody is back within half a minute: {seconds:?}");
        assert!(most < Some(&(AGENTS / 8)), "{seconds:?}");
    }
}
