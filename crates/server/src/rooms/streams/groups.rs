//! What can be asked of groups.

mod committing;
mod letters;
mod polling;

use std::time::Duration;

use handoff_streams::groups::{
    Group, GroupCommand, GroupName, GroupReply, GroupSettings, GroupView, Join, MemberId,
    MessageStatus, Sought, Spot, Start,
};
use handoff_streams::{PartitionId, Refusal, TopicName};
use handoff_types::{Sight, Span, Steady, Wall};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

pub(crate) use self::committing::{CommitAsked, Committed, Said};
pub(crate) use self::letters::{LetterAt, Which};
pub(crate) use self::polling::{Batch, PollAsked, Polled};
use super::mailbox::{Answer, GroupAlteration, GroupListed, Look, Question};
use super::reading::ReadFault;
use super::{StreamsRoom, unexpected};
use crate::rooms::RoomError;

/// Where somebody wants to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// At the first message that is kept.
    Earliest,
    /// Behind the last one there is.
    Latest,
    /// At an offset.
    Offset(u64),
    /// At the first message from this time on.
    Time(Wall),
}

impl From<Start> for Origin {
    fn from(start: Start) -> Self {
        match start {
            Start::Earliest => Self::Earliest,
            Start::Latest => Self::Latest,
        }
    }
}

/// Somebody who wants to join.
#[derive(Clone, Debug)]
pub(crate) struct JoinAsked {
    pub(crate) group: GroupName,
    /// What it reads; none: what the group reads.
    pub(crate) topics: Vec<TopicName>,
    pub(crate) client: String,
    pub(crate) instance: Option<String>,
    pub(crate) session: Span,
    /// Where the group begins in partitions it has not read yet; none: as the group says.
    pub(crate) from: Option<Origin>,
}

/// A partition that a member has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) topic: TopicName,
    pub(crate) partition: u32,
    /// The first offset that is not finished, where it is said.
    pub(crate) committed: Option<u64>,
}

/// A member that is in.
#[derive(Clone, Debug)]
pub(crate) struct Joined {
    pub(crate) member: MemberId,
    pub(crate) generation: u64,
    pub(crate) session: Span,
    pub(crate) assignment: Vec<Assignment>,
}

/// What a member learns from a heartbeat.
#[derive(Clone, Debug)]
pub(crate) struct Beat {
    pub(crate) generation: u64,
    pub(crate) assignment: Vec<Assignment>,
    pub(crate) changed: bool,
}

impl StreamsRoom {
    /// Makes a group that begins as it says, or elsewhere.
    ///
    /// # Errors
    /// [`RoomError`]; nothing changed, except that nobody knows after [`RoomError::Lost`].
    ///
    /// # Cancel safety
    /// Dropped, it may be made all the same.
    pub(crate) async fn create_group(
        &self,
        name: GroupName,
        settings: GroupSettings,
        from: Option<Origin>,
    ) -> Result<Group, RoomError> {
        let origin = from.unwrap_or_else(|| settings.start.into());
        let begin = self.spots(&settings.topics, None, origin).await?;
        let limits = self.settings().group_bounds;
        match self.tell(GroupCommand::Create { name, settings, begin, limits }).await? {
            GroupReply::Created(group) => Ok(group),
            other => Err(unexpected(&Answer::Group(other))),
        }
    }

    /// Changes a group's settings.
    ///
    /// # Errors
    /// As [`Self::create_group`].
    ///
    /// # Cancel safety
    /// Dropped, it may be done all the same.
    pub(crate) async fn alter_group(
        &self,
        name: GroupName,
        to: GroupAlteration,
    ) -> Result<Group, RoomError> {
        let start = match (&to.start, self.group(name.clone()).await?) {
            (Some(start), _) => *start,
            (None, Some(group)) => group.settings.start,
            (None, None) => Start::Earliest,
        };
        let topics = to.topics.clone().unwrap_or_default();
        let begin = self.spots(&topics, None, start.into()).await?;
        match self.ask(Question::AlterGroup(name, Box::new(to), begin)).await? {
            Answer::Group(GroupReply::Altered(group)) => Ok(group),
            other => Err(unexpected(&other)),
        }
    }

    /// Deletes a group and all it knows. Its dead letters stay.
    ///
    /// # Errors
    /// As [`Self::create_group`].
    ///
    /// # Cancel safety
    /// Dropped, it may be done all the same.
    pub(crate) async fn delete_group(&self, name: GroupName) -> Result<Group, RoomError> {
        match self.tell(GroupCommand::Delete { name }).await? {
            GroupReply::Deleted(group) => Ok(group),
            other => Err(unexpected(&Answer::Group(other))),
        }
    }

    /// A group as it is, durable or not: for whoever asks something else next.
    ///
    /// # Errors
    /// When the room is closed.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub(crate) async fn group(&self, name: GroupName) -> Result<Option<Group>, RoomError> {
        match self.ask(Question::OneGroup(name)).await? {
            Answer::OneGroup(group) => Ok(group.map(|group| *group)),
            other => Err(unexpected(&other)),
        }
    }

    /// Groups in sight by name, those behind a name, and whether there are more.
    ///
    /// # Errors
    /// When the room is closed.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub(crate) async fn groups(
        &self,
        sight: Sight,
        after: Option<GroupName>,
        limit: usize,
    ) -> Result<(Vec<GroupListed>, bool), RoomError> {
        match self.ask(Question::Groups { sight, after, limit }).await? {
            Answer::Groups(groups, more) => Ok((groups, more)),
            other => Err(unexpected(&other)),
        }
    }

    /// A group, its members, and where it is in topics in sight.
    ///
    /// # Errors
    /// `NoGroup`, or when the room is closed.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub(crate) async fn show_group(
        &self,
        name: GroupName,
        sight: Sight,
    ) -> Result<GroupView, RoomError> {
        match self.ask(Question::ShowGroup(name, sight)).await? {
            Answer::GroupView(view) => Ok(*view),
            other => Err(unexpected(&other)),
        }
    }

    /// What a message is for a group.
    ///
    /// # Errors
    /// `NoGroup`, or when the room is closed.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub(crate) async fn message_status(
        &self,
        group: GroupName,
        partition: PartitionId,
        offset: u64,
    ) -> Result<MessageStatus, RoomError> {
        match self.ask(Question::Status(group, partition, offset)).await? {
            Answer::Status(status) => Ok(status),
            other => Err(unexpected(&other)),
        }
    }

    /// Lets somebody join.
    ///
    /// # Errors
    /// As [`Self::create_group`].
    ///
    /// # Cancel safety
    /// Dropped, it may have joined all the same; it goes when its session is over.
    pub(crate) async fn join(&self, asked: JoinAsked) -> Result<Joined, RoomError> {
        let JoinAsked { group, topics, client, instance, session, from } = asked;
        let known = self.group(group.clone()).await?;
        let start = known.as_ref().map(|group| group.settings.start).unwrap_or_default();
        let own = known.map(|group| group.settings.topics).unwrap_or_default();
        let reads = if topics.is_empty() { &own } else { &topics };
        let begin = self.spots(reads, None, from.unwrap_or_else(|| start.into())).await?;
        let join = Join { group, topics, client, instance, session, begin };
        let limits = self.settings().group_bounds;
        match self.tell(GroupCommand::Join { join, limits }).await? {
            GroupReply::Joined { member, generation, session, assignment, .. } => {
                let named = assignment
                    .iter()
                    .filter_map(|one| self.assignment(one.partition, Some(one.committed)));
                Ok(Joined { member, generation, session, assignment: named.collect() })
            }
            other => Err(unexpected(&Answer::Group(other))),
        }
    }

    /// Lets a member go. What it holds is free at once.
    ///
    /// # Errors
    /// As [`Self::create_group`].
    ///
    /// # Cancel safety
    /// Dropped, it may be gone all the same.
    pub(crate) async fn leave(&self, group: GroupName, member: MemberId) -> Result<(), RoomError> {
        self.tell(GroupCommand::Leave { group, member }).await.map(drop)
    }

    /// Tells a member when its partitions are others than it knows, at the latest after a third of
    /// its session, when `patience` is over or when the server stops.
    ///
    /// # Errors
    /// `MemberGone`, or as [`Self::create_group`].
    ///
    /// # Cancel safety
    /// It was heard of all the same.
    pub(crate) async fn heartbeat(
        &self,
        group: GroupName,
        member: MemberId,
        generation: u64,
        (patience, stop): (Duration, &CancellationToken),
    ) -> Result<Beat, RoomError> {
        let look = self.look(&group, member, 0, false).await?;
        let bell = self.shared.bells.hang(look.group);
        let third = Duration::from_micros(look.session.0 / 3);
        let until = Instant::now() + patience.min(third);
        let waits = self.waits();
        let beat = loop {
            let beat = self.beat(&group, member, generation).await?;
            if beat.changed || Instant::now() >= until || stop.is_cancelled() {
                break beat;
            }
            tokio::select! {
                () = bell.rung() => {}
                () = sleep_until(until) => {}
                () = stop.cancelled() => {}
            }
        };
        drop(waits);
        Ok(beat)
    }

    async fn beat(
        &self,
        group: &GroupName,
        member: MemberId,
        generation: u64,
    ) -> Result<Beat, RoomError> {
        let command = GroupCommand::Heartbeat { group: group.clone(), member, generation };
        match self.tell(command).await? {
            GroupReply::Beat { generation, assignment, changed } => {
                let named = assignment.iter().filter_map(|one| self.assignment(*one, None));
                Ok(Beat { generation, assignment: named.collect(), changed })
            }
            other => Err(unexpected(&Answer::Group(other))),
        }
    }

    /// Sends a group elsewhere in a partition, or in all of a topic; or says what that would do.
    ///
    /// # Errors
    /// As [`Self::create_group`].
    ///
    /// # Cancel safety
    /// Dropped, it may be done all the same.
    pub(crate) async fn seek(
        &self,
        group: GroupName,
        (topic, partition): (TopicName, Option<u32>),
        origin: Origin,
        preview: bool,
    ) -> Result<Vec<Sought>, RoomError> {
        let visible = self.visible(&topic)?;
        if let Some(number) = partition.filter(|number| visible.partition(*number).is_none()) {
            let count = visible.count();
            return Err(Refusal::NoPartition { topic, partition: number, count }.into());
        }
        let to = self.spots(&[topic], partition, origin).await?;
        match self.tell(GroupCommand::Seek { group, to, preview }).await? {
            GroupReply::Sought { partitions, .. } => Ok(partitions),
            other => Err(unexpected(&Answer::Group(other))),
        }
    }

    /// Bytes of messages on their way to members.
    pub(super) fn delivering(&self) -> usize {
        let all = self.shared.deliveries_max;
        all.saturating_sub(self.shared.deliveries.available_permits())
    }

    /// What a member may be handed.
    async fn look(
        &self,
        group: &GroupName,
        member: MemberId,
        most: usize,
        waits: bool,
    ) -> Result<Look, RoomError> {
        let group = group.clone();
        match self.ask(Question::Look { group, member, most, waits }).await? {
            Answer::Look(look) => Ok(*look),
            other => Err(unexpected(&other)),
        }
    }

    /// Asks something of a group that needs no messages to be read.
    async fn tell(&self, command: GroupCommand) -> Result<GroupReply, RoomError> {
        match self.ask(Question::Group(Box::new(command))).await? {
            Answer::Group(reply) => Ok(reply),
            other => Err(unexpected(&other)),
        }
    }

    /// Where partitions of topics are to begin. Topics that are not there are left to the room.
    async fn spots(
        &self,
        topics: &[TopicName],
        partition: Option<u32>,
        origin: Origin,
    ) -> Result<Vec<Spot>, RoomError> {
        let mut spots = Vec::new();
        for name in topics {
            let Ok(topic) = self.visible(name) else { continue };
            for number in 0..topic.count() {
                if partition.is_some_and(|wanted| wanted != number) {
                    continue;
                }
                let Some(ends) = topic.partition(number) else { continue };
                let partition = PartitionId { topic: topic.id, number };
                let (start, end) = (ends.start(), ends.end());
                let at = match origin {
                    Origin::Earliest => start,
                    Origin::Latest => end,
                    Origin::Offset(offset) => offset.clamp(start, end),
                    Origin::Time(time) => {
                        let found = self.reading.first_since(partition, time, (start, end));
                        found.await.map_err(unreadable)?
                    }
                };
                spots.push((partition, at));
            }
        }
        Ok(spots)
    }

    /// The name of a partition's topic, if it is there.
    pub(crate) fn topic_of_partition(&self, partition: PartitionId) -> Option<TopicName> {
        self.shared.catalogue.find_id(partition.topic).map(|topic| topic.name.clone())
    }

    fn assignment(&self, partition: PartitionId, committed: Option<u64>) -> Option<Assignment> {
        let topic = self.topic_of_partition(partition)?;
        Some(Assignment { topic, partition: partition.number, committed })
    }

    /// How long until a steady instant.
    fn until(&self, at: Steady) -> Duration {
        Duration::from_micros(at.since(self.clock.steady()).0)
    }
}

/// A read that failed.
fn unreadable(fault: ReadFault) -> RoomError {
    match fault {
        ReadFault::Closed => RoomError::Closed("the server is stopping".to_owned()),
        fault => {
            tracing::error!(error = &fault as &dyn std::error::Error, "a partition cannot be read");
            RoomError::Unreadable(fault.to_string())
        }
    }
}
