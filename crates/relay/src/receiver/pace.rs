//! How fast backlogs are taken, so that what is new never waits behind what is old.
//!
//! After an outage every agent comes back at once, with files. What is new is taken as it comes. Of
//! backlogs, of all agents together, about as much is taken as comes of what is new, so that whoever is
//! behind the receiver sees about twice the usual rate; what comes in gusts seems up to a tenth more than
//! it is. When little is new, a floor is taken.
//!
//! ```text
//!  fresh ──▶ counted in windows of a few seconds ──▶ rate
//!  backlog ─▶ taken, then: not before (bytes / max(rate, floor)) from now
//! ```

use handoff_types::{Span, Steady};

/// How backlogs are paced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaceRules {
    /// `relay.backlog_bytes_per_sec`: what is taken of backlogs a second however little is new.
    pub floor: u64,
    /// Over how long the rate of what is new is taken.
    pub window: Span,
}

impl Default for PaceRules {
    fn default() -> Self {
        Self { floor: 1 << 20, window: Span::from_secs(10) }
    }
}

/// The most that anybody is told to wait at once.
const WAIT_MAX: Span = Span::from_secs(60);

/// The pace of backlogs.
#[derive(Clone, Debug)]
pub struct Pacer {
    rules: PaceRules,
    /// When the present window began, and what came of what is new in it.
    begun: Steady,
    fresh: u64,
    /// The same of the window before.
    before: u64,
    /// When more of a backlog may be taken.
    free: Steady,
}

impl Pacer {
    /// Nothing came yet.
    #[must_use]
    pub const fn new(rules: PaceRules, now: Steady) -> Self {
        Self { rules, begun: now, fresh: 0, before: 0, free: now }
    }

    /// Changes the rules.
    pub const fn set_rules(&mut self, rules: PaceRules) {
        self.rules = rules;
    }

    /// Something new was taken.
    pub fn fresh(&mut self, bytes: usize, now: Steady) {
        self.turn(now);
        self.fresh = self.fresh.saturating_add(bytes as u64);
    }

    /// Something of a backlog was taken: how long to wait before more is.
    pub fn backlog(&mut self, bytes: usize, now: Steady) -> Span {
        let rate = self.rate(now).max(1);
        let micros = (bytes as u64).saturating_mul(1_000_000) / rate;
        self.free = self.free.max(now) + Span(micros);
        self.free.since(now).min(WAIT_MAX)
    }

    /// Bytes of backlogs that are taken a second, as things are.
    pub fn rate(&mut self, now: Steady) -> u64 {
        self.turn(now);
        let window = self.rules.window.0.max(1);
        // The part of the window before that is still within one window from now.
        let passed = now.since(self.begun).0.min(window);
        let before = u128::from(self.before) * u128::from(window - passed) / u128::from(window);
        let bytes = u128::from(self.fresh) + before;
        let rate = bytes * 1_000_000 / u128::from(window);
        u64::try_from(rate).unwrap_or(u64::MAX).max(self.rules.floor)
    }

    fn turn(&mut self, now: Steady) {
        let window = Span(self.rules.window.0.max(1));
        let passed = now.since(self.begun);
        if passed < window {
            return;
        }
        let is_next = passed.0 < 2 * window.0;
        self.before = if is_next { self.fresh } else { 0 };
        self.fresh = 0;
        self.begun = if is_next { self.begun + window } else { now };
    }
}

#[cfg(test)]
mod tests {
    use super::{PaceRules, Pacer};
    use handoff_types::{Span, Steady};

    const SECOND: u64 = 1_000_000;

    fn pacer(floor: u64) -> Pacer {
        Pacer::new(PaceRules { floor, window: Span::from_secs(10) }, Steady(0))
    }

    /// What a backlog that never ends gets in a minute while so much is new every second.
    fn taken_beside(fresh: usize, floor: u64) -> u64 {
        let mut pacer = pacer(floor);
        let (mut taken, mut next) = (0, Steady(0));
        for second in 0..120 {
            let now = Steady(second * SECOND);
            pacer.fresh(fresh, now);
            while next < now + Span::from_secs(1) {
                next = next.max(now);
                next = next + pacer.backlog(1_000, next);
                taken += if second >= 60 { 1_000 } else { 0 };
            }
        }
        taken / 60
    }

    /// What comes once a second counts from that moment on, so it may seem up to a tenth of a window
    /// more than it is.
    #[test]
    fn backlogs_get_as_much_as_what_is_new_and_hardly_more() {
        let taken = taken_beside(100_000, 1_000);
        assert!((95_000..=110_000).contains(&taken), "{taken}");
    }

    #[test]
    fn backlogs_move_while_nothing_is_new() {
        let taken = taken_beside(0, 50_000);
        assert!((49_000..=51_000).contains(&taken), "{taken}");
    }

    /// Each has ten minutes of segments in a file and makes a new one every five seconds. One backlog
    /// segment of an agent is on its way at a time, as over a connection.
    #[test]
    fn two_hundred_agents_after_an_outage_are_taken_at_twice_the_usual_rate_at_most() {
        const AGENTS: u64 = 200;
        const SEGMENT: usize = 5_000;
        let steady = AGENTS * SEGMENT as u64 / 5;
        let mut pacer = pacer(steady / 10);
        let mut backlogs: Vec<(u64, Steady)> = vec![(120, Steady(0)); 200];
        let mut taken = vec![0_u64; 1_800];
        for tenth in 0..18_000_u64 {
            let now = Steady(tenth * SECOND / 10);
            let second = usize::try_from(tenth / 10).unwrap();
            for agent in 0..AGENTS {
                if tenth % 50 == agent % 50 {
                    pacer.fresh(SEGMENT, now);
                    taken[second] += SEGMENT as u64;
                }
            }
            for (left, next) in &mut backlogs {
                if *left > 0 && *next <= now {
                    *next = now + pacer.backlog(SEGMENT, now);
                    *left -= 1;
                    taken[second] += SEGMENT as u64;
                }
            }
        }
        // All of them come in the first second with one segment each: that is what one connection of
        // each has on its way.
        let peak = taken.windows(10).skip(1).map(|ten| ten.iter().sum::<u64>() / 10).max().unwrap();
        assert!(peak <= 2 * steady + steady / 20, "{peak} a second, usually {steady}");
        let left: u64 = backlogs.iter().map(|(left, _)| left).sum();
        assert_eq!(left, 0, "all of it arrives");
    }

    #[test]
    fn a_flood_that_ended_long_ago_counts_for_nothing() {
        let mut pacer = pacer(10);
        pacer.fresh(1 << 30, Steady(0));
        assert_eq!(pacer.rate(Steady(21 * SECOND)), 10);
    }

    #[test]
    fn nobody_waits_for_hours_at_once() {
        assert!(pacer(1).backlog(1 << 30, Steady(0)) <= Span::from_secs(60));
    }
}
