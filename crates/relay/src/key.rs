//! What is shipped, and how it is named.

use std::fmt;

use thiserror::Error;

/// The number of a shard of a block.
pub type ShardId = u16;

/// The number that no segment has: it says "none yet" in a file and on the wire.
pub const NO_SEGMENT: u32 = u32::MAX;

/// The last number a segment may have. The block is closed long before.
pub const LAST_SEGMENT: u32 = u32::MAX - 1;

/// The name of a segment inside its block. Ordered by shard, then by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentKey {
    /// The shard it belongs to.
    pub shard: ShardId,
    /// Its number in the shard: 0, 1, 2 …
    pub segment: u32,
}

impl fmt::Display for SegmentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.shard, self.segment)
    }
}

/// The name of a block: one life of the encoders of all shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub [u8; 16]);

impl BlockId {
    /// A random UUID (version 4) made of dice that the shell threw.
    #[must_use]
    pub const fn from_entropy(entropy: u128) -> Self {
        let mut bytes = entropy.to_be_bytes();
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Self(bytes)
    }

    /// The name under which the same segments go to a receiver that says it has more under the
    /// first one. The same every time it is asked for, so that it is a name.
    #[must_use]
    pub const fn again(self) -> Self {
        let first = u128::from_be_bytes(self.0);
        Self::from_entropy(first ^ 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
    }
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// The most shards a block may have, as a power of two.
pub const SHARD_POWER_MAX: u8 = 6;

/// How many shards a block has: a power of two, at most 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shards {
    power: u8,
}

impl Shards {
    /// One shard.
    pub const ONE: Self = Self { power: 0 };

    /// Two to this power; none above [`SHARD_POWER_MAX`].
    #[must_use]
    pub const fn from_power(power: u8) -> Option<Self> {
        if power <= SHARD_POWER_MAX { Some(Self { power }) } else { None }
    }

    /// The exponent.
    #[must_use]
    pub const fn power(self) -> u8 {
        self.power
    }

    /// How many there are.
    #[must_use]
    pub const fn count(self) -> u16 {
        1 << self.power
    }

    /// All of them.
    pub fn ids(self) -> impl Iterator<Item = ShardId> + Clone {
        0..self.count()
    }

    /// Whether there is such a shard.
    #[must_use]
    pub const fn has(self, shard: ShardId) -> bool {
        shard < self.count()
    }
}

/// The longest name of an agent or a destination, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// The name of an agent or of a destination: visible ASCII, 1 to 128 bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<str>);

/// A name that nobody may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a name is 1 to {NAME_BYTES_MAX} visible ASCII characters")]
pub struct BadName;

impl Name {
    /// The name itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<&str> for Name {
    type Error = BadName;

    fn try_from(text: &str) -> Result<Self, BadName> {
        let fit = (1..=NAME_BYTES_MAX).contains(&text.len());
        if fit && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(Self(text.into()))
        } else {
            Err(BadName)
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One life of one agent's encoders, as a receiver knows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Who sends.
    pub agent: Name,
    /// Which block.
    pub block: BlockId,
}

#[cfg(test)]
mod tests {
    use super::{BlockId, Name, Shards};

    #[test]
    fn a_block_is_shown_as_a_uuid_of_version_4() {
        let block = BlockId::from_entropy(u128::MAX);
        assert_eq!(block.to_string(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_ne!(block.again(), block);
        assert_eq!(block.again(), block.again());
    }

    #[test]
    fn shards_are_a_power_of_two_and_not_too_many() {
        assert_eq!(Shards::from_power(6).map(Shards::count), Some(64));
        assert_eq!(Shards::from_power(7), None);
    }

    #[test]
    fn a_name_with_white_space_or_of_no_length_is_nobodys() {
        for bad in ["", "a b", "a\n", "é", &"x".repeat(129)] {
            assert!(Name::try_from(bad).is_err(), "{bad:?}");
        }
        assert!(Name::try_from("https://mimir.example/push").is_ok());
    }
}
