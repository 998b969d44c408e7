//! Runs a world from a seed, step by step, and says how to run it again.

use std::fmt;

use crate::dice::Dice;
use crate::history::{History, Keep, Kind};
use crate::oracle::Violation;

/// Something to simulate. It keeps its own dice, oracle and invariants.
pub trait World {
    /// Does the next thing and checks that all is well.
    ///
    /// # Errors
    /// [`Fault`] when it is not.
    fn step(&mut self, history: &mut History) -> Result<(), Fault>;

    /// Comes to an end and checks what is left.
    ///
    /// # Errors
    /// [`Fault`] when something acknowledged is not there, or something is that should not be.
    fn finish(&mut self, ending: Ending, history: &mut History) -> Result<(), Fault>;
}

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// What was begun is finished first.
    Closed,
    /// In the middle of everything.
    Crashed,
}

impl Ending {
    /// Every third seed ends in a crash.
    #[must_use]
    pub const fn of(seed: u64) -> Self {
        if seed.is_multiple_of(3) { Self::Crashed } else { Self::Closed }
    }
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// An answer the rules do not allow.
    #[error("the oracle objects: {0}")]
    Oracle(#[from] Violation),
    /// The same of the events room.
    #[error("the oracle objects: {0}")]
    Events(Box<crate::events::Violation>),
    /// The same of the streams room.
    #[error("the oracle objects: {0}")]
    Streams(Box<crate::streams::Violation>),
    /// The same of the exchange.
    #[error("the oracle objects: {0}")]
    Exchange(Box<crate::exchange::Violation>),
    /// The same of the calls room.
    #[error("the oracle objects: {0}")]
    Calls(Box<crate::calls::Violation>),
    /// The same of the relay.
    #[error("the oracle objects: {0}")]
    Relay(#[from] crate::relay::Violation),
    /// Something that must hold after every step does not.
    #[error("an invariant is broken: {0}")]
    Invariant(String),
}

impl From<crate::events::Violation> for Fault {
    fn from(violation: crate::events::Violation) -> Self {
        Self::Events(Box::new(violation))
    }
}

impl From<crate::calls::Violation> for Fault {
    fn from(violation: crate::calls::Violation) -> Self {
        Self::Calls(Box::new(violation))
    }
}

impl From<crate::exchange::Violation> for Fault {
    fn from(violation: crate::exchange::Violation) -> Self {
        Self::Exchange(Box::new(violation))
    }
}

impl From<crate::streams::Violation> for Fault {
    fn from(violation: crate::streams::Violation) -> Self {
        Self::Streams(Box::new(violation))
    }
}

/// Makes something that does not hold a broken invariant.
pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), Fault> {
    if holds { Ok(()) } else { Err(Fault::Invariant(what())) }
}

/// A run that went wrong, and how to see it again.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The world.
    pub scenario: &'static str,
    /// What it was made from.
    pub seed: u64,
    /// How many steps the run was to have.
    pub steps: u64,
    /// The step at which it went wrong; `steps` if it was the ending.
    pub step: u64,
    /// What is wrong.
    pub fault: Fault,
    /// What happened before.
    pub history: History,
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, seed, steps, step, fault, .. } = self;
        writeln!(f, "seed {seed} of {scenario}, step {step}: {fault}")?;
        writeln!(f, "what happened last:")?;
        self.history.lines().try_for_each(|line| writeln!(f, "  {line}"))?;
        write!(f, "again: {}", Again { scenario, seed: *seed, steps: *steps })
    }
}

/// The command that runs a seed again. Says so by itself when a run panics.
struct Again {
    scenario: &'static str,
    seed: u64,
    steps: u64,
}

impl fmt::Display for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, seed, steps } = self;
        write!(f, "cargo run -p handoff-sim -- --seeds 1 --from {seed}")?;
        write!(f, " --scenario {scenario} --steps {steps} --trace")
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {} of {} panics; again: {self}", self.seed, self.scenario);
        }
    }
}

/// The line of a history behind which everything is how a run ends.
pub const END: &str = "-- the end --";

/// Runs a world for a number of steps and to its end.
///
/// # Errors
/// [`Failure`] at the first step that breaks something.
pub fn drive(
    scenario: &'static str,
    world: &mut dyn World,
    seed: u64,
    steps: u64,
    mut history: History,
) -> Result<History, Box<Failure>> {
    let _again = Again { scenario, seed, steps };
    for step in 0..=steps {
        let outcome = if step < steps {
            history.count(Kind::Step, scenario);
            world.step(&mut history)
        } else {
            history.tell(format_args!("{END}"));
            world.finish(Ending::of(seed), &mut history)
        };
        if let Err(fault) = outcome {
            return Err(Box::new(Failure { scenario, seed, steps, step, fault, history }));
        }
    }
    Ok(history)
}

/// Drives the worlds of some seeds until one of them breaks as it is expected to: proof that it can.
///
/// # Errors
/// What was found instead.
pub fn noticed<W: World>(
    seeds: std::ops::Range<u64>,
    steps: u64,
    world: impl Fn(Dice) -> W,
    expected: impl Fn(&Fault) -> bool,
) -> Result<(), Vec<Fault>> {
    let mut found = Vec::new();
    for seed in seeds {
        let (mut world, history) = (world(Dice::new(seed)), History::new(Keep::Last));
        found.extend(drive("twisted", &mut world, seed, steps, history).err().map(|it| it.fault));
        if found.last().is_some_and(&expected) {
            return Ok(());
        }
    }
    Err(found)
}

#[cfg(test)]
mod tests {
    use super::{Ending, Fault, World, drive};
    use crate::history::{History, Keep};

    struct BreaksAt(u64);

    impl World for BreaksAt {
        fn step(&mut self, history: &mut History) -> Result<(), Fault> {
            history.tell(format_args!("{} left", self.0));
            self.0 = self.0.checked_sub(1).ok_or(Fault::Invariant("none left".into()))?;
            Ok(())
        }

        fn finish(&mut self, _: Ending, _: &mut History) -> Result<(), Fault> {
            Ok(())
        }
    }

    #[test]
    fn a_failure_says_its_seed_its_step_and_how_to_see_it_again() {
        let failure =
            drive("test", &mut BreaksAt(3), 42, 10, History::new(Keep::Last)).unwrap_err();
        let text = failure.to_string();
        assert!(text.starts_with("seed 42 of test, step 3: an invariant is broken: none left"));
        assert!(text.contains("cargo run -p handoff-sim -- --seeds 1 --from 42"), "{text}");
    }

    #[test]
    fn every_third_seed_ends_in_a_crash() {
        let crashes = (0..300).filter(|seed| Ending::of(*seed) == Ending::Crashed).count();
        assert_eq!(crashes, 100);
    }
}
