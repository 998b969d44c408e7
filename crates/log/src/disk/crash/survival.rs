//! The choice of what survives a crash.
//!
//! Every outcome the fault model allows can be drawn. The draw leans differently from crash to
//! crash, for with an even coin for each sector a long write would never survive whole, and a
//! crash that loses nothing but the first of a hundred writes would never be seen.

use handoff_types::entropy::mix;
use std::ops::Range;

/// Decides, for one crash, the fate of all that was not synced.
#[derive(Debug)]
pub(super) struct Survival {
    content: Mood,
    names: Mood,
    lengths: Mood,
    draw: Draw,
}

/// What one crash does to one sort of change.
#[derive(Clone, Copy, Debug)]
enum Mood {
    KeepAll,
    LoseAll,
    /// Keeps this many out of [`OUT_OF`].
    Lean(usize),
}

const OUT_OF: usize = 8;

/// What survives of one write.
#[derive(Clone, Debug)]
pub(super) enum Fate {
    Kept,
    Lost,
    /// Each sector by its own coin.
    Scattered,
    /// A run of neighbouring sectors, by their number within the write.
    Run(Range<usize>),
}

impl Survival {
    pub(super) fn everything() -> Self {
        let mood = Mood::KeepAll;
        Self { content: mood, names: mood, lengths: mood, draw: Draw(0) }
    }

    pub(super) fn nothing() -> Self {
        let mood = Mood::LoseAll;
        Self { content: mood, names: mood, lengths: mood, draw: Draw(0) }
    }

    pub(super) fn drawn(seed: u64) -> Self {
        let mut draw = Draw(mix(seed));
        let [content, names, lengths] = [(); 3].map(|()| match draw.below(OUT_OF) {
            0 => Mood::KeepAll,
            1 => Mood::LoseAll,
            _ => Mood::Lean(1 + draw.below(OUT_OF - 1)),
        });
        Self { content, names, lengths, draw }
    }

    /// What survives of a write that touches `sectors` sectors.
    pub(super) fn write(&mut self, sectors: usize) -> Fate {
        match self.content {
            Mood::KeepAll => Fate::Kept,
            Mood::LoseAll => Fate::Lost,
            Mood::Lean(keep) => match self.draw.below(OUT_OF) {
                0 => Fate::Scattered,
                1 => {
                    let start = self.draw.below(sectors);
                    Fate::Run(start..start + 1 + self.draw.below(sectors - start))
                }
                _ if self.draw.below(OUT_OF) < keep => Fate::Kept,
                _ => Fate::Lost,
            },
        }
    }

    /// Whether the `number`-th sector of a write with this fate survives.
    pub(super) fn sector(&mut self, fate: &Fate, number: usize) -> bool {
        match fate {
            Fate::Kept => true,
            Fate::Lost => false,
            Fate::Scattered => self.draw.below(2) == 0,
            Fate::Run(run) => run.contains(&number),
        }
    }

    /// Which of the lengths a file had since its last sync survives; the first is the durable one
    /// and the last the newest.
    pub(super) fn length(&mut self, durable: usize, later: &[usize]) -> usize {
        match self.lengths {
            Mood::KeepAll => later.last().copied().unwrap_or(durable),
            Mood::LoseAll => durable,
            Mood::Lean(keep) if self.draw.below(OUT_OF) < keep => {
                later.last().copied().unwrap_or(durable)
            }
            Mood::Lean(_) => {
                let drawn = self.draw.below(later.len() + 1);
                later.get(drawn).copied().unwrap_or(durable)
            }
        }
    }

    /// Whether a change of names survives, if those it builds on do.
    pub(super) fn name(&mut self) -> bool {
        match self.names {
            Mood::KeepAll => true,
            Mood::LoseAll => false,
            Mood::Lean(keep) => self.draw.below(OUT_OF) < keep,
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014), whose finaliser `types` has.
#[derive(Debug)]
struct Draw(u64);

impl Draw {
    fn word(&mut self) -> u64 {
        let word = mix(self.0);
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        word
    }

    /// A number below `bound`, or 0 if that is 0. The bias of the remainder does not matter here.
    fn below(&mut self, bound: usize) -> usize {
        let word = self.word().checked_rem(bound as u64).unwrap_or(0);
        usize::try_from(word).unwrap_or(0)
    }
}
