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
        let wait = self.wait.0;
        let chance = entropy.word(0) % (wait + 1);
        self.wait = Span((wait + wait / 2).min(self.rules.most.0));
        Span((wait / 2 + chance).min(self.rules.most.0).max(not_before.0))
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
}
