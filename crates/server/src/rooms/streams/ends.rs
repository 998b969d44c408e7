//! What readers may see: where each partition begins and ends on disk.
//!
//! The room writes it when a commit is durable, and wakes whoever waits for more. Readers look at it
//! and at the storage, and never ask the room.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use handoff_streams::{Partition, PartitionId, State, TopicId, TopicName};
use handoff_types::{Sight, Wall};
use tokio::sync::Notify;

/// Where one partition begins and ends.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    start: AtomicU64,
    end: AtomicU64,
    last: AtomicI64,
    bell: Notify,
}

impl Ends {
    fn of(partition: &Partition) -> Arc<Self> {
        let ends = Self::default();
        ends.start.store(partition.start, Ordering::Relaxed);
        ends.end.store(partition.end, Ordering::Relaxed);
        ends.last.store(partition.last.0, Ordering::Relaxed);
        Arc::new(ends)
    }

    /// The first offset that is kept.
    pub(crate) fn start(&self) -> u64 {
        self.start.load(Ordering::Acquire)
    }

    /// The offset behind the last message that may be seen.
    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    fn publish(&self, end: u64, last: Wall) {
        self.last.fetch_max(last.0, Ordering::Relaxed);
        self.end.fetch_max(end, Ordering::Release);
        self.bell.notify_waiters();
    }

    fn trim(&self, start: u64) {
        self.start.fetch_max(start, Ordering::Release);
        self.bell.notify_waiters();
    }
}

/// A topic that may be seen.
#[derive(Debug)]
pub(crate) struct Visible {
    pub(crate) id: TopicId,
    pub(crate) name: TopicName,
    partitions: RwLock<Vec<Arc<Ends>>>,
    gone: AtomicBool,
    /// Rung when anything of it changes.
    bell: Notify,
}

impl Visible {
    fn new(id: TopicId, name: &TopicName) -> Self {
        Self {
            id,
            name: name.clone(),
            partitions: RwLock::default(),
            gone: AtomicBool::new(false),
            bell: Notify::new(),
        }
    }

    /// Has this many partitions, the new ones as `look` finds them.
    fn grow(&self, count: u32, look: impl Fn(PartitionId) -> Partition) {
        let mut partitions = self.partitions.write().unwrap_or_else(PoisonError::into_inner);
        let known = u32::try_from(partitions.len()).unwrap_or(u32::MAX);
        partitions.extend((known..count).map(|number| {
            let partition = look(PartitionId { topic: self.id, number });
            Ends::of(&partition)
        }));
        partitions.shrink_to_fit();
    }

    /// One of its partitions.
    pub(crate) fn partition(&self, number: u32) -> Option<Arc<Ends>> {
        let partitions = self.partitions.read().unwrap_or_else(PoisonError::into_inner);
        partitions.get(usize::try_from(number).ok()?).map(Arc::clone)
    }

    /// How many partitions it has.
    pub(crate) fn count(&self) -> u32 {
        let partitions = self.partitions.read().unwrap_or_else(PoisonError::into_inner);
        u32::try_from(partitions.len()).unwrap_or(u32::MAX)
    }

    /// Whether it was deleted.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    fn publish(&self, number: u32, end: u64, last: Wall) {
        let partitions = self.partitions.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(ends) = usize::try_from(number).ok().and_then(|at| partitions.get(at)) {
            ends.publish(end, last);
        }
        drop(partitions);
        self.bell.notify_waiters();
    }

    fn end(&self) {
        self.gone.store(true, Ordering::Release);
        let partitions = self.partitions.read().unwrap_or_else(PoisonError::into_inner);
        partitions.iter().for_each(|ends| ends.bell.notify_waiters());
        drop(partitions);
        self.bell.notify_waiters();
    }

    /// Waits until a partition has more than this, or the topic is gone.
    ///
    /// # Cancel safety
    /// Takes nothing.
    pub(crate) async fn beyond(&self, ends: &Ends, offset: u64) {
        loop {
            let mut rung = std::pin::pin!(ends.bell.notified());
            // From here on no ring is missed.
            rung.as_mut().enable();
            if ends.end() > offset || self.is_gone() {
                return;
            }
            rung.await;
        }
    }

    /// Waits until `look` is content or the topic is gone. It is asked again whenever anything of
    /// the topic changes.
    ///
    /// # Cancel safety
    /// Takes nothing.
    pub(crate) async fn until(&self, mut look: impl FnMut(&Self) -> bool) {
        loop {
            let mut rung = std::pin::pin!(self.bell.notified());
            rung.as_mut().enable();
            if look(self) || self.is_gone() {
                return;
            }
            rung.await;
        }
    }
}

/// All topics that may be seen, by name.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    topics: RwLock<HashMap<TopicName, Arc<Visible>>>,
    /// The same, and those whose name another has by now, by number.
    by_id: RwLock<HashMap<TopicId, Arc<Visible>>>,
}

impl Catalogue {
    /// The topic of this name.
    pub(crate) fn find(&self, name: &TopicName) -> Option<Arc<Visible>> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The topic of this number.
    pub(crate) fn find_id(&self, id: TopicId) -> Option<Arc<Visible>> {
        self.by_id.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }
}

/// The room's end of the catalogue.
#[derive(Debug)]
pub(super) struct Publisher {
    catalogue: Arc<Catalogue>,
}

impl Publisher {
    /// Shows everything a state has: what was read back is on disk.
    pub(super) fn of(state: &State) -> Self {
        let publisher = Self { catalogue: Arc::default() };
        for topic in state.topics(&Sight::All, None) {
            let look = |id| state.partition(id).copied().unwrap_or_default();
            publisher.show_as(topic.id, &topic.name, topic.partitions, look);
        }
        publisher
    }

    /// What readers look at.
    pub(super) fn catalogue(&self) -> Arc<Catalogue> {
        Arc::clone(&self.catalogue)
    }

    /// A topic is there, or has more partitions. They are empty: the state may know of messages in
    /// them already, but those are not on disk before this is.
    pub(super) fn show(&self, id: TopicId, name: &TopicName, count: u32) {
        self.show_as(id, name, count, |_| Partition::default());
    }

    fn show_as(
        &self,
        id: TopicId,
        name: &TopicName,
        count: u32,
        look: impl Fn(PartitionId) -> Partition,
    ) {
        if let Some(known) = self.catalogue.find_id(id) {
            known.grow(count, look);
            return known.bell.notify_waiters();
        }
        let visible = Arc::new(Visible::new(id, name));
        visible.grow(count, look);
        self.numbers(|numbers| drop(numbers.insert(id, Arc::clone(&visible))));
        self.names(|names| drop(names.insert(name.clone(), visible)));
    }

    /// A topic is gone.
    pub(super) fn hide(&self, id: TopicId) {
        let Some(topic) = self.numbers(|numbers| numbers.remove(&id)) else { return };
        self.names(|names| {
            // Another of the same name may be there already.
            if names.get(&topic.name).is_some_and(|shown| shown.id == id) {
                names.remove(&topic.name);
            }
        });
        topic.end();
    }

    /// A partition has more.
    pub(super) fn publish(&self, partition: PartitionId, end: u64, last: Wall) {
        if let Some(topic) = self.catalogue.find_id(partition.topic) {
            topic.publish(partition.number, end, last);
        }
    }

    /// A partition has less.
    pub(super) fn trim(&self, partition: PartitionId, start: u64) {
        let topic = self.catalogue.find_id(partition.topic);
        if let Some(ends) = topic.and_then(|topic| topic.partition(partition.number)) {
            ends.trim(start);
        }
    }

    /// Nothing more will be shown: whoever waits goes.
    pub(super) fn close(&self) {
        self.numbers(|numbers| numbers.values().for_each(|topic| topic.end()));
    }

    fn numbers<T>(&self, change: impl FnOnce(&mut HashMap<TopicId, Arc<Visible>>) -> T) -> T {
        change(&mut self.catalogue.by_id.write().unwrap_or_else(PoisonError::into_inner))
    }

    fn names(&self, change: impl FnOnce(&mut HashMap<TopicName, Arc<Visible>>)) {
        change(&mut self.catalogue.topics.write().unwrap_or_else(PoisonError::into_inner));
    }
}
