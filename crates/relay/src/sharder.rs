//! Which shard has a series.

use crate::batch::{Batch, Series};
use crate::key::{ShardId, Shards};

/// Deals series out to shards by their labels: a series is in the same shard of every block that
/// has as many of them.
#[derive(Clone, Copy, Debug)]
pub struct Sharder {
    shards: Shards,
}

/// A batch with the series of each shard.
#[derive(Clone, Debug)]
pub struct Sharded<'a> {
    batch: &'a Batch,
    of: Vec<Vec<u32>>,
}

impl Sharder {
    /// A sharder for so many shards.
    #[must_use]
    pub const fn new(shards: Shards) -> Self {
        Self { shards }
    }

    /// How many shards it deals to.
    #[must_use]
    pub const fn shards(&self) -> Shards {
        self.shards
    }

    /// Deals a batch out.
    #[must_use]
    pub fn shard<'a>(&self, batch: &'a Batch) -> Sharded<'a> {
        let mut of = vec![Vec::new(); usize::from(self.shards.count())];
        // The upper bits: the lower ones find the series in its shard.
        let shift = 64 - u32::from(self.shards.power());
        for (at, hash) in (0_u32..).zip(batch.hashes()) {
            let shard = hash.checked_shr(shift).unwrap_or(0);
            if let Some(mine) = usize::try_from(shard).ok().and_then(|shard| of.get_mut(shard)) {
                mine.push(at);
            }
        }
        Sharded { batch, of }
    }
}

impl<'a> Sharded<'a> {
    /// The series of a shard, in the order in which they came.
    pub fn series_of(&self, shard: ShardId) -> impl Iterator<Item = Series<'a>> + '_ {
        let mine = self.of.get(usize::from(shard)).map_or(&[][..], Vec::as_slice);
        mine.iter().filter_map(|at| self.batch.series(*at as usize))
    }

    /// What is known of metric families travels with the first shard.
    pub fn families_of(&self, shard: ShardId) -> impl Iterator<Item = &'a [u8]> + '_ {
        self.batch.families().take(if shard == 0 { usize::MAX } else { 0 })
    }

    /// Whether nothing is for a shard.
    #[must_use]
    pub fn is_empty_for(&self, shard: ShardId) -> bool {
        self.series_of(shard).next().is_none() && self.families_of(shard).next().is_none()
    }
}
