//! Two clocks, told and never asked.
//!
//! * [`Wall`] is what people read on a clock. It may step in both directions.
//! * [`Steady`] never goes back and counts suspend (`CLOCK_BOOTTIME`). Leases, sessions,
//!   timeouts, back-off and periodic events run on it.
//!
//! Steady time goes on across restarts. Every round of the journal carries the latest pair
//! `{wall, steady}` its records were decided at. A process that opens the journal starts its
//! steady clock where the journal stopped plus the wall time that passed meanwhile, never less
//! than nothing ([`resume`]). A deadline is therefore one steady instant, equal in the live state
//! and in the state rebuilt from the journal, and after a restart what remains of it is never
//! negative and never more than it was:
//!
//! ```text
//!  steady   ──────────▶ last record ·····(down)····· open ──────────▶ deadline
//!  wall                 08:00:00                      08:00:07
//!                       └── S                         └── S + 7 s (clock set back: S + 0)
//! ```

use std::fmt;
use std::ops::{Add, Sub};

/// A length of time in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// This many microseconds.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// This many milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// This many seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }
}

/// Microseconds since the Unix epoch, as the operator's clock shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wall(pub i64);

impl Wall {
    /// How far this instant lies after `earlier`; nothing if it does not.
    #[must_use]
    pub fn since(self, earlier: Self) -> Span {
        Span(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// Microseconds of time that never goes back, counted from the first open of a data directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Steady(pub u64);

impl Steady {
    /// How far this instant lies after `earlier`; nothing if it does not.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Steady {
    type Output = Self;

    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Add<Span> for Wall {
    type Output = Self;

    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add_unsigned(span.0))
    }
}

impl Sub<Span> for Wall {
    type Output = Self;

    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub_unsigned(span.0))
    }
}

/// What time it is, on both clocks. The shell passes it with every command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Now {
    /// What people read on a clock.
    pub wall: Wall,
    /// What leases and timeouts run on.
    pub steady: Steady,
}

impl fmt::Display for Now {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wall {} µs, steady {} µs", self.wall.0, self.steady.0)
    }
}

/// Where the steady clock of a process begins that finds `last` as the latest pair in its
/// journal and `wall` on the operator's clock.
#[must_use]
pub fn resume(last: Now, wall: Wall) -> Steady {
    last.steady + wall.since(last.wall)
}

#[cfg(test)]
mod tests {
    use super::{Now, Span, Steady, Wall, resume};

    const LAST: Now = Now { wall: Wall(1_000_000), steady: Steady(50) };

    #[test]
    fn steady_time_counts_the_time_the_server_was_down() {
        assert_eq!(resume(LAST, Wall(1_000_000) + Span::from_secs(7)), Steady(7_000_050));
    }

    #[test]
    fn steady_time_never_goes_back_when_the_clock_was_set_back() {
        assert_eq!(resume(LAST, Wall(-5)), LAST.steady);
    }
}
