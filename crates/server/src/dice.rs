//! Chance.
//!
//! Two kinds of it. [`Dice`] gives every command its [`Entropy`]: fast, and different in every
//! process, but not for secrets, because who sees enough of it might work out the rest. Whatever
//! must stay secret (tokens, salts, the keys of [`Dice`] itself) comes from [`secret`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use handoff_types::Entropy;
use thiserror::Error;

/// The system gave no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the system gives no random bytes; nothing secret can be made without them")]
pub struct NoChance;

/// Gives chance to commands. A clone goes on in the same sequence, so no two rolls are equal.
#[derive(Clone, Debug)]
pub struct Dice {
    key: Entropy,
    rolled: Arc<AtomicU64>,
}

impl Dice {
    /// Dice with a key from the system.
    ///
    /// # Errors
    /// [`NoChance`]
    pub fn new() -> Result<Self, NoChance> {
        fresh().map(Self::seeded)
    }

    /// Dice that roll the same for the same key.
    #[must_use]
    pub fn seeded(key: Entropy) -> Self {
        Self { key, rolled: Arc::new(AtomicU64::new(0)) }
    }

    /// Rolls.
    #[must_use]
    pub fn roll(&self) -> Entropy {
        let n = self.rolled.fetch_add(2, Ordering::Relaxed);
        let (high, low) = (self.key.word(n), self.key.word(n.wrapping_add(1)));
        Entropy(u128::from(high) << 64 | u128::from(low))
    }
}

/// Fresh chance from the system: for an opening's salts, or as a key.
///
/// # Errors
/// [`NoChance`]
pub fn fresh() -> Result<Entropy, NoChance> {
    secret().map(|bytes| Entropy(u128::from_le_bytes(bytes)))
}

/// Bytes nobody can guess.
///
/// # Errors
/// [`NoChance`]
pub fn secret<const N: usize>() -> Result<[u8; N], NoChance> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| NoChance)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_rolls_are_equal_not_even_of_clones() {
        let dice = Dice::seeded(Entropy(7));
        let other = dice.clone();
        let rolls: BTreeSet<u128> =
            (0..1000).flat_map(|_| [dice.roll().0, other.roll().0]).collect();
        assert_eq!(rolls.len(), 2000);
    }

    #[test]
    fn dice_of_one_key_roll_the_same_and_of_another_not() {
        let first = |key| Dice::seeded(Entropy(key)).roll();
        assert_eq!(first(7), first(7));
        assert_ne!(first(7), first(8));
    }

    #[test]
    fn every_process_has_its_own_dice() {
        assert_ne!(Dice::new().unwrap().roll(), Dice::new().unwrap().roll());
        assert_ne!(secret::<32>().unwrap(), [0; 32]);
    }
}
