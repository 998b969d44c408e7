//! Chance, told and never drawn.

/// 128 bits of chance that the shell passes with each command.
///
/// A machine that needs an id or a choice takes it from here and writes it into the change, so
/// that replay does not need the dice again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entropy(pub u128);

impl Entropy {
    /// The `n`-th 64-bit word drawn from this entropy. Equal inputs give equal words.
    #[must_use]
    pub fn word(self, n: u64) -> u64 {
        let low = u64::try_from(self.0 & u128::from(u64::MAX)).unwrap_or(0);
        let high = u64::try_from(self.0 >> 64).unwrap_or(0);
        mix(low ^ mix(high.wrapping_add(mix(n))))
    }
}

/// SplitMix64's finaliser (Steele, Lea, Flood 2014): a bijection without visible structure.
#[must_use]
pub const fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::Entropy;

    #[test]
    fn words_differ_by_number_and_by_either_half() {
        let words =
            [Entropy(1).word(0), Entropy(1).word(1), Entropy(2).word(0), Entropy(1 << 64).word(0)];
        for (i, a) in words.iter().enumerate() {
            assert_eq!(words.iter().filter(|b| a == *b).count(), 1, "word {i} repeats");
        }
    }
}
