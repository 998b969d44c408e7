//! How long files were written, as whoever waits for them sees it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use handoff_types::{Span, Steady};

/// Time that was spent, and since when more of it is being spent.
#[derive(Debug, Default)]
pub(super) struct Toil(Mutex<(Span, Option<Steady>)>);

impl Toil {
    /// Work begins.
    pub(super) fn begin(&self, now: Steady) {
        self.lock().1 = Some(now);
    }

    /// It ends. What led to nothing does not count.
    pub(super) fn end(&self, now: Steady, counts: bool) {
        let mut toil = self.lock();
        let took = toil.1.take().map_or(Span::ZERO, |since| now.since(since));
        if counts {
            toil.0 = Span(toil.0.0.saturating_add(took.0));
        }
    }

    /// All of it, what is under way included: a disk that stands still is being worked on.
    pub(super) fn so_far(&self, now: Steady) -> Span {
        let (done, since) = *self.lock();
        Span(done.0.saturating_add(since.map_or(0, |since| now.since(since).0)))
    }

    fn lock(&self) -> MutexGuard<'_, (Span, Option<Steady>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::Toil;
    use handoff_types::{Span, Steady};

    #[test]
    fn what_is_under_way_counts_and_what_led_to_nothing_does_not() {
        let toil = Toil::default();
        toil.begin(Steady(10));
        assert_eq!(toil.so_far(Steady(15)), Span(5));
        toil.end(Steady(20), true);
        assert_eq!(toil.so_far(Steady(99)), Span(10));
        toil.begin(Steady(100));
        toil.end(Steady(200), false);
        assert_eq!(toil.so_far(Steady(300)), Span(10));
    }
}
