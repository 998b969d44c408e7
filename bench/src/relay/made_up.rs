//! Series as monitoring has them, made up from dice that fall the same every time.

use handoff_relay::{Batch, Sample};
use handoff_types::entropy::mix;

const STEP: i64 = 15_000;
const BEGIN: i64 = 1_700_000_000_000;

/// How a series moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// An integer counter with an uneven rate.
    Counter,
    /// A gauge with two decimals that wanders.
    Decimal,
    /// A gauge that stays for long.
    Constant,
    /// A full double each time.
    Entropy,
    /// Seconds spent, as a sum of floats.
    Seconds,
}

impl Shape {
    /// A host, roughly.
    pub(super) const MIXED: &[Self] = &[
        Self::Counter,
        Self::Constant,
        Self::Decimal,
        Self::Counter,
        Self::Constant,
        Self::Seconds,
        Self::Entropy,
    ];

    fn next(self, value: f64, dice: u32) -> f64 {
        match self {
            Self::Counter => value + f64::from(100 + dice % 60),
            Self::Decimal => ((value * 100.0).round() + f64::from(dice % 41) - 20.0) / 100.0,
            Self::Constant if dice.is_multiple_of(50) => value + 1.0,
            Self::Constant => value,
            Self::Entropy => f64::from(dice) / f64::from(u32::MAX),
            Self::Seconds => value + f64::from(dice % 1_000_000) * 1e-9 * 15.0,
        }
    }
}

/// Scrapes of so many series, one batch each.
pub(super) fn scrapes(shapes: &[Shape], series: usize, scrapes: usize) -> Vec<Batch> {
    let mut values = vec![1_000.0; series];
    let mut dice = 9;
    let mut all = Vec::with_capacity(scrapes);
    for time in (0..).map(|step| BEGIN + step * STEP).take(scrapes) {
        let mut batch = Batch::default();
        for ((at, value), shape) in values.iter_mut().enumerate().zip(shapes.iter().cycle()) {
            dice = mix(dice);
            *value = shape.next(*value, u32::try_from(dice >> 32).unwrap_or(0));
            // A target answers when it answers.
            let late =
                i64::try_from(mix((at / 100) as u64 ^ time.cast_unsigned()) % 5).unwrap_or(0);
            push(&mut batch, at, Sample::new(time + late, *value));
        }
        all.push(batch);
    }
    all
}

/// A sample of each of so many series from a number on, at some scrape.
pub(super) fn some(step: i64, from: usize, count: usize) -> Batch {
    let mut batch = Batch::default();
    for at in from..from + count {
        push(&mut batch, at, Sample::new(BEGIN + step * STEP, 1.0));
    }
    batch
}

fn push(batch: &mut Batch, at: usize, sample: Sample) {
    let labels = [
        ("__name__", format!("node_metric_{}_total", at % 100)),
        ("instance", format!("host-{}.example.com:9100", at / 100)),
        ("job", "node".to_owned()),
        ("mode", format!("m{}", at % 8)),
    ];
    let labels = labels.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let pushed = batch.push(labels, &[sample]);
    debug_assert_eq!(pushed, Ok(()), "a scrape fits into a batch");
}
