//! What is asked of groups, and what is answered.

use std::ops::RangeInclusive;

use handoff_types::{Span, Steady};
use thiserror::Error;

use super::membership::MemberId;
use super::position::LeaseId;
use super::settings::{Group, GroupName, GroupSettings};
use crate::batch::Record;
use crate::{Bounds, PartitionId, Place, Produce, Produced, Refusal, Reply, TopicName};

/// What groups may have. From the configuration, with the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupBounds {
    /// `streams.groups_max`
    pub groups_max: usize,
    /// `streams.members_max`: of one group.
    pub members_max: usize,
    /// `streams.session_secs_max`: for how long a member may be silent.
    pub session_max: Span,
}

impl Default for GroupBounds {
    fn default() -> Self {
        Self { groups_max: 10_000, members_max: 1_000, session_max: Span::from_secs(3_600) }
    }
}

/// Where a group is to be in a partition. Times, beginnings and ends are made offsets by whoever
/// asks: what is at them only the log knows.
pub type Spot = (PartitionId, u64);

/// Somebody who joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// Which group. One that is not there is made, with the settings that are usual, if topics are
    /// named.
    pub group: GroupName,
    /// What it reads; none: what the group reads.
    pub topics: Vec<TopicName>,
    /// What it says it is.
    pub client: String,
    /// A name that outlives it.
    pub instance: Option<String>,
    /// For how long it may be silent.
    pub session: Span,
    /// Where the group begins in partitions it has not read yet; in those that are not named, at 0.
    pub begin: Vec<Spot>,
}

/// What reading found in a partition for a poll.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Which partition.
    pub partition: PartitionId,
    /// The first offset that is kept.
    pub kept: u64,
    /// The messages, ascending. Those from the position's `next` on without a gap.
    pub facts: Vec<Fact>,
    /// Offsets the disk lost: the first, and the first behind the damage.
    pub damaged: Option<(u64, u64)>,
}

/// What a poll needs to know of a message. It never changes, so nobody can have changed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Its offset.
    pub offset: u64,
    /// What its key hashes to; 0 if it has none.
    pub key: u32,
    /// Bytes of key, payload and headers.
    pub bytes: u32,
    /// When nobody wants it any more.
    pub expires: Option<handoff_types::Wall>,
    /// The one group it is for, if it was replayed from that group's dead letters.
    pub only_for: Option<GroupName>,
}

/// What becomes of a group whose partition is damaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnCorrupt {
    /// It stops there, in that partition only.
    #[default]
    Stop,
    /// What is lost counts as dead.
    Skip,
}

/// How it went with some messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Of which partition.
    pub partition: PartitionId,
    /// The first offset.
    pub from: u64,
    /// The last.
    pub to: u64,
    /// How it went.
    pub status: VerdictStatus,
    /// What went wrong.
    pub error: Option<String>,
    /// The lease they were handed out under. Named, it must be that one.
    pub lease: Option<LeaseId>,
    /// When to try again, instead of the group's back-off.
    pub delay: Option<Span>,
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VerdictStatus {
    /// They are processed.
    Ok,
    /// They cannot be: dead letters.
    Failed,
    /// Not now: again later, or dead letters after so many attempts.
    Retry,
    /// It takes longer: the lease begins anew.
    Extend,
}

/// A message that may become a dead letter, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// Its partition.
    pub partition: PartitionId,
    /// Its offset.
    pub offset: u64,
    /// The message; none if it is not kept any more, or the disk lost it.
    pub record: Option<Record>,
}

/// Offsets of a partition to be read.
pub type Reads = Vec<(PartitionId, RangeInclusive<u64>)>;

/// What is to be looked after in a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Members that were silent for too long.
    pub members: Vec<MemberId>,
    /// Partitions with leases that are over.
    pub partitions: Vec<PartitionId>,
}

impl Due {
    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.partitions.is_empty()
    }
}

/// What is asked of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupCommand {
    /// A new group.
    Create {
        /// Its name.
        name: GroupName,
        /// What it is like.
        settings: GroupSettings,
        /// Where it begins, as its `start` says.
        begin: Vec<Spot>,
        /// What is allowed.
        limits: GroupBounds,
    },
    /// Other settings, all of them.
    Alter {
        /// Which.
        name: GroupName,
        /// The new settings.
        settings: GroupSettings,
        /// Where it begins in topics that are new to it.
        begin: Vec<Spot>,
    },
    /// A group and all it knows go. Its dead letters stay.
    Delete {
        /// Which.
        name: GroupName,
    },
    /// A member joins.
    Join {
        /// What it says.
        join: Join,
        /// What is allowed.
        limits: GroupBounds,
    },
    /// A member goes. What it holds is free at once.
    Leave {
        /// Of which group.
        group: GroupName,
        /// Who.
        member: MemberId,
    },
    /// A member is alive and asks whether its partitions are others.
    Heartbeat {
        /// Of which group.
        group: GroupName,
        /// Who.
        member: MemberId,
        /// The generation it knows.
        generation: u64,
    },
    /// A member wants messages. Those it may get were found among [`State::candidates`].
    ///
    /// [`State::candidates`]: crate::State::candidates
    Poll {
        /// Of which group.
        group: GroupName,
        /// Who.
        member: MemberId,
        /// How many at most.
        max_messages: usize,
        /// Bytes of them at most; one is given all the same.
        max_bytes: usize,
        /// What reading found.
        found: Vec<Found>,
        /// What becomes of damage.
        on_corrupt: OnCorrupt,
    },
    /// A member says how it went.
    Commit {
        /// Of which group.
        group: GroupName,
        /// Who.
        member: MemberId,
        /// How it went.
        results: Vec<Verdict>,
        /// What is to be stored with it: all of it or nothing.
        produce: Vec<Produce>,
        /// The messages that [`Streams::reads`] asks for.
        ///
        /// [`Streams::reads`]: crate::Streams::reads
        bodies: Vec<Body>,
        /// What is allowed.
        bounds: Bounds,
    },
    /// Time has passed.
    Sweep {
        /// Which group.
        group: GroupName,
        /// What is to be looked after: [`State::due`].
        ///
        /// [`State::due`]: crate::State::due
        due: Due,
        /// The messages that [`Streams::reads`] asks for; those that are missing wait for the next
        /// sweep.
        ///
        /// [`Streams::reads`]: crate::Streams::reads
        bodies: Vec<Body>,
        /// What is allowed.
        bounds: Bounds,
    },
    /// A group is to be elsewhere.
    Seek {
        /// Which group.
        group: GroupName,
        /// Where, in each partition.
        to: Vec<Spot>,
        /// Whether it is only to be said what would happen.
        preview: bool,
    },
    /// Dead letters go back to where they came from, for this group alone.
    Replay {
        /// Which group.
        group: GroupName,
        /// The letters as they were read from the dead-letter topic.
        letters: Vec<Body>,
        /// What is allowed.
        bounds: Bounds,
    },
}

impl GroupCommand {
    /// The group it is about.
    #[must_use]
    pub fn group(&self) -> &GroupName {
        match self {
            Self::Create { name, .. } | Self::Alter { name, .. } | Self::Delete { name } => name,
            Self::Join { join, .. } => &join.group,
            Self::Leave { group, .. }
            | Self::Heartbeat { group, .. }
            | Self::Poll { group, .. }
            | Self::Commit { group, .. }
            | Self::Sweep { group, .. }
            | Self::Seek { group, .. }
            | Self::Replay { group, .. } => group,
        }
    }
}

/// A partition a member has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Assigned {
    /// Which.
    pub partition: PartitionId,
    /// The first offset that is not finished.
    pub committed: u64,
}

/// Messages that were handed out: consecutive offsets of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandedOut {
    /// Of which partition.
    pub partition: PartitionId,
    /// The first offset.
    pub base: u64,
    /// How many.
    pub count: u64,
    /// How often each was handed out, this time included.
    pub attempt: u32,
    /// Under which lease.
    pub lease: LeaseId,
    /// Until when they have to be answered.
    pub deadline: Steady,
}

/// What became of what a commit said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommitOutcome {
    /// It is so now.
    Done,
    /// It is so, though the partition is another's by now, or it was so already.
    Late,
    /// Nothing: the messages are not the member's, or not any more.
    Fenced,
}

/// What became of one run of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Committed {
    /// Of which partition.
    pub partition: PartitionId,
    /// The first offset.
    pub from: u64,
    /// The last.
    pub to: u64,
    /// What became of them.
    pub outcome: CommitOutcome,
}

/// What a seek does to a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sought {
    /// Which.
    pub partition: PartitionId,
    /// Where the group was: the first offset that was not finished.
    pub from: u64,
    /// Where it is.
    pub to: u64,
    /// Messages that were finished and come again.
    pub again: u64,
    /// Messages that were not finished and do not come.
    pub skipped: u64,
    /// Messages that were out and whose answers do not count any more.
    pub voided: u64,
}

/// What became of a dead letter that was to be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// The letter.
    pub letter: Spot,
    /// What became of it.
    pub outcome: ReplayOutcome,
}

/// What became of a dead letter that was to be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayOutcome {
    /// It is back, here.
    Stored(PartitionId, u64),
    /// It was replayed before; nothing happened.
    Already,
    /// It could not be, for this reason.
    Not(String),
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupReply {
    /// The group is there.
    Created(Group),
    /// The group is as asked now.
    Altered(Group),
    /// The group is gone.
    Deleted(Group),
    /// The member is in.
    Joined {
        /// The group was made with it.
        created: bool,
        /// Its id.
        member: MemberId,
        /// The generation.
        generation: u64,
        /// For how long it may be silent.
        session: Span,
        /// What it has.
        assignment: Vec<Assigned>,
    },
    /// The member is gone.
    Left,
    /// The member is known.
    Beat {
        /// The generation.
        generation: u64,
        /// What it has.
        assignment: Vec<PartitionId>,
        /// Whether the generation is another than it knew.
        changed: bool,
    },
    /// Messages, by partition and offset.
    Polled {
        /// The generation.
        generation: u64,
        /// What was handed out.
        batches: Vec<HandedOut>,
        /// Nothing was handed out, though something was learnt: ask again at once. What was looked at
        /// waits for something else, so look further than before: with a larger number than is
        /// wanted in `candidates`, not in the poll.
        again: bool,
    },
    /// What became of what was said.
    Committed {
        /// In the order of the verdicts; one may be answered in several parts.
        results: Vec<Committed>,
        /// What became of the messages, for each request.
        produced: Vec<Vec<Produced>>,
        /// Sequences that are missing because of gaps seen, for each request.
        missing: Vec<Vec<RangeInclusive<u64>>>,
    },
    /// These messages have to be read first. Nothing changed: ask again with them.
    Wants(Reads),
    /// What was due was done.
    Swept {
        /// Members that are gone.
        gone: Vec<MemberId>,
        /// Messages that are free again.
        returned: u64,
        /// Messages that are dead.
        dead: u64,
        /// Whether more is due.
        more: bool,
    },
    /// The group is elsewhere, or would be.
    Sought {
        /// In each partition.
        partitions: Vec<Sought>,
        /// Whether it only would.
        preview: bool,
    },
    /// What became of each letter.
    Replayed(Vec<Replayed>),
}

impl From<GroupReply> for Reply {
    fn from(reply: GroupReply) -> Self {
        Self::Group(reply)
    }
}

/// Why nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GroupRefusal {
    /// No group of this name, or not in sight.
    #[error(
        "there is no group `{0}`; it is made by joining with topics, or by `handoff group create {0}`"
    )]
    NoGroup(GroupName),
    /// The name is taken, by a group that is not the same.
    #[error("there is a group `{0}` already")]
    GroupExists(GroupName),
    /// Settings that cannot be.
    #[error("{0}")]
    Settings(String),
    /// Nothing to read.
    #[error("group `{0}` has no topics of its own; name some when joining")]
    NoTopics(GroupName),
    /// A member that is not in the group, or not any more.
    #[error(
        "member {0} is not in the group, or was silent for longer than its session timeout; join again"
    )]
    MemberGone(MemberId),
    /// A commit with messages, not all of whose results count.
    #[error(
        "offsets {from} to {to} of partition {partition} are not held by the member any more, so nothing was stored, neither the results nor the messages"
    )]
    Fenced {
        /// The partition.
        partition: PartitionId,
        /// The first offset.
        from: u64,
        /// The last.
        to: u64,
    },
    /// A verdict that says nothing.
    #[error("a result goes from an offset to one that is not below it; {from} to {to} does not")]
    Backwards {
        /// The first offset.
        from: u64,
        /// The last.
        to: u64,
    },
    /// A message of which two things are said.
    #[error("offset {offset} of partition {partition} is in two results of the request")]
    Twice {
        /// The partition.
        partition: PartitionId,
        /// The offset.
        offset: u64,
    },
    /// A text that is too long, or has control characters.
    #[error("{0} has at most {1} bytes and no control characters")]
    Text(&'static str, usize),
}

impl From<GroupRefusal> for Refusal {
    fn from(refusal: GroupRefusal) -> Self {
        Self::Group(refusal)
    }
}

impl Fact {
    /// What a poll needs to know of a record.
    #[must_use]
    pub fn of(record: &Record) -> Self {
        super::dead::fact_of(record)
    }
}

impl ReplayOutcome {
    /// Its place, if it has one.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        match self {
            Self::Stored(partition, offset) => Some(Place::At(*partition, *offset)),
            Self::Already | Self::Not(_) => None,
        }
    }
}
