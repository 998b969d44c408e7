//! Who waits for something to change in a group, and is woken when it does.
//!
//! Whoever waits registers first and looks then, so that nothing that happens between the two is
//! missed. A ring says that something changed, not what: whoever hears it looks again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use handoff_streams::PartitionId;
use handoff_streams::groups::GroupId;
use tokio::sync::Notify;

/// What a waiter waits for. Partitions come first, so that those of one partition lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// What may be handed out of a partition to a group.
    Partition(PartitionId, GroupId),
    /// Anything of a group.
    Group(GroupId),
}

/// All bells there are.
#[derive(Debug, Default)]
pub(super) struct Bells {
    hung: Mutex<Hung>,
    /// How many, so that whoever rings for nobody need not look.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Hung {
    next: u64,
    bells: BTreeMap<u64, Arc<Notify>>,
    places: BTreeSet<(Place, u64)>,
}

/// One who waits. It is rung no more once this is dropped.
#[derive(Debug)]
pub(super) struct Bell {
    bells: Arc<Bells>,
    number: u64,
    notify: Arc<Notify>,
    places: Vec<Place>,
}

impl Bells {
    /// Hangs a bell that rings for anything of a group that concerns all its members.
    pub(super) fn hang(self: &Arc<Self>, group: GroupId) -> Bell {
        let notify = Arc::new(Notify::new());
        let mut hung = self.hung();
        let number = hung.next;
        hung.next += 1;
        hung.bells.insert(number, Arc::clone(&notify));
        hung.places.insert((Place::Group(group), number));
        drop(hung);
        self.count.fetch_add(1, Ordering::SeqCst);
        Bell { bells: Arc::clone(self), number, notify, places: vec![Place::Group(group)] }
    }

    /// A partition has more or less than it had.
    pub(super) fn ring_partition(&self, partition: PartitionId) {
        let all = |group| Place::Partition(partition, group);
        self.ring(all(GroupId(0))..=all(GroupId(u64::MAX)));
    }

    /// Something of a partition may be handed out to a group that could not be before.
    pub(super) fn ring_position(&self, group: GroupId, partition: PartitionId) {
        let place = Place::Partition(partition, group);
        self.ring(place..=place);
    }

    /// Something of a group is other than it was.
    pub(super) fn ring_group(&self, group: GroupId) {
        let place = Place::Group(group);
        self.ring(place..=place);
    }

    /// Topics are others than they were: whoever waits may have other partitions.
    pub(super) fn ring_all(&self) {
        self.hung().bells.values().for_each(|bell| bell.notify_one());
    }

    fn ring(&self, places: RangeInclusive<Place>) {
        // Whoever hung a bell looks only then, at a state in which this has happened.
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let hung = self.hung();
        let (first, last) = places.into_inner();
        for (_, number) in hung.places.range((first, 0)..=(last, u64::MAX)) {
            if let Some(bell) = hung.bells.get(number) {
                bell.notify_one();
            }
        }
    }

    fn hung(&self) -> MutexGuard<'_, Hung> {
        self.hung.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bell {
    /// Rings for these partitions too, and for no others any more. Whether that is new: then
    /// something may have happened that nobody was told of.
    pub(super) fn listen(&mut self, group: GroupId, partitions: &[PartitionId]) -> bool {
        let partitions = partitions.iter().map(|partition| Place::Partition(*partition, group));
        let places: Vec<Place> = partitions.chain([Place::Group(group)]).collect();
        if places == self.places {
            return false;
        }
        let mut hung = self.bells.hung();
        for place in std::mem::replace(&mut self.places, places) {
            hung.places.remove(&(place, self.number));
        }
        hung.places.extend(self.places.iter().map(|place| (*place, self.number)));
        true
    }

    /// Waits until it rings. A ring that nobody waited for is heard by the next who does.
    ///
    /// # Cancel safety
    /// No ring is lost.
    pub(super) async fn rung(&self) {
        self.notify.notified().await;
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let mut hung = self.bells.hung();
        hung.bells.remove(&self.number);
        for place in &self.places {
            hung.places.remove(&(*place, self.number));
        }
        drop(hung);
        self.bells.count.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::{Bell, Bells};
    use handoff_streams::groups::GroupId;
    use handoff_streams::{PartitionId, TopicId};
    use std::future::Future as _;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Waker};

    fn partition(number: u32) -> PartitionId {
        PartitionId { topic: TopicId(1), number }
    }

    fn rung(bell: &Bell) -> bool {
        pin!(bell.rung()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_bell_rings_for_its_group_and_its_partitions_and_for_nothing_else() {
        let bells = Arc::new(Bells::default());
        let (one, other) = (GroupId(1), GroupId(2));
        let mut bell = bells.hang(one);
        bells.ring_group(other);
        bells.ring_partition(partition(0));
        assert!(!rung(&bell));
        bells.ring_group(one);
        assert!(rung(&bell) && !rung(&bell), "once");
        assert!(bell.listen(one, &[partition(0), partition(2)]));
        assert!(!bell.listen(one, &[partition(0), partition(2)]));
        bells.ring_partition(partition(1));
        bells.ring_position(other, partition(0));
        assert!(!rung(&bell));
        bells.ring_partition(partition(2));
        assert!(rung(&bell));
        bells.ring_position(one, partition(0));
        assert!(rung(&bell));
        bell.listen(one, &[partition(1)]);
        bells.ring_partition(partition(0));
        assert!(!rung(&bell));
        bells.ring_all();
        assert!(rung(&bell));
    }

    #[test]
    fn nothing_is_left_of_a_bell_that_is_dropped() {
        let bells = Arc::new(Bells::default());
        let mut bell = bells.hang(GroupId(1));
        bell.listen(GroupId(1), &[partition(0)]);
        drop(bell);
        let hung = bells.hung();
        assert!(hung.bells.is_empty() && hung.places.is_empty());
    }
}
