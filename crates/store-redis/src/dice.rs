//! Chance: a key from the system, and a word of it for every roll.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use handoff_types::Entropy;

/// Gives chance. A clone goes on in the same sequence, so no two rolls are equal.
#[derive(Clone, Debug)]
pub(crate) struct Dice {
    key: Entropy,
    rolled: Arc<AtomicU64>,
}

impl Dice {
    /// Dice with a key from the system, or words when it gives none.
    pub(crate) fn new() -> Result<Self, String> {
        let mut bytes = [0; 16];
        aws_lc_rs::rand::fill(&mut bytes).map_err(|_| "the system gives no random bytes")?;
        let key = Entropy(u128::from_le_bytes(bytes));
        Ok(Self { key, rolled: Arc::default() })
    }

    /// Rolls.
    pub(crate) fn roll(&self) -> Entropy {
        let n = self.rolled.fetch_add(2, Ordering::Relaxed);
        let (high, low) = (self.key.word(n), self.key.word(n.wrapping_add(1)));
        Entropy(u128::from(high) << 64 | u128::from(low))
    }
}
