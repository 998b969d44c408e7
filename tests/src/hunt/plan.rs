//! When a victim is struck, and how.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use handoff_sim::dice::Dice;

/// What must have happened before an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// So long after the start of the process, or after the act before this one.
    After(Duration),
    /// So long after it was ready.
    AfterReady(Duration),
    /// So many answers were heard.
    Answers(u64),
    /// The victim has told of this so many times.
    Event(&'static str, u64),
}

/// What is done to a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It is killed.
    Kill,
    /// It is frozen.
    Freeze,
    /// It goes on.
    Thaw,
    /// It is told to end.
    Close,
}

/// Acts in their order. The last one ends the victim.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) acts: VecDeque<(Trigger, Act)>,
}

/// What a victim's keeper tells of.
const EVENTS: [&str; 4] = ["moved", "synced", "checkpoint begun", "checkpoint done"];

/// What a victim tells of before it is ready.
const OPENING: [&str; 4] =
    ["opening directory", "opening checkpoint", "opening journal", "opening room"];

impl Plan {
    /// Nothing is done to the victim until somebody does it by hand.
    #[must_use]
    pub fn none() -> Self {
        Self { acts: VecDeque::new() }
    }

    /// The victim is told to end after so many answers, if all it found has been asked for.
    #[must_use]
    pub fn close_after(answers: u64) -> Self {
        Self::of([(Trigger::Answers(answers), Act::Close)])
    }

    /// Some plan.
    #[must_use]
    pub fn draw(dice: &mut Dice) -> Self {
        let mut millis = |below: u64| Duration::from_micros(dice.below(below * 1000));
        let (now, short, middle, long) = (millis(1), millis(4), millis(60), millis(250));
        match dice.below(20) {
            0 => Self::of([(Trigger::After(short), Act::Kill)]),
            1..4 => {
                let told = Trigger::Event(dice.pick(&OPENING).copied().unwrap_or(""), 1);
                Self::of([(told, Act::Thaw), (Trigger::After(now), Act::Kill)])
            }
            4..8 => Self::of([(Trigger::AfterReady(long), Act::Kill)]),
            8..12 => Self::of([(Trigger::Answers(dice.below(800)), Act::Kill)]),
            12..16 => {
                let event = dice.pick(&EVENTS).copied().unwrap_or("moved");
                let told = Trigger::Event(event, 1 + dice.below(6));
                // An act that does nothing marks the moment; the strike follows shortly.
                Self::of([(told, Act::Thaw), (Trigger::After(short), Act::Kill)])
            }
            16 => Self::of([
                (Trigger::AfterReady(long), Act::Freeze),
                (Trigger::After(middle), Act::Kill),
            ]),
            17 => Self::of([
                (Trigger::AfterReady(long), Act::Freeze),
                (Trigger::After(middle), Act::Thaw),
                (Trigger::After(short), Act::Kill),
            ]),
            18 => Self::of([
                (Trigger::After(short), Act::Freeze),
                (Trigger::After(middle), Act::Thaw),
                (Trigger::After(long), Act::Kill),
            ]),
            _ => Self::close_after(dice.below(800)),
        }
    }

    fn of<const N: usize>(acts: [(Trigger, Act); N]) -> Self {
        Self { acts: VecDeque::from(acts) }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (trigger, act)) in self.acts.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{act:?} {trigger:?}")?;
        }
        Ok(())
    }
}
