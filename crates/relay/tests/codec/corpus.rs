//! Samples as monitoring makes them.

use handoff_relay::{Batch, Sample};
use handoff_types::entropy::mix;

pub const STEP: i64 = 15_000;
const BEGIN: i64 = 1_700_000_000_000;

/// How a series moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
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

/// Series of given shapes over time.
#[derive(Debug)]
pub struct Corpus {
    values: Vec<(Shape, f64)>,
    step: i64,
    dice: u64,
}

impl Corpus {
    pub fn new(series: usize, shapes: &[Shape]) -> Self {
        let shape = |at: usize| shapes[at % shapes.len()];
        Self { values: (0..series).map(|at| (shape(at), 1_000.0)).collect(), step: 0, dice: 9 }
    }

    /// The next scrape of all series, target by target.
    pub fn scrape(&mut self) -> Batch {
        let mut batch = Batch::default();
        let mut jitter = 0;
        for at in 0..self.values.len() {
            self.dice = mix(self.dice);
            if at % 100 == 0 {
                jitter = i64::try_from(self.dice % 5).unwrap();
            }
            let (shape, value) = &mut self.values[at];
            let dice = u32::try_from(self.dice >> 32).unwrap();
            match shape {
                Shape::Counter => *value += f64::from(100 + dice % 60),
                Shape::Decimal => {
                    let cents = (*value * 100.0).round() + f64::from(dice % 41) - 20.0;
                    *value = cents / 100.0;
                }
                Shape::Constant if dice % 50 == 0 => *value += 1.0,
                Shape::Constant => {}
                Shape::Entropy => *value = f64::from(dice) / f64::from(u32::MAX),
                Shape::Seconds => *value += f64::from(dice % 1_000_000) * 1e-9 * 15.0,
            }
            let labels = [
                ("__name__", format!("node_metric_{:?}_total_{}", shape, at % 100)),
                ("instance", format!("host-{}.example:9100", at / 100)),
                ("job", "node".to_owned()),
                ("mode", format!("m{}", at % 8)),
            ];
            let labels = labels.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            let time = BEGIN + self.step * STEP + jitter;
            batch.push(labels, &[Sample::new(time, *value)]).unwrap();
        }
        self.step += 1;
        batch
    }
}

/// Some counters with some samples each.
pub fn counters(series: usize, samples: usize, from: usize) -> Batch {
    let mut batch = Batch::default();
    for at in from..from + series {
        let value = format!("c{at}");
        let samples: Vec<_> =
            (0..samples).map(|n| Sample::new(BEGIN + n as i64 * STEP, n as f64)).collect();
        batch.push([(&b"__name__"[..], value.as_bytes())], &samples).unwrap();
    }
    batch
}
