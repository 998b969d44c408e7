//! What is remembered of a series from sample to sample, and what is expected of the next.

/// The marker that says a series has ended (Prometheus: a NaN of its own).
pub const STALE: u64 = 0x7ff0_0000_0000_0002;

/// The most decimals that are tried.
pub(super) const SCALE_MAX: u8 = 9;

/// No decimals: the series is coded by its bits.
pub(super) const NO_SCALE: u8 = u8::MAX;

/// How many samples that are no decimals a series may have before decimals are tried again.
const PATIENCE: u8 = 32;

const POWERS: [f64; SCALE_MAX as usize + 1] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];

/// Adding and taking this away rounds a float below 2⁵¹ to the nearest integer, with no call.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// Binary places of the drift.
const DRIFT_PLACES: u32 = 4;

/// A series between two samples. Both sides keep the same, except for `patience`, which only
/// spares the encoder work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Track {
    /// The last time.
    pub(super) time: i64,
    /// The bits of the last value.
    pub(super) bits: u64,
    /// How far the scaled value moves a sample, smoothed, in sixteenths.
    pub(super) drift: i64,
    /// The last distance of two times, as far as it fits.
    pub(super) step: i32,
    /// How many decimals its values have, or [`NO_SCALE`].
    pub(super) scale: u8,
    /// Whether there was a sample.
    pub(super) seen: bool,
    pub(super) patience: u8,
}

impl Default for Track {
    fn default() -> Self {
        Self { time: 0, bits: 0, drift: 0, step: 0, scale: NO_SCALE, seen: false, patience: 0 }
    }
}

impl PartialEq for Track {
    fn eq(&self, other: &Self) -> bool {
        let known = |track: &Self| {
            (track.time, track.bits, track.drift, track.step, track.scale, track.seen)
        };
        known(self) == known(other)
    }
}

impl Track {
    /// When the next sample is expected. A new series is expected with the sample before it.
    #[inline]
    pub(super) const fn expected_time(&self, before: i64) -> i64 {
        if self.seen { self.time.wrapping_add(self.step as i64) } else { before }
    }

    /// Remembers a time.
    #[inline]
    pub(super) fn saw_time(&mut self, time: i64) {
        if self.seen {
            let step = time.wrapping_sub(self.time);
            self.step = i32::try_from(step).unwrap_or(if step < 0 { i32::MIN } else { i32::MAX });
        }
        self.seen = true;
        self.time = time;
    }

    /// The scaled value that is expected next, and the last one. Only with a scale.
    #[inline]
    pub(super) fn expected_scaled(&self) -> (i64, i64) {
        let last = scaled(f64::from_bits(self.bits), self.scale);
        (last.wrapping_add(self.drift >> DRIFT_PLACES), last)
    }

    /// Remembers a scaled value.
    #[inline]
    pub(super) const fn saw_scaled(&mut self, bits: u64, scaled: i64, last: i64) {
        let moved = scaled.wrapping_sub(last).wrapping_shl(DRIFT_PLACES);
        self.drift = self.drift.wrapping_add(moved.wrapping_sub(self.drift) >> 2);
        self.bits = bits;
    }

    /// Remembers that the value stayed.
    #[inline]
    pub(super) const fn saw_same(&mut self) {
        self.drift = self.drift.wrapping_sub(self.drift >> 2);
    }

    /// Remembers the bits of a value that is no decimal.
    #[inline]
    pub(super) const fn saw_bits(&mut self, bits: u64) {
        self.bits = bits;
        self.drift = 0;
        self.scale = NO_SCALE;
    }

    /// Remembers the first value with so many decimals.
    pub(super) const fn saw_scale(&mut self, bits: u64, scale: u8) {
        self.bits = bits;
        self.drift = 0;
        self.scale = scale;
    }

    /// The fewest decimals, more than the series has now, with which the value is exact.
    pub(super) fn find_scale(&mut self, bits: u64) -> Option<(u8, i64)> {
        if self.scale == NO_SCALE && self.patience > 0 {
            self.patience -= 1;
            return None;
        }
        let from = if self.scale == NO_SCALE { 0 } else { self.scale + 1 };
        let found = (from..=SCALE_MAX).find_map(|scale| Some((scale, exact(bits, scale)?)));
        if found.is_none() {
            self.patience = PATIENCE;
        }
        found
    }
}

/// The value times ten to the scale, as an integer, if that says the value bit for bit.
#[inline]
pub(super) fn exact(bits: u64, scale: u8) -> Option<i64> {
    let number = scaled(f64::from_bits(bits), scale);
    (unscaled(number, scale) == bits).then_some(number)
}

/// The nearest integer to the value times ten to the scale; anything for a value that has none.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "saturates; whoever needs it exact checks")]
fn scaled(value: f64, scale: u8) -> i64 {
    match POWERS.get(usize::from(scale)) {
        Some(power) if scale > 0 => ((value * power + ROUNDER) - ROUNDER) as i64,
        _ => value as i64,
    }
}

/// The bits of an integer divided by ten to the scale, correctly rounded: those of the decimal
/// number as any program reads it.
#[inline]
#[expect(clippy::cast_precision_loss, reason = "the encoder has checked that nothing is lost")]
pub(super) fn unscaled(number: i64, scale: u8) -> u64 {
    match POWERS.get(usize::from(scale)) {
        Some(power) if scale > 0 => (number as f64 / power).to_bits(),
        _ => (number as f64).to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::{STALE, exact, unscaled};

    #[test]
    fn decimals_are_exact_and_what_is_none_is_refused() {
        for (value, scale, number) in
            [(12.3, 1, 123), (-0.25, 2, -25), (0.1, 1, 1), (1e15, 0, 1_000_000_000_000_000)]
        {
            assert_eq!(exact(f64::to_bits(value), scale), Some(number), "{value}");
            assert_eq!(unscaled(number, scale), value.to_bits());
        }
        for bits in
            [STALE, (-0.0_f64).to_bits(), f64::INFINITY.to_bits(), (0.1_f64 + 0.2).to_bits()]
        {
            for scale in 0..=9 {
                assert_eq!(exact(bits, scale), None, "{bits:x} at {scale}");
            }
        }
    }

    #[test]
    fn the_ends_of_the_integers_are_exact_or_refused_but_never_wrong() {
        for value in [9.223_372_036_854_776e18, -9.223_372_036_854_776e18, 1e19, 4.5e15, 1e300] {
            if let Some(number) = exact(f64::to_bits(value), 0) {
                assert_eq!(unscaled(number, 0), value.to_bits());
            }
        }
    }
}
