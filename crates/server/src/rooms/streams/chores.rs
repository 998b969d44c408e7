//! What is done beside the room, on a thread that may wait for a disk: looking what is past its
//! time, taking away what the room has given up.
//!
//! ```text
//!  look: segments ──retained──▶ Trim, decided by the room ──durable──▶ segments are taken away
//! ```
//!
//! One chore at a time. What fails is tried again with the next look. Told to end, a chore leaves the
//! partitions that it has not come to: there may be thousands, and the next start looks at them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use handoff_log::segments::Lane;
use handoff_store_embedded::{BulkError, Lanes};
use handoff_streams::{Aggregate, Key, PartitionId, State, TopicId};
use handoff_types::{Now, Sight, Span, Steady, Wall};
use tokio::task::{JoinHandle, spawn_blocking};
use tracing::warn;

use crate::settings;

/// How long nothing has to be looked at.
const REST: Duration = Duration::from_secs(1);

/// What of a partition may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trim {
    pub(super) partition: PartitionId,
    /// The first offset that stays.
    pub(super) below: u64,
    /// Bytes that stay, about.
    pub(super) bytes: u64,
}

/// What a chore has found.
#[derive(Debug)]
pub(super) enum Done {
    /// What may go.
    Looked(Vec<Trim>),
    /// Every lane on disk.
    Listed(Vec<Lane>),
    /// What could not be taken away.
    Left(Vec<(PartitionId, u64)>),
}

/// A partition to be looked at.
#[derive(Clone, Copy, Debug)]
struct Look {
    partition: PartitionId,
    start: u64,
    keep_bytes: Option<u64>,
    older_than: Option<Wall>,
}

/// Whether chores are to end.
#[derive(Clone, Debug, Default)]
struct Ending(Arc<AtomicBool>);

impl Ending {
    fn is_told(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The chores of a room.
#[derive(Debug)]
pub(super) struct Chores {
    lanes: Lanes,
    running: Option<JoinHandle<Done>>,
    ending: Ending,
    /// What is to be taken away, below an offset.
    drops: BTreeMap<PartitionId, u64>,
    /// What could not be, until the next look.
    left: Vec<(PartitionId, u64)>,
    /// What belongs to nobody is still to be looked for.
    unswept: bool,
    /// The topics there were at start, and the first number that none has had: what is on disk of
    /// an older one belongs to nobody, whatever is decided meanwhile.
    topics: BTreeSet<TopicId>,
    new: TopicId,
    /// When partitions are looked at next.
    look_at: Option<Steady>,
}

impl Chores {
    /// `state` is what was read back, before anything is decided.
    pub(super) fn new(lanes: Lanes, state: &State) -> Self {
        let new = match state.aggregate(&Key::Counters) {
            Some(Aggregate::Counters(next)) => next,
            _ => TopicId::default(),
        };
        Self {
            lanes,
            running: None,
            ending: Ending::default(),
            drops: BTreeMap::new(),
            left: Vec::new(),
            unswept: true,
            topics: state.topics(&Sight::All, None).map(|topic| topic.id).collect(),
            new,
            look_at: None,
        }
    }

    /// A partition's first messages are given up, durably.
    pub(super) fn drop_below(&mut self, partition: PartitionId, below: u64) {
        let place = self.drops.entry(partition).or_default();
        *place = below.max(*place);
    }

    /// What could not be taken away is tried again with the next look.
    pub(super) fn keep(&mut self, left: Vec<(PartitionId, u64)>) {
        self.left.extend(left);
    }

    /// Partitions are given up, durably.
    pub(super) fn remove(&mut self, partitions: &[PartitionId]) {
        for partition in partitions {
            self.drops.remove(partition);
        }
        self.left.retain(|(partition, _)| !partitions.contains(partition));
        let lanes: Vec<Lane> = partitions.iter().copied().map(lane).collect();
        self.lanes.remove(&lanes);
    }

    /// Begins a chore if there is one and none is under way. How long until there may be another.
    pub(super) fn step(
        &mut self,
        state: &State,
        settings: &settings::Streams,
        now: Now,
    ) -> Duration {
        if self.running.is_some() {
            return REST;
        }
        let (lanes, ending) = (self.lanes.clone(), self.ending.clone());
        if self.unswept {
            self.unswept = false;
            self.running = Some(spawn_blocking(move || list(&lanes)));
        } else if !self.drops.is_empty() {
            let drops = std::mem::take(&mut self.drops);
            self.running = Some(spawn_blocking(move || take_away(&lanes, drops, &ending)));
        } else if self.look_at.is_none_or(|at| at <= now.steady) {
            let micros = u64::try_from(settings.retention_every.as_micros()).unwrap_or(u64::MAX);
            self.look_at = Some(now.steady + Span::from_micros(micros));
            for (partition, below) in std::mem::take(&mut self.left) {
                self.drop_below(partition, below);
            }
            let looks = to_look_at(state, now.wall);
            if !looks.is_empty() {
                self.running = Some(spawn_blocking(move || look(&lanes, &looks, &ending)));
            }
        }
        let left = self.look_at.map_or(Span::ZERO, |at| at.since(now.steady));
        Duration::from_micros(left.0).clamp(Duration::from_millis(1), REST)
    }

    /// Waits until a chore is done; for ever if there is none.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(super) async fn done(&mut self) -> Done {
        let Some(running) = &mut self.running else { return std::future::pending().await };
        let done = running.await;
        self.running = None;
        // A panic there has been reported by itself.
        done.unwrap_or_else(|_| Done::Left(Vec::new()))
    }

    /// Tells what is under way to end soon. Does not wait.
    pub(super) fn tell_to_end(&self) {
        self.ending.0.store(true, Ordering::Release);
    }

    /// Waits for what is under way.
    pub(super) async fn end(&mut self) {
        if let Some(running) = self.running.take() {
            drop(running.await);
        }
    }

    /// Takes away lanes of topics that were gone before the start: a crash came before they were.
    pub(super) fn sweep(&self, on_disk: Vec<Lane>) {
        let stray = |lane: &Lane| {
            let PartitionId { topic, .. } = PartitionId::from_lane(lane.0);
            topic < self.new && !self.topics.contains(&topic)
        };
        let strays: Vec<Lane> = on_disk.into_iter().filter(stray).collect();
        if !strays.is_empty() {
            warn!(count = strays.len(), "what is left of deleted topics is removed");
            self.lanes.remove(&strays);
        }
    }
}

fn lane(partition: PartitionId) -> Lane {
    Lane(partition.lane())
}

/// Partitions of which something may go.
fn to_look_at(state: &State, now: Wall) -> Vec<Look> {
    let mut looks = Vec::new();
    for topic in state.topics(&Sight::All, None) {
        let (age, size) = (topic.settings.retention, topic.settings.retention_bytes);
        if age.is_none() && size.is_none() {
            continue;
        }
        let older_than = age.map(|age| now - age);
        for number in 0..topic.partitions {
            let partition = PartitionId { topic: topic.id, number };
            let Some(known) = state.partition(partition) else { continue };
            let large = size.is_some_and(|size| known.bytes > size);
            if known.start < known.end && (age.is_some() || large) {
                let (start, keep_bytes) = (known.start, size);
                looks.push(Look { partition, start, keep_bytes, older_than });
            }
        }
    }
    looks
}

fn look(lanes: &Lanes, looks: &[Look], ending: &Ending) -> Done {
    let mut trims = Vec::new();
    for Look { partition, start, keep_bytes, older_than } in looks.iter().copied() {
        if ending.is_told() {
            break;
        }
        let found = look_at(lanes, partition, start, (keep_bytes, older_than));
        match found {
            Ok(found) => trims.extend(found),
            Err(error) => warn!(%partition, %error, "a partition could not be looked at"),
        }
    }
    Done::Looked(trims)
}

fn look_at(
    lanes: &Lanes,
    partition: PartitionId,
    start: u64,
    (keep_bytes, older_than): (Option<u64>, Option<Wall>),
) -> Result<Option<Trim>, BulkError> {
    // A crash may have come between a decision and its consequence.
    if start > 0 {
        lanes.trim(lane(partition), start)?;
    }
    let retained = lanes.retained(lane(partition), keep_bytes, older_than)?;
    let trim = Trim { partition, below: retained.below, bytes: retained.bytes };
    Ok((retained.below > start).then_some(trim))
}

fn list(lanes: &Lanes) -> Done {
    Done::Listed(lanes.on_disk().unwrap_or_else(|error| {
        warn!(%error, "what is left of deleted topics could not be looked for");
        Vec::new()
    }))
}

fn take_away(lanes: &Lanes, drops: BTreeMap<PartitionId, u64>, ending: &Ending) -> Done {
    let mut left = Vec::new();
    for (partition, below) in drops {
        if ending.is_told() {
            left.push((partition, below));
            continue;
        }
        if let Err(error) = lanes.trim(lane(partition), below) {
            warn!(%partition, %error, "old messages could not be taken away; they will be");
            left.push((partition, below));
        }
    }
    Done::Left(left)
}
