//! Which segment each destination has confirmed last, shard by shard.

use crate::key::{NO_SEGMENT, Name, SegmentKey, ShardId, Shards};
use crate::wire::{self, Front, Malformed};

/// The most destinations of one agent.
pub const DESTINATIONS_MAX: usize = 64;

/// A destination by its place in the sorted list of names.
pub type DestinationId = usize;

/// Numbers of the last confirmed segments by shards and destinations. A confirmation covers every
/// segment before it; a lower one changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AckStatus {
    names: Vec<Name>,
    shards: Shards,
    last: Vec<u32>,
}

impl AckStatus {
    /// Nothing confirmed by anybody. Names are sorted, byte by byte, and each counts once. More than
    /// [`DESTINATIONS_MAX`] are not looked at: [`crate::DeliveryRules::check`] refuses them.
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = Name>, shards: Shards) -> Self {
        let mut names: Vec<Name> = names.into_iter().collect();
        names.sort();
        names.dedup();
        names.truncate(DESTINATIONS_MAX);
        let last = vec![NO_SEGMENT; names.len() * usize::from(shards.count())];
        Self { names, shards, last }
    }

    /// The destinations, sorted.
    #[must_use]
    pub fn names(&self) -> &[Name] {
        &self.names
    }

    /// How many shards there are.
    #[must_use]
    pub const fn shards(&self) -> Shards {
        self.shards
    }

    /// The place of a destination.
    #[must_use]
    pub fn destination(&self, name: &Name) -> Option<DestinationId> {
        self.names.binary_search(name).ok()
    }

    /// Confirms a segment and all before it. Says whether that was news.
    pub fn ack(&mut self, key: SegmentKey, destination: DestinationId) -> bool {
        let Some(at) = self.at(key.shard, destination) else { return false };
        let Some(last) = self.last.get_mut(at) else { return false };
        let news = *last == NO_SEGMENT || *last < key.segment;
        if news && key.segment != NO_SEGMENT {
            *last = key.segment;
            return true;
        }
        false
    }

    /// The last segment of a shard that a destination has confirmed.
    #[must_use]
    pub fn last(&self, shard: ShardId, destination: DestinationId) -> Option<u32> {
        let last = self.last.get(self.at(shard, destination)?).copied();
        last.filter(|last| *last != NO_SEGMENT)
    }

    /// Whether every destination has confirmed a segment.
    #[must_use]
    pub fn is_acked_by_all(&self, key: SegmentKey) -> bool {
        let by = |destination| self.last(key.shard, destination);
        (0..self.names.len()).all(|one| by(one).is_some_and(|last| last >= key.segment))
    }

    /// Takes over what a later status says.
    pub(crate) fn merge(&mut self, later: &[u32]) {
        let shards = usize::from(self.shards.count()).max(1);
        for (at, segment) in later.iter().enumerate() {
            let shard = ShardId::try_from(at % shards).unwrap_or(ShardId::MAX);
            self.ack(SegmentKey { shard, segment: *segment }, at / shards);
        }
    }

    /// The numbers, destination by destination.
    pub(crate) fn numbers(&self) -> &[u32] {
        &self.last
    }

    fn at(&self, shard: ShardId, destination: DestinationId) -> Option<usize> {
        let known = self.shards.has(shard) && destination < self.names.len();
        known.then(|| destination * usize::from(self.shards.count()) + usize::from(shard))
    }
}

/// Writes the numbers of a status.
pub(crate) fn put_numbers(out: &mut Vec<u8>, numbers: &[u32]) {
    wire::put_len(out, numbers.len());
    for number in numbers {
        wire::put(out, (*number).into());
    }
}

/// Reads the numbers of a status.
pub(crate) fn take_numbers(front: &mut Front<'_>) -> Result<Vec<u32>, Malformed> {
    let count = front.count()?;
    if count > DESTINATIONS_MAX << crate::key::SHARD_POWER_MAX {
        return Err(Malformed("has more statuses than there can be"));
    }
    (0..count).map(|_| front.small()).collect()
}

#[cfg(test)]
mod tests {
    use super::AckStatus;
    use crate::key::{Name, SegmentKey, Shards};

    fn status(names: &[&str]) -> AckStatus {
        let names = names.iter().map(|name| Name::try_from(*name).unwrap());
        AckStatus::new(names, Shards::from_power(1).unwrap())
    }

    #[test]
    fn names_are_sorted_byte_by_byte() {
        let status = status(&["www.x.com", "www.x-dev", "www.x.com"]);
        let names: Vec<_> = status.names().iter().map(Name::as_str).collect();
        assert_eq!(names, ["www.x-dev", "www.x.com"]);
    }

    #[test]
    fn a_lower_confirmation_an_unknown_shard_and_an_unknown_destination_change_nothing() {
        let mut status = status(&["a", "b"]);
        let key = |shard, segment| SegmentKey { shard, segment };
        assert_eq!(status.last(0, 0), None);
        assert!(status.ack(key(0, 0), 0) && status.ack(key(0, 7), 0));
        assert!(!status.ack(key(0, 7), 0) && !status.ack(key(0, 3), 0));
        assert!(!status.ack(key(2, 9), 0) && !status.ack(key(0, 9), 2));
        assert!(!status.ack(key(0, u32::MAX), 0));
        assert_eq!(
            (status.last(0, 0), status.last(1, 0), status.last(0, 1)),
            (Some(7), None, None)
        );
        assert!(!status.is_acked_by_all(key(0, 7)));
        status.ack(key(0, 8), 1);
        assert!(status.is_acked_by_all(key(0, 7)) && !status.is_acked_by_all(key(0, 8)));
    }
}
