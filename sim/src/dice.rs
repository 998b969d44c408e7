//! Chance from a seed.

use handoff_types::Entropy;
use handoff_types::entropy::mix;

/// A die that falls the same way for the same seed (SplitMix64: Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub struct Dice {
    state: u64,
}

impl Dice {
    /// The dice of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: mix(seed) }
    }

    /// Dice of their own for one purpose, so that a roll more here is no other roll there.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::new(self.roll())
    }

    /// 64 bits of chance.
    pub const fn roll(&mut self) -> u64 {
        let word = mix(self.state);
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        word
    }

    /// A number below `end`; 0 if there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        let wide = u128::from(self.roll()) * u128::from(end);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number from `-reach` to `reach`.
    pub fn around(&mut self, reach: u32) -> i64 {
        let spread = u64::from(reach) * 2 + 1;
        self.below(spread).cast_signed() - i64::from(reach)
    }

    /// Yes once in `n` times; never if `n` is 0.
    pub fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.below(n) == 0
    }

    /// One of the items, if there are any.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let place = self.below(items.len() as u64);
        items.get(usize::try_from(place).unwrap_or(0))
    }

    /// What a shell passes with a command.
    pub fn entropy(&mut self) -> Entropy {
        Entropy(u128::from(self.roll()) << 64 | u128::from(self.roll()))
    }
}

#[cfg(test)]
mod tests {
    use super::Dice;

    #[test]
    fn a_seed_always_rolls_the_same_and_another_seed_another_way() {
        let rolls = |seed| {
            let mut dice = Dice::new(seed);
            [dice.roll(), dice.roll(), dice.fork().roll(), dice.roll()]
        };
        assert_eq!(rolls(1), rolls(1));
        assert_ne!(rolls(1), rolls(2));
    }

    #[test]
    fn numbers_stay_in_their_range_and_reach_both_ends() {
        let mut dice = Dice::new(7);
        let below: Vec<u64> = (0..1000).map(|_| dice.below(5)).collect();
        assert_eq!((below.iter().min(), below.iter().max()), (Some(&0), Some(&4)));
        let around: Vec<i64> = (0..1000).map(|_| dice.around(3)).collect();
        assert_eq!((around.iter().min(), around.iter().max()), (Some(&-3), Some(&3)));
        assert_eq!(dice.below(0), 0);
        assert!(!dice.one_in(0) && dice.one_in(1));
        assert_eq!(dice.pick::<u8>(&[]), None);
    }
}
