//! Figures as people and programs read them.

use std::fmt;

use serde::Serialize;

use crate::samples::Samples;

/// The figures of one run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was measured.
    pub bench: &'static str,
    /// How it was measured.
    pub settings: Settings,
    /// The figures.
    pub rows: Vec<Row>,
}

/// How a run measured.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// How long one measurement took.
    pub seconds: f64,
    /// How often each was repeated; the median counts.
    pub repeats: usize,
    /// Bytes of a small record.
    pub payload_bytes: usize,
    /// Processors there are.
    pub processors: usize,
}

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name for programs; does not change.
    pub key: String,
    /// Its name for people.
    pub name: String,
    /// What it is counted in.
    pub unit: &'static str,
    /// The figure; none where the system does not show it.
    pub value: Option<f64>,
    /// What plain code gave in the same run.
    pub floor: Option<f64>,
    /// What the floor is.
    pub floor_name: Option<&'static str>,
    /// The figure by its floor.
    pub ratio: Option<f64>,
    /// What the figure should be.
    pub goal: Option<String>,
    /// Whether it is.
    pub met: Option<bool>,
    /// What each repetition gave; the figure is the median.
    pub samples: Vec<f64>,
    /// What each repetition of the floor gave.
    pub floor_samples: Vec<f64>,
}

/// What a figure should be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// No more than this.
    AtMost(f64),
    /// This share of the floor, or more.
    OfFloor(f64),
    /// This, or more.
    AtLeast(f64),
    /// So many times the floor, or less.
    WithinFloor(f64),
}

impl Row {
    pub(crate) fn new(
        key: impl Into<String>,
        name: impl Into<String>,
        unit: &'static str,
        samples: &Samples,
    ) -> Self {
        Self {
            key: key.into(),
            name: name.into(),
            unit,
            value: samples.median(),
            floor: None,
            floor_name: None,
            ratio: None,
            goal: None,
            met: None,
            samples: samples.to_vec(),
            floor_samples: Vec::new(),
        }
    }

    pub(crate) fn floor(mut self, name: &'static str, floor: &Samples) -> Self {
        self.floor = floor.median();
        self.floor_samples = floor.to_vec();
        self.floor_name = Some(name);
        self.ratio = self.value.zip(self.floor.filter(|floor| *floor > 0.0)).map(|(v, f)| v / f);
        self
    }

    pub(crate) fn goal(mut self, goal: Goal) -> Self {
        (self.goal, self.met) = match goal {
            Goal::AtMost(most) => {
                (Some(format!("≤ {most} {}", self.unit)), self.value.map(|value| value <= most))
            }
            Goal::AtLeast(least) => (
                Some(format!("≥ {least:.0} {}", self.unit)),
                self.value.map(|value| value >= least),
            ),
            Goal::WithinFloor(times) => {
                (Some(format!("≤ {times:.2} ×")), self.ratio.map(|ratio| ratio <= times))
            }
            Goal::OfFloor(share) => {
                (Some(format!("≥ {:.0} %", share * 100.0)), self.ratio.map(|ratio| ratio >= share))
            }
        };
        self
    }

    fn cells(&self) -> [String; 7] {
        let figure = |value: Option<f64>| value.map_or_else(|| "not visible".to_owned(), number);
        let floor = self.floor_name.map_or_else(String::new, |_| figure(self.floor));
        let met = self.met.map_or("", |met| if met { "yes" } else { "NO" });
        [
            self.name.clone(),
            format!("{} {}", figure(self.value), self.unit),
            floor,
            self.floor_name.unwrap_or_default().to_owned(),
            self.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            self.goal.clone().unwrap_or_default(),
            met.to_owned(),
        ]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["", "measured", "floor", "of", "ratio", "goal", "met"].map(str::to_owned);
        let lines: Vec<[String; 7]> =
            std::iter::once(head).chain(self.rows.iter().map(Row::cells)).collect();
        let mut widths = [0; 7];
        for line in &lines {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = cell.chars().count().max(*width);
            }
        }
        for line in &lines {
            let mut text = String::new();
            for (column, (cell, width)) in line.iter().zip(widths).enumerate() {
                match column {
                    1 | 2 | 4 => text.push_str(&format!("{cell:>width$}  ")),
                    _ => text.push_str(&format!("{cell:<width$}  ")),
                }
            }
            writeln!(f, "{}", text.trim_end())?;
        }
        let Settings { seconds, repeats, payload_bytes, processors } = self.settings;
        writeln!(
            f,
            "\nMedians of {repeats} × {seconds} s, small records of {payload_bytes} B, \
             {processors} processors."
        )
    }
}

/// A number with as many digits as mean something.
fn number(value: f64) -> String {
    match value.abs() {
        below if below < 10.0 => format!("{value:.2}"),
        below if below < 1_000.0 => format!("{value:.1}"),
        _ => grouped(&format!("{value:.0}")),
    }
}

fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Goal, Row, Samples, number};

    #[test]
    fn numbers_have_the_digits_that_mean_something() {
        let shown = [1.234, 96.04, 146_921.4, 1_000.0, -12_345.0].map(number);
        assert_eq!(shown, ["1.23", "96.0", "146,921", "1,000", "-12,345"]);
    }

    #[test]
    fn a_goal_is_met_by_the_figure_or_by_its_ratio_to_the_floor() {
        let once = |value: f64| Samples::from_iter([value]);
        let row = |value| Row::new("key", "name", "/s", &once(value)).floor("probe", &once(100.0));
        assert_eq!(row(79.0).goal(Goal::OfFloor(0.8)).met, Some(false));
        assert_eq!(row(80.0).goal(Goal::OfFloor(0.8)).met, Some(true));
        assert_eq!(row(80.0).goal(Goal::AtMost(40.0)).met, Some(false));
        assert_eq!(row(201.0).goal(Goal::WithinFloor(2.0)).met, Some(false));
        assert_eq!(row(200.0).goal(Goal::WithinFloor(2.0)).met, Some(true));
        let unseen = Row::new("key", "name", "", &Samples::default());
        assert_eq!(unseen.goal(Goal::AtMost(1.0)).met, None);
    }
}
