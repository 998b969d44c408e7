//! What time it is. The only place of the server that asks.
//!
//! Steady time goes on across restarts: it begins where the journal stopped, plus the wall time
//! that passed meanwhile ([`handoff_types::time`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use handoff_types::time::resume;
use handoff_types::{Now, Span, Steady, Wall};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Counts suspend, as steady time must.
#[cfg(target_os = "linux")]
const STEADY: ClockId = ClockId::Boottime;

/// The closest there is. On macOS it counts suspend, on the BSDs it does not.
#[cfg(not(target_os = "linux"))]
const STEADY: ClockId = ClockId::Monotonic;

/// How far the operator's clock may be set back before [`Clock::stepped_back`] says so.
const STEP_MIN: Span = Span::from_secs(1);

/// The clocks of a process. A clone shows the same time.
#[derive(Clone, Debug)]
pub struct Clock {
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    System(Arc<System>),
    Told(Arc<Told>),
}

#[derive(Debug)]
struct System {
    /// Where steady time began, and what the system's own clock showed then.
    begin: Steady,
    origin: u64,
    /// The latest steady time anybody was told. Whoever has seen it, in any thread, is never told
    /// less, whatever the processors' counters say of each other.
    latest: AtomicU64,
}

#[derive(Debug)]
struct Told {
    wall: AtomicI64,
    steady: AtomicU64,
}

impl Clock {
    /// The system's clocks, steady time going on from the latest time that is on disk.
    #[must_use]
    pub fn resume(last: Option<Now>) -> Self {
        let begin = last.map_or(Steady(0), |last| resume(last, system_wall()));
        let origin = system_steady();
        let system = System { begin, origin, latest: AtomicU64::new(begin.0) };
        Self { source: Source::System(Arc::new(system)) }
    }

    /// A clock that shows what it is told, and the hands to tell it, for tests.
    #[must_use]
    pub fn told(now: Now) -> (Self, Hands) {
        let told = Arc::new(Told {
            wall: AtomicI64::new(now.wall.0),
            steady: AtomicU64::new(now.steady.0),
        });
        (Self { source: Source::Told(Arc::clone(&told)) }, Hands { told })
    }

    /// What time it is, on both clocks.
    #[must_use]
    pub fn now(&self) -> Now {
        Now { wall: self.wall(), steady: self.steady() }
    }

    /// What the operator's clock shows.
    #[must_use]
    pub fn wall(&self) -> Wall {
        match &self.source {
            Source::System(_) => system_wall(),
            Source::Told(told) => Wall(told.wall.load(Ordering::Relaxed)),
        }
    }

    /// Time that never goes back.
    #[must_use]
    pub fn steady(&self) -> Steady {
        match &self.source {
            Source::System(system) => {
                let passed = system_steady().saturating_sub(system.origin);
                let steady = system.begin + Span(passed);
                let latest = system.latest.fetch_max(steady.0, Ordering::Relaxed);
                Steady(steady.0.max(latest))
            }
            Source::Told(told) => Steady(told.steady.load(Ordering::Relaxed)),
        }
    }

    /// Whether the operator's clock was set back by more than a second since this was last true
    /// for this watch. Whoever waits for an instant of that clock then has to wait anew.
    pub fn stepped_back(&self, watch: &mut StepWatch) -> bool {
        watch.look(self.now())
    }
}

/// What one asker knows of how wall and steady time lie to each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepWatch {
    /// The largest offset of wall from steady seen since the last step back, so that many small
    /// steps add up.
    offset: Option<i64>,
}

impl StepWatch {
    /// Looks at the clocks, as [`Clock::stepped_back`] with the time given.
    pub fn look(&mut self, now: Now) -> bool {
        let steady = i64::try_from(now.steady.0).unwrap_or(i64::MAX);
        let offset = now.wall.0.saturating_sub(steady);
        let before = self.offset.unwrap_or(offset);
        let stepped = Wall(before).since(Wall(offset)) > STEP_MIN;
        self.offset = Some(if stepped { offset } else { before.max(offset) });
        stepped
    }
}

/// Moves a clock of [`Clock::told`].
#[derive(Clone, Debug)]
pub struct Hands {
    told: Arc<Told>,
}

impl Hands {
    /// Lets time pass on both clocks.
    pub fn pass(&self, span: Span) {
        let wall = i64::try_from(span.0).unwrap_or(i64::MAX);
        self.told.wall.fetch_add(wall, Ordering::Relaxed);
        self.told.steady.fetch_add(span.0, Ordering::Relaxed);
    }

    /// Sets the operator's clock, and only that.
    pub fn set_wall(&self, wall: Wall) {
        self.told.wall.store(wall.0, Ordering::Relaxed);
    }
}

fn system_wall() -> Wall {
    Wall(micros(clock_gettime(ClockId::Realtime)))
}

fn system_steady() -> u64 {
    u64::try_from(micros(clock_gettime(STEADY))).unwrap_or(0)
}

fn micros(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    const LAST: Now = Now { wall: Wall(0), steady: Steady(5_000_000) };

    #[test]
    fn a_new_directory_begins_at_nothing_and_an_old_one_where_its_journal_stopped() {
        let limit = Span::from_secs(3600);
        assert!(Clock::resume(None).steady() < Steady(0) + limit);
        // Stopped long ago: the time that passed counts.
        let gone = system_wall().since(LAST.wall);
        assert!(Clock::resume(Some(LAST)).steady() >= LAST.steady + gone);
        // Stopped by a clock that was ahead: no time passed, and none is taken back.
        let ahead = Now { wall: Wall(i64::MAX), ..LAST };
        let steady = Clock::resume(Some(ahead)).steady();
        assert!(steady >= ahead.steady && steady < ahead.steady + limit);
    }

    #[test]
    fn a_clone_shows_the_same_time() {
        let clock = Clock::resume(Some(LAST));
        let other = clock.clone();
        let first = clock.steady();
        assert!(other.steady() >= first);
    }

    #[test]
    fn steady_time_goes_back_in_no_thread() {
        let clock = Clock::resume(None);
        let latest = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let seen = latest.load(Ordering::Acquire);
                        let now = clock.steady().0;
                        assert!(now >= seen, "{now} after {seen}");
                        latest.fetch_max(now, Ordering::AcqRel);
                    }
                });
            }
        });
    }

    fn at(wall: i64, steady: u64) -> Now {
        Now { wall: Wall(wall * 1_000_000), steady: Steady(steady * 1_000_000) }
    }

    #[test]
    fn a_clock_set_back_by_more_than_a_second_is_noticed_once() {
        let mut watch = StepWatch::default();
        assert!(!watch.look(at(100, 0)));
        assert!(!watch.look(at(110, 10)), "time passed");
        assert!(!watch.look(at(110, 11)), "a second is no step");
        assert!(watch.look(at(110, 12)), "and another adds up");
        assert!(!watch.look(at(111, 13)));
        assert!(!watch.look(at(211, 14)), "set forward");
        assert!(watch.look(at(112, 15)), "and back again");
        assert!(!watch.look(at(113, 16)));
    }

    #[test]
    fn a_watch_is_nobody_elses() {
        let (clock, hands) = Clock::told(at(100, 0));
        let (mut one, mut two) = (StepWatch::default(), StepWatch::default());
        assert!(!clock.stepped_back(&mut one) && !clock.stepped_back(&mut two));
        hands.pass(Span::from_secs(5));
        hands.set_wall(at(50, 0).wall);
        assert!(clock.stepped_back(&mut one) && clock.stepped_back(&mut two));
        assert!(!clock.stepped_back(&mut one) && !clock.stepped_back(&mut two));
    }
}
