//! Messages for a member.
//!
//! ```text
//!  look: what may it be handed? ──▶ read that, beside the room ──▶ decide, with what was found
//!    ▲                                                                  │ nothing
//!    └────────── rung: more came, or came back, or it is time ◀─────────┘
//! ```
//!
//! The bell hangs before the first look, so nothing that happens meanwhile is missed. What was
//! looked at and brought nothing is not read again until it changes.
//!
//! What is on its way to members is bounded, and whoever takes it slowly holds it for long. So every
//! member has a turn of its own beside what all share, for one small answer at a time: those who are
//! slow may use up what is shared, and stop nobody else.

use std::sync::Arc;
use std::time::Duration;

use handoff_streams::batch::Record;
use handoff_streams::groups::{
    Candidate, Fact, Found, GroupCommand, GroupName, GroupReply, HandedOut, MemberId, OnCorrupt,
};
use handoff_streams::{PartitionId, TopicName};
use handoff_types::Wall;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::super::bells::Bell;
use super::super::ends::Ends;
use super::super::mailbox::{Answer, Look};
use super::super::reading::{Pick, weight};
use super::super::{StreamsRoom, unexpected};
use super::unreadable;
use crate::rooms::RoomError;
use crate::settings;

/// What is given in a member's own turn, give or take one message.
const OWN_TURN_BYTES: usize = 64 << 10;

/// How long a poll waits for others to take what they were given, at least.
const TURN_WAIT_MIN: Duration = Duration::from_secs(5);

/// What a member wants.
#[derive(Clone, Debug)]
pub(crate) struct PollAsked {
    pub(crate) group: GroupName,
    pub(crate) member: MemberId,
    pub(crate) max_messages: usize,
    /// Give or take one message; at most `streams.delivery_bytes_max`.
    pub(crate) max_bytes: usize,
    /// How long to wait if there is nothing.
    pub(crate) wait: Duration,
}

/// What it gets.
#[derive(Debug)]
pub(crate) struct Polled {
    pub(crate) generation: u64,
    pub(crate) batches: Vec<Batch>,
    /// To be kept until the messages are on their way.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

/// Messages of a partition: consecutive offsets.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) topic: TopicName,
    pub(crate) handed: HandedOut,
    /// Until when they have to be answered, by the operator's clock.
    pub(crate) deadline: Wall,
    pub(crate) records: Vec<Record>,
}

/// What may be read of a partition for a member, as far as it is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sight {
    candidate: Candidate,
    start: u64,
    end: u64,
}

impl Sight {
    fn of(candidate: Candidate, ends: &Ends) -> Self {
        Self { candidate, start: ends.start(), end: ends.end() }
    }

    /// Whether there is something to read, or to learn.
    fn is_worth_it(&self) -> bool {
        let Candidate { waiting, next, count, .. } = &self.candidate;
        let waits = !waiting.is_empty();
        waits || (*count > 0 && self.end > *next) || self.start > *next
    }

    fn runs(&self) -> Vec<(u64, u64)> {
        let Candidate { waiting, next, count, .. } = &self.candidate;
        let first = (*next).max(self.start);
        let fresh = (*count > 0).then(|| (first, first.saturating_add(count - 1)));
        waiting.iter().copied().filter(|(_, last)| *last >= self.start).chain(fresh).collect()
    }
}

/// The same whoever's turn it is.
fn by_partition(seen: &[Sight]) -> Vec<Sight> {
    let mut seen = seen.to_vec();
    seen.sort_by_key(|sight| sight.candidate.partition);
    seen
}

/// Leave to put something on its way.
#[derive(Debug)]
enum Turn {
    /// So many bytes of what all share.
    Shared(OwnedSemaphorePermit),
    /// The member's own: one small answer.
    Own(OwnedSemaphorePermit),
}

impl Turn {
    /// How much may be given.
    fn bytes(&self) -> usize {
        match self {
            Self::Shared(permit) => permit.num_permits(),
            Self::Own(_) => OWN_TURN_BYTES,
        }
    }

    /// What has to be kept until so many bytes are on their way. What was not used is somebody
    /// else's.
    fn used(self, bytes: usize) -> OwnedSemaphorePermit {
        match self {
            Self::Shared(mut permit) => {
                let spare = permit.num_permits().saturating_sub(bytes);
                drop(permit.split(spare));
                permit
            }
            Self::Own(permit) => permit,
        }
    }
}

/// What was read for a poll.
#[derive(Debug, Default)]
struct Reading {
    found: Vec<Found>,
    /// By partition, ascending in each.
    records: Vec<(PartitionId, Vec<Record>)>,
}

impl StreamsRoom {
    /// Hands messages to a member, waiting for them if there are none, but not once the server
    /// stops. They are its own when this answers, on disk.
    ///
    /// # Errors
    /// [`RoomError`]; nothing changed, except that nobody knows after [`RoomError::Lost`].
    ///
    /// # Cancel safety
    /// Dropped, messages may be out that nobody got: they come back when their lease is over.
    pub(crate) async fn poll(
        &self,
        asked: PollAsked,
        may: impl Fn(&TopicName) -> bool,
        stop: &CancellationToken,
    ) -> Result<Polled, RoomError> {
        let PollAsked { group, member, max_messages, .. } = &asked;
        let until = Instant::now() + asked.wait;
        let mut bell: Option<Bell> = None;
        let mut tried: Vec<Sight> = Vec::new();
        loop {
            // The first look tells what to listen to; only a look after that misses nothing.
            let look = self.look(group, *member, *max_messages, bell.is_some()).await?;
            let (seen, hidden) = self.sights(&look, &may);
            if let Some(topic) = hidden {
                return Err(RoomError::OutOfSight(topic));
            }
            if seen.iter().any(Sight::is_worth_it) && by_partition(&seen) != tried {
                if let Some(polled) = self.try_poll(&asked, &seen).await? {
                    return Ok(polled);
                }
                tried = by_partition(&seen);
                continue;
            }
            if Instant::now() >= until || stop.is_cancelled() {
                return Ok(Polled {
                    generation: look.generation,
                    batches: Vec::new(),
                    permit: None,
                });
            }
            match &mut bell {
                None => {
                    let mut hung = self.shared.bells.hang(look.group);
                    hung.listen(look.group, &look.assigned);
                    bell = Some(hung);
                }
                Some(bell) => {
                    if !bell.listen(look.group, &look.assigned) {
                        self.wait(bell, &look, until, stop).await;
                    }
                }
            }
        }
    }

    /// Waits until a member may be handed something, or has to be heard of.
    async fn wait(&self, bell: &Bell, look: &Look, until: Instant, stop: &CancellationToken) {
        let waits = self.waits();
        let now = Instant::now();
        let ready = look.ready_at.map(|at| now + self.until(at));
        let beat = now + Duration::from_micros(look.session.0 / 3);
        let until = ready.into_iter().fold(until.min(beat), Instant::min);
        tokio::select! {
            () = bell.rung() => {}
            () = sleep_until(until) => {}
            () = stop.cancelled() => {}
        }
        drop(waits);
    }

    /// What is there for a member of topics it may see; one that it may not, if there is one.
    fn sights(
        &self,
        look: &Look,
        may: impl Fn(&TopicName) -> bool,
    ) -> (Vec<Sight>, Option<TopicName>) {
        let mut topics: Vec<_> = look.assigned.iter().map(|partition| partition.topic).collect();
        topics.dedup();
        let catalogue = &self.shared.catalogue;
        let visible: Vec<_> = topics.into_iter().filter_map(|id| catalogue.find_id(id)).collect();
        if let Some(hidden) = visible.iter().find(|topic| !may(&topic.name)) {
            return (Vec::new(), Some(hidden.name.clone()));
        }
        let candidates = look.candidates.iter();
        let sights = candidates.filter_map(|candidate| {
            let topic = visible.iter().find(|topic| topic.id == candidate.partition.topic)?;
            let ends = topic.partition(candidate.partition.number)?;
            Some(Sight::of(candidate.clone(), &ends))
        });
        (sights.collect(), None)
    }

    /// Reads and decides. None: nothing was handed out.
    async fn try_poll(
        &self,
        asked: &PollAsked,
        seen: &[Sight],
    ) -> Result<Option<Polled>, RoomError> {
        let turn = self.turn_to_deliver(asked).await?;
        let max_bytes = asked.max_bytes.min(turn.bytes());
        let Reading { found, records } = self.read_for(asked, max_bytes, seen).await?;
        let on_corrupt = match self.settings().on_corrupt {
            settings::OnCorrupt::Stop => OnCorrupt::Stop,
            settings::OnCorrupt::Skip => OnCorrupt::Skip,
        };
        let command = GroupCommand::Poll {
            group: asked.group.clone(),
            member: asked.member,
            max_messages: asked.max_messages,
            max_bytes,
            found,
            on_corrupt,
        };
        let (generation, handed) = match self.tell(command).await? {
            GroupReply::Polled { generation, batches, .. } => (generation, batches),
            other => return Err(unexpected(&Answer::Group(other))),
        };
        if handed.is_empty() {
            return Ok(None);
        }
        let batches = self.batches(handed, records);
        let bytes = batches.iter().flat_map(|batch| &batch.records).map(weight).sum();
        Ok(Some(Polled { generation, batches, permit: Some(turn.used(bytes)) }))
    }

    /// Waits until as much may be read as a member wants, or less in its own turn.
    async fn turn_to_deliver(&self, asked: &PollAsked) -> Result<Turn, RoomError> {
        let bytes = asked.max_bytes.min(self.shared.deliveries_max);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let deliveries = &self.shared.deliveries;
        if let Ok(permit) = Arc::clone(deliveries).try_acquire_many_owned(bytes) {
            return Ok(Turn::Shared(permit));
        }
        let shared = Arc::clone(deliveries).acquire_many_owned(bytes);
        let own = self.shared.own_turn(asked.member).acquire_owned();
        let turn = async {
            tokio::select! {
                biased;
                permit = shared => permit.map(Turn::Shared),
                permit = own => permit.map(Turn::Own),
            }
        };
        match timeout(asked.wait.max(TURN_WAIT_MIN), turn).await {
            Ok(Ok(turn)) => Ok(turn),
            // They are never closed.
            Ok(Err(_)) | Err(_) => Err(RoomError::Delivering(self.delivering())),
        }
    }

    async fn read_for(
        &self,
        asked: &PollAsked,
        max_bytes: usize,
        seen: &[Sight],
    ) -> Result<Reading, RoomError> {
        let mut reading = Reading::default();
        let (mut messages, mut bytes) = (asked.max_messages, max_bytes);
        for sight in seen.iter().filter(|sight| sight.is_worth_it()) {
            if messages == 0 || bytes == 0 {
                break;
            }
            let partition = sight.candidate.partition;
            let pick = Pick {
                partition,
                runs: sight.runs(),
                end: sight.end,
                limit: messages,
                bytes_max: bytes,
                past_damage: false,
            };
            let picked = self.reading.pick(pick).await.map_err(unreadable)?;
            messages = messages.saturating_sub(picked.records.len());
            bytes = bytes.saturating_sub(picked.records.iter().map(weight).sum());
            reading.found.push(Found {
                partition,
                kept: sight.start.max(picked.kept),
                facts: picked.records.iter().map(Fact::of).collect(),
                damaged: picked.damaged,
            });
            reading.records.push((partition, picked.records));
        }
        Ok(reading)
    }

    /// Messages as they were handed out.
    fn batches(
        &self,
        handed: Vec<HandedOut>,
        records: Vec<(PartitionId, Vec<Record>)>,
    ) -> Vec<Batch> {
        let (steady, wall) = (self.clock.steady(), self.clock.wall());
        let mut batches = Vec::with_capacity(handed.len());
        for one in handed {
            let read = records.iter().find(|(partition, _)| *partition == one.partition);
            let read = read.map(|(_, records)| &**records).unwrap_or_default();
            let first = read.partition_point(|record| record.offset < one.base);
            let behind = one.base.saturating_add(one.count);
            let last = read.partition_point(|record| record.offset < behind);
            let records = read.get(first..last).unwrap_or_default().to_vec();
            debug_assert_eq!(records.len() as u64, one.count, "{one:?}");
            let Some(topic) = self.topic_of_partition(one.partition) else { continue };
            let deadline = wall + one.deadline.since(steady);
            batches.push(Batch { topic, handed: one, deadline, records });
        }
        batches
    }
}
