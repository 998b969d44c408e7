//! How fast backlogs are taken, so that what is new never waits behind what is old.
//!
//! After an outage every agent comes back at once, with files. What is new is taken as it comes. Of
//! backlogs, of all agents together, no more is taken than came of what is new, so that whoever is
//! behind the receiver sees twice the usual rate at most. When little is new, a floor is taken.
//!
//! ```text
//!  fresh ──▶ counted in steps ──▶ rate: the steps of a window that are over
//!                                 ├──┼──┼──┼──┼──┼──┤▒▒ this one does not count yet
//!  backlog ─▶ waits for its turn, is taken; then nobody's turn for (bytes / max(rate, floor))
//! ```
//!
//! Bytes are those of samples as the sinks get them. A step that is not over would count what came in a gust as if it came all the time.

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
        Self { floor: 4 << 20, window: Span::from_secs(10) }
    }
}

/// Steps of a window.
const STEPS: usize = 10;

/// The most that anybody waits for one who went before.
const WAIT_MAX: Span = Span::from_secs(60);

/// Whoever comes so late for his turn has not lost it: clocks and sleeps are coarse.
const SLACK: Span = Span::from_millis(100);

/// The pace of backlogs.
#[derive(Clone, Debug)]
pub struct Pacer {
    rules: PaceRules,
    /// When the present step began, and what came of what is new in it.
    begun: Steady,
    fresh: u64,
    /// The same of the steps before, the latest last.
    before: [u64; STEPS],
    /// When more of a backlog may be taken.
    free: Steady,
}

impl Pacer {
    /// Nothing came yet.
    #[must_use]
    pub const fn new(rules: PaceRules, now: Steady) -> Self {
        Self { rules, begun: now, fresh: 0, before: [0; STEPS], free: now }
    }

    /// Changes the rules.
    pub const fn set_rules(&mut self, rules: PaceRules) {
        self.rules = rules;
    }

    /// Something new is taken.
    pub fn fresh(&mut self, bytes: usize, now: Steady) {
        self.turn(now);
        self.fresh = self.fresh.saturating_add(bytes as u64);
    }

    /// How long to wait before something of a backlog is taken. Whoever waited asks again.
    #[must_use]
    pub fn wait(&self, now: Steady) -> Span {
        self.free.since(now)
    }

    /// Something of a backlog is taken.
    pub fn backlog(&mut self, bytes: usize, now: Steady) {
        let rate = self.rate(now).max(1);
        let micros = (bytes as u64).saturating_mul(1_000_000).div_ceil(rate);
        let earliest = Steady(now.0.saturating_sub(SLACK.0));
        self.free = self.free.max(earliest) + Span(micros).min(WAIT_MAX);
    }

    /// Bytes of backlogs that are taken a second, as things are.
    pub fn rate(&mut self, now: Steady) -> u64 {
        self.turn(now);
        let bytes: u128 = self.before.iter().map(|step| u128::from(*step)).sum();
        let over = u128::from(self.step().0) * STEPS as u128;
        let rate = bytes * 1_000_000 / over;
        u64::try_from(rate).unwrap_or(u64::MAX).max(self.rules.floor)
    }

    const fn step(&self) -> Span {
        let step = self.rules.window.0 / STEPS as u64;
        Span(if step == 0 { 1 } else { step })
    }

    fn turn(&mut self, now: Steady) {
        let step = self.step();
        for _ in 0..=STEPS {
            if now.since(self.begun) < step {
                return;
            }
            self.before.rotate_left(1);
            if let Some(last) = self.before.last_mut() {
                *last = std::mem::take(&mut self.fresh);
            }
            self.begun = self.begun + step;
        }
        // Nothing was asked for longer than a window: what came before is long over.
        self.begun = now;
    }
}

#[cfg(test)]
mod tests {
    use super::{PaceRules, Pacer, WAIT_MAX};
    use handoff_types::{Span, Steady};
    use std::collections::VecDeque;

    const SECOND: u64 = 1_000_000;

    fn pacer(floor: u64) -> Pacer {
        Pacer::new(PaceRules { floor, window: Span::from_secs(10) }, Steady(0))
    }

    /// What a backlog that never ends gets a second in the second of two minutes, while so much is new
    /// in a gust every so many seconds.
    fn taken_beside(fresh: usize, every: u64, floor: u64) -> u64 {
        let mut pacer = pacer(floor);
        let mut taken = 0;
        for millis in 0..120_000 {
            let now = Steady(millis * 1_000);
            if millis % (1_000 * every) == 0 {
                pacer.fresh(fresh, now);
            }
            if pacer.wait(now) == Span::ZERO {
                pacer.backlog(1_000, now);
                taken += if millis >= 60_000 { 1_000 } else { 0 };
            }
        }
        taken / 60
    }

    #[test]
    fn backlogs_get_as_much_as_what_is_new_and_no_more() {
        for every in [1, 2, 5] {
            let fresh = usize::try_from(every).unwrap() * 100_000;
            let taken = taken_beside(fresh, every, 1_000);
            // One more may fall into the minute than is its due.
            assert!((99_000..=100_016).contains(&taken), "{taken}, every {every} s");
        }
    }

    #[test]
    fn backlogs_move_while_nothing_is_new() {
        let taken = taken_beside(0, 1, 50_000);
        assert!((49_000..=50_016).contains(&taken), "{taken}");
    }

    /// Each has ten minutes of segments in a file and makes a new one every five seconds. One segment
    /// of a backlog is taken after the other, those who wait in the order they came.
    #[test]
    fn two_hundred_agents_after_an_outage_are_taken_at_twice_the_usual_rate_at_most() {
        const AGENTS: u64 = 200;
        const SEGMENT: usize = 5_000;
        let steady = AGENTS * SEGMENT as u64 / 5;
        let mut pacer = pacer(steady / 10);
        let mut waiting: VecDeque<u64> = (0..AGENTS).map(|_| 120).collect();
        let mut taken = vec![0_u64; 1_800];
        for step in 0..180_000_u64 {
            let now = Steady(step * SECOND / 100);
            let second = usize::try_from(step / 100).unwrap();
            if step % 10 == 0 {
                // Four of them.
                let fresh = 4 * SEGMENT;
                pacer.fresh(fresh, now);
                taken[second] += fresh as u64;
            }
            while !waiting.is_empty() && pacer.wait(now) == Span::ZERO {
                pacer.backlog(SEGMENT, now);
                taken[second] += SEGMENT as u64;
                if let Some(left) = waiting.pop_front().filter(|left| *left > 1) {
                    waiting.push_back(left - 1);
                }
            }
        }
        // Segments are whole: one more may fall into a second than is its due.
        let peak = taken.iter().copied().max().unwrap();
        assert!(peak <= 2 * steady + SEGMENT as u64, "{peak} a second, usually {steady}");
        assert!(waiting.is_empty(), "all of it arrives");
        let last = taken.iter().rposition(|second| *second > steady).unwrap();
        assert!(last < 640, "it took {last} s for ten minutes of backlog");
    }

    #[test]
    fn a_flood_that_ended_long_ago_counts_for_nothing() {
        let mut pacer = pacer(10);
        pacer.fresh(1 << 30, Steady(0));
        assert!(pacer.rate(Steady(9 * SECOND)) > 10);
        assert_eq!(pacer.rate(Steady(21 * SECOND)), 10);
        pacer.fresh(1 << 30, Steady(22 * SECOND));
        assert_eq!(pacer.rate(Steady(3_600 * SECOND)), 10);
    }

    #[test]
    fn nobody_waits_for_hours_at_once() {
        let mut pacer = pacer(1);
        pacer.backlog(1 << 30, Steady(0));
        assert!(pacer.wait(Steady(0)) <= WAIT_MAX);
    }
}
