//! The time in this world: what really passes, and what the two clocks of a server say of it.

use handoff_types::{Now, Span, Steady, Wall};

use crate::driver::{Fault, ensure};

/// Real time, the error of the operator's clock, and the steady clock of the process.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    /// What the operator's clock showed at the beginning.
    wall_start: i64,
    real: u64,
    wall_error: i64,
    /// When the process began and what its steady clock said then.
    began: u64,
    steady_then: Steady,
    /// Every moment that may have been written down.
    told: Vec<Moment>,
}

/// A reading of the clocks, and what was really the case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) now: Now,
    real: u64,
    wall_error: i64,
}

impl Clock {
    pub(crate) fn new(wall_start: Wall) -> Self {
        Self { wall_start: wall_start.0, ..Self::default() }
    }

    pub(crate) fn now(&self) -> Now {
        let wall =
            self.wall_start.saturating_add_unsigned(self.real).saturating_add(self.wall_error);
        let steady = self.steady_then + Span(self.real - self.began);
        Now { wall: Wall(wall), steady }
    }

    /// Time passes, on both clocks.
    pub(crate) fn pass(&mut self, span: Span) {
        self.real += span.0;
    }

    /// The operator sets the clock.
    pub(crate) fn set_wall(&mut self, step: i64) {
        self.wall_error = self.wall_error.saturating_add(step);
    }

    /// Reads the clocks for something that may be written down.
    pub(crate) fn tell(&mut self) -> Moment {
        let moment = Moment { now: self.now(), real: self.real, wall_error: self.wall_error };
        if self.told.last() != Some(&moment) {
            self.told.push(moment);
        }
        moment
    }

    /// A process begins that found `last` as the latest time in its directory. Everything up to
    /// `kept` is still known.
    ///
    /// # Errors
    /// When the steady clock goes back behind what is known, or a deadline comes early though
    /// nobody set the operator's clock forward.
    pub(crate) fn resume(
        &mut self,
        last: Option<Now>,
        kept: Moment,
        resume: impl Fn(Now, Wall) -> Steady,
    ) -> Result<(), Fault> {
        let wall = self.now().wall;
        let steady = last.map_or(Steady(0), |last| resume(last, wall));
        ensure(steady >= kept.now.steady, || {
            format!("steady time went back from {} to {}", kept.now.steady.0, steady.0)
        })?;
        if let Some(last) = last {
            let moments: Vec<&Moment> = self.told.iter().filter(|told| told.now == last).collect();
            ensure(!moments.is_empty(), || format!("the clock was never at {last}"))?;
            let fits = moments.iter().any(|moment| {
                let passed = i128::from(self.real - moment.real);
                let set = i128::from(self.wall_error) - i128::from(moment.wall_error);
                i128::from(steady.0) == i128::from(last.steady.0) + (passed + set).max(0)
            });
            ensure(fits, || format!("steady time goes on at {} after {last}", steady.0))?;
        }
        (self.began, self.steady_then) = (self.real, steady);
        Ok(())
    }
}
