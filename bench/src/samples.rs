//! One figure, measured several times.

/// What the repetitions of one measurement gave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// The value in the middle; of an even number the mean of the two there. None of none.
    pub(crate) fn median(&self) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let upper = sorted.get(sorted.len() / 2)?;
        let lower = sorted.get((sorted.len() - 1) / 2)?;
        Some(lower.midpoint(*upper))
    }

    /// Each value changed.
    pub(crate) fn map(&self, change: impl Fn(f64) -> f64) -> Self {
        self.0.iter().map(|value| change(*value)).collect()
    }

    /// Each value less the one of the same repetition.
    pub(crate) fn minus(&self, other: &Self) -> Self {
        self.0.iter().zip(&other.0).map(|(value, other)| value - other).collect()
    }

    pub(crate) fn to_vec(&self) -> Vec<f64> {
        self.0.clone()
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl Extend<f64> for Samples {
    fn extend<I: IntoIterator<Item = f64>>(&mut self, values: I) {
        self.0.extend(values);
    }
}

#[cfg(test)]
mod tests {
    use super::Samples;

    #[test]
    fn the_median_stands_in_the_middle_whatever_the_order() {
        assert_eq!(Samples::default().median(), None);
        assert_eq!(Samples::from_iter([30.0, 10.0, 500.0]).median(), Some(30.0));
        assert_eq!(Samples::from_iter([30.0, 10.0, 500.0, 20.0]).median(), Some(25.0));
    }
}
